"""`ExcelReader`: a sheet of an Excel file, by calamine: the one that is asked for, or the first that holds a table."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from datetime import date
from typing import Any

import numpy as np

from kfed._base.text import accents_joined, quoted
from kfed.errors import InvalidInputError, MissingExtraError
from kfed.site.formats.csv_dialect import blank_columns
from kfed.site.formats.reader import TableReader, n_titles
from kfed.site.kinds.cells import Cells, as_ids, cell_text, from_text
from kfed.site.kinds.thousands import Signs, signs_of_column


class ExcelReader(TableReader):
    """Reads one sheet whole; its first row holds the names.

    By default that is the first sheet with several columns, so not a cover page.
    """

    fault = "holds text"

    def __init__(self, path: str | os.PathLike[str], sheet: str | None = None, header: bool | None = None) -> None:
        try:
            from python_calamine import CalamineError, CalamineWorkbook, SheetTypeEnum, SheetVisibleEnum
        except ImportError as error:
            raise MissingExtraError("Excel files need calamine: pip install 'kfed[excel]'") from error
        self._path = os.fspath(path)
        os.stat(path)
        try:
            book = CalamineWorkbook.from_path(self._path)
            shown = SheetTypeEnum.WorkSheet, SheetVisibleEnum.Visible
            names = [one.name for one in book.sheets_metadata if (one.typ, one.visible) == shown]
            found = {name: book.get_sheet_by_name(name) for name in names}
            sheets = {name: one.to_python(skip_empty_area=True) for name, one in found.items()}
        except CalamineError as error:
            raise InvalidInputError(f"{path}: this is not an Excel file, or not a complete one") from error
        if sheet is not None and sheet not in sheets:
            raise InvalidInputError(f"{path}: there is no sheet {sheet!r}; this file has {quoted(list(sheets))}")
        self.sheet, self.other_sheets = _choose(sheets) if sheet is None else (sheet, ())
        rows = sheets.get(self.sheet)
        if not rows:
            where = "any sheet" if sheet is None else f"sheet {sheet!r}"
            raise InvalidInputError(f"{path}: a table must have at least one row; this file has none in {where}")
        self.n_titles = n_titles(rows[:100])
        line = _first_line(found[self.sheet]) + self.n_titles
        if not header and (header is False or _are_a_row(rows[self.n_titles], rows[self.n_titles + 1 :])):
            raise InvalidInputError(
                f"{path}: line {line} of sheet {self.sheet!r} must hold the names of the columns; it holds a row. Add "
                "a line with the names above it, or use --header if these are names"
            )
        names = [accents_joined(word.strip()) for word in as_ids(rows[self.n_titles])]
        below = enumerate(rows[self.n_titles + 1 :], start=line + 1)
        filled = [(line, row) for line, row in below if any(cell != "" for cell in row)]
        self._lines, self._rows = [line for line, _ in filled], [row for _, row in filled]
        blank = blank_columns(names, self._rows)
        self._positions = {name: at for at, name in enumerate(names) if at not in blank}
        self.names = tuple(name for at, name in enumerate(names) if at not in blank)

    def where(self, row: int) -> str:
        """The place of a row, counted from 0, in words: its line as Excel counts."""
        return f"line {self._lines[row]} of sheet {self.sheet!r}"

    def signs_for(self, texts: Sequence[str]) -> Signs:
        """How numbers in a column of these texts are written, found from the texts."""
        return signs_of_column(texts)

    def _column(self, name: str, as_text: bool) -> Cells:
        position = self._positions[name]
        cells = [row[position] for row in self._rows]
        codes: dict[str, int] = {}
        texts = as_ids(cells) if as_text else map(cell_text, cells)
        places = np.array([codes.setdefault(text.strip(), len(codes)) for text in texts], np.intp)
        if as_text:
            return Cells(name, "text", codes=places, texts=tuple(codes))
        return from_text(name, list(codes), places, self.signs_for(list(codes)))


def _are_a_row(names: Sequence[Any], rows: Sequence[Sequence[Any]]) -> bool:
    """Whether what should be names are cells of a row: one is a number, or a date as a cell below it is."""
    dates = [at for at, cell in enumerate(names) if isinstance(cell, date)]
    return any(isinstance(cell, int | float) for cell in names) or any(
        isinstance(cell, date) for at in dates for row in rows for cell in row[at : at + 1]
    )


def _first_line(sheet: Any) -> int:
    """The number of the first line with a filled cell, as Excel counts."""
    return 1 if sheet.start is None else int(sheet.start[0]) + 1


def _choose(sheets: Mapping[str, Sequence[Sequence[Any]]]) -> tuple[str, tuple[str, ...]]:
    """The sheet to read, and others with cells in them."""
    filled = [name for name, rows in sheets.items() if rows]
    tables = [name for name in filled if len(sheets[name]) > 1 and len(sheets[name][0]) > 1]
    chosen = next(iter(tables or filled), "")
    return chosen, tuple(name for name in filled if name != chosen)
