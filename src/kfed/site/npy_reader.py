"""`NpyReader`: a table from a .npy file, whose columns are called "0", "1" and so on."""

from __future__ import annotations

import os

import numpy as np

from kfed.errors import InvalidInputError
from kfed.site.columns import ColumnChoice
from kfed.site.table import Table, as_ids


class NpyReader:
    """Reads an array with two axes, without unpickling anything."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        try:
            self._array = np.lib.format.open_memmap(path, mode="r")
        except ValueError as error:
            raise InvalidInputError(
                f"{path}: a .npy file must hold an array of numbers; this file does not, or is damaged"
            ) from error
        if self._array.ndim != 2 or self._array.dtype.kind not in "fiub":
            raise InvalidInputError(
                f"{path}: a .npy file must hold numbers with two axes (rows, columns); got shape {self._array.shape} "
                f"and dtype {self._array.dtype}"
            )
        self.names = tuple(map(str, range(self._array.shape[1])))

    def read(self, choice: ColumnChoice) -> Table:
        """The chosen columns."""
        values = self._array[:, [int(name) for name in choice.features]]
        row_ids = None if choice.id_column is None else self.column(choice.id_column)
        weights = None if choice.weight_column is None else np.array(self._array[:, int(choice.weight_column)])
        return Table(values, choice.features, False, row_ids, choice.id_column, weights)

    def column(self, name: str) -> tuple[str, ...]:
        """One column as text."""
        return as_ids(self._array[:, int(name)].tolist())
