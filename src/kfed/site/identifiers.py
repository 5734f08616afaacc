"""Columns that tell rows or people apart: they are left out, since clusters by them mean nothing, and it is said."""

from __future__ import annotations

import numpy as np

from kfed._base.array import Array
from kfed._base.identifier_names import may_count, names_people, names_rows
from kfed._base.text import exclusion
from kfed.site.cells import Cells
from kfed.wire import Notice

FEWEST_ROWS = 20
"""In a smaller table, distinct values may well be no identifier, unless the name of the column says so."""

MOSTLY = 0.9
"""A column with the name of an identifier is one, too, if a few values occur twice."""

EXACT = 2.0**53
"""Larger whole numbers are not told apart here, and measure nothing."""

MANY_PEOPLE = 20
"""More values than this, or than a third of the rows, are those of an identifier rather than of a group."""


def identifier_notice(cells: Cells) -> Notice | None:
    """Why a column is left out, if it identifies rows or people."""
    name, n_known = cells.name, int((~cells.is_missing).sum())
    is_small = n_known < (1 if names_rows(name) and not may_count(name) else FEWEST_ROWS)
    if is_small or cells.kind not in ("number", "text") or cells.are_times:
        return None
    if _tells_rows_apart(cells, n_known):
        keep = f"; --kinds {name}=number keeps it" if cells.kind == "number" else ""
        return Notice("identifier", f"column {name!r} looks like an identifier and is left out{keep}")
    if names_people(name) and _tells_people_apart(cells, n_known):
        return Notice(
            "identifier",
            f"column {name!r} looks like an identifier of people with several rows and is left out; name it with "
            "--id-column, so that people are counted instead of rows",
        )
    return None


def row_number_notice(cells: Cells) -> Notice | None:
    """Whether a column that is kept may number the rows: whole numbers that grow from row to row, or fall."""
    if len(cells) < FEWEST_ROWS or cells.kind != "number" or cells.is_missing.any() or not _are_whole(cells):
        return None
    steps = np.diff(_known(cells))
    if not ((steps > 0).all() or (steps < 0).all()):
        return None
    return Notice(
        "row number",
        f"column {cells.name!r} looks like a row number, as it grows or falls from row to row; if it is one, leave it "
        f"out with {exclusion([cells.name])}",
    )


def _tells_rows_apart(cells: Cells, n_known: int) -> bool:
    """Whether every row has its own value, and the name or the values say that it is an identifier."""
    is_named = names_rows(cells.name)
    least = n_known if not is_named or may_count(cells.name) else MOSTLY * n_known
    if cells.kind == "text":
        return (cells.odd_row is None or is_named) and len(cells.texts) >= least
    if n_known >= FEWEST_ROWS and _counts_rows(_known(cells)):
        return True
    if not is_named or not _are_whole(cells):
        return False
    return _n_distinct(cells) >= least or bool(np.abs(_known(cells)).max() > EXACT)


def _counts_rows(known: Array) -> bool:
    """Whether numbers are consecutive, wherever they start."""
    steps = np.diff(known)
    return bool(known[0] == np.rint(known[0])) and bool((steps == 1).all() or (steps == -1).all())


def _tells_people_apart(cells: Cells, n_known: int) -> bool:
    """Whether a column has many values, of text or whole numbers."""
    n_distinct = _n_distinct(cells)
    is_sound = cells.kind == "text" or _are_whole(cells)
    return is_sound and (n_distinct > MANY_PEOPLE or 3 * n_distinct >= n_known)


def _n_distinct(cells: Cells) -> int:
    return len(cells.texts) if cells.kind == "text" else len(np.unique(_known(cells)))


def _are_whole(cells: Cells) -> bool:
    known = _known(cells)
    return bool((known == np.rint(known)).all())


def _known(cells: Cells) -> Array:
    assert cells.numbers is not None
    return cells.numbers[~cells.is_missing]
