"""`label_rows`: the clusters of rows that were never clustered on a device, from a table of them."""

from __future__ import annotations

import csv
import io
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Any

import numpy as np

from kfed._base.array import Array
from kfed._base.files import about
from kfed.errors import InvalidInputError, OutputExistsError
from kfed.server import HasCenters, distances
from kfed.site.columns import check_known
from kfed.site.csv_reader import CsvReader
from kfed.site.read import open_table, read_table
from kfed.wire import Column

EPOCH = date(1970, 1, 1)


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
        How far each row is from the center of its cluster, and from the next nearest (infinite if there is none).
    """

    path: str
    row_names: Sequence[Any]
    id_column: str | None
    labels: Array
    distances: Array
    next_distances: Array

    def labels_csv(self, *, with_distances: bool = False) -> str:
        """A line for each row, with its name and its cluster."""
        heads, cells = self._cells(with_distances)
        name = "row" if self.id_column is None else self.id_column
        return _csv([name, *heads], ([row, *own] for row, own in zip(self.row_names, cells, strict=True)))

    def appended_csv(self, *, header: bool | None = None, with_distances: bool = False) -> str:
        """The table as it is, with the cluster of each row as a further column."""
        reader = open_table(self.path, header)
        if not isinstance(reader, CsvReader):
            raise InvalidInputError(f"{self.path}: only a CSV table can get a further column; leave --append out")
        heads, cells = self._cells(with_distances)
        taken = [head for head in heads if head in reader.names]
        if taken:
            raise OutputExistsError(f"{self.path}: the table has a column {taken[0]!r} already; rename it first")
        columns = [reader.column(name) for name in reader.names]
        lines = ([*row, *own] for row, own in zip(zip(*columns, strict=True), cells, strict=True))
        return _csv([*reader.names, *heads] if reader.has_header else None, lines)

    def _cells(self, with_distances: bool) -> tuple[list[str], Iterator[list[Any]]]:
        if not with_distances:
            return ["cluster"], ([label] for label in self.labels.tolist())
        numbers = zip(self.labels.tolist(), self.distances.tolist(), self.next_distances.tolist(), strict=True)
        rounded = ([label, f"{near:.6g}", f"{other:.6g}"] for label, near, other in numbers)
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
        rows: Any = _Frame(path, schema.columns, header)
        ids = None if id_column is None else open_table(path, header).column(id_column)
    else:
        names = None if schema is None or schema.names is None else list(schema.names)
        rows = read_table(path, columns=names, id_column=id_column, scale=scale, header=header)
        ids = rows.row_ids
    with about(path):
        found = distances(clusters, rows)
    nearest = np.partition(found, 1, axis=1)[:, 1] if found.shape[1] > 1 else np.full(len(found), np.inf)
    return LabelledRows(
        os.fspath(path),
        range(len(found)) if ids is None else ids,
        id_column,
        found.argmin(axis=1),
        found.min(axis=1),
        nearest,
    )


class _Frame:
    """The columns of a table as text and numbers, by name, as a data frame has them."""

    def __init__(self, path: str | os.PathLike[str], columns: Sequence[Column], header: bool | None) -> None:
        reader = open_table(path, header)
        self.columns = tuple(column.name for column in columns)
        check_known(self.columns, reader.names, os.fspath(path))
        self._cells: dict[str, Any] = {}
        for column in columns:
            cells = reader.column(column.name)
            self._cells[column.name] = (
                [cell or None for cell in cells]
                if column.kind == "category"
                else np.array([_number(cell, column, os.fspath(path)) for cell in cells])
            )

    def __getitem__(self, name: Any) -> Any:
        return self._cells[name] if isinstance(name, str) else np.column_stack([self._cells[one] for one in name])

    def to_numpy(self) -> Array:
        raise NotImplementedError("columns are taken one by one")


def _number(cell: str, column: Column, path: str) -> float:
    """A cell as a number: a date as days, a flag as 0 or 1, nothing as NaN."""
    text = cell.strip().lower()
    if text in ("", "na", "nan", "null", "none"):
        return float("nan")
    if column.kind == "flag" and text in ("true", "yes", "false", "no"):
        return float(text in ("true", "yes"))
    try:
        return float((date.fromisoformat(text) - EPOCH).days) if column.kind == "date" else float(text)
    except ValueError:
        raise InvalidInputError(
            f"{path}: column {column.name!r} must hold a {column.kind} in every cell; some do not"
        ) from None


def _csv(heads: list[str] | None, lines: Iterator[list[Any]]) -> str:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    if heads is not None:
        writer.writerow(heads)
    writer.writerows(lines)
    return text.getvalue()
