"""`ToldCells`: the cells of a device that its first message speaks of, and sums over them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from kfed._base import checks, pool
from kfed._base.array import Array
from kfed.device.clustering import LocalClustering
from kfed.device.floor.cell_floor import counted_rows, numbers_of
from kfed.device.floor.distinct_rows import ALIKE
from kfed.device.floor.level_floor import common_values, levelled
from kfed.errors import InvalidInputError
from kfed.wire import FeatureSchema, agreed_scale

BLOCK_ELEMENTS = 2**20


@dataclass(frozen=True, eq=False)
class CellMoments:
    """Sums over the told cells of each cluster, (n_clusters, n_features), and over its rows, (n_clusters,)."""

    observed: Array
    means: Array
    squares: Array
    counts: Array
    n_rows: Array
    distances: Array  # (n_rows,) squared, of each told row to the mean of its cluster


@dataclass(frozen=True, eq=False)
class ToldCells:
    """The rows behind the centers that a device has sent, and which cells of them these centers average."""

    values: Any  # (n_rows, n_features), dense or sparse, in the units of the centers
    is_told: Array | None  # (n_rows, n_features); None if all cells are
    weights: Array  # (n_rows,)
    whose: Array  # (n_rows,), a number for each person, or for each different row
    is_person: bool  # whether they are the ids of people
    labels: Array  # (n_rows,), local clusters
    positions: Array  # (n_rows,), which of all rows these are
    levels: Array  # (n_rows, n_levels), which rows have each level of a category, or value of a flag
    numbers: Array  # (n_numbers,), the columns of numbers that are no flags

    @classmethod
    def of(cls, local: LocalClustering, points: Any, sample_weight: Any, ids: Any, floor: int) -> ToldCells:
        """Find them again, given the points that were clustered."""
        weights = np.ones(local.n_points) if sample_weight is None else np.asarray(sample_weight, np.float64)
        told = ~local.withheld[local.labels] & (weights > 0)
        is_there: Array | None = None
        levels, numbers = np.empty((local.n_points, 0), bool), np.empty(0, np.intp)
        if local.columns is None:
            values = checks.finite_table(points, "points")
            _check_shape(values, local)
        else:
            values, counted, levels, numbers = _table_cells(local, local.columns.schema, points, weights, ids, floor)
            told &= counted
            is_there = ~np.isnan(values) & ~local.columns.withheld[local.labels]
        own = values[told]
        cells = None if is_there is None or is_there[told].all() else is_there[told]
        whose = _alike(own) if ids is None else np.unique(np.asarray(ids)[told], return_inverse=True)[1]
        about = (ids is not None, local.labels[told], np.flatnonzero(told), levels[told], numbers)
        return cls(own, cells, weights[told], whose, *about)

    def check(self, local: LocalClustering) -> None:
        """Raise if these are not the cells that were clustered: a message about others would tell what changed."""
        found = self.moments(self.labels, local.n_local_clusters)
        sent = ~local.withheld
        centers = local.centers if local.columns is None else local.columns.told(local.centers)
        is_known = found.observed[sent] > 0
        apart = np.where(is_known, np.abs(found.means - centers)[sent], 0)
        sizes = np.where(is_known, np.abs(centers)[sent], 0).max(axis=0, initial=0)
        spreads = np.sqrt(found.squares.sum(axis=0) / max(len(self.labels), 1))
        tolerance = np.sqrt(np.finfo(local.centers.dtype).eps) * (sizes + spreads)
        if not np.allclose(found.counts[sent], local.counts[sent], rtol=1e-6) or (apart > tolerance).any():
            raise InvalidInputError(
                "points must be those that were clustered, with the same weights and on the same scale; a second "
                "message about other rows would tell which rows changed"
            )

    def moments(self, labels: Array, n_clusters: int) -> CellMoments:
        """Means, and squares about them, of the told cells of each label."""
        shape = (n_clusters, self.values.shape[1])
        observed, sums, squares = np.zeros((3, *shape))
        for block, part, told in self._blocks():
            members = _members(labels[block], self.weights[block], n_clusters)
            sums += members @ part
            observed += (members @ told) if told is not None else np.asarray(members.sum(axis=1)).reshape(-1, 1)
        means = sums / np.where(observed > 0, observed, 1)
        distances = np.empty(len(labels))
        for block, part, told in self._blocks():
            apart = np.square(part - means[labels[block]])
            apart = apart if told is None else np.where(told, apart, 0)
            squares += _members(labels[block], self.weights[block], n_clusters) @ apart
            distances[block] = apart.sum(axis=1)
        counts = np.bincount(labels, self.weights, minlength=n_clusters)
        return CellMoments(observed, means, squares, counts, np.bincount(labels, minlength=n_clusters), distances)

    def _blocks(self) -> Iterator[tuple[slice, Array, Array | None]]:
        """Rows in double precision, 0 where a cell is not told."""
        for block in pool.blocks(self.values.shape[0], max(64, BLOCK_ELEMENTS // self.values.shape[1])):
            part = self.values[block].toarray() if checks.is_sparse(self.values) else self.values[block]
            told = None if self.is_told is None else self.is_told[block]
            part = part.astype(np.float64)
            yield block, part if told is None else np.where(told, part, 0), told


def _table_cells(
    local: LocalClustering, schema: FeatureSchema, points: Any, weights: Array, ids: Any, floor: int
) -> tuple[Array, Array, Array, Array]:
    """Cells as the message counts them, in the units of the centers; which rows count; levels; columns of numbers."""
    values = np.asarray(points, np.float64)
    _check_shape(values, local)
    counted = counted_rows(~np.isnan(values), schema)
    whose = None if ids is None else np.unique(np.asarray(ids), return_inverse=True)[1]
    columns = list(levelled(schema, values))
    values = common_values(columns, values, np.where(counted, local.labels, -1), weights, floor, whose)
    shown = [values[:, column.features] == column.high for column in columns]
    shown += [cells == column.low for column in columns if (cells := values[:, column.features]).shape[1] == 1]
    numbers = np.setdiff1d(numbers_of(schema), np.array([column.features.start for column in columns], np.intp))
    levels = np.concatenate([np.empty((len(values), 0), bool), *shown], axis=1)
    return agreed_scale(schema).apply(values) if schema.scaling == "agreed" else values, counted, levels, numbers


def _check_shape(points: Any, local: LocalClustering) -> None:
    if points.shape != (local.n_points, local.n_features):
        raise InvalidInputError(
            f"points must be those that were clustered, of shape ({local.n_points}, {local.n_features}); "
            f"got shape {points.shape}"
        )


def _alike(values: Any) -> Array:
    """A number for each different row; rows that cannot be told apart by a sum of their columns have the same."""
    # As in `distinct_rows`: if the sums differ by more than that of the factors, the rows differ in some column.
    filled = values if checks.is_sparse(values) else np.nan_to_num(values)
    sizes = abs(filled).max(axis=0)
    sizes = np.asarray(sizes.toarray() if checks.is_sparse(sizes) else sizes, np.float64).reshape(-1)
    factors = 0.5 + np.modf(np.arange(1, len(sizes) + 1) * 0.6180339887498949)[0]
    sums = np.asarray(filled @ np.divide(factors, ALIKE * sizes, out=np.zeros(len(sizes)), where=sizes > 0))
    order = np.argsort(sums, kind="stable")
    numbers = np.zeros(len(sums), np.int64)
    numbers[order[1:]] = np.cumsum(np.diff(sums[order]) > factors.sum())
    return numbers


def _members(labels: Array, weights: Array, n_clusters: int) -> Any:
    from scipy.sparse import csc_array

    return csc_array((weights, labels, np.arange(len(labels) + 1)), shape=(n_clusters, len(labels)))
