"""The person behind each row: its id; a row without an id counts as a new person, unless it may be a copy."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from kfed._base.array import Array
from kfed._base.text import plural, verb
from kfed.device import ALIKE
from kfed.site.table import Table
from kfed.wire import Notice


def owners_of(table: Table) -> Sequence[str] | Array | None:
    """An id or a number for each row; None if the table has no ids.

    Rows without an id that could be copies of one row, entered several times and rounded in several ways, are one
    person, and that of a row with an id if it could be a copy of that (decision 0001).
    """
    if table.row_ids is None or "" not in table.row_ids:
        return table.row_ids
    ids, owners = np.unique(np.asarray(table.row_ids), return_inverse=True)
    are_empty = ids[owners] == ""
    order = np.argsort(are_empty, kind="stable")  # rows with an id come first
    _, first, alike = np.unique(_segments(table.values[order]), axis=0, return_index=True, return_inverse=True)
    first, alike = order[first], alike.reshape(-1)[np.argsort(order)]
    persons = np.where(are_empty[first], len(ids) + np.arange(len(first)), owners[first])
    return np.where(are_empty, persons[alike], owners)


def _segments(values: Array) -> Array:
    """For each column without missing cells, numbers that are the same for rows that are alike, (n_rows, n_columns).

    A gap wider than copies differ by parts the sorted cells of a column, so copies never lie on both sides of it; rows
    that differ may well lie on one, and then count as one.
    """
    whole = values[:, ~np.isnan(values).any(axis=0)]
    segments = np.zeros((len(values), 1 + whole.shape[1]), np.intp)
    for position, cells in enumerate(whole.T, start=1):
        order = np.argsort(cells)
        is_gap = np.diff(cells[order]) > ALIKE * np.abs(cells).max()
        segments[order[1:], position] = np.cumsum(is_gap)
    return segments


def about_ids(ids: Sequence[str]) -> list[Notice]:
    """Say how many rows have an id of several rows, or none."""
    counts = np.unique(np.asarray([one for one in ids if one]), return_counts=True)[1]
    n_repeated, n_empty = int(counts[counts > 1].sum()), sum(not one for one in ids)
    found = []
    if n_repeated:
        found.append(Notice("repeated id", f"{plural(n_repeated, 'row')} have an id that another row has, too"))
    if n_empty:
        text = f"{plural(n_empty, 'row')} {verb(n_empty, 'has', 'have')} no id: each counts as a person of its own, "
        found.append(Notice("no id", f"{text}unless it could be a copy of another row"))
    return found
