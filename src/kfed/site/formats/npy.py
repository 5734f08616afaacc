"""`NpyReader`: a table from a .npy file, whose columns are called "0", "1" and so on."""

from __future__ import annotations

import os

import numpy as np

from kfed.errors import InvalidInputError
from kfed.site.formats.reader import TableReader
from kfed.site.kinds.cells import Cells, as_ids


class NpyReader(TableReader):
    """Reads an array with two axes, without unpickling anything."""

    has_header = False

    def __init__(self, path: str | os.PathLike[str]) -> None:
        try:
            self.array = np.lib.format.open_memmap(path, mode="r")
        except ValueError as error:
            raise InvalidInputError(
                f"{path}: a .npy file must hold an array of numbers; this file does not, or is damaged"
            ) from error
        if self.array.ndim != 2 or self.array.dtype.kind not in "fiub":
            raise InvalidInputError(
                f"{path}: a .npy file must hold numbers with two axes (rows, columns); got shape {self.array.shape} "
                f"and dtype {self.array.dtype}"
            )
        self.names = tuple(map(str, range(self.array.shape[1])))

    def _column(self, name: str, as_text: bool) -> Cells:
        column = self.array[:, int(name)]
        if as_text:
            return Cells(name, "text", codes=np.arange(len(column)), texts=as_ids(column.tolist()))
        bad = np.isinf(column)  # NaN is a missing cell
        return Cells(name, "number", np.asarray(column), bad_rows=tuple(np.flatnonzero(bad).tolist()))
