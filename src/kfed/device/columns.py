"""Algorithm 1 on the columns of a table: each on its own scale, over the cells that are there.

Lloyd on observed cells: a row is as far from a center as its observed cells say, and a center has in each column the
mean of the cells that were observed there. Both steps lower the same sum of squares over observed cells, so it ends.
These are the steps of k-POD (Chi, Chi and Baraniuk, "k-POD: a method for k-means clustering of missing data", 2016).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from kfed._base import pool
from kfed._base.array import Array, readonly
from kfed._base.random import RandomState
from kfed.device.choosing import MAX_LOCAL_CLUSTERS
from kfed.device.cluster import check_max_bytes, cluster_device
from kfed.device.clustering import LocalClustering
from kfed.device.facts import ColumnFacts
from kfed.device.floor.cell_floor import (
    LEAST_OBSERVED,
    CellSupport,
    counted_rows,
    is_dominated,
    numbers_of,
    share_filled,
    squares_to_send,
    told,
    too_few,
)
from kfed.device.floor.level_floor import levelled, with_common_levels
from kfed.device.observed import ROWS_AT_ONCE, CellSums, ObservedCells, tally
from kfed.device.private.privacy import Privacy
from kfed.device.settings import MAX_ITERATIONS, MIN_CLUSTER_SIZE
from kfed.device.summaries.summary import fitting, under_long_name
from kfed.errors import InvalidInputError
from kfed.wire import MAX_VALUE, CommonScale, FeatureSchema, agreed_scale, features_by_column

FAR_CELLS = 3.0
"""Cells farther from the median than this many interquartile ranges do not stretch the scale of their column."""


SAME_MEAN = 1e-3
"""Means that differ by less than this share of size and spread are the same, but for rounding."""

SAMPLED_ROWS = 10_000
"""Quartiles are those of about so many rows: they only have to tell which cells are far away."""


def cluster_columns(
    values: Array,
    schema: FeatureSchema,
    n_local_clusters: int | Literal["auto"] | None = None,
    *,
    sample_weight: Array | None = None,
    ids: Any = None,
    random_state: RandomState = None,
    device_id: str = "",
    min_cluster_size: int = MIN_CLUSTER_SIZE,
    privacy: Privacy | None = None,
    max_bytes: int | None = None,
    **options: Any,
) -> LocalClustering:
    """Cluster the rows of a table.

    Parameters
    ----------
    values : array of shape (n_rows, n_features)
        The features of `schema`, in the units of the table; NaN where a cell is missing.
    schema : FeatureSchema
        With an agreed scale, centers are on that scale; otherwise in the units of the table.
    n_local_clusters, sample_weight, ids, random_state, device_id, min_cluster_size, privacy, max_bytes, **options
        As in `cluster_device`.

    Returns
    -------
    LocalClustering
        Its `columns` says how many cells were observed behind each value of a center, and how they spread. With
        `privacy`, it is None, and a missing cell is taken to be at the agreed shift of its column: what
        other rows have there must not matter.
    """
    check_max_bytes(max_bytes, n_local_clusters, privacy)
    if privacy is not None:
        how: dict[str, Any] = {"sample_weight": sample_weight, "ids": ids, "random_state": random_state}
        return _cluster_privately(values, schema, n_local_clusters, privacy, device_id=device_id, **how)
    rows = TableRows.of(values, schema, sample_weight, ids)
    if n_local_clusters is None:
        options["max_local_clusters"] = _most_centers(rows, min_cluster_size, **options)
    options |= {"random_state": random_state, "device_id": device_id}
    if max_bytes is None:
        return _clustered(rows, n_local_clusters, min_cluster_size, **options)

    def cluster(most: int) -> LocalClustering:
        found = _clustered(rows, None, min_cluster_size, **options | {"max_local_clusters": most})
        return replace(found, max_bytes=max_bytes)

    fitted: LocalClustering = fitting(cluster, under_long_name, options["max_local_clusters"])
    return fitted


def _clustered(
    rows: TableRows, n_local_clusters: int | Literal["auto"] | None, min_cluster_size: int, **options: Any
) -> LocalClustering:
    is_weighted, schema = rows.is_weighted, rows.schema
    found = cluster_device(
        rows.cells.select(rows.counted).filled,
        n_local_clusters,
        sample_weight=rows.cells.weights[rows.counted] if is_weighted else None,
        ids=None if rows.whose is None else rows.whose[rows.counted],
        min_cluster_size=min_cluster_size,
        measure_deviation=False,
        **options,
    )
    labels = _completed(rows.cells, rows.counted, found, fill=schema.missing == "mean")
    sums = tally(rows.in_units, rows.cells, rows.own(labels), found.n_local_clusters)
    columns, withheld = _floored(rows, labels, sums, found.withheld, min_cluster_size, n_local_clusters is None)
    return replace(
        found,
        labels=readonly(labels),
        centers=readonly(sums.means),
        counts=readonly(sums.counts if is_weighted else np.rint(sums.counts).astype(np.int64)),
        sums_of_squares=readonly(sums.squares.sum(axis=1)),
        withheld=readonly(withheld),
        feature_names=schema.names,
        sent=None,
        columns=columns,
    )


def _most_centers(
    rows: TableRows, min_cluster_size: int, max_local_clusters: int = MAX_LOCAL_CLUSTERS, **_options: Any
) -> int:
    """How many centers a summary has: each needs enough cells in a column, of which some are missing."""
    n_cells = rows.cells.is_there[rows.counted].sum() / rows.schema.n_features  # of a column on average
    return max(1, min(max_local_clusters, int(n_cells) // min_cluster_size))


@dataclass(frozen=True, eq=False)
class TableRows:
    """The rows of a table, in its units and on the device's own scale."""

    values: Array  # (n_rows, n_features)
    schema: FeatureSchema
    cells: ObservedCells
    counted: Array  # (n_rows,), whether a row has enough cells to be clustered by
    whose: Array | None  # (n_rows,), the number of the id that a row is of
    is_weighted: bool = False

    @classmethod
    def of(cls, values: Array, schema: FeatureSchema, sample_weight: Array | None, ids: Any) -> TableRows:
        """Check the values, and put them on the scale."""
        largest = float(np.nanmax(np.abs([np.nanmax(values, initial=0), np.nanmin(values, initial=0)])))
        if not largest <= MAX_VALUE:
            raise InvalidInputError(f"values must be finite and at most {MAX_VALUE:g} in size, or missing (NaN)")
        cells = ObservedCells.of(values, own_scale(values, schema), sample_weight)
        whose = None if ids is None else np.unique(np.asarray(ids), return_inverse=True)[1]
        counted = counted_rows(cells.is_there, schema)
        return cls(values, schema, cells, counted, whose, sample_weight is not None)

    @property
    def in_units(self) -> Array:
        """The rows as centers are sent: on the agreed scale, or in the units of the table."""
        return self.cells.filled if self.schema.scaling == "agreed" else self.values

    def own(self, labels: Array) -> Array:
        """The labels of rows that count; -1 for others."""
        return np.where(self.counted, labels, -1)


