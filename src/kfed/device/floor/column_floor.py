"""What may be told of the columns of a whole table, before any round: the rules of decision 0001, column by column."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from kfed._base.array import Array
from kfed.device.columns import own_scale
from kfed.device.floor.cell_floor import CellSupport, is_dominated
from kfed.device.floor.level_floor import common_values, levelled
from kfed.device.floor.level_holders import Holders
from kfed.device.floor.pooled_sums import POOLED
from kfed.device.observed import ObservedCells
from kfed.wire import FeatureSchema, features_by_column

ENOUGH_TO_TELL = 1000


def told_columns(
    values: Array, schema: FeatureSchema, weights: Array, ids: Sequence[str] | Array | None, least: int
) -> tuple[Array, npt.NDArray[np.bool_]]:
    """The cells that means and spreads may be taken of, and which features nothing may be told of, (n_features,).

    Levels, and numbers or dates beside one that nearly all rows have, count as if no row had them where fewer than
    `least` rows, or ids, do. Nothing is told of a column with too few cells, with cells of too few different rows or
    ids, or with one cell, row or id that makes up most of it.

    Parameters
    ----------
    values : array of shape (n_rows, n_features)
        NaN where a cell is missing.
    ids : sequence, optional
        Whose each row is.
    """
    if least == 1:
        return values, np.zeros(values.shape[1], bool)
    whose = None if ids is None else np.unique(np.asarray(ids), return_inverse=True)[1]
    labels = np.zeros(len(values), np.intp)
    told = common_values(list(levelled(schema, values)), values, labels, weights, least, whose)
    holders = Holders.of(values, least, whose)
    measured = [
        features.start
        for column, features in zip(schema.columns or (), features_by_column(schema), strict=True)
        if column.kind in ("number", "date")
    ]
    for feature in measured:
        told[:, feature] = _without_few(told[:, feature], holders)
    cells = ObservedCells.of(values, own_scale(values, schema), weights)
    ones = np.ones((1, values.shape[1]))  # a standard deviation, for tolerances
    support = CellSupport.of(cells, labels, ones, least, whose)
    hidden = support.is_weak[0] | (support.behind[0] < POOLED * least)
    hidden |= np.count_nonzero(~np.isnan(told), axis=0) < POOLED * least
    return told, hidden | _are_dominated(told, weights, labels, np.array(measured, np.intp))


def _are_dominated(told: Array, weights: Array, labels: Array, measured: Array) -> npt.NDArray[np.bool_]:
    """Features of which one cell is most of the sum, or most of what cells differ from the middle one."""
    shape = (1, told.shape[1])
    dominated = is_dominated(told, weights, labels, measured, shape)[0]
    for feature in measured[~np.isnan(told[:, measured]).all(axis=0)]:
        apart = told[:, [feature]] - np.nanmedian(told[:, feature])
        dominated[feature] |= is_dominated(apart, weights, labels, np.array([0]), (1, 1))[0, 0]
    return np.asarray(dominated)


def _without_few(cells: Array, holders: Holders) -> Array:
    """A column; if fewer than `least` rows, or ids, have anything but its most common value, as if none had."""
    is_there = ~np.isnan(cells)
    known = cells[is_there]
    if not len(known) or (holders.whose is None and len(np.unique(known[:ENOUGH_TO_TELL])) > holders.least):
        return cells  # then at least as many rows have another value
    values, places, counts = np.unique(known, return_inverse=True, return_counts=True)
    others = np.flatnonzero(is_there)[places.reshape(-1) != counts.argmax()]
    return cells if holders.are_enough(others) else np.where(is_there, values[counts.argmax()], np.nan)
