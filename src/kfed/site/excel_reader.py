"""`ExcelReader`: the first sheet of an Excel file, by calamine."""

from __future__ import annotations

import os
from datetime import date, datetime

import numpy as np

from kfed.errors import InvalidInputError, MissingExtraError
from kfed.site.arrow_cells import as_ids
from kfed.site.cells import Cells, from_text
from kfed.site.reader import TableReader, n_titles


class ExcelReader(TableReader):
    """Reads the sheet whole; its first row holds the names."""

    fault = "holds text"

    def __init__(self, path: str | os.PathLike[str]) -> None:
        try:
            from python_calamine import CalamineError, CalamineWorkbook
        except ImportError as error:
            raise MissingExtraError("Excel files need calamine: pip install 'kfed[excel]'") from error
        self._path = os.fspath(path)
        os.stat(path)
        try:
            rows = CalamineWorkbook.from_path(self._path).get_sheet_by_index(0).to_python(skip_empty_area=True)
        except CalamineError as error:
            raise InvalidInputError(f"{path}: this is not an Excel file, or only a part of one") from error
        if not rows:
            raise InvalidInputError(f"{path}: a table must have at least one row; this sheet is empty")
        self.n_titles = n_titles(rows[:100])
        self.names = tuple(str(cell).strip() for cell in rows[self.n_titles])
        self._rows = [row for row in rows[self.n_titles + 1 :] if any(cell != "" for cell in row)]

    def _column(self, name: str, as_text: bool) -> Cells:
        position = self.names.index(name)
        cells = [row[position] for row in self._rows]
        codes: dict[str, int] = {}
        texts = as_ids(cells) if as_text else map(_text, cells)
        places = np.array([codes.setdefault(text.strip(), len(codes)) for text in texts], np.intp)
        if as_text:
            return Cells(name, "text", codes=places, texts=tuple(codes))
        return from_text(name, list(codes), places)


def _text(cell: object) -> str:
    """A cell as CSV would hold it."""
    if isinstance(cell, bool):
        return "true" if cell else "false"
    if isinstance(cell, datetime):
        return cell.isoformat()
    return cell.isoformat() if isinstance(cell, date) else str(cell)
