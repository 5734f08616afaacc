"""The cells of a table that are filled: distances, means and sums over them alone."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from kfed._base import pool
from kfed._base.array import Array
from kfed.wire import CommonScale

ROWS_AT_ONCE = 2**14

MANY_CELLS = 2**23
"""From so many cells on, rows are compared in single precision: cells on their own scale need no more, and a table of a
million rows fits into less memory. What is sent is computed in double precision."""


@dataclass(frozen=True)
class ObservedCells:
    """The cells of all rows on the device's own scale."""

    filled: Array  # (n_rows, n_features), 0 where a cell is missing
    is_there: Array  # (n_rows, n_features)
    weights: Array  # (n_rows,)

    @classmethod
    def of(cls, values: Array, scale: CommonScale, sample_weight: Array | None) -> ObservedCells:
        """The cells of rows that are NaN where a cell is missing; those of a large table in single precision."""
        filled = np.empty(values.shape, np.float32 if values.size >= MANY_CELLS else np.float64)
        is_there = np.empty(values.shape, bool)
        for block in pool.blocks(len(values), ROWS_AT_ONCE):
            is_there[block] = ~np.isnan(values[block])
            filled[block] = np.where(is_there[block], scale.apply(values[block]), 0)
        weights = np.ones(len(values)) if sample_weight is None else np.asarray(sample_weight, np.float64)
        return cls(filled, is_there, weights)

    @property
    def are_complete(self) -> bool:
        """Whether no cell is missing."""
        return bool(self.is_there.all())

    def select(self, rows: Array) -> ObservedCells:
        """Only these rows."""
        if rows.all():
            return self
        return ObservedCells(self.filled[rows], self.is_there[rows], self.weights[rows])

    def nearest(self, centers: Array) -> Array:
        """The center nearest to each row in its observed cells, (n_rows,)."""
        nearest = np.empty(len(self.filled), np.intp)
        for block in pool.blocks(len(nearest), ROWS_AT_ONCE):
            # |x - c|^2 over the observed cells, but for |x|^2: the same for all centers, it changes no argmin.
            apart = self.is_there[block] @ (centers**2).T - 2 * (self.filled[block] @ centers.T)
            nearest[block] = apart.argmin(axis=1)
        return nearest

    def means(self, labels: Array, otherwise: Array) -> Array:
        """Weighted means of the observed cells of each label, and `otherwise` where there are none."""
        sums = tally(self.filled, self, labels, len(otherwise))
        return np.where(sums.observed > 0, sums.means, otherwise)


@dataclass(frozen=True)
class CellSums:
    """Sums over the cells behind each center, (n_clusters, n_features), and over its rows, (n_clusters,)."""

    observed: Array
    means: Array
    squares: Array
    counts: Array
    rows: Array


def tally(values: Array, cells: ObservedCells, labels: Array, n_clusters: int) -> CellSums:
    """Tally the observed cells of the rows of each label; rows of label -1 and NaN have no part in it."""
    shape = (n_clusters, values.shape[1])
    sums = CellSums(*np.zeros((3, *shape)), *np.zeros((2, n_clusters)))
    order = np.argsort(labels, kind="stable")
    edges = np.searchsorted(labels, np.arange(n_clusters + 1), sorter=order)
    for cluster, (first, last) in enumerate(pairwise(edges)):
        sums.rows[cluster] = np.count_nonzero(cells.weights[order[first:last]])
        blocks = np.array_split(order[first:last], max(1, (last - first) // ROWS_AT_ONCE))
        for own in blocks:
            weights = cells.weights[own, None] * cells.is_there[own]
            sums.counts[cluster] += cells.weights[own].sum()
            sums.observed[cluster] += weights.sum(axis=0)
            sums.means[cluster] += (weights * np.where(cells.is_there[own], values[own], 0)).sum(axis=0)
        sums.means[cluster] /= np.maximum(sums.observed[cluster], 1e-300)
        for own in blocks:
            apart = np.where(cells.is_there[own], values[own] - sums.means[cluster], 0)
            sums.squares[cluster] += (cells.weights[own, None] * apart**2).sum(axis=0)
    return sums
