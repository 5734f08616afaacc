"""What the columns of a table are: numbers, categories, flags, dates; and the features that they become."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from kfed._base.array import Array
from kfed._base.arrow import release
from kfed._base.text import exclusion, plural, quoted, verb
from kfed.errors import InvalidInputError
from kfed.site.kinds.cells import Cells, from_levels
from kfed.site.kinds.different_rows import have_different_rows
from kfed.site.kinds.identifiers import MOST_LEVELS, about_identifier, about_numbers
from kfed.site.kinds.kind_option import kind_option
from kfed.site.kinds.nothing_left import check_features_differ, check_some_left
from kfed.wire import (
    OTHER,
    Column,
    FeatureSchema,
    Notice,
    column_difference,
    features_by_column,
    level_features,
    respelled,
)

PLAINLY = "if these are numbers, write them plainly, as 1234.5; if they are dates, as 2026-01-31"

_BLANK = re.compile(r"Unnamed: \d+")
"""What pandas calls a column without a name: if it is empty, too, it is no column."""


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
    columns: list[Column] = []
    notices: list[Notice] = []
    cells = [own for own in cells if own.name in chosen or not (_BLANK.fullmatch(own.name) and own.is_missing.all())]
    left_out = {
        own.name: notice
        for own in cells
        if own.name not in chosen and (notice := about_identifier(own, has_ids=whose is not None)) is not None
    }
    kept = [own for own in cells if own.name not in left_out]
    enough = f"{min_cluster_size} {'rows that surely differ' if whose is None else 'different ids'}"
    for own in cells:
        is_chosen = own.name in chosen
        if own.name in left_out:
            notices.append(left_out[own.name])
            continue
        columns.append(_column(own, kept, min_cluster_size, where, whose))
        notices += _notices(own, columns[-1], enough)
        notices += [] if is_chosen else about_numbers(own)
    check_some_left(columns, cells, min_cluster_size, where)
    check_features_differ(columns, where)
    return Described(tuple(columns), tuple(notices))


def encode_columns(cells: dict[str, Cells], schema: FeatureSchema) -> Array:
    """The features of the schema, (n_rows, n_features), with NaN where a cell is missing.

    Takes the columns that are encoded out of `cells`: so a large table is not in memory twice.
    """
    values = np.empty((len(next(iter(cells.values()))), schema.n_features))
    for column, features in zip(schema.columns or (), features_by_column(schema), strict=True):
        values[:, features] = _features(cells.pop(column.name), column)
        release()
    return values


def _column(
    cells: Cells, kept: Sequence[Cells], min_cluster_size: int, where: str, whose: Sequence[str] | None
) -> Column:
    if cells.is_missing.all():
        return Column(cells.name, "empty")
    if cells.kind != "text":
        return Column(cells.name, cells.kind)
    if cells.are_times:
        raise InvalidInputError(
            f"{where}: column {cells.name!r} holds times of day, which cannot be clustered. Write hours as a number, "
            f"take them as a category ({kind_option(cells.name, 'category')}), or leave the column out with "
            f"{exclusion([cells.name])}"
        )
    counts = _level_counts(cells, whose)
    most = min(MOST_LEVELS, max(10, int(counts.sum()) // 2))
    if len(counts) > most:
        few = f" of so few {'rows' if whose is None else 'ids'}" if most < MOST_LEVELS else ""
        hint = "L" if cells.odd_row is None else f"{PLAINLY.capitalize()}. Otherwise, l"
        raise InvalidInputError(
            f"{where}: column {cells.name!r} is text with {plural(len(counts), 'distinct value')}; a category{few} "
            f"has at most {most}. {hint}eave it out with {exclusion([cells.name])}, name it with --id-column if "
            "it identifies the rows, group its values, or list them in a schema (--schema)"
        )
    is_common = counts >= min_cluster_size
    if whose is None and min_cluster_size > 1:
        is_common &= have_different_rows(cells, kept, is_common, min_cluster_size)
    common = [text for text, may_tell in zip(cells.texts, is_common.tolist(), strict=True) if may_tell]
    if _n_with(cells, ~is_common, whose) >= min_cluster_size and OTHER not in common:
        common.append(OTHER)
    return Column(cells.name, "category", tuple(sorted(common)))


def _notices(cells: Cells, column: Column, enough: str) -> Iterable[Notice]:
    """Columns without anything to say, and levels that are not named; `enough` says which would be."""
    missing = int(cells.is_missing.sum())
    if cells.only_word:
        yield Notice(
            "taken as missing",
            f"column {cells.name!r} is ignored: {plural(cells.n_only_word, 'cell')} of {len(cells):,} "
            f"{verb(cells.n_only_word, 'holds', 'hold')} {cells.only_word!r}, which counts as missing, and no cell "
            f"holds anything else; if it is a level, use {kind_option(cells.name, 'category')} at every site",
        )
    elif missing == len(cells):
        yield Notice("empty", f"column {cells.name!r} is empty here and is ignored")
    elif _is_constant(cells):
        yield constant_notice(cells.name, is_filled=missing == 0)
    rare = [text for text in cells.texts if text not in column.levels]
    if column.kind == "category" and rare:
        yield Notice(
            "rare level",
            f"{plural(len(rare), 'level')} of {cells.name!r} will not be named, since "
            f"{verb(len(rare), 'it has', 'each has')} fewer than {enough}: those cells count as "
            f"{repr(OTHER) if OTHER in column.levels else 'missing'}",
        )


def constant_notice(name: str, *, is_filled: bool) -> Notice:
    """Say that a column has one value, in all rows or in those where it is filled."""
    same = "is the same in every row here" if is_filled else "has one value here in the cells that are filled"
    return Notice("constant", f"column {name!r} {same} and adds nothing to distances between rows of this site")


def _is_constant(cells: Cells) -> bool:
    values = cells.numbers if cells.codes is None else cells.codes
    assert values is not None
    parts = (
        (values[:100], cells.is_missing[:100]),
        (values, cells.is_missing),
    )  # the first rows tell it of most columns
    known = (part[~is_missing] for part, is_missing in parts)
    return all(bool((part == part[:1]).all()) for part in known)


def _level_counts(cells: Cells, whose: Sequence[str] | None) -> Array:
    """Rows, or different ids, of each level."""
    assert cells.codes is not None
    codes = cells.codes[cells.codes >= 0]
    if whose is not None:
        ids = np.unique(np.asarray(whose), return_inverse=True)[1][cells.codes >= 0]
        codes = np.unique(np.column_stack([codes, ids]), axis=0)[:, 0]
    return np.bincount(codes, minlength=len(cells.texts))


def _n_with(cells: Cells, levels: Array, whose: Sequence[str] | None) -> int:
    """Rows, or different ids, that have one of these levels."""
    assert cells.codes is not None
    rows = np.append(levels, False)[cells.codes]
    return int(np.count_nonzero(rows)) if whose is None else len(np.unique(np.asarray(whose)[rows]))


def _features(cells: Cells, column: Column) -> Array:
    if column.kind in ("category", "empty"):
        return _levels(cells, column)
    if cells.numbers is None or not (cells.kind == column.kind or cells.is_missing.all() or _is_flag(cells, column)):
        raise InvalidInputError(
            f"column {column.name!r} must be of kind {column.kind}; its cells are of kind {cells.kind}"
        )
    return np.asarray(cells.numbers, np.float64)[:, None]


def _is_flag(cells: Cells, column: Column) -> bool:
    """Whether a column of flags is written as 0 and 1."""
    assert cells.numbers is not None
    return column.kind == "flag" and bool(np.isin(cells.numbers[~cells.is_missing], (0, 1)).all())


def _levels(cells: Cells, column: Column) -> Array:
    if cells.codes is None:
        cells = from_levels(cells.name, cells.as_texts(), column.levels)
    assert cells.codes is not None
    return level_features(column, cells.texts, cells.codes)


def agreed_columns(schema: FeatureSchema, names: Sequence[str], where: str) -> FeatureSchema:
    """The schema that was agreed on, if the table has all of its columns."""
    agreed = [column.name for column in schema.columns or ()]
    again = {own: known for own, known in respelled(names, agreed).items() if known not in names}
    if again:
        raise InvalidInputError(f"{where}: {column_difference(again.values(), again, 'the other sites', 'this table')}")
    missing = [name for name in agreed if name not in names]
    if missing:
        raise InvalidInputError(
            f"{where}: the table must have every column that the other sites have; it lacks {quoted(missing)}"
        )
    return schema
