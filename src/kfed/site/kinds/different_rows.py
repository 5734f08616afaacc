"""Which levels of a category different rows have: ten copies of one row may be one person entered ten times."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from kfed._base.array import Array
from kfed.device import ALIKE, are_many, mostly_differ, sampled_rows
from kfed.site.kinds.cells import Cells

ROWS_AT_ONCE = 2**12


def have_different_rows(cells: Cells, table: Sequence[Cells], asked: Array, least: int) -> Array:
    """Tell which of the `asked` levels have at least `least` rows that differ in some column, (n_levels,).

    Rows differ if they do so in a cell that both have, numbers by more than rounding (decision 0001). Where most rows
    of the table have others like them, say in one of flags, copies cannot be told: there all asked levels have enough.
    """
    assert cells.codes is not None
    others = [own for own in table if own.name != cells.name and not own.is_missing.all()]
    some = sampled_rows(len(cells))
    if not others or not mostly_differ(np.column_stack([_values(own, some) for own in others])):
        return asked
    tolerances = np.array([0.5 if own.numbers is None else ALIKE * _range(own.numbers) for own in others])
    found, n_filled = np.zeros(len(asked), bool), np.zeros(len(cells), np.int32)
    for own in others:
        n_filled += ~own.is_missing
    for level in np.flatnonzero(asked):
        rows = np.flatnonzero(cells.codes == level)
        rows = rows[np.argsort(-n_filled[rows], kind="stable")]  # a row of few cells is like many others: it comes last
        found[level] = are_many(_blocks(others, rows, least), tolerances, least)
    return found


def _range(numbers: Array) -> float:
    return float(np.fmax.reduce(numbers) - np.fmin.reduce(numbers))


def _blocks(table: Sequence[Cells], rows: Array, least: int) -> Iterator[Array]:
    """These rows, NaN where a cell is missing: a few first, since in most tables they differ."""
    for first, size in ((0, 8 * least), *((at, ROWS_AT_ONCE) for at in range(8 * least, len(rows), ROWS_AT_ONCE))):
        some = rows[first : first + size]
        yield np.column_stack([_values(own, some) for own in table])


def _values(cells: Cells, rows: Array) -> Array:
    if cells.numbers is not None:
        return cells.numbers[rows]
    assert cells.codes is not None
    return np.where(cells.codes[rows] < 0, np.nan, cells.codes[rows])
