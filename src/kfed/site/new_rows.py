"""`label_rows`: the clusters of rows that were never clustered on a device, from a table of them."""

from __future__ import annotations

import csv
import io
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from kfed._base import text
from kfed._base.array import Array
from kfed._base.files import about
from kfed._base.indexed import index_of, with_index
from kfed.errors import OutputExistsError
from kfed.server import HasCenters, distances
from kfed.site.frame_table import held_table
from kfed.site.read import open_table, read_columns, read_table, table_name
from kfed.site.warning import warn_of_table
from kfed.wire import FeatureSchema, Notice, agreed_scale


@dataclass(frozen=True, eq=False)
class LabelledRows:
    """Rows of a table with their clusters.

    Attributes
    ----------
    path : str, or data frame
        The table.
    row_names : sequence
        The id of each row; without ids, the index of a pandas data frame, or the position, counted from 0.
    id_column : str or None
    n_clusters : int
        How many clusters there are; some may have none of these rows.
    labels : array of int, shape (n_rows,)
        The nearest cluster of each row; a series with the index of the rows, if they came from pandas.
    distances, next_distances : arrays of shape (n_rows,)
        How far each row is from the center of its cluster, and from the next nearest (infinite if there is none). NaN
        for a row without any filled cell, which says nothing of its cluster.
    notices : tuple of Notice
        What to look at in the rows.
    sheet : str or None
        The sheet of an Excel file that was asked for.
    """

    path: Any
    row_names: Sequence[Any]
    id_column: str | None
    n_clusters: int
    labels: Any
    distances: Array
    next_distances: Array
    notices: tuple[Notice, ...] = ()
    sheet: str | None = None

    def __repr__(self) -> str:
        """How many rows and clusters there are; no cell and no id."""
        rows, clusters = text.plural(len(self.labels), "row"), text.plural(self.n_clusters, "cluster")
        return f"<LabelledRows of {table_name(self.path)}: {rows}, {clusters}>"

    @property
    def n_empty(self) -> int:
        """Rows without any filled cell."""
        return int(np.isnan(self.distances).sum())

    def labels_csv(self, *, with_distances: bool = False) -> str:
        """A line for each row, with its name and its cluster."""
        heads, cells = self._cells(with_distances)
        name = "row" if self.id_column is None else self.id_column
        return text.as_csv([name, *heads], ([row, *own] for row, own in zip(self.row_names, cells, strict=True)))

    def appended_csv(self, *, header: bool | None = None, with_distances: bool = False) -> str:
        """The table with the cluster of each row as a further column; a CSV file with the separator that it has."""
        reader = open_table(self.path, header, self.sheet)
        heads, cells = self._cells(with_distances)
        taken = [head for head in heads if head in reader.names]
        if taken:
            where = table_name(self.path)
            raise OutputExistsError(f"{where}: the table has a column {taken[0]!r} already; rename it first")
        columns = reader.cells(reader.names, as_text=reader.names)
        rows = zip(*(columns[name].as_texts() for name in reader.names), strict=True)
        signs = reader.signs  # found for certain when all cells are read
        file = io.StringIO()
        writer = csv.writer(file, delimiter=reader.delimiter, lineterminator="\n")
        writer.writerows([[*reader.names, *heads]] if reader.has_header else [])
        writer.writerows(
            [*row, *(str(cell).replace(".", signs.decimal) for cell in own)]
            for row, own in zip(rows, cells, strict=True)
        )
        return file.getvalue()

    def _cells(self, with_distances: bool) -> tuple[list[str], Iterator[list[Any]]]:
        if not with_distances:
            return ["cluster"], ([label] for label in self.labels.tolist())
        numbers = zip(self.labels.tolist(), self.distances.tolist(), self.next_distances.tolist(), strict=True)
        rounded = ([label, _rounded(near), _rounded(other)] for label, near, other in numbers)
        return ["cluster", "distance", "next_distance"], rounded


def label_rows(
    path: Any,
    clusters: HasCenters,
    *,
    id_column: str | None = None,
    scale: str | os.PathLike[str] | None = None,
    header: bool | None = None,
    sheet: str | None = None,
) -> LabelledRows:
    """Give each row of a table the nearest of some clusters.

    Parameters
    ----------
    path : path or data frame
        A table with the columns that the devices used; others are not looked at. Without names, all but the id column.
    clusters : Aggregation, ClusterModel or Identity
    id_column : str, optional
        Column that identifies a row.
    scale : path, optional
        The scale that the devices agreed on, if their rows were on one.
    header, sheet
        As in `read_table`.

    Returns
    -------
    LabelledRows
        A `TableWarning` has each of its `notices` that may be a mistake.

    Examples
    --------
    >>> import kfed, pandas as pd
    >>> from kfed.site import cluster_file
    >>> patients = pd.DataFrame({"age": [*range(30, 50), *range(70, 90)]})
    >>> clusters = kfed.aggregate([cluster_file(patients, 2, "north", random_state=0).to_message()], 2)
    >>> len(set(label_rows(patients, clusters).labels))
    2
    >>> label_rows(pd.DataFrame({"age": [32, 75]}), clusters).labels_csv().splitlines()[0]
    'row,cluster'
    """
    path, schema = held_table(path), clusters.schema
    if schema is not None and schema.columns is not None:
        rows = read_columns(path, schema=schema, id_column=id_column, header=header, sheet=sheet)
        values = on_agreed_scale(rows.values, schema)
    else:
        names = None if schema is None or schema.names is None else list(schema.names)
        rows = read_table(path, columns=names, id_column=id_column, scale=scale, header=header, sheet=sheet)
        values = rows.values
    notices = list(rows.notices)
    with about(table_name(path)):
        found = distances(clusters, values, notices.append)
    warn_of_table(notices)
    labels, index = np.nan_to_num(found).argmin(axis=1), index_of(path)
    positions = range(len(found)) if index is None else index.tolist()
    return LabelledRows(
        path=os.fspath(path) if isinstance(path, str | os.PathLike) else path,
        row_names=positions if rows.row_ids is None else rows.row_ids,
        id_column=id_column,
        n_clusters=found.shape[1],
        labels=with_index(labels, index),
        distances=found.min(axis=1),
        next_distances=np.partition(found, 1, axis=1)[:, 1] if found.shape[1] > 1 else np.full(len(found), np.inf),
        notices=tuple(notices),
        sheet=sheet,
    )


def _rounded(distance: float) -> str:
    return "" if np.isnan(distance) else f"{distance:.6g}"


def on_agreed_scale(values: Array, schema: FeatureSchema) -> Array:
    """Values of a table on the agreed scale, like the centers; unchanged if there is none."""
    return agreed_scale(schema).apply(values) if schema.scaling == "agreed" else values
