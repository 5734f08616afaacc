"""`CsvReader`: a table from CSV at the speed of C; read slowly once more when something is wrong, to say where."""

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
from kfed._base.text import plural, quoted
from kfed.errors import InvalidInputError
from kfed.site.columns import ColumnChoice
from kfed.site.table import Table

DELIMITERS = ",;\t"
_TEXT = "holds text"
_DECIMAL_COMMA = "holds a decimal comma"


class CsvReader:
    """Reads UTF-8, with or without a byte order mark, separated by comma, semicolon or tab."""

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
            raise InvalidInputError(f"{self._path}: a table must have at least one row; this file is empty")
        if header is None and any(_fault_of(cell) != _TEXT for cell in first if cell.strip()):
            raise InvalidInputError(
                f"{self._path}: the first line must hold the names of the columns; it holds numbers. Use --no-header "
                "if the file has no such line, or --header if the names are numbers"
            )
        self.names = tuple(map(str.strip, first)) if self.has_header else tuple(map(str, range(len(first))))

    def read(self, choice: ColumnChoice) -> Table:
        """The chosen columns."""
        try:
            records = self._records(choice)
        except ValueError:  # NumPy's words show the cell: they go no further
            raise InvalidInputError(self._fault(choice) or f"{self._path}: a cell is not a number") from None
        cells = {name: records[str(self.names.index(name))] for name in choice.used}
        values = np.stack([cells[name] for name in choice.features], axis=1)  # (n_rows, n_features)
        suspicious = len(self.names) == 1 or not np.isfinite(values).all()
        if suspicious and (fault := self._fault(choice)):
            raise InvalidInputError(fault)
        row_ids = None if choice.id_column is None else tuple(cells[choice.id_column].tolist())
        weights = None if choice.weight_column is None else cells[choice.weight_column]
        return Table(values, choice.features, self.has_header, row_ids, choice.id_column, weights)

    def column(self, name: str) -> tuple[str, ...]:
        """One column as text."""
        position = self.names.index(name)
        cells = []
        for line, row in self._lines():
            if len(row) != len(self.names):
                raise InvalidInputError(self._uneven(line, len(row)))
            cells.append(row[position].strip())
        return tuple(cells)

    def _records(self, choice: ColumnChoice) -> Array:
        """All lines as records, (n_rows,), with a field for each column; of unused columns one character is kept."""
        formats = dict.fromkeys(choice.numeric, self._dtype) | {choice.id_column: np.dtype(object)}
        fields = [(str(position), formats.get(name, "U1")) for position, name in enumerate(self.names)]
        with self._opened() as file, warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # of a file without rows
            if self.has_header:
                next(filter(None, self._reader(file)))
            return np.loadtxt(
                file, dtype=np.dtype(fields), delimiter=self._delimiter, quotechar='"', comments=None, ndmin=1
            )

    def _fault(self, choice: ColumnChoice) -> str | None:
        """What is wrong with the file, if anything."""
        positions = [self.names.index(name) for name in choice.numeric]
        with_numbers: set[int] = set()
        faults: dict[int, tuple[int, str]] = {}  # of each column the first: its line, and what is wrong there
        for line, row in self._lines():
            if len(row) != len(self.names):
                return self._uneven(line, len(row))
            for position in positions:
                fault = _fault_of(row[position])
                if fault:
                    faults.setdefault(position, (line, fault))
                else:
                    with_numbers.add(position)
        with_commas = [self.names[position] for position, (_, fault) in faults.items() if fault == _DECIMAL_COMMA]
        if with_commas:
            verb = "has" if len(with_commas) == 1 else "have"
            return f"{self._path}: {quoted(with_commas)} {verb} decimal commas; write 0.5 instead of 0,5"
        choice.refuse_text([self.names[position] for position in faults if position not in with_numbers])
        if not faults:
            return None
        position, (line, fault) = min(faults.items(), key=lambda found: found[1])
        return (
            f"{self._path}: every cell must hold a finite number; column {self.names[position]!r} "
            f"{fault} in line {line}. Remove or fill such rows first"
        )

    def _uneven(self, line: int, n_cells: int) -> str:
        return (
            f"{self._path}: every line must have {plural(len(self.names), 'cell')}; line {line} has {n_cells}. Put "
            "quotes around cells that contain a separator"
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
            raise InvalidInputError(f"{self._path}: a CSV file must be text in UTF-8; this file is not") from None


def _fault_of(cell: str) -> str | None:
    """Why a cell is not a finite number, in words that do not show it."""
    if not cell.strip():
        return "is empty"
    try:
        number = float(cell)
    except ValueError:
        return _DECIMAL_COMMA if re.fullmatch(r"[-+]?\d*,\d+", cell.strip()) else _TEXT
    if "_" in cell:  # Python reads 1_000 as a number; no other program does
        return _TEXT
    return None if math.isfinite(number) else "is NaN or infinite"
