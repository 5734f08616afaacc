"""`ArrowReader`: a table from a Parquet or Feather file, or from a data frame, by pyarrow."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from kfed._base.arrow import arrow
from kfed._base.text import accents_joined
from kfed.errors import InvalidInputError
from kfed.site.formats.arrow_cells import cells_of_each
from kfed.site.formats.reader import TableReader
from kfed.site.frame_table import held_table, table_of_frame
from kfed.site.kinds.cells import Cells
from kfed.site.kinds.thousands import Signs, signs_of_column

FEATHER_SUFFIXES = (".feather", ".arrow", ".ipc")

_INDEX = re.compile(r"__index_level_\d+__")
"""What pandas calls an index without a name; numbers of rows are no column."""


class ArrowReader(TableReader):
    """Reads the columns that are used, and no other."""

    def __init__(self, source: Any) -> None:
        self._arrow, self._source = arrow(), held_table(source)
        self._what = os.fspath(source) if isinstance(source, str | os.PathLike) else "the data frame"
        with self._damage_named():
            names = [name for name in self._names() if not _INDEX.fullmatch(name)]
        self.names = tuple(map(accents_joined, names))
        self._written = dict(zip(self.names, names, strict=True))

    def cells(self, names: Sequence[str], as_text: Sequence[str] = ()) -> dict[str, Cells]:
        """The cells of these columns; those of columns in `as_text` as they are written."""
        with self._damage_named():
            table = self._table([self._written[name] for name in names])
        columns = {name: table.column(self._written[name]) for name in names}
        del table
        return cells_of_each(columns, as_text)

    def signs_for(self, texts: Sequence[str]) -> Signs:
        """How numbers in a column of these texts are written, found from the texts."""
        return signs_of_column(texts)

    def fault_at(self, name: str, row: int) -> str:
        """What is wrong with a cell of a column of numbers."""
        column = self._table([self._written[name]]).column(0)
        if not column[row].is_valid:
            return "is empty"
        types = self._arrow.types
        is_text = types.is_string(column.type) or types.is_large_string(column.type)
        return "holds text" if is_text else "is NaN or infinite"

    def _names(self) -> tuple[str, ...]:
        if self._is_frame():
            return tuple(map(str, self._table(None).column_names))
        os.stat(self._source)  # so that a missing file is reported as one, not as damaged
        if self._is_feather():
            from pyarrow import ipc

            with self._arrow.memory_map(self._what) as file:
                return tuple(ipc.open_file(file).schema.names)
        from pyarrow import parquet

        return tuple(parquet.read_schema(self._source).names)

    def _table(self, names: list[str] | None) -> Any:
        if self._is_frame():
            table = table_of_frame(self._source)
            return table if names is None else table.select(names)
        if self._is_feather():
            from pyarrow import feather

            return feather.read_table(self._source, columns=names)
        from pyarrow import parquet

        return parquet.read_table(self._source, columns=names)

    def _is_frame(self) -> bool:
        return not isinstance(self._source, str | os.PathLike)

    def _is_feather(self) -> bool:
        return self._what.lower().endswith(FEATHER_SUFFIXES)

    @contextmanager
    def _damage_named(self) -> Iterator[None]:
        """Turn an error of pyarrow into one that names the file."""
        try:
            yield
        except FileNotFoundError:
            raise
        except (self._arrow.ArrowException, OSError) as error:
            kind = "Feather" if self._is_feather() else "Parquet"
            raise InvalidInputError(f"{self._what}: this is not a {kind} file, or not a complete one") from error
