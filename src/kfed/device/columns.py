"""Algorithm 1 on the columns of a table: each on its own scale, over the cells that are there.

Lloyd on observed cells: a row is as far from a center as its observed cells say, and a center has in each column the
mean of the cells that were observed there. Both steps lower the same sum of squares over observed cells, so it ends.
These are the steps of k-POD (Chi, Chi and Baraniuk, "k-POD: a method for k-means clustering of missing data", 2016).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from kfed._base.array import Array, readonly
from kfed._base.random import RandomState
from kfed.device.cluster import cluster_device
from kfed.device.clustering import LocalClustering
from kfed.device.distinct_rows import have_enough_ids
from kfed.device.facts import ColumnFacts
from kfed.device.pooled_sums import sent_sums
from kfed.device.privacy import Privacy
from kfed.device.settings import MAX_ITERATIONS, MIN_CLUSTER_SIZE
from kfed.errors import InvalidInputError
from kfed.wire import CommonScale, FeatureSchema, agreed_scale, features_by_column

LEAST_OBSERVED = 0.5
"""A row with a smaller share of its columns observed is labelled, but not counted."""

ROWS_AT_ONCE = 2**14

MOST_OF_ONE = 0.5
"""An average is not sent if one cell has a larger share of the sum of all cells behind it, by size."""

ON_CENTER = 1e-9
"""A cell is at the center of its cluster if it is no farther from it, in standard deviations."""

FAR_CELLS = 3.0
"""Cells farther from the median than this many interquartile ranges do not stretch the scale of their column."""


def cluster_columns(
    values: Array,
    schema: FeatureSchema,
    n_local_clusters: int | Literal["auto"],
    *,
    sample_weight: Array | None = None,
    ids: Any = None,
    random_state: RandomState = None,
    device_id: str = "",
    min_cluster_size: int = MIN_CLUSTER_SIZE,
    privacy: Privacy | None = None,
    **options: Any,
) -> LocalClustering:
    """Cluster the rows of a table.

    Parameters
    ----------
    values : array of shape (n_rows, n_features)
        The features of `schema`, in the units of the table; NaN where a cell is missing.
    schema : FeatureSchema
        With an agreed scale, centers are on that scale; otherwise in the units of the table.
    n_local_clusters, sample_weight, ids, random_state, device_id, min_cluster_size, privacy, **options
        As in `cluster_device`.

    Returns
    -------
    LocalClustering
        Its `columns` says how many cells were observed behind each value of a center, and how they spread. With
        `privacy`, it is None, and a missing cell is taken to be at the agreed shift of its column: what
        other rows have there must not matter.
    """
    if privacy is not None:
        how: dict[str, Any] = {"sample_weight": sample_weight, "random_state": random_state, "device_id": device_id}
        return _cluster_privately(values, schema, n_local_clusters, privacy, **how)
    scale = own_scale(values, schema)
    cells = _Cells.of(scale.apply(values), sample_weight)
    counted = _counted(cells.is_there, schema)
    whose = None if ids is None else np.unique(np.asarray(ids), return_inverse=True)[1]
    found = cluster_device(
        cells.filled[counted],
        n_local_clusters,
        sample_weight=None if sample_weight is None else cells.weights[counted],
        ids=None if whose is None else whose[counted],
        random_state=random_state,
        device_id=device_id,
        min_cluster_size=min_cluster_size,
        measure_deviation=False,
        **options,
    )
    labels = _completed(cells, counted, found, fill=schema.missing == "mean")
    in_units = cells.filled if schema.scaling == "agreed" else values
    in_units = in_units if cells.are_complete else np.where(cells.is_there, in_units, 0)
    tally = _tally(in_units, cells, np.where(counted, labels, -1), found.n_local_clusters)
    withheld, support = found.withheld, np.broadcast_to(tally.rows[:, None], tally.means.shape)
    if not cells.are_complete:
        support = _support(cells, np.where(counted, labels, -1), found.n_local_clusters, whose)
        withheld = _too_few(cells, counted, labels, tally.counts, min_cluster_size, whose)
    hidden = withheld[:, None] | (support < min_cluster_size)
    squares = sent_sums(tally.squares.T, support.T, ~hidden.T, min_cluster_size).T
    hidden |= np.isnan(squares) | _is_dominated(in_units, np.where(counted, labels, -1), schema, hidden.shape)
    withheld = withheld | hidden.all(axis=1)  # a center of which nothing may be said
    return replace(
        found,
        labels=readonly(labels),
        centers=readonly(tally.means),
        counts=readonly(tally.counts if sample_weight is not None else np.rint(tally.counts).astype(np.int64)),
        sums_of_squares=readonly(tally.squares.sum(axis=1)),
        withheld=readonly(withheld),
        feature_names=schema.names,
        sent=None,
        columns=ColumnFacts(
            schema=schema,
            observed=readonly(tally.observed),
            squares=readonly(np.where(hidden, 0, squares)),
            withheld=readonly(hidden),
            n_unspoken=int(np.count_nonzero(~counted | withheld[labels])),
        ),
    )


def _cluster_privately(
    values: Array, schema: FeatureSchema, n_local_clusters: int | Literal["auto"], privacy: Privacy, **options: Any
) -> LocalClustering:
    if schema.scaling != "agreed":
        raise InvalidInputError(
            "a private message needs a schema with the shift and scale of every column, agreed with the other sites: "
            "what the rows show of their scale is not private"
        )
    filled = np.nan_to_num(own_scale(values, schema).apply(values), nan=0.0)
    found = cluster_device(filled, n_local_clusters, privacy=privacy, **options)
    assert found.private is not None
    return replace(found, feature_names=schema.names, private=replace(found.private, schema=schema))


def own_scale(values: Array, schema: FeatureSchema) -> CommonScale:
    """The agreed scale, or what this device's cells show: mean and standard deviation, unmoved by a few far cells.

    Flags and categories have the scale that `CommonScale.pooled` gives them. A constant column keeps scale 1, so it
    adds nothing to distances.
    """
    if schema.scaling == "agreed":
        return agreed_scale(schema)
    shift, scale = np.zeros(schema.n_features), np.ones(schema.n_features)
    for column, features in zip(schema.columns or (), features_by_column(schema), strict=True):
        shift[features], scale[features] = _spread(values[:, features], column.kind in ("number", "date"))
    return CommonScale(shift, scale)


def _spread(cells: Array, is_number: bool) -> tuple[Array, float]:
    """Mean of the cells of one column, (n_features,), and how far they spread; 1 if they do not."""
    known = cells[~np.isnan(cells).any(axis=1)]
    if not known.size:
        return np.zeros(cells.shape[1]), 1.0
    if is_number:
        low, middle, high = np.quantile(known, [0.25, 0.5, 0.75])
        reach = FAR_CELLS * (high - low)
        known = np.clip(known, middle - reach, middle + reach) if reach > 0 else known
    spread = float(np.sqrt(known.var(axis=0).sum()))
    return known.mean(axis=0), spread if spread > 0 else 1.0


@dataclass(frozen=True)
class _Cells:
    """The cells of all rows on the device's own scale."""

    filled: Array  # (n_rows, n_features), 0 where a cell is missing
    is_there: Array  # (n_rows, n_features)
    weights: Array  # (n_rows,)

    @classmethod
    def of(cls, scaled: Array, sample_weight: Array | None) -> _Cells:
        is_there = ~np.isnan(scaled)
        weights = np.ones(len(scaled)) if sample_weight is None else np.asarray(sample_weight, np.float64)
        return cls(scaled if is_there.all() else np.where(is_there, scaled, 0), is_there, weights)

    @property
    def are_complete(self) -> bool:
        return bool(self.is_there.all())

    def select(self, rows: Array) -> _Cells:
        return _Cells(self.filled[rows], self.is_there[rows], self.weights[rows])

    def nearest(self, centers: Array) -> Array:
        """The center nearest to each row in its observed cells, (n_rows,)."""
        apart = self.is_there @ (centers**2).T - 2 * (self.filled @ centers.T)  # up to a constant per row
        return np.asarray(apart.argmin(axis=1))

    def means(self, labels: Array, otherwise: Array) -> Array:
        """Weighted means of the observed cells of each label, and `otherwise` where there are none."""
        tally = _tally(self.filled, self, labels, len(otherwise))
        return np.where(tally.observed > 0, tally.means, otherwise)