def _floored(
    rows: TableRows, labels: Array, sums: CellSums, withheld: Array, min_cluster_size: int, is_summary: bool
) -> tuple[ColumnFacts, Array]:
    """Apply the floor cell by cell: what may be sent of each column, and which clusters are withheld altogether."""
    cells, schema, whose, own = rows.cells, rows.schema, rows.whose, rows.own(labels)
    support = CellSupport(np.broadcast_to(sums.rows[:, None], sums.means.shape), np.zeros(sums.means.shape, bool))
    if not cells.are_complete:
        centers = cells.means(own, np.zeros(sums.means.shape))
        support = CellSupport.of(cells, own, centers, min_cluster_size, whose)
        withheld = too_few(cells, own, centers, sums.counts, min_cluster_size, whose)
    levels = list(levelled(schema, rows.values))
    common = with_common_levels(sums, levels, rows.values, cells, own, schema, min_cluster_size, whose)
    numbers = np.setdiff1d(numbers_of(schema), np.array([level.features.start for level in levels], np.intp))
    hidden = withheld[:, None] | support.is_weak | (support.behind < min_cluster_size) | (common.observed == 0)
    squares = squares_to_send(common.squares, support.behind, hidden, min_cluster_size, is_summary)
    hidden |= np.isnan(squares)
    if min_cluster_size > 1:
        hidden |= is_dominated(rows.in_units, cells.weights, own, numbers, hidden.shape)
    withheld = withheld | (share_filled(~hidden, schema) < LEAST_OBSERVED)
    facts = ColumnFacts(
        schema=schema,
        observed=readonly(common.observed),
        squares=readonly(np.where(hidden, 0, squares)),
        withheld=readonly(hidden),
        centers=None if common is sums else readonly(common.means),
        n_left_out=told(int(np.count_nonzero(~rows.counted | withheld[labels])), min_cluster_size),
    )
    return facts, withheld


