"""CSV at the speed of C, and slowly once more when something is wrong, to say in which line."""

from __future__ import annotations

import csv
import math
import os
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NoReturn, TextIO

import numpy as np
import numpy.typing as npt
from numpy.lib.recfunctions import structured_to_unstructured

from kfed._table_columns import Choice
from kfed.errors import InvalidInputError

Array = npt.NDArray[Any]

DELIMITERS = ",;\t"


class CsvTable:
    """A CSV file: UTF-8, with or without a byte order mark, separated by comma, semicolon or tab."""

    def __init__(self, path: str | os.PathLike[str], header: bool | None, dtype: npt.DTypeLike | None) -> None:
        self._path = os.fspath(path)
        self._dtype = np.dtype(np.float64 if dtype is None else dtype)
        self.has_header = header is not False
        with self._opened() as file:
            first_line = file.readline()
            self._delimiter = max(DELIMITERS, key=first_line.count)
        with self._opened() as file:
            first = next(self._rows(file), None)
        if first is None:
            raise InvalidInputError(f"{self._path}: a table must have at least one row, and this file is empty")
        if header is None and any(map(_is_number, first)):
            raise InvalidInputError(
                f"{self._path}: the first line must hold the names of the columns, and numbers stand there; if the file "
                "has no such line use --no-header, and if the names are numbers use --header"
            )
        self.names = tuple(map(str.strip, first)) if self.has_header else tuple(map(str, range(len(first))))

    def read(self, choice: Choice) -> tuple[Array, tuple[str, ...] | None, Array | None]:
        """Values, row ids and weights."""
        kinds = {name: self._dtype for name in choice.numeric}
        formats = [np.dtype(object) if name == choice.id_column else kinds.get(name, "U1") for name in self.names]
        fields = list(map(str, range(len(self.names))))
        field_of = dict(zip(self.names, fields, strict=True))
        try:
            records = self._load(np.dtype(list(zip(fields, formats, strict=True))))
        except ValueError:
            self._explain(choice)  # the error of NumPy shows the cell: it goes no further
        values = structured_to_unstructured(records[[field_of[name] for name in choice.features]], self._dtype)
        if len(self.names) == 1 or not np.isfinite(values).all():
            self._explain(choice, only_if_wrong=True)
        row_ids = None if choice.id_column is None else tuple(records[field_of[choice.id_column]].tolist())
        weights = None if choice.weight_column is None else records[field_of[choice.weight_column]].copy()
        return values, row_ids, weights

    @contextmanager
    def _opened(self) -> Iterator[TextIO]:
        try:
            with open(self._path, newline="", encoding="utf-8-sig") as file:
                yield file
        except UnicodeDecodeError:
            raise InvalidInputError(f"{self._path}: a CSV file must be text in UTF-8, and this is not") from None
