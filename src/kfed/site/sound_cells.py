"""Errors for cells of the wrong kind: they say where the first one is, and never what it holds."""

from __future__ import annotations

from collections.abc import Mapping

from kfed.errors import InvalidInputError
from kfed.site.cells import Cells
from kfed.site.columns import ColumnChoice
from kfed.site.reader import DECIMAL_COMMA, EITHER_COMMA, TableReader

WHAT = {
    "number": "a number",
    "category": "a level",
    "flag": "yes or no, true or false, or 1 or 0",
    "date": "a date such as 2026-01-31",
}
"""What the cells of each kind of column hold."""

_WRITE_PLAINLY = "Write 1,234 as 1234 or as 1.234, whichever it is"


def check_sound(reader: TableReader, cells: Cells, where: str, *, is_agreed: bool) -> None:
    """Raise if a cell is not of the kind of its column; a kind that was agreed on cannot be changed here."""
    if cells.bad_row is None:
        return
    place = reader.where(cells.bad_row)
    text = "" if is_agreed or cells.kind == "date" else f", or take the column as text: --kinds {cells.name}=category"
    if cells.kind == "number":
        fault = reader.fault_at(cells.name, cells.bad_row)
        raise InvalidInputError(
            f"{where}: every cell must hold a finite number, or nothing; column {cells.name!r} {fault} in {place}. "
            f"{_WRITE_PLAINLY if fault == EITHER_COMMA else 'Correct or clear that cell'}{text}"
        )
    raise InvalidInputError(
        f"{where}: column {cells.name!r} must hold {WHAT[cells.kind]} in every row; {place} holds something else. "
        f"{'Write it as the other sites do, or clear' if is_agreed else 'Correct or clear'} that cell{text}"
    )


def check_numbers(reader: TableReader, cells: Cells, where: str) -> None:
    """Raise unless every cell holds a number."""
    row = cells.bad_row
    if row is None and cells.is_missing.any():
        row = int(cells.is_missing.argmax())
    if row is None:
        return
    fault = reader.fault_at(cells.name, row)
    if fault == DECIMAL_COMMA:
        raise InvalidInputError(f"{where}: {cells.name!r} has decimal commas; write 0.5 instead of 0,5")
    raise InvalidInputError(
        f"{where}: every cell must hold a finite number; column {cells.name!r} {fault} in {reader.where(row)}. "
        f"{_WRITE_PLAINLY if fault == EITHER_COMMA else 'Remove or fill such rows first'}"
    )


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