def are_rows_of_table(found: LocalClustering, values: Array, sample_weight: Array | None = None) -> bool:
    """Whether the means of these rows are the centers of a clustered table: so they were clustered, in this order.

    Parameters
    ----------
    found : LocalClustering
        Made by `cluster_columns`.
    values : array of shape (n_rows, n_features)
    sample_weight : array of shape (n_rows,), optional
    """
    assert found.columns is not None
    if values.shape != (found.n_points, found.n_features):
        return False
    rows = TableRows.of(values, found.columns.schema, sample_weight, None)
    sums = tally(rows.in_units, rows.cells, rows.own(found.labels), found.n_local_clusters)
    spread = np.sqrt(sums.squares / np.maximum(sums.observed, 1e-300)) + np.abs(sums.means)
    is_far = np.abs(sums.means - found.centers) > SAME_MEAN * spread
    return not (is_far & (sums.observed > 0)).any()


def _cluster_privately(
    values: Array, schema: FeatureSchema, n_local_clusters: Any, privacy: Privacy, **options: Any
) -> LocalClustering:
    if schema.scaling != "agreed":
        raise InvalidInputError(
            "a private message needs a schema with the shift and scale of every column, agreed with the other devices; "
            "a scale computed from the rows is not private"
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
    middle, reach = _reach(values, schema)
    moments = np.zeros((3, schema.n_features))
    for block in pool.blocks(len(values), ROWS_AT_ONCE):
        apart = np.clip(values[block] - middle, -reach, reach)  # NaN stays NaN
        is_there = ~np.isnan(apart)
        apart[~is_there] = 0
        moments += is_there.sum(axis=0), apart.sum(axis=0), np.square(apart).sum(axis=0)
    mean, square = moments[1:] / np.maximum(moments[0], 1)
    variances, scale = np.maximum(square - mean**2, 0), np.ones(schema.n_features)
    for features in features_by_column(schema):
        spread = np.sqrt(variances[features].sum())
        scale[features] = spread if spread > 0 else 1.0
    return CommonScale(middle + mean, scale)


def _reach(values: Array, schema: FeatureSchema) -> tuple[Array, Array]:
    """The middle of each column of numbers or dates, and how far from it cells count in full, (n_features,) each."""
    middle, reach = np.zeros(schema.n_features), np.full(schema.n_features, np.inf)
    some = values[:: max(1, len(values) // SAMPLED_ROWS)]
    for column, features in zip(schema.columns or (), features_by_column(schema), strict=True):
        if column.kind in ("number", "date"):
            cells = some[:, features.start]
            cells = cells[~np.isnan(cells)]
            if len(cells):
                low, middle[features], high = np.quantile(cells, [0.25, 0.5, 0.75])
                reach[features] = FAR_CELLS * (high - low) if high > low else np.inf
    return middle, reach


def _completed(cells: ObservedCells, counted: Array, found: LocalClustering, fill: bool) -> Array:
    """The label of every row: by Lloyd on observed cells if some are missing."""
    if len(found.labels) == len(counted) and (cells.are_complete or fill):
        return found.labels
    some, centers, labels = cells.select(counted), found.centers.astype(np.float64), found.labels
    if found.is_summary:  # its small clusters are merged already; another step would undo that
        every = cells.nearest(some.means(labels, centers))
        every[counted] = labels
        return every
    for _ in range(MAX_ITERATIONS):
        centers, before = some.means(labels, centers), labels
        labels = some.nearest(centers)
        if np.array_equal(labels, before):
            break
    return cells.nearest(centers)