def _counted(is_there: Array, schema: FeatureSchema) -> Array:
    """Rows with enough filled columns to be counted; all rows, if none qualifies."""
    columns = [is_there[:, features] for features in features_by_column(schema)]
    filled = np.mean([own.all(axis=1) if own.shape[1] else np.zeros(len(own), bool) for own in columns], axis=0)
    if schema.missing == "mean":
        return np.ones(len(is_there), bool)
    if schema.missing == "drop":
        filled = np.where(is_there.all(axis=1), 1, 0)
        if not filled.any():
            raise InvalidInputError("no row is complete, so none is left to count; use --missing observed")
    counted = np.asarray(filled >= LEAST_OBSERVED)
    return counted if counted.any() else np.ones(len(is_there), bool)


def _completed(cells: _Cells, counted: Array, found: LocalClustering, fill: bool) -> Array:
    """The label of every row: by Lloyd on observed cells if some are missing."""
    if len(found.labels) == len(counted) and (cells.are_complete or fill):
        return found.labels
    some, centers, labels = cells.select(counted), found.centers.astype(np.float64), found.labels
    for _ in range(MAX_ITERATIONS):
        centers, before = some.means(labels, centers), labels
        labels = some.nearest(centers)
        if np.array_equal(labels, before):
            break
    return cells.nearest(centers)


