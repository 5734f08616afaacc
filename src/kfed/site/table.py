"""`Table`: the rows of one site as numbers with names. No error that is raised here shows a cell."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from kfed._base.array import Array
from kfed._base.text import plural
from kfed.errors import InvalidInputError
from kfed.site.scale import shifts_and_scales
from kfed.wire import FeatureSchema, Notice

MIN_TABLE_CLUSTER_SIZE = 5
"""The floor for tables, which are of people more often than arrays are."""


@dataclass(frozen=True, eq=False)
class Table:
    """Numbers with names. `cluster_device` takes it like a data frame.

    Attributes
    ----------
    values : array of shape (n_rows, n_columns)
        float32 or float64, all finite unless there is a schema.
    names : tuple of str
        A name for each column: from the header, or its position in a file without one.
    has_header : bool
        Whether the names came from the file.
    row_ids : tuple of str or None
        The id of each row, from the id column; never clustered and never sent.
    id_column : str or None
        The name of the id column.
    weights : array of shape (n_rows,) or None
        The weight column.
    schema : FeatureSchema or None
        What the columns are, if they are more than plain numbers; then values are its features, with NaN for missing
        cells.
    notices : tuple of Notice
        What a user should know about the columns.
    index : pandas.Index or None
        The index of the data frame that the rows came from.
    """

    values: Array
    names: tuple[str, ...]
    has_header: bool = True
    row_ids: tuple[str, ...] | None = None
    id_column: str | None = None
    weights: Array | None = None
    schema: FeatureSchema | None = None
    notices: tuple[Notice, ...] = ()
    index: Any = None

    @property
    def columns(self) -> tuple[str, ...] | None:
        """The names of the columns, if the file had a header."""
        return self.names if self.has_header else None

    def to_numpy(self) -> Array:
        """Return the values, (n_rows, n_columns)."""
        return self.values

    def __len__(self) -> int:
        return len(self.values)

    def __repr__(self) -> str:
        """How large the table is; no cell and no id."""
        return f"<Table: {plural(len(self), 'row')}, {plural(self.values.shape[1], 'feature')}>"

    def scaled(self, scale: Mapping[str, tuple[float, float]]) -> Table:
        """Return the table with ``(value - shift) / scale`` in every column.

        Parameters
        ----------
        scale : mapping from column name to (shift, scale)
            Exactly one entry for each column; `read_scale` reads it from a file.
        """
        shifts, scales = shifts_and_scales(scale, self.names).astype(self.values.dtype)
        with np.errstate(over="ignore"):
            values = (self.values - shifts) / scales
        check_finite(values, self.names, "the scaled table")
        return replace(self, values=values)


def check_finite(values: Array, names: Sequence[str], what: str) -> None:
    """Raise if a value of `what` is NaN or infinite, and say where."""
    bad = ~np.isfinite(values)
    if bad.any():
        row = int(bad.any(axis=1).argmax())
        fault = f"column {names[bad[row].argmax()]!r} is NaN or infinite"
        raise bad_cells(what, fault, row, int(np.count_nonzero(bad)))


def bad_cells(what: str, fault: str, row: int, n_cells: int) -> InvalidInputError:
    """The error for cells that hold no finite number: where the first of them is, and how many there are."""
    others = f"; so {'is' if n_cells == 2 else 'are'} {plural(n_cells - 1, 'other cell')}" if n_cells > 1 else ""
    return InvalidInputError(
        f"{what}: every cell must hold a finite number; {fault} in row {row} (counted from 0){others}. Remove or fill "
        "such rows first"
    )
