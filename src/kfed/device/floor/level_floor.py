"""Levels, and values of columns of two, that few rows of a group have: the floor of decision 0001, inside a group.

A center holds the share of each level among its rows, so a level that one row has would show as 1/n. What is sent are
shares of a group in which no such level is left. If no level of the group is common, all its cells count as missing:
were they `other`, the group would be unlike every row. Else rows of rare levels count as `other`, if the column has
that level and enough rows have it then; as missing, if they are enough for that to be told; and else as the most common
level. So a level that fewer rows have than the floor asks for looks like one that none has.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from kfed._base.array import Array
from kfed.device.floor.level_holders import Holders
from kfed.device.observed import CellSums, ObservedCells
from kfed.wire import OTHER, FeatureSchema, agreed_scale, features_by_column


@dataclass(frozen=True)
class LevelFeatures:
    """The features of a category, or of a column of two values; `other` is the place of that level among them."""

    features: slice
    other: int | None = None
    low: float = 0.0
    high: float = 1.0


def with_common_levels(
    sums: CellSums,
    columns: Sequence[LevelFeatures],
    values: Array,
    cells: ObservedCells,
    labels: Array,
    schema: FeatureSchema,
    least: int,
    whose: Array | None,
) -> CellSums:
    """The same sums as they are sent: levels of fewer than `least` rows, or ids, of a group count as others.

    Parameters
    ----------
    sums : CellSums
    columns : sequence of LevelFeatures
        See `levelled`.
    values : array of shape (n_rows, n_features)
        In the units of the table.
    labels : array of int, shape (n_rows,)
        The group of each row, or -1.
    whose : array of int, shape (n_rows,), optional
        The id of each row.
    """
    if least == 1 or not columns:
        return sums
    told = replace(sums, **{name: getattr(sums, name).copy() for name in ("observed", "means", "squares")})
    scale, holders = agreed_scale(schema), Holders.of(values, least, whose)
    for cluster in range(len(sums.counts)):
        members = np.flatnonzero((labels == cluster) & (cells.weights > 0))
        for column in columns:
            features = column.features
            own = members[cells.is_there[members, features.start]]
            common = _common(_codes(values[own, features], column), own, holders, column.other)
            # Also where no level is rare: else the last bits would tell of it.
            total, shares = _shares(common, cells.weights[own], features.stop - features.start)
            told.observed[cluster, features] = total
            apart = column.high - column.low
            means = column.low + shares * apart
            told.means[cluster, features] = (means - scale.shift[features]) / scale.scale[features]
            told.squares[cluster, features] = total * shares * (1 - shares) * (apart / scale.scale[features]) ** 2
    told.means[told.observed == 0] = 0
    return told


def common_values(
    columns: Sequence[LevelFeatures], values: Array, labels: Array, weights: Array, least: int, whose: Array | None
) -> Array:
    """The values that `with_common_levels` sums: NaN where a level counts as missing. The arguments are the same."""
    told, holders = values.copy(), Holders.of(values, least, whose)
    for cluster in np.unique(labels[labels >= 0]) if least > 1 else ():
        members = np.flatnonzero((labels == cluster) & (weights > 0))
        for column in columns:
            own = members[~np.isnan(values[members, column.features.start])]
            common = _common(_codes(values[own, column.features], column), own, holders, column.other)
            n_features = column.features.stop - column.features.start
            levels = [column.low, column.high] if n_features == 1 else np.eye(n_features)
            shown = np.reshape(levels, (-1, n_features))[common]
            told[own, column.features] = np.where(common[:, None] < 0, np.nan, shown)
    return told


def levelled(schema: FeatureSchema, values: Array) -> Iterator[LevelFeatures]:
    """The features of each category and flag, and of numbers and dates of which the column has no more than two."""
    for column, features in zip(schema.columns or (), features_by_column(schema), strict=True):
        if column.kind == "category" and column.levels:
            yield LevelFeatures(features, column.levels.index(OTHER) if OTHER in column.levels else None)
        elif column.kind == "flag":
            yield LevelFeatures(features)
        elif column.kind in ("number", "date") and (two := two_values(values[:, features.start])) is not None:
            yield LevelFeatures(features, None, *two)


def two_values(numbers: Array) -> tuple[float, float] | None:
    """The two values of a column, 0 and 1 if it holds no other; None if it has one alone, or more.

    Missing cells are NaN. The first rows tell it of most columns.
    """
    for part in (numbers[:100], numbers):
        known = part[~np.isnan(part)]
        low, high = known.min(initial=np.inf), known.max(initial=-np.inf)
        if not ((known == low) | (known == high)).all():
            return None
    if low >= high:
        return (0.0, 1.0) if low in (0, 1, np.inf) else None
    return float(low), float(high)


def _codes(values: Array, column: LevelFeatures) -> Array:
    """The level of each row; of two values, 0 or 1."""
    is_one = values.shape[1] == 1
    return (values[:, 0] == column.high).astype(np.intp) if is_one else np.asarray(values.argmax(axis=1))


def _common(codes: Array, rows: Array, holders: Holders, other: int | None) -> Array:
    """The level that each row counts as, -1 for none; `rows` has their positions in the table."""
    of_each = [rows[codes == level] for level in range(codes.max(initial=-1) + 1)]
    is_rare = np.array([len(own) > 0 and not holders.are_enough(own) for own in of_each], bool)
    if not is_rare.any():
        return codes
    rare = is_rare[codes]
    if rare.all():
        return np.full_like(codes, -1)
    if other is not None and holders.are_enough(rows[rare | (codes == other)]):
        return np.where(rare, other, codes)
    if holders.are_enough(rows[rare]):
        return np.where(rare, -1, codes)
    held = [0 if gone else holders.count(own) for own, gone in zip(of_each, is_rare, strict=True)]
    return np.where(rare, int(np.argmax(held)), codes)


def _shares(codes: Array, weights: Array, n_features: int) -> tuple[float, Array]:
    """The weight of the rows with a level, and the share of each level; of two values, that of the higher."""
    masses = np.bincount(codes[codes >= 0], weights[codes >= 0], minlength=max(2, n_features))
    total = float(masses.sum())
    shares = masses / total if total > 0 else masses
    return total, shares[-n_features:]
