"""CSV at the speed of C; when something is wrong, slowly once more, to say in which line and column."""

from __future__ import annotations

import csv
import math
import os
import re
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, TextIO

import numpy as np
import numpy.typing as npt

from kfed._base.array import Array
from kfed.errors import InvalidInputError
from kfed.site.columns import Choice, shown

DELIMITERS = ",;\t"
_DECIMAL_COMMA = "has a decimal comma"


class CsvTable:
    """A CSV file: UTF-8, with or without a byte order mark, separated by comma, semicolon or tab."""

    def __init__(self, path: str | os.PathLike[str], header: bool | None, dtype: npt.DTypeLike | None) -> None:
        self._path = os.fspath(path)
        self._dtype = np.dtype(np.float64 if dtype is None else dtype)
        self._delimiter = ","
        self.has_header = header is not False
        with self._opened() as file:
            first_line = next(filter(str.strip, file), "")
            self._delimiter = max(DELIMITERS, key=first_line.count)
        with self._opened() as file:
            first = next(filter(None, self._reader(file)), None)
        if first is None:
            raise InvalidInputError(f"{self._path}: a table must have at least one row, and this file is empty")
        if header is None and any(_fault_of(cell) != "holds text" for cell in first if cell.strip()):
            raise InvalidInputError(
                f"{self._path}: the first line must hold the names of the columns, and numbers stand there; "
                "if the file has no such line use --no-header, and if the names are numbers use --header"
            )
        self.names = tuple(map(str.strip, first)) if self.has_header else tuple(map(str, range(len(first))))

    def read(self, choice: Choice) -> tuple[Array, tuple[str, ...] | None, Array | None]:
        """Values, row ids and weights."""
        fields = [str(self.names.index(name)) for name in choice.features]
        try:
            records = self._records(choice)
        except ValueError:  # NumPy's words show the cell: they go no further
            raise InvalidInputError(self._fault(choice) or f"{self._path}: a cell is not a number") from None
        values = np.stack([records[field] for field in fields], axis=1)  # (n_rows, n_features)
        suspicious = len(self.names) == 1 or not np.isfinite(values).all()
        if suspicious and (fault := self._fault(choice)):
            raise InvalidInputError(fault)
        row_ids, weights = (
            None if name is None else records[str(self.names.index(name))]
            for name in (choice.id_column, choice.weight_column)
        )
        return values, None if row_ids is None else tuple(row_ids.tolist()), weights

    def column(self, name: str) -> tuple[str, ...]:
        """One column as text."""
        position = self.names.index(name)
        cells = []
        for line, row in self._lines():
            if len(row) != len(self.names):
                raise InvalidInputError(_uneven(self._path, len(self.names), line, len(row)))
            cells.append(row[position].strip())
        return tuple(cells)

    def _records(self, choice: Choice) -> Array:
        """All lines, (n_rows,) of records with a field for each column: numbers, ids, or next to nothing."""
        formats = dict.fromkeys(choice.numeric, self._dtype) | {choice.id_column: np.dtype(object)}
        fields = [(str(position), formats.get(name, "U1")) for position, name in enumerate(self.names)]
        with self._opened() as file, warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # of a file without rows
            if self.has_header:
                next(filter(None, self._reader(file)))
            return np.loadtxt(
                file, dtype=np.dtype(fields), delimiter=self._delimiter, quotechar='"', comments=None, ndmin=1
            )

    def _fault(self, choice: Choice) -> str | None:
        """Say what is wrong with the file, if anything."""
        positions = [self.names.index(name) for name in choice.numeric]
        with_numbers: set[int] = set()
        faults: dict[int, tuple[int, str]] = {}
        for line, row in self._lines():
            if len(row) != len(self.names):
                return _uneven(self._path, len(self.names), line, len(row))
            for position in positions:
                fault = _fault_of(row[position])
                if fault:
                    faults.setdefault(position, (line, fault))
                else:
                    with_numbers.add(position)
        with_commas = [self.names[position] for position, (_, fault) in faults.items() if fault == _DECIMAL_COMMA]
        if with_commas:
            return (
                f"{self._path}: numbers must have a decimal point, and {shown(with_commas)} {_DECIMAL_COMMA}; "
                "write 0.5 for 0,5"
            )
        choice.refuse_text([self.names[position] for position in faults if position not in with_numbers])
        if not faults:
            return None
        position, (line, fault) = min(faults.items(), key=lambda found: found[1])
        return (
            f"{self._path}: every cell must hold a finite number, and column {self.names[position]!r} "
            f"{fault} in line {line}; remove or fill such rows first"
        )

    def _lines(self) -> Iterator[tuple[int, list[str]]]:
        """Line number and cells of every row.

        Blank lines are skipped, but in a table of one column they are empty cells, except at the end.
        """
        blank: list[int] = []
        with self._opened() as file:
            reader = self._reader(file)
            rows = ((reader.line_num, row) for row in reader)
            if self.has_header:
                next(row for row in rows if row[1])
            for line, row in rows:
                if row:
                    yield from ((earlier, [""]) for earlier in blank)
                    blank = []
                    yield line, row
                elif len(self.names) == 1:
                    blank.append(line)

    def _reader(self, file: TextIO) -> Any:
        return csv.reader(file, delimiter=self._delimiter)

    @contextmanager
    def _opened(self) -> Iterator[TextIO]:
        try:
            with open(self._path, newline="", encoding="utf-8-sig") as file:
                yield file
        except (UnicodeDecodeError, csv.Error):
            raise InvalidInputError(f"{self._path}: a CSV file must be text in UTF-8, and this is not") from None


def _uneven(path: str, n_columns: int, line: int, n_cells: int) -> str:
    return (
        f"{path}: every line must have {n_columns} cells, and line {line} has {n_cells}; "
        "quote cells that hold a separator"
    )


def _fault_of(cell: str) -> str | None:
    """Why a cell is not a finite number, in words that do not show it."""
    if not cell.strip():
        return "is empty"
    try:
        number = float(cell)
    except ValueError:
        return _DECIMAL_COMMA if re.fullmatch(r"[-+]?\d*,\d+", cell.strip()) else "holds text"
    if "_" in cell:  # digits apart in Python's way are text to everybody else
        return "holds text"
    return None if math.isfinite(number) else "is NaN or infinite"
