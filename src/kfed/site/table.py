"""`Table`: the rows of one site, read from CSV, Parquet or .npy. No error that is raised here shows a cell.

The same choice of columns works on all three: by name, or by position ("0", "1", ...) without names.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from kfed._base.array import Array
from kfed.errors import InvalidInputError, MissingExtraError
from kfed.site.columns import Choice, shown
from kfed.site.csv_table import CsvTable

CSV_SUFFIXES = (".csv", ".tsv", ".txt")
PARQUET_SUFFIXES = (".parquet", ".pq")


@dataclass(frozen=True, eq=False)
class Table:
    """Numbers with names. `cluster_device` takes it like a data frame.

    Attributes
    ----------
    values : array of shape (n_rows, n_columns)
        float32 or float64, all finite.
    names : tuple of str
        A name for each column: from the header, or its position in a file without one.
    columns : tuple of str or None
        The names from the header; None without one.
    row_ids : tuple of str or None
        What the id column says of each row; never clustered and never sent.
    id_column : str or None
        What the id column is called.
    weights : array of shape (n_rows,) or None
        The weight column.
    """

    values: Array
    names: tuple[str, ...]
    has_header: bool = True
    row_ids: tuple[str, ...] | None = None
    id_column: str | None = None
    weights: Array | None = None

    @property
    def columns(self) -> tuple[str, ...] | None:
        """The names of the columns, if the file had a header."""
        return self.names if self.has_header else None

    def to_numpy(self) -> Array:
        """Return the values, (n_rows, n_columns)."""
        return self.values

    def __len__(self) -> int:
        return len(self.values)

    def scaled(self, scale: Mapping[str, tuple[float, float]]) -> Table:
        """Return the table with ``(value - shift) / scale`` in every column.

        Parameters
        ----------
        scale : mapping from column name to (shift, scale)
            Exactly one entry for each column; `read_scale` reads it from a file.
        """
        shifts, scales = _agreed(scale, self.names).astype(self.values.dtype)
        with np.errstate(over="ignore"):
            values = (self.values - shifts) / scales
        _check_finite(values, self.names, "the scaled table")
        return replace(self, values=values)


def unscaled(values: Array, names: Sequence[str], scale: Mapping[str, tuple[float, float]]) -> Array:
    """Values that are on a scale, such as centers, in the units that the columns of these names had.

    Examples
    --------
    >>> unscaled(np.array([[0.5, -1.0]]), ["age", "height"], {"age": (50, 12), "height": (170, 9)})
    array([[ 56., 161.]])
    """
    shifts, scales = _agreed(scale, names)
    return np.asarray(values * scales + shifts)


def _agreed(scale: Mapping[str, tuple[float, float]], names: Sequence[str]) -> Array:
    """The shift and the scale of each column, (2, n_columns)."""
    missing = [name for name in names if name not in scale]
    unknown = [name for name in scale if name not in names]
    if missing or unknown:
        faults = [f"has no entry for {shown(missing)}"] * bool(missing)
        faults += [f"has entries for {shown(unknown)}, which the table does not"] * bool(unknown)
        raise InvalidInputError(f"the scale must have one entry for each column, and {' and '.join(faults)}")
    return np.array([scale[name] for name in names], dtype=np.float64).T


def read_table(
    path: str | os.PathLike[str],
    *,
    columns: Sequence[str] | None = None,
    id_column: str | None = None,
    weight_column: str | None = None,
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
        Columns that say which row this is, and how much it counts.
    header : bool, optional
        Whether the first line of a CSV file holds names. By default it must, and numbers in it are refused,
        since a row would be taken for names.
    dtype : {float32, float64}, optional
        By default what the file holds, and float64 for CSV.

    Returns
    -------
    Table
    """
    file = open_table(path, header, dtype)
    choice = Choice.of(file.names, columns, id_column, weight_column, os.fspath(path))
    values, row_ids, weights = file.read(choice)
    if len(values) == 0:
        raise InvalidInputError(f"{path}: a table must have at least one row, and this has none; leave this site out")
    values = np.ascontiguousarray(values, dtype=_float_dtype(values) if dtype is None else dtype)
    _check_finite(values, choice.features, os.fspath(path))
    return Table(values, choice.features, file.has_header, row_ids, id_column, weights)


def read_column(path: str | os.PathLike[str], column: str | None = None) -> tuple[str, ...]:
    """Read one column as text: names of devices, or of clusters.

    Parameters
    ----------
    path : path
        As in `read_table`.
    column : str, optional
        Its name; by default the last.
    """
    file = open_table(path)
    name = file.names[-1] if column is None else column
    if name not in file.names:
        raise InvalidInputError(f"{path}: there is no column {name!r}; the columns are {shown(file.names)}")
    cells = file.column(name)
    if "" in cells:
        raise InvalidInputError(
            f"{path}: column {name!r} must say something in every row, and is empty in row {cells.index('')} "
            "(counted from 0); remove or fill those rows first"
        )
    return cells


def open_table(
    path: str | os.PathLike[str], header: bool | None = None, dtype: npt.DTypeLike | None = None
) -> CsvTable | ParquetTable | NpyTable:
    """Open a table by what its name ends in; its `names` are known then."""
    suffix = Path(path).suffix.lower()
    if suffix in CSV_SUFFIXES:
        return CsvTable(path, header, dtype)
    if suffix in PARQUET_SUFFIXES:
        return ParquetTable(path)
    if suffix == ".npy":
        return NpyTable(path)
    raise InvalidInputError(f"{path}: a table must end in .csv, .tsv, .txt, .parquet, .pq or .npy")


