"""`label_rows`: the clusters of rows that were never clustered on a device, from a table of them."""

from __future__ import annotations

import csv
import io
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from kfed._base.array import Array
from kfed._base.files import about
from kfed.errors import OutputExistsError
from kfed.server import HasCenters, distances
from kfed.site.read import open_table, read_columns, read_table
from kfed.wire import FeatureSchema


@dataclass(frozen=True, eq=False)
class LabelledRows:
    """Rows of a table with their clusters.

    Attributes
    ----------
    path : str
        The table.
    row_names : sequence
        The id of each row, or its position, counted from 0.
    id_column : str or None
    labels : array of int, shape (n_rows,)
        The nearest cluster of each row.
    distances, next_distances : arrays of shape (n_rows,)
        How far each row is from the center of its cluster, and from the next nearest (infinite if there is none). NaN
        for a row without any filled cell, which says nothing of its cluster.
    """

    path: str
    row_names: Sequence[Any]
    id_column: str | None
    labels: Array
    distances: Array
    next_distances: Array

    @property
    def n_empty(self) -> int:
        """Rows without any filled cell."""
        return int(np.isnan(self.distances).sum())

    def labels_csv(self, *, with_distances: bool = False) -> str:
        """A line for each row, with its name and its cluster."""
        heads, cells = self._cells(with_distances)
        name = "row" if self.id_column is None else self.id_column
        return _csv([name, *heads], ([row, *own] for row, own in zip(self.row_names, cells, strict=True)))

    def appended_csv(self, *, header: bool | None = None, with_distances: bool = False) -> str:
        """The table as it is, with the cluster of each row as a further column."""
        reader = open_table(self.path, header)
        heads, cells = self._cells(with_distances)
        taken = [head for head in heads if head in reader.names]
        if taken:
            raise OutputExistsError(f"{self.path}: the table has a column {taken[0]!r} already; rename it first")
        columns = reader.cells(reader.names, as_text=reader.names)
        rows = zip(*(columns[name].as_texts() for name in reader.names), strict=True)
        lines = ([*row, *own] for row, own in zip(rows, cells, strict=True))
        return _csv([*reader.names, *heads] if reader.has_header else None, lines)

    def _cells(self, with_distances: bool) -> tuple[list[str], Iterator[list[Any]]]:
        if not with_distances:
            return ["cluster"], ([label] for label in self.labels.tolist())
        numbers = zip(self.labels.tolist(), self.distances.tolist(), self.next_distances.tolist(), strict=True)
        rounded = ([label, _rounded(near), _rounded(other)] for label, near, other in numbers)
        return ["cluster", "distance", "next_distance"], rounded


def label_rows(
    path: str | os.PathLike[str],
    clusters: HasCenters,
    *,
    id_column: str | None = None,
    scale: str | os.PathLike[str] | None = None,
    header: bool | None = None,
) -> LabelledRows:
    """Give each row of a table the nearest of some clusters.

    Parameters
    ----------
    path : path
        A table with the columns that the devices used; others are not looked at. Without names, all but the id column.
    clusters : Aggregation, ClusterModel or Identity
    id_column : str, optional
        Column that identifies a row.
    scale : path, optional
        The scale that the devices agreed on, if their rows were on one.
    header : bool, optional
        As in `read_table`.
    """
    schema = clusters.schema
    if schema is not None and schema.columns is not None:
        rows = read_columns(path, schema=schema, id_column=id_column, header=header)
        values = _on_agreed_scale(rows.values, schema)
    else:
        names = None if schema is None or schema.names is None else list(schema.names)
        rows = read_table(path, columns=names, id_column=id_column, scale=scale, header=header)
        values = rows.values
    with about(path):
        found = distances(clusters, values)
    found[np.isnan(values).all(axis=1)] = np.nan
    labels = np.nan_to_num(found).argmin(axis=1)
    return LabelledRows(
        path=os.fspath(path),
        row_names=range(len(found)) if rows.row_ids is None else rows.row_ids,
        id_column=id_column,
        labels=labels,
        distances=found.min(axis=1),
        next_distances=np.partition(found, 1, axis=1)[:, 1] if found.shape[1] > 1 else np.full(len(found), np.inf),
    )


def _rounded(distance: float) -> str:
    return "" if np.isnan(distance) else f"{distance:.6g}"


def _on_agreed_scale(values: Array, schema: FeatureSchema) -> Array:
    """Values in the units of the table, on the scale that centers are on."""
    if schema.scaling != "agreed":
        return values
    pairs = [(column.shift or 0.0, column.scale or 1.0) for column in schema.columns or () for _ in column.features]
    shifts, scales = np.array(pairs).T
    return np.asarray((values - shifts) / scales)


def _csv(heads: list[str] | None, lines: Iterator[list[Any]]) -> str:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    if heads is not None:
        writer.writerow(heads)
    writer.writerows(lines)
    return text.getvalue()
