"""What may be told of the columns of a table: the floor of decision 0001, cell by cell."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from kfed._base.array import Array
from kfed.device.distinct_rows import have_enough_ids
from kfed.device.observed import ObservedCells
from kfed.errors import InvalidInputError
from kfed.wire import FeatureSchema, features_by_column

MOST_OF_ONE = 0.5
"""An average is not sent if one cell has a larger share of the sum of all cells behind it, by size."""

LEAST_OBSERVED = 0.5
"""A row with a smaller share of its columns observed is labelled, but not counted."""

ON_CENTER = 1e-9
"""A cell is at the center of its cluster if it is no farther from it, in standard deviations."""


def counted_rows(is_there: Array, schema: FeatureSchema) -> Array:
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


def is_dominated(values: Array, labels: Array, schema: FeatureSchema, shape: tuple[int, int]) -> npt.NDArray[np.bool_]:
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


def support(cells: ObservedCells, labels: Array, n_clusters: int, whose: Array | None) -> Array:
    """Rows, or different ids, with a filled cell behind each value of a center, (n_clusters, n_features)."""
    found = np.zeros((n_clusters, cells.filled.shape[1]))
    for cluster in range(n_clusters):
        own = (labels == cluster) & (cells.weights > 0)
        is_there = cells.is_there[own]
        if whose is None:
            found[cluster] = is_there.sum(axis=0)
        else:
            found[cluster] = [len(np.unique(whose[own][filled])) for filled in is_there.T]
    return found


def too_few(
    cells: ObservedCells, counted: Array, labels: Array, counts: Array, min_cluster_size: int, whose: Array | None
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


def told(n_rows: int, min_cluster_size: int) -> int | None:
    """A number of rows, unless it is one of too few."""
    return None if 0 < n_rows < min_cluster_size else n_rows
