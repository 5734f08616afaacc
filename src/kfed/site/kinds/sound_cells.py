"""Errors for cells of the wrong kind: they say how many there are and where, and never what they hold."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from kfed._base.text import plural, verb
from kfed.errors import InvalidInputError
from kfed.site.columns import ColumnChoice
from kfed.site.formats.reader import DECIMAL_COMMA, EITHER_COMMA, TableReader
from kfed.site.kinds.cells import Cells
from kfed.site.kinds.kind_option import kind_option

WHAT = {
    "number": "a number",
    "category": "a level",
    "flag": "yes or no, true or false, or 1 or 0",
    "date": "a date such as 2026-01-31",
}
"""What the cells of each kind of column hold."""

MOST_SHOWN = 3
"""Of more columns with such cells, the others are counted."""

_WRITE_PLAINLY = "Write 1,234 as 1234 or as 1.234, whichever it is"


def check_sound(reader: TableReader, columns: Sequence[Cells], where: str, *, is_agreed: bool) -> None:
    """Raise if a cell is not of the kind of its column; a kind that was agreed on cannot be changed here."""
    bad = [(own, own.bad_rows) for own in columns if own.bad_rows]
    if not bad:
        return
    cells, rows = bad[0]
    place, n_bad = reader.where(rows[0]), _n_cells(bad)
    it, them = verb(n_bad, "it", "them"), verb(n_bad, "that cell", "these cells")
    as_text = f", or take the column as text: {kind_option(cells.name, 'category')}"
    text = "" if is_agreed or cells.kind == "date" else as_text
    if cells.kind == "number":
        fault = reader.fault_at(cells.name, rows[0])
        raise InvalidInputError(
            f"{where}: every cell must hold a finite number, or nothing; column {cells.name!r} {fault} in {place}. "
            f"{_all_of(reader, bad)}{_WRITE_PLAINLY if fault == EITHER_COMMA else f'Correct or clear {them}'}{text}"
        )
    raise InvalidInputError(
        f"{where}: column {cells.name!r} must hold {WHAT[cells.kind]} in every row; {place} holds something else. "
        f"{_all_of(reader, bad)}"
        f"{f'Write {it} as the other sites do, or clear' if is_agreed else 'Correct or clear'} {them}{text}"
    )


def check_numbers(reader: TableReader, columns: Sequence[Cells], where: str) -> None:
    """Raise unless every cell holds a number."""
    bad = [(own, rows) for own in columns if len(rows := _without_number(own))]
    if not bad:
        return
    cells, rows = bad[0]
    fault = reader.fault_at(cells.name, rows[0])
    if fault == DECIMAL_COMMA:
        raise InvalidInputError(f"{where}: {cells.name!r} has decimal commas; write 0.5 instead of 0,5")
    raise InvalidInputError(
        f"{where}: every cell must hold a finite number; column {cells.name!r} {fault} in {reader.where(rows[0])}. "
        f"{_all_of(reader, bad)}{_WRITE_PLAINLY if fault == EITHER_COMMA else 'Remove or fill such rows first'}"
    )


def _without_number(cells: Cells) -> Sequence[int]:
    if not cells.bad_rows and not cells.is_missing.any():
        return ()
    return sorted({*cells.bad_rows, *np.flatnonzero(cells.is_missing).tolist()})


def _n_cells(bad: Sequence[tuple[Cells, Sequence[int]]]) -> int:
    return sum(len(rows) for _, rows in bad)


def _all_of(reader: TableReader, bad: Sequence[tuple[Cells, Sequence[int]]]) -> str:
    """How many cells of which columns are bad, and where; nothing of a single cell."""
    if _n_cells(bad) == 1:
        return ""
    shown = "; ".join(f"{cells.name!r} ({reader.places(rows)})" for cells, rows in bad[:MOST_SHOWN])
    more = f"; and {plural(len(bad) - MOST_SHOWN, 'more column')}" if len(bad) > MOST_SHOWN else ""
    return f"In all, {plural(_n_cells(bad), 'cell')} of {plural(len(bad), 'column')} must be corrected: {shown}{more}. "


def check_weights(reader: TableReader, cells: Mapping[str, Cells], choice: ColumnChoice) -> None:
    """Raise unless every row has a weight that is not negative, and one is above zero."""
    own = None if choice.weight_column is None else cells[choice.weight_column]
    if own is None:
        return
    must = f"{choice.path}: column {own.name!r} must hold a weight of at least 0 in every row"
    if own.numbers is None or own.kind == "date":
        raise InvalidInputError(f"{must}; it holds no numbers")
    is_bad = ~(own.numbers >= 0)
    if is_bad.any():
        raise InvalidInputError(f"{must}; {reader.where(int(is_bad.argmax()))} holds none. Correct or remove that row")
    if not own.numbers.any():
        raise InvalidInputError(f"{must}, and one above 0; all are 0: leave this site out")
