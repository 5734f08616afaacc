"""What the columns of a table are: numbers, categories, flags, dates; and which of them are left out, and why."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from kfed._base.array import Array
from kfed._base.text import plural, quoted
from kfed.errors import InvalidInputError
from kfed.site.arrow_cells import release
from kfed.site.cells import Cells, from_levels
from kfed.wire import OTHER, Column, FeatureSchema, Notice, features_by_column

MOST_LEVELS = 50
"""A column of text with more distinct values is refused: it is a name or a remark, not a category."""

PLAINLY = "if these are numbers, write them plainly, as 1234.5; if they are dates, as 2026-01-31"

FEWEST_ROWS = 20
"""In a smaller table, distinct whole numbers may well be no identifier."""

_IDENTIFIER = re.compile(r"(^|[\W_])(id|ids|key|nr|no|num|number|mrn|uuid|guid|pid|ssn)$", re.IGNORECASE)


@dataclass(frozen=True)
class Described:
    """The columns to cluster, and notices about columns that were left out or changed."""

    columns: tuple[Column, ...]
    notices: tuple[Notice, ...]


def describe(
    cells: Sequence[Cells],
    *,
    chosen: Collection[str],
    min_cluster_size: int,
    where: str,
    whose: Sequence[str] | None = None,
) -> Described:
    """Find out what each column is.

    Parameters
    ----------
    cells : sequence of Cells
    chosen : collection of str
        Columns that a user named; of those, identifiers are kept.
    min_cluster_size : int
        Levels of fewer rows are merged, so that their names do not leave the site.
    where : str
        The name of the table, for errors.
    whose : sequence of str, optional
        The id of each row: then levels of fewer different ids are merged.
    """
    columns, notices = [], []
    for own in cells:
        if own.name not in chosen and _is_identifier(own):
            notices.append(Notice("identifier", f"column {own.name!r} looks like an identifier and is left out"))
            continue
        columns.append(_column(own, min_cluster_size, where, whose))
        notices += _notices(own, columns[-1], min_cluster_size)
    if not any(column.kind != "empty" for column in columns):
        raise InvalidInputError(
            f"{where}: a table must have at least one column to cluster with a cell in it; this one has none. Leave "
            "this site out"
        )
    return Described(tuple(columns), tuple(notices))


def encode(cells: dict[str, Cells], schema: FeatureSchema) -> Array:
    """The features of the schema, (n_rows, n_features), with NaN where a cell is missing.

    Takes the columns that are encoded out of `cells`: so a large table is not in memory twice.
    """
    values = np.empty((len(next(iter(cells.values()))), schema.n_features))
    for column, features in zip(schema.columns or (), features_by_column(schema), strict=True):
        values[:, features] = _features(cells.pop(column.name), column)
        release()
    return values


def _column(cells: Cells, min_cluster_size: int, where: str, whose: Sequence[str] | None) -> Column:
    if cells.is_missing.all():
        return Column(cells.name, "empty")
    if cells.kind != "text":
        return Column(cells.name, cells.kind)
    counts = _level_counts(cells, whose)
    n_rows = int(counts.sum())
    most = min(MOST_LEVELS, max(10, n_rows // 2))
    if len(counts) > most:
        few = f" in {plural(n_rows, 'row')}" if most < MOST_LEVELS else ""
        hint = "L" if cells.odd_row is None else f"{PLAINLY.capitalize()}. Otherwise, l"
        raise InvalidInputError(
            f"{where}: column {cells.name!r} is text with {plural(len(counts), 'distinct value')}; a category has at "
            f"most {most}{few}. {hint}eave it out with --columns, name it with --id-column if it identifies the rows, "
            "or group its values"
        )
    common = [text for text, count in zip(cells.texts, counts.tolist(), strict=True) if count >= min_cluster_size]
    rare = int(counts[counts < min_cluster_size].sum())
    if rare >= min_cluster_size and OTHER not in common:
        common.append(OTHER)
    return Column(cells.name, "category", tuple(sorted(common)))


def _notices(cells: Cells, column: Column, min_cluster_size: int) -> Iterable[Notice]:
    missing = int(cells.is_missing.sum())
    if missing == len(cells):
        yield Notice("empty", f"column {cells.name!r} is empty here and is ignored")
    elif _is_constant(cells):
        yield Notice("constant", f"column {cells.name!r} is the same in every row here and is ignored")
    rare = [text for text in cells.texts if text not in column.levels]
    if column.kind == "category" and rare:
        yield Notice(
            "rare level",
            f"{plural(len(rare), 'level')} of {cells.name!r} with fewer than {min_cluster_size} rows will not be "
            f"named: those cells count as {repr(OTHER) if OTHER in column.levels else 'missing'}",
        )


def _is_constant(cells: Cells) -> bool:
    values = cells.numbers if cells.codes is None else cells.codes
    assert values is not None
    parts = (
        (values[:100], cells.is_missing[:100]),
        (values, cells.is_missing),
    )  # the first rows tell it of most columns
    known = (part[~is_missing] for part, is_missing in parts)
    return all(bool((part == part[:1]).all()) for part in known)


def _is_identifier(cells: Cells) -> bool:
    """Whether every row has its own value, and the name or the numbers say that it is an identifier."""
    n_known = int((~cells.is_missing).sum())
    if n_known < FEWEST_ROWS or cells.kind not in ("number", "text"):
        return False
    if cells.kind == "text":
        is_named = cells.odd_row is None or _IDENTIFIER.search(cells.name) is not None
        return is_named and len(cells.texts) == n_known
    assert cells.numbers is not None
    known = cells.numbers[~cells.is_missing]
    if known[0] in (0, 1) and bool((np.diff(known) == 1).all()):
        return True
    are_whole = _IDENTIFIER.search(cells.name) is not None and bool((known == np.rint(known)).all())
    return are_whole and len(np.unique(known)) == n_known


def _level_counts(cells: Cells, whose: Sequence[str] | None) -> Array:
    """Rows, or different ids, of each level."""
    assert cells.codes is not None
    codes = cells.codes[cells.codes >= 0]
    if whose is not None:
        ids = np.unique(np.asarray(whose), return_inverse=True)[1][cells.codes >= 0]
        codes = np.unique(np.column_stack([codes, ids]), axis=0)[:, 0]
    return np.bincount(codes, minlength=len(cells.texts))


def _features(cells: Cells, column: Column) -> Array:
    if column.kind in ("category", "empty"):
        return _levels(cells, column)
    if cells.numbers is None or not (cells.kind == column.kind or cells.is_missing.all() or _is_flag(cells, column)):
        raise InvalidInputError(
            f"column {column.name!r} must hold a {column.kind} in every row; it holds a {cells.kind}"
        )
    return np.asarray(cells.numbers, np.float64)[:, None]


def _is_flag(cells: Cells, column: Column) -> bool:
    """Whether a column of flags is written as 0 and 1."""
    assert cells.numbers is not None
    return column.kind == "flag" and bool(np.isin(cells.numbers[~cells.is_missing], (0, 1)).all())


def _levels(cells: Cells, column: Column) -> Array:
    if cells.codes is None:
        cells = from_levels(cells.name, cells.as_texts())
    assert cells.codes is not None
    places = {level: place for place, level in enumerate(column.levels)}
    other = places.get(OTHER, -1)
    level = np.array([places.get(text, other) for text in cells.texts] + [-1])[cells.codes]
    features = np.where(level[:, None] == np.arange(len(column.levels)), 1.0, 0.0)
    features[level < 0] = np.nan
    return features


def agreed_columns(schema: FeatureSchema, names: Sequence[str], where: str) -> FeatureSchema:
    """The schema that was agreed on, if the table has all of its columns."""
    missing = [column.name for column in schema.columns or () if column.name not in names]
    if missing:
        raise InvalidInputError(f"{where}: the schema has {quoted(missing)}, which this table does not have")
    return schema
