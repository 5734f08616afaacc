"""`read_table`: the rows of one site from CSV, Parquet or .npy, with the same choice of columns for all three.

Columns are chosen by name, or by position ("0", "1", ...) in a file without names.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import numpy.typing as npt

from kfed._base.files import about
from kfed.errors import InvalidInputError
from kfed.site.columns import ColumnChoice, check_known
from kfed.site.csv_reader import CsvReader
from kfed.site.npy_reader import NpyReader
from kfed.site.parquet_reader import ParquetReader
from kfed.site.scale import read_scale
from kfed.site.table import Table, check_finite

CSV_SUFFIXES = (".csv", ".tsv", ".txt")
PARQUET_SUFFIXES = (".parquet", ".pq")
TABLE_SUFFIXES = (*CSV_SUFFIXES, *PARQUET_SUFFIXES, ".npy")


def read_table(
    path: str | os.PathLike[str],
    *,
    columns: Sequence[str] | None = None,
    id_column: str | None = None,
    weight_column: str | None = None,
    scale: str | os.PathLike[str] | None = None,
    header: bool | None = None,
    dtype: npt.DTypeLike | None = None,
) -> Table:
    """Read a table of numbers.

    Parameters
    ----------
    path : path
        A file that ends in .csv, .tsv, .txt, .parquet, .pq or .npy.
    columns : sequence of str, optional
        The columns to use, in this order; by default all but the id column and the weight column.
    id_column, weight_column : str, optional
        Columns that identify a row, and say how much it counts.
    scale : path, optional
        A file with the shift and scale of each column that the sites agreed on; see `read_scale`.
    header : bool, optional
        Whether the first line of a CSV file holds names. By default it must, and numbers in it are an error,
        since a row would be taken for names.
    dtype : {float32, float64}, optional
        By default what the file holds, and float64 for CSV.

    Returns
    -------
    Table
    """
    reader = open_table(path, header, dtype)
    choice = ColumnChoice.of(reader.names, columns, id_column, weight_column, os.fspath(path))
    table = reader.read(choice)
    if len(table) == 0:
        raise InvalidInputError(f"{path}: a table must have at least one row; this one has none. Leave this site out")
    table = replace(table, values=np.ascontiguousarray(table.values, _dtype_to_keep(table) if dtype is None else dtype))
    check_finite(table.values, table.names, os.fspath(path))
    if scale is None:
        return table
    agreed = read_scale(scale)
    with about(scale):
        return table.scaled(agreed)


def read_column(path: str | os.PathLike[str], column: str | None = None) -> tuple[str, ...]:
    """Read one column as text: names of devices, or of clusters.

    Parameters
    ----------
    path : path
        As in `read_table`.
    column : str, optional
        Its name; by default the last.
    """
    reader = open_table(path)
    name = reader.names[-1] if column is None else column
    check_known([name], reader.names, os.fspath(path))
    cells = reader.column(name)
    if "" in cells:
        raise InvalidInputError(
            f"{path}: column {name!r} must be filled in every row; it is empty in row {cells.index('')} "
            "(counted from 0). Remove or fill such rows first"
        )
    return cells


def open_table(
    path: str | os.PathLike[str], header: bool | None = None, dtype: npt.DTypeLike | None = None
) -> CsvReader | ParquetReader | NpyReader:
    """Open a table by the ending of its name; `names` has its columns, and no row is read yet."""
    suffix = Path(path).suffix.lower()
    if suffix in CSV_SUFFIXES:
        return CsvReader(path, header, dtype)
    if suffix in PARQUET_SUFFIXES:
        return ParquetReader(path)
    if suffix == ".npy":
        return NpyReader(path)
    raise InvalidInputError(f"{path}: the name of a table must end in .csv, .tsv, .txt, .parquet, .pq or .npy")


def _dtype_to_keep(table: Table) -> npt.DTypeLike:
    return np.float32 if table.values.dtype == np.float32 else np.float64
