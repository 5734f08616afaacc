"""What the columns of a table are: numbers, categories, flags, dates; and which of them are left out, and why."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from kfed._base.array import Array
from kfed._base.text import plural, quoted
from kfed.errors import InvalidInputError
from kfed.site.cells import Cells
from kfed.wire import Column, FeatureSchema, Notice

MOST_LEVELS = 50
"""A column of text with more distinct values is refused: it is a name or a remark, not a category."""

OTHER = "other"
"""The level of all rows whose own level too few rows have."""

FEWEST_ROWS = 20
"""In a smaller table, distinct whole numbers may well be no identifier."""

_IDENTIFIER = re.compile(r"(^|[\W_])(id|ids|key|nr|no|num|number|mrn|uuid|guid|pid|ssn)$", re.IGNORECASE)


@dataclass(frozen=True)
class Described:
    """The columns to cluster, and what to say of those that are not as one might think."""

    columns: tuple[Column, ...]
    notices: tuple[Notice, ...]


def describe(cells: Sequence[Cells], *, chosen: bool, min_cluster_size: int, where: str) -> Described:
    """Find out what each column is.

    Parameters
    ----------
    cells : sequence of Cells
    chosen : bool
        Whether a user named these columns; then identifiers are kept.
    min_cluster_size : int
        Levels of fewer rows are merged, so that their names do not leave the site.
    where : str
        The name of the table, for errors.
    """
    columns, notices = [], []
    for own in cells:
        if not chosen and _is_identifier(own):
            notices.append(Notice("identifier", f"column {own.name!r} looks like an identifier and is left out"))
            continue
        columns.append(_column(own, min_cluster_size, where))
        notices += _notices(own, columns[-1], min_cluster_size)
    if not columns:
        raise InvalidInputError(f"{where}: a table must have at least one column to cluster; this one has none")
    return Described(tuple(columns), tuple(notices))


def encode(cells: Mapping[str, Cells], schema: FeatureSchema) -> Array:
    """The features of the schema, (n_rows, n_features), with NaN where a cell is missing."""
    parts = [_features(cells[column.name], column) for column in schema.columns or ()]
    return np.concatenate(parts, axis=1)


def _column(cells: Cells, min_cluster_size: int, where: str) -> Column:
    if cells.kind != "text":
        return Column(cells.name, cells.kind)
    counts = _level_counts(cells)
    if len(counts) > MOST_LEVELS or len(counts) > max(10, int(counts.sum()) // 2):
        raise InvalidInputError(
            f"{where}: column {cells.name!r} is text with {plural(len(counts), 'distinct value')}; a category has at "
            f"most {MOST_LEVELS}. Leave it out with --columns, name it with --id-column if it identifies the rows, or "
            "group its values"
        )
    common = [text for text, count in zip(cells.texts, counts.tolist(), strict=True) if count >= min_cluster_size]
    rare = int(counts[counts < min_cluster_size].sum())
    if rare >= min_cluster_size and OTHER not in common:
        common.append(OTHER)
    return Column(cells.name, "category", tuple(sorted(common)))


def _notices(cells: Cells, column: Column, min_cluster_size: int) -> Iterable[Notice]:
    missing = int(cells.is_missing.sum())
    if missing == len(cells):
        yield Notice("empty", f"column {cells.name!r} is empty here and has no say")
    elif _is_constant(cells):
        yield Notice("constant", f"column {cells.name!r} is the same in every row here and has no say")
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
    known = values[~cells.is_missing]
    return bool((known == known[0]).all())


def _is_identifier(cells: Cells) -> bool:
    """Whether every row has its own value, and the name or the numbers say that it is an identifier."""
    n_known = int((~cells.is_missing).sum())
    if n_known < FEWEST_ROWS or cells.kind not in ("number", "text"):
        return False
    if cells.kind == "text":
        return len(cells.texts) == n_known
    assert cells.numbers is not None
    known = np.unique(cells.numbers[~cells.is_missing])
    are_whole = len(known) == n_known and bool((known == np.rint(known)).all())
    in_a_row = bool(known[-1] - known[0] < 2 * n_known)
    return are_whole and (in_a_row or _IDENTIFIER.search(cells.name) is not None)


def _level_counts(cells: Cells) -> Array:
    assert cells.codes is not None
    return np.bincount(cells.codes[cells.codes >= 0], minlength=len(cells.texts))


def _features(cells: Cells, column: Column) -> Array:
    if column.kind != "category":
        if cells.numbers is None:
            raise InvalidInputError(f"column {column.name!r} must hold a {column.kind} in every row; it holds text")
        return np.asarray(cells.numbers, np.float64)[:, None]
    codes, texts = (cells.codes, cells.texts) if cells.codes is not None else _as_levels(cells)
    assert codes is not None
    places = {level: place for place, level in enumerate(column.levels)}
    other = places.get(OTHER, -1)
    level = np.array([places.get(text, other) for text in texts] + [-1])[codes]
    features = np.where(level[:, None] == np.arange(len(column.levels)), 1.0, 0.0)
    features[level < 0] = np.nan
    return features


def _as_levels(cells: Cells) -> tuple[Array, tuple[str, ...]]:
    """Numbers as levels of a category, where the schema says that they are."""
    texts = cells.as_texts()
    known = tuple(sorted(set(texts) - {""}))
    places = {text: place for place, text in enumerate(known)} | {"": -1}
    return np.array([places[text] for text in texts]), known


def agreed_columns(schema: FeatureSchema, names: Sequence[str], where: str) -> FeatureSchema:
    """The schema that was agreed on, if the table has all of its columns."""
    missing = [column.name for column in schema.columns or () if column.name not in names]
    if missing:
        raise InvalidInputError(f"{where}: the schema has {quoted(missing)}, which this table does not have")
    return schema