def read_scale(path: str | os.PathLike[str]) -> dict[str, tuple[float, float]]:
    """Read the shift and the scale that the sites agreed on.

    The file is JSON, such as ``{"age": {"shift": 50, "scale": 12}, "height": {"shift": 170, "scale": 9}}``;
    columns without a name are "0", "1" and so on.
    """
    try:
        content = json.loads(Path(path).read_text(encoding="utf-8-sig"))
    except (UnicodeDecodeError, json.JSONDecodeError, RecursionError) as error:
        raise InvalidInputError(f"{path}: a scale file must be JSON, and this is not") from error
    if not isinstance(content, dict):
        raise InvalidInputError(f"{path}: a scale file must map each column to its shift and scale, and this does not")
    for name, entry in content.items():
        if (
            not isinstance(entry, dict)
            or entry.keys() != {"shift", "scale"}
            or not all(map(_is_finite, entry.values()))
        ):
            raise InvalidInputError(
                f'{path}: the entry for {name!r} must be of the form {{"shift": 50, "scale": 12}}, and is not'
            )
        if entry["scale"] <= 0:
            raise InvalidInputError(f"{path}: the scale for {name!r} must be greater than zero, and is not")
    return {name: (entry["shift"], entry["scale"]) for name, entry in content.items()}


class NpyTable:
    """A .npy file: an array with two axes, and no names."""

    has_header = False

    def __init__(self, path: str | os.PathLike[str]) -> None:
        try:
            self._array = np.lib.format.open_memmap(path, mode="r")
        except ValueError as error:
            raise InvalidInputError(
                f"{path}: a .npy file must hold rows of numbers, and this holds none or is damaged"
            ) from error
        if self._array.ndim != 2 or self._array.dtype.kind not in "fiub":
            raise InvalidInputError(
                f"{path}: a .npy file must hold numbers with two axes (rows, columns), and this has shape "
                f"{self._array.shape} and dtype {self._array.dtype}"
            )
        self.names = tuple(map(str, range(self._array.shape[1])))

    def read(self, choice: Choice) -> tuple[Array, tuple[str, ...] | None, Array | None]:
        """Values, row ids and weights."""
        positions = [int(name) for name in choice.features]
        row_ids = None if choice.id_column is None else _as_ids(self._array[:, int(choice.id_column)].tolist())
        weights = None if choice.weight_column is None else np.array(self._array[:, int(choice.weight_column)])
        return self._array[:, positions], row_ids, weights

    def column(self, name: str) -> tuple[str, ...]:
        """One column as text."""
        return _as_ids(self._array[:, int(name)].tolist())


class ParquetTable:
    """A Parquet file, by pyarrow."""

    has_header = True

    def __init__(self, path: str | os.PathLike[str]) -> None:
        try:
            import pyarrow as arrow
            from pyarrow import parquet
        except ImportError as error:
            raise MissingExtraError("Parquet files need pyarrow: pip install 'kfed[parquet]'") from error
        self._path, self._types = os.fspath(path), arrow.types
        self._not_sound = (arrow.ArrowException, OSError)
        os.stat(path)  # a file that is missing is missing in the usual words
        with self._named():
            self._file = parquet.ParquetFile(path)
        self.names = tuple(self._file.schema_arrow.names)

    @contextmanager
    def _named(self) -> Iterator[None]:
        """Let an error of pyarrow name the file."""
        try:
            yield
        except self._not_sound as error:
            raise InvalidInputError(f"{self._path}: this is not a Parquet file, or only a part of one") from error

    def _columns(self, names: Sequence[str]) -> Any:
        with self._named():
            return self._file.read(columns=list(names))

    def read(self, choice: Choice) -> tuple[Array, tuple[str, ...] | None, Array | None]:
        """Values, row ids and weights."""
        schema = self._file.schema_arrow
        choice.refuse_text([name for name in choice.numeric if not self._is_number(schema.field(name).type)])
        table = self._columns(choice.used)
        numbers = {name: self._numbers(table, name) for name in choice.numeric}
        row_ids = None if choice.id_column is None else _as_ids(table.column(choice.id_column).to_pylist())
        weights = None if choice.weight_column is None else numbers[choice.weight_column]
        return np.column_stack([numbers[name] for name in choice.features]), row_ids, weights

    def column(self, name: str) -> tuple[str, ...]:
        """One column as text."""
        return _as_ids(self._columns([name]).column(name).to_pylist())

    def _is_number(self, kind: Any) -> bool:
        return bool(self._types.is_integer(kind) or self._types.is_floating(kind) or self._types.is_boolean(kind))

    def _numbers(self, table: Any, name: str) -> Array:
        column = table.column(name)
        if column.null_count:
            row = column.is_null().to_numpy().argmax()
            raise InvalidInputError(
                f"{self._path}: every cell must hold a number, and column {name!r} is empty in row {row} "
                f"(counted from 0){_and_more(column.null_count - 1)}; remove or fill those rows first"
            )
        return np.asarray(column.to_numpy())


def _float_dtype(values: Array) -> npt.DTypeLike:
    return np.float32 if values.dtype == np.float32 else np.float64


def _is_finite(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and bool(np.isfinite(value))


def _as_ids(values: Sequence[object]) -> tuple[str, ...]:
    return tuple(
        "" if value is None else str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)
        for value in values
    )


def _check_finite(values: Array, names: Sequence[str], what: str) -> None:
    bad = ~np.isfinite(values)
    if bad.any():
        row = int(bad.any(axis=1).argmax())
        raise InvalidInputError(
            f"{what}: every cell must be finite, and column {names[bad[row].argmax()]!r} is NaN or infinite "
            f"in row {row} (counted from 0){_and_more(int(np.count_nonzero(bad)) - 1)}; "
            "remove or fill those rows first"
        )


def _and_more(count: int) -> str:
    return f", and {count} more cells are" * bool(count)
