"""What may be told of the columns of a table: the floor of decision 0001, cell by cell."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from kfed._base import pool
from kfed._base.array import Array
from kfed.device.distinct_rows import have_enough_ids
from kfed.device.observed import ROWS_AT_ONCE, ObservedCells
from kfed.device.pooled_sums import POOLED, sent_sums
from kfed.errors import InvalidInputError
from kfed.wire import FeatureSchema, features_by_column

MOST_OF_ONE = 0.5
"""An average is not sent if one cell has a larger share of the sum of all cells behind it, by size."""

LEAST_OBSERVED = 0.5
"""A row with a smaller share of its columns observed is labelled, but not counted; and a center of which a smaller
share may be told is not sent: next to the others, it would be a group of its own, at the mean of all."""

ON_CENTER = 1e-9
"""A cell is at the center of its cluster if it is no farther from it, in standard deviations; or by rounding alone."""


def counted_rows(is_there: Array, schema: FeatureSchema) -> Array:
    """Rows with enough filled columns to be counted; all rows, if none qualifies."""
    filled = share_filled(is_there, schema)
    if schema.missing == "mean":
        return np.ones(len(is_there), bool)
    if schema.missing == "drop":
        filled = np.where(is_there.all(axis=1), 1, 0)
        if not filled.any():
            raise InvalidInputError("no row is complete, so none is left to count; use --missing observed")
    counted = np.asarray(filled >= LEAST_OBSERVED)
    return counted if counted.any() else np.ones(len(is_there), bool)


def share_filled(is_there: Array, schema: FeatureSchema) -> Array:
    """The share of columns that are filled in each row, of those that are not empty on this device."""
    columns = [features for features in features_by_column(schema) if features.stop > features.start]
    filled = np.zeros(len(is_there))
    for features in columns:
        filled += is_there[:, features].all(axis=1)
    return filled / max(1, len(columns))


def numbers_of(schema: FeatureSchema) -> list[int]:
    """The features that are columns of numbers."""
    pairs = zip(schema.columns or (), features_by_column(schema), strict=True)
    return [features.start for column, features in pairs if column.kind == "number"]


def is_dominated(values: Array, labels: Array, numbers: Array, shape: tuple[int, int]) -> npt.NDArray[np.bool_]:
    """Averages, in the columns `numbers`, of which a single cell is more than half: the average tells that cell."""
    dominated = np.zeros(shape, bool)
    for cluster in range(shape[0]):
        members = np.flatnonzero(labels == cluster)
        largest, total = np.zeros(len(numbers)), np.zeros(len(numbers))
        for block in pool.blocks(len(members), ROWS_AT_ONCE):
            sizes = np.nan_to_num(np.abs(values[np.ix_(members[block], numbers)]), copy=False)
            largest, total = np.maximum(largest, sizes.max(axis=0)), total + sizes.sum(axis=0)
        dominated[cluster, numbers] = largest > MOST_OF_ONE * total
    return dominated


def squares_to_send(squares: Array, behind: Array, hidden: Array, min_cluster_size: int, is_summary: bool) -> Array:
    """Sums of squares as they are sent, (n_clusters, n_features); NaN in columns with too few cells to send any.

    As in `sent_sums`, column by column; but where the cells behind the averages that are sent are too few, those behind
    averages that are not sent count, too: each that is sent gets its share of the sum over the whole column.
    """
    sent = sent_sums(squares.T, behind.T, ~hidden.T, min_cluster_size, is_summary).T
    for feature in np.flatnonzero(np.isnan(sent).any(axis=0) & (behind.sum(axis=0) >= POOLED * min_cluster_size)):
        freedom = np.maximum(behind[:, feature] - 1, 0)
        sent[:, feature] = squares[:, feature].sum() * freedom / max(freedom.sum(), 1)
    return sent


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
    near = max(ON_CENTER, 16 * float(np.finfo(cells.filled.dtype).eps))
    for cluster in np.unique(labels[counted]):
        own = cells.select(counted & (labels == cluster))
        center = own.means(np.zeros(len(own.weights), np.intp), np.zeros((1, own.filled.shape[1])))[0]
        on_center = _rows_at(center, cells, counted, near)
        are_whole = cells.is_there[on_center].all(axis=1)
        tells_a_row = any(0 < found < min_cluster_size for found in (len(on_center), np.count_nonzero(are_whole)))
        are_many = whose is not None or _are_distinct(own, min_cluster_size)
        is_heavy = counts[cluster] / own.weights.max() < min_cluster_size
        withheld[cluster] = not are_many or is_heavy or tells_a_row
    if whose is not None:
        enough = have_enough_ids(whose[counted], cells.weights[counted], labels[counted], len(counts), min_cluster_size)
        withheld |= ~np.asarray(enough).reshape(-1)
    return withheld


def _rows_at(center: Array, cells: ObservedCells, counted: Array, near: float) -> Array:
    """Positions of counted rows, of any cluster, whose filled cells are all at this center."""
    found = np.flatnonzero(counted)
    for feature in np.argsort(-np.count_nonzero(cells.is_there, axis=0), kind="stable"):
        at = np.abs(cells.filled[found, feature] - center[feature]) <= near
        found = found[at | ~cells.is_there[found, feature]]
        if not len(found):
            break
    return found


def _are_distinct(cells: ObservedCells, least: int) -> bool:
    """Whether at least so many rows differ, in a cell or in which cells are filled; most tables show it at once."""
    found = np.empty((0, 2 * cells.filled.shape[1]))
    for rows in pool.blocks(len(cells.weights), ROWS_AT_ONCE):
        block = np.column_stack([cells.filled[rows], cells.is_there[rows]])
        for part in (block[: 8 * least], block):
            found = np.unique(np.concatenate([found, part]), axis=0)
            if len(found) >= least:
                return True
    return False


def told(n_rows: int, min_cluster_size: int) -> int | None:
    """A number of rows, unless it is one of too few."""
    return None if 0 < n_rows < min_cluster_size else n_rows
