"""What may be told of the columns of a table: the floor of decision 0001, cell by cell."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from kfed._base import pool
from kfed._base.array import Array
from kfed.device.floor.distinct_rows import (
    are_many,
    are_mostly_of_one,
    are_outweighed,
    have_enough_ids,
    n_judged_by,
    tolerances_of,
)
from kfed.device.floor.pooled_sums import POOLED, sent_sums
from kfed.device.observed import ROWS_AT_ONCE, ObservedCells
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
            raise InvalidInputError("every row has a missing cell, so none is left to count; use missing='observed'")
    counted = np.asarray(filled >= LEAST_OBSERVED)
    return counted if counted.any() else np.ones(len(is_there), bool)


def share_filled(is_there: Array, schema: FeatureSchema) -> Array:
    """The share of columns that are filled in each row, of those that are not empty on this device."""
    columns = [features for features in features_by_column(schema) if features.stop > features.start]
    filled = np.zeros(len(is_there))
    for features in columns:
        filled += is_there[:, features].all(axis=1)
    return filled / max(1, len(columns))


def numbers_of(schema: FeatureSchema) -> Array:
    """The features that are columns of numbers."""
    pairs = zip(schema.columns or (), features_by_column(schema), strict=True)
    return np.array([features.start for column, features in pairs if column.kind == "number"], np.intp)


def is_dominated(
    values: Array, weights: Array, labels: Array, numbers: Array, shape: tuple[int, int]
) -> npt.NDArray[np.bool_]:
    """Averages, in the columns `numbers`, of which a single cell is more than half: the average tells that cell."""
    dominated = np.zeros(shape, bool)
    for cluster in range(shape[0]):
        members = np.flatnonzero(labels == cluster)
        largest, total = np.zeros(len(numbers)), np.zeros(len(numbers))
        for block in pool.blocks(len(members), ROWS_AT_ONCE):
            sizes = np.nan_to_num(np.abs(values[np.ix_(members[block], numbers)]), copy=False)
            sizes *= weights[members[block], None]
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


@dataclass(frozen=True)
class CellSupport:
    """What is behind each value of a center where cells are missing, (n_clusters, n_features)."""

    behind: Array  # rows, or different ids, with a filled cell
    is_weak: npt.NDArray[np.bool_]  # whether they are too alike, or mostly one row or one person

    @classmethod
    def of(cls, cells: ObservedCells, labels: Array, centers: Array, least: int, whose: Array | None) -> CellSupport:
        """Count it; rows of label -1 have no part in it."""
        found = cls(np.zeros(centers.shape), np.ones(centers.shape, bool))
        judged_by = np.flatnonzero(labels >= 0)[: n_judged_by(len(labels), least, len(centers))]
        tolerances = tolerances_of(cells.filled[judged_by], centers)
        for cluster in range(len(centers)):
            is_own = (labels == cluster) & (cells.weights > 0)
            own, ids = cells.select(is_own), None if whose is None else whose[is_own]
            found.is_weak[cluster] = rest_on_one(own.is_there, own.weights, ids, least)
            if ids is None:
                found.behind[cluster] = own.is_there.sum(axis=0)
                found.is_weak[cluster] |= ~_have_enough_rows(own, tolerances, least)
            else:
                found.behind[cluster] = [len(np.unique(ids[filled])) for filled in own.is_there.T]
        return found


def rest_on_one(is_there: Array, weights: Array, ids: Array | None, least: int) -> npt.NDArray[np.bool_]:
    """Tell for each column whether one row of a cluster has too much of its weight, or one id more than half of it."""
    held = [weights[filled] for filled in is_there.T]
    totals, heaviest = (np.array([of(own, initial=0) for own in held]) for of in (np.sum, np.max))
    found = are_outweighed(totals, heaviest, least)
    if ids is not None and least > 1:
        largest = [np.bincount(ids[filled], weights[filled]).max(initial=0) for filled in is_there.T]
        found |= are_mostly_of_one(totals, np.array(largest))
    return found


def _have_enough_rows(own: ObservedCells, tolerances: Array, least: int) -> npt.NDArray[np.bool_]:
    """Tell for each column whether the rows of a cluster that are filled there are enough different ones."""
    n_filled = np.count_nonzero(own.is_there, axis=1)
    order = np.argsort(-n_filled, kind="stable")  # a row of few cells is like many others: it comes last
    is_whole = np.asarray(own.is_there.all(axis=0))
    enough = np.zeros(is_whole.shape, np.bool_)
    if is_whole.any():
        enough[is_whole] = are_many(_blocks(own, order, least), tolerances, least)
    for feature in np.flatnonzero(~is_whole):
        filled = order[own.is_there[order, feature]]
        enough[feature] = are_many(_blocks(own, filled, least), tolerances, least)
    return enough


def _blocks(cells: ObservedCells, rows: Array, least: int) -> Iterator[Array]:
    """These rows, NaN where a cell is missing: a few first, since in most tables they differ."""
    for some in (rows[: 8 * least], *(rows[8 * least :][block] for block in pool.blocks(len(rows), ROWS_AT_ONCE))):
        yield np.where(cells.is_there[some], cells.filled[some], np.nan)


def too_few(
    cells: ObservedCells, labels: Array, centers: Array, counts: Array, min_cluster_size: int, whose: Array | None
) -> Array:
    """Clusters of too few rows or ids to be sent, as `withholding` decides where no cell is missing.

    Whether enough of the rows differ is told cell by cell, in `CellSupport`.
    """
    withheld = np.ones(len(counts), bool)
    near = max(ON_CENTER, 16 * float(np.finfo(cells.filled.dtype).eps))
    counted = (labels >= 0) & (cells.weights > 0)
    for cluster in np.unique(labels[counted]):
        on_center = _rows_at(centers[cluster], cells, counted, near)
        members = counted & (labels == cluster)
        tells_a_row = any(
            _n_at(centers[cluster], cells, members, near, filled, whose) < min_cluster_size
            for filled in np.unique(cells.is_there[on_center], axis=0)
        )
        heaviest = cells.weights[labels == cluster].max()
        withheld[cluster] = tells_a_row or bool(are_outweighed(counts[cluster], heaviest, min_cluster_size))
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


def _n_at(center: Array, cells: ObservedCells, members: Array, near: float, filled: Array, whose: Array | None) -> int:
    """How many of these rows, or different ids of theirs, are at the center in all of some cells.

    What so many have in common tells of none of them: of a row without numbers the center shows the ward of its group.
    """
    found = np.flatnonzero(members)
    for feature in np.flatnonzero(filled):
        found = found[cells.is_there[found, feature]]
        found = found[np.abs(cells.filled[found, feature] - center[feature]) <= near]
    return len(found) if whose is None else len(np.unique(whose[found]))


def told(n_rows: int, min_cluster_size: int) -> int | None:
    """A number of rows, or None if so few rows must not be told of."""
    return None if 0 < n_rows < min_cluster_size else n_rows
