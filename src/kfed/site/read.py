"""The rows of one site, from a file or a data frame: `read_table` takes numbers, `read_columns` any columns.

Columns are chosen by name, or by position ("0", "1", ...) in a file without names.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from kfed._base import checks
from kfed._base.array import Array
from kfed._base.files import about
from kfed._base.indexed import index_of
from kfed._base.text import accents_joined
from kfed.errors import InvalidInputError
from kfed.site.agreed_options import check_agreed
from kfed.site.columns import ColumnChoice, check_known
from kfed.site.formats.arrow import FEATHER_SUFFIXES, ArrowReader
from kfed.site.formats.csv import CsvReader
from kfed.site.formats.excel import ExcelReader
from kfed.site.formats.npy import NpyReader
from kfed.site.formats.reader import TableReader
from kfed.site.frame_table import check_frame
from kfed.site.kinds.cells import Cells, from_levels
from kfed.site.kinds.kinds import agreed_columns, describe, encode_columns
from kfed.site.kinds.sound_cells import WHAT, check_numbers, check_sound, check_weights
from kfed.site.notices import about_cells, about_levels, about_missing, about_reading, about_zeros
from kfed.site.owners import about_ids
from kfed.site.plain_columns import without_identifiers
from kfed.site.scale import read_scale
from kfed.site.table import MIN_TABLE_CLUSTER_SIZE, Table, check_finite
from kfed.wire import FeatureSchema, Notice

CSV_SUFFIXES = (".csv", ".tsv", ".txt")
PARQUET_SUFFIXES = (".parquet", ".pq")


def read_table(
    path: str | os.PathLike[str],
    *,
    columns: Sequence[str] | None = None,
    exclude: Sequence[str] | None = None,
    id_column: str | None = None,
    weight_column: str | None = None,
    scale: str | os.PathLike[str] | None = None,
    header: bool | None = None,
    sheet: str | None = None,
    dtype: npt.DTypeLike | None = None,
    identifiers: Literal["keep", "say", "leave out"] = "keep",
) -> Table:
    """Read a table of numbers.

    Parameters
    ----------
    path : path
        A file that ends in .csv, .tsv, .txt, .parquet, .pq, .feather, .xlsx or .npy.
    columns : sequence of str, optional
        The columns to use, in this order; by default all but the id column, the weight column and names of rows.
    exclude : sequence of str, optional
        Columns to leave out, where `columns` does not name those to use.
    id_column, weight_column : str, optional
        Columns that identify a row, and say how much it counts.
    scale : path, optional
        A file with the shift and scale of each column that the sites agreed on; see `read_scale`.
    header : bool, optional
        Whether the first line of a CSV file holds the names of the columns. By default it must; numbers there are an
        error, since a row would be taken for names. In an Excel file it always must, and True says that numbers are
        names.
    sheet : str, optional
        The sheet of an Excel file; by default the first with several columns.
    dtype : {float32, float64}, optional
        By default what the file holds, and float64 for CSV.
    identifiers : {"keep", "say", "leave out"}
        What to do with columns that tell rows or people apart, and that neither `columns` nor `scale` names. In a table
        without names, they are kept.

    Returns
    -------
    Table
    """
    reader = open_table(path, header, sheet)
    choice = ColumnChoice.of(reader.names, columns, id_column, weight_column, table_name(path), exclude)
    cells = reader.cells(choice.used, as_text=choice.ids)
    _check_rows(cells, table_name(path))
    agreed = None if scale is None else read_scale(scale)
    said: list[Notice] = []
    with reader.separators_named():
        if identifiers != "keep" and columns is None and not isinstance(reader, NpyReader):
            choice, said = without_identifiers(choice, cells, *_known_columns(choice, reader, identifiers, agreed))
        choice.refuse_text([name for name in choice.numeric if cells[name].kind not in ("number", "flag")])
    check_numbers(reader, [cells[name] for name in choice.numeric], table_name(path))
    check_weights(reader, cells, choice)
    values = np.column_stack([_numbers(cells[name]) for name in choice.features])
    values = np.ascontiguousarray(values, _dtype_to_keep(values) if dtype is None else dtype)
    check_finite(values, choice.features, table_name(path))
    notices = (*about_reading(reader, [cells[name] for name in choice.features]), *choice.notices(), *said)
    table = _with_rows(Table(values, choice.features, reader.has_header, notices=notices), cells, choice)
    if scale is None or agreed is None:
        return table
    with about(scale):
        return table.scaled(agreed)


def read_columns(
    path: Any,
    *,
    columns: Sequence[str] | None = None,
    exclude: Sequence[str] | None = None,
    id_column: str | None = None,
    weight_column: str | None = None,
    schema: FeatureSchema | None = None,
    kinds: Mapping[str, str] | None = None,
    missing: str = "observed",
    header: bool | None = None,
    sheet: str | None = None,
    min_cluster_size: int = MIN_TABLE_CLUSTER_SIZE,
) -> Table:
    """Read a table of numbers, categories, flags and dates, with cells that may be missing.

    Parameters
    ----------
    path : path or data frame
        As in `read_table`; or a data frame of pandas, Polars or Arrow.
    columns, exclude, id_column, weight_column, header, sheet
        As in `read_table`; by default, columns that look like identifiers are left out, too.
    schema : FeatureSchema, optional
        What the columns are, and their scale, if that was agreed on.
    kinds : mapping from column to {"number", "category", "flag", "date"}, optional
        What some columns are, where their cells do not show it: codes that look like numbers, say.
    missing : {"observed", "drop", "mean"}
        What to do with missing cells: cluster by the others, do not count their rows, or cluster as if they were at
        the mean of the column. With a schema, what it says; columns, kinds or missing that contradict it are refused.
    min_cluster_size : int
        Levels of a category that fewer rows have are merged.

    Returns
    -------
    Table
        With a schema; its `notices` say what to look at.
    """
    reader = open_table(path, header, sheet)
    check_agreed(schema, columns=columns, kinds=kinds, missing=missing)
    if schema is not None:
        columns = [column.name for column in agreed_columns(schema, reader.names, table_name(path)).columns or ()]
    choice = ColumnChoice.of(reader.names, columns, id_column, weight_column, table_name(path), exclude)
    known = _known_kinds(schema, kinds or {}, choice.features, table_name(path))
    as_text = [name for name, kind in known.items() if kind == "category"]
    cells = reader.cells(choice.used, as_text=[*as_text, *choice.ids])
    _check_rows(cells, table_name(path))
    levels = {} if schema is None else {column.name: column.levels for column in schema.columns or ()}
    cells |= {name: _as_kind(reader, cells[name], kind, levels.get(name, ())) for name, kind in known.items()}
    features = [cells[name] for name in choice.features]
    check_sound(reader, features, table_name(path), is_agreed=schema is not None)
    check_weights(reader, cells, choice)
    notices = [*about_reading(reader, features), *about_missing(features), *about_cells(reader, features, known)]
    notices += choice.notices()
    if schema is None:
        whose = None if choice.id_column is None else cells[choice.id_column].as_texts()
        chosen = choice.features if columns is not None else known
        how: dict[str, Any] = {"chosen": chosen, "min_cluster_size": min_cluster_size, "whose": whose}
        with reader.separators_named():
            found = describe(features, where=table_name(path), **how)
        schema, notices = FeatureSchema.of_columns(found.columns, missing=missing), [*notices, *found.notices]
        kept = {column.name for column in found.columns}
        notices += about_zeros([own for own in features if own.name in kept], known)
    else:
        notices += about_levels(features, schema)
    del features
    values = encode_columns(cells, schema)
    names = tuple(column.name for column in schema.columns or ())
    notices += about_ids(() if choice.id_column is None else cells[choice.id_column].as_texts())
    table = Table(values, names, reader.has_header, schema=schema, notices=tuple(notices))
    return _with_rows(replace(table, index=index_of(path)), cells, choice)


def open_table(path: Any, header: bool | None = None, sheet: str | None = None) -> TableReader:
    """Open a table by the ending of its name, or a data frame; `names` has its columns, and no row is read yet."""
    if sheet is not None and not str(path).lower().endswith(".xlsx"):
        raise InvalidInputError(f"{table_name(path)}: only an Excel file (.xlsx) has sheets; leave out --sheet")
    if not isinstance(path, str | os.PathLike):
        check_frame(path)
        return ArrowReader(path)
    name = os.fspath(path).lower()
    plain = name.removesuffix(".gz").removesuffix(".zst")
    if plain.endswith(CSV_SUFFIXES):
        return CsvReader(path, header)
    if name.endswith((*PARQUET_SUFFIXES, *FEATHER_SUFFIXES)):
        return ArrowReader(path)
    if name.endswith(".xlsx"):
        return ExcelReader(path, sheet, header)
    if name.endswith(".npy"):
        return NpyReader(path)
    raise InvalidInputError(
        f"{path}: the name of a table must end in .csv, .tsv or .txt (.gz or .zst may follow), .parquet, .pq, "
        ".feather, .arrow, .xlsx or .npy"
    )


def is_table_name(path: str | os.PathLike[str]) -> bool:
    """Whether a file is a table by the ending of its name."""
    name = os.fspath(path).lower()
    plain = name.removesuffix(".gz").removesuffix(".zst")
    return plain.endswith(CSV_SUFFIXES) or name.endswith((*PARQUET_SUFFIXES, *FEATHER_SUFFIXES, ".xlsx", ".npy"))


def table_stem(path: str | os.PathLike[str]) -> str:
    """The name of a table without its endings: that of its site, by default.

    Examples
    --------
    >>> table_stem("north.csv"), table_stem("data/north.csv.gz"), table_stem("north.2026.parquet")
    ('north', 'north', 'north.2026')
    """
    own = Path(path)
    return (own.with_suffix("") if own.suffix.lower() in (".gz", ".zst") else own).stem


def table_name(path: Any) -> str:
    """What an error calls a table: its path, or that it is a data frame."""
    return os.fspath(path) if isinstance(path, str | os.PathLike) else "the data frame"


def _check_rows(cells: Mapping[str, Cells], where: str) -> None:
    if not len(next(iter(cells.values()))):
        raise InvalidInputError(
            f"{where}: a table must have at least one row; this one has none, so there is nothing to send or to label"
        )


def _known_columns(
    choice: ColumnChoice, reader: TableReader, identifiers: str, scale: Mapping[str, object] | None
) -> tuple[Collection[str], str]:
    """Columns of plain numbers that are kept even if they look like identifiers, and why."""
    if identifiers == "say":
        return choice.features, "which columns a private message has must not depend on the rows"
    if scale is not None:
        return scale, "the scale file names it"
    if not reader.has_header:
        return choice.features, "a table without names of columns is sent whole: use --exclude at every site"
    return (), ""


def _known_kinds(
    schema: FeatureSchema | None, kinds: Mapping[str, str], features: Sequence[str], where: str
) -> dict[str, str]:
    """The kinds of columns that are known beforehand: from a schema, or from the user."""
    if schema is not None:
        return {column.name: column.kind for column in schema.columns or ()}
    kinds = {accents_joined(name): kind for name, kind in kinds.items()}
    check_known(list(kinds), features, where)
    return {name: checks.one_of(kind, list(WHAT), f"the kind of {name!r}") for name, kind in kinds.items()}


def _as_kind(reader: TableReader, cells: Cells, kind: str, levels: Sequence[str]) -> Cells:
    """The cells of a column as the kind that it must be, if they can be read as that."""
    if kind == "category":
        return from_levels(cells.name, cells.as_texts(), levels)
    if (cells.kind, kind) == ("flag", "number"):
        return replace(cells, kind="number")
    is_other = cells.kind != kind and kind in WHAT and not cells.is_missing.all()
    return reader.cells_as(cells.name, kind) if is_other else cells


def _numbers(cells: Cells) -> Array:
    assert cells.numbers is not None
    return cells.numbers


def _with_rows(table: Table, cells: Mapping[str, Cells], choice: ColumnChoice) -> Table:
    """The table with the ids and the weights of its rows."""
    ids = None if choice.id_column is None else cells[choice.id_column].as_texts()
    weights = None if choice.weight_column is None else _numbers(cells[choice.weight_column])
    return replace(table, row_ids=ids, id_column=choice.id_column, weights=weights)


def _dtype_to_keep(values: Array) -> npt.DTypeLike:
    return np.float32 if values.dtype == np.float32 else np.float64