@dataclass(frozen=True)
class _CellSums:
    """Sums over the cells behind each center, (n_clusters, n_features), and over its rows, (n_clusters,)."""

    observed: Array
    means: Array
    squares: Array
    counts: Array
    rows: Array


def _tally(values: Array, cells: _Cells, labels: Array, n_clusters: int) -> _CellSums:
    """Tally the observed cells of the rows of each label; rows of label -1 have no part in it."""
    shape = (n_clusters, values.shape[1])
    tally = _CellSums(*np.zeros((3, *shape)), *np.zeros((2, n_clusters)))
    order = np.argsort(labels, kind="stable")
    edges = np.searchsorted(labels, np.arange(n_clusters + 1), sorter=order)
    for cluster, (first, last) in enumerate(pairwise(edges)):
        tally.rows[cluster] = np.count_nonzero(cells.weights[order[first:last]])
        blocks = np.array_split(order[first:last], max(1, (last - first) // ROWS_AT_ONCE))
        for own in blocks:
            weights = cells.weights[own, None] * cells.is_there[own]
            tally.counts[cluster] += cells.weights[own].sum()
            tally.observed[cluster] += weights.sum(axis=0)
            tally.means[cluster] += (weights * values[own]).sum(axis=0)
        tally.means[cluster] /= np.maximum(tally.observed[cluster], 1e-300)
        for own in blocks:
            weights = cells.weights[own, None] * cells.is_there[own]
            tally.squares[cluster] += (weights * (values[own] - tally.means[cluster]) ** 2).sum(axis=0)
    return tally


def _is_dominated(values: Array, labels: Array, schema: FeatureSchema, shape: tuple[int, int]) -> npt.NDArray[np.bool_]:
    """Averages of numbers of which a single cell makes up more than half: the average tells that cell."""
    dominated = np.zeros(shape, bool)
    numbers = [
        features.start
        for column, features in zip(schema.columns or (), features_by_column(schema), strict=True)
        if column.kind == "number"
    ]
    for cluster in range(shape[0]):
        sizes = np.abs(values[np.ix_(labels == cluster, numbers)])
        dominated[cluster, numbers] = sizes.max(axis=0, initial=0) > MOST_OF_ONE * sizes.sum(axis=0)
    return dominated


def _support(cells: _Cells, labels: Array, n_clusters: int, whose: Array | None) -> Array:
    """Rows, or different ids, with a filled cell behind each value of a center, (n_clusters, n_features)."""
    support = np.zeros((n_clusters, cells.filled.shape[1]))
    for cluster in range(n_clusters):
        own = (labels == cluster) & (cells.weights > 0)
        is_there = cells.is_there[own]
        if whose is None:
            support[cluster] = is_there.sum(axis=0)
        else:
            support[cluster] = [len(np.unique(whose[own][filled])) for filled in is_there.T]
    return support


def _too_few(
    cells: _Cells, counted: Array, labels: Array, counts: Array, min_cluster_size: int, whose: Array | None
) -> Array:
    """Clusters that would tell of too few rows or ids, as `withholding` decides where no cell is missing."""
    withheld = np.ones(len(counts), bool)
    for cluster in np.unique(labels[counted]):
        own = cells.select(counted & (labels == cluster))
        center = own.means(np.zeros(len(own.weights), np.intp), np.zeros((1, own.filled.shape[1])))
        on_center = (np.abs(own.filled - center) <= ON_CENTER) | ~own.is_there
        n_on_center = np.count_nonzero(on_center.all(axis=1))
        n_distinct = len(np.unique(np.column_stack([own.filled, own.is_there]), axis=0))
        least = min(counts[cluster] / own.weights.max(), np.inf if whose is not None else n_distinct)
        withheld[cluster] = least < min_cluster_size or 0 < n_on_center < min_cluster_size
    if whose is not None:
        enough = have_enough_ids(whose[counted], cells.weights[counted], labels[counted], len(counts), min_cluster_size)
        withheld |= ~np.asarray(enough).reshape(-1)
    return withheld
