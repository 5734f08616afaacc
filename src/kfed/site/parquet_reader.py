"""`ParquetReader`: a table from a Parquet file, by pyarrow."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from kfed._base.array import Array
from kfed.errors import InvalidInputError, MissingExtraError
from kfed.site.columns import ColumnChoice
from kfed.site.table import Table, as_ids, bad_cells


class ParquetReader:
    """Reads the columns that are used, and no other."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        try:
            import pyarrow as arrow
            from pyarrow import parquet
        except ImportError as error:
            raise MissingExtraError("Parquet files need pyarrow: pip install 'kfed[parquet]'") from error
        self._path, self._types = os.fspath(path), arrow.types
        self._damages = (arrow.ArrowException, OSError)
        os.stat(path)  # so that a missing file is reported as one, not as damaged
        with self._damage_named():
            self._file = parquet.ParquetFile(path)
        self.names = tuple(self._file.schema_arrow.names)

    def read(self, choice: ColumnChoice) -> Table:
        """The chosen columns."""
        schema = self._file.schema_arrow
        choice.refuse_text([name for name in choice.numeric if not self._is_number(schema.field(name).type)])
        cells = self._cells(choice.used)
        numbers = {name: self._numbers(cells, name) for name in choice.numeric}
        values = np.column_stack([numbers[name] for name in choice.features])
        row_ids = None if choice.id_column is None else as_ids(cells.column(choice.id_column).to_pylist())
        weights = None if choice.weight_column is None else numbers[choice.weight_column]
        return Table(values, choice.features, True, row_ids, choice.id_column, weights)

    def column(self, name: str) -> tuple[str, ...]:
        """One column as text."""
        return as_ids(self._cells([name]).column(name).to_pylist())

    def _cells(self, names: Sequence[str]) -> Any:
        with self._damage_named():
            return self._file.read(columns=list(names))

    def _is_number(self, kind: Any) -> bool:
        return bool(self._types.is_integer(kind) or self._types.is_floating(kind) or self._types.is_boolean(kind))

    def _numbers(self, cells: Any, name: str) -> Array:
        column = cells.column(name)
        if column.null_count:
            row = int(column.is_null().to_numpy().argmax())
            raise bad_cells(self._path, f"column {name!r} is empty", row, column.null_count)
        return np.asarray(column.to_numpy())

    @contextmanager
    def _damage_named(self) -> Iterator[None]:
        """Turn an error of pyarrow into one that names the file."""
        try:
            yield
        except self._damages as error:
            raise InvalidInputError(f"{self._path}: this is not a Parquet file, or only a part of one") from error
