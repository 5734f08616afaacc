"""A clustering problem with its target clusters: norm(A - C), and which points fail the proximity condition.

It is the problem of the whole network, or the local one of a device, with its own means, sizes and norm.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np

from kfed._base import checks, pool
from kfed._base.array import Array
from kfed.device import BlockedRows, Rows, SparseRows, scores
from kfed.theory import WIDE, cluster_means, distances_of, largest_eigenvalue, proximity_gaps

_BLOCK_ELEMENTS = 2**20


class Problem:
    """Points and a target cluster for each, from 0 to n_clusters - 1."""

    def __init__(self, points: Any, labels: Array, n_clusters: int, n_jobs: int | None = None) -> None:
        self.points = points  # (n_points, n_features), dense or CSR
        self.labels = labels  # (n_points,)
        self.n_clusters = n_clusters
        self._n_jobs = n_jobs

    @cached_property
    def sizes(self) -> Array:
        """n_r, (n_clusters,)."""
        return np.bincount(self.labels, minlength=self.n_clusters)

    @cached_property
    def means(self) -> Array:
        """mu_r in double precision, (n_clusters, n_features)."""
        return cluster_means(self.points, self.labels, np.ones(len(self.labels)), self.n_clusters)

    @cached_property
    def distances(self) -> Array:
        """Distances of the means, (n_clusters, n_clusters)."""
        return distances_of(self.means)

    @cached_property
    def spectral_deviation(self) -> float:
        """norm(A - C). The matrix A - C is formed for small problems only."""
        rows, means, labels = _rows(self.points, self._n_jobs), self.means, self.labels
        if checks.is_sparse(self.points) or min(self.points.shape) <= WIDE:
            return float(rows.residual_norm(means[None], labels[None], rows.weights)[0])

        def times(vector: Array) -> Array:  # (A - C)^T (A - C) vector
            along = rows.along(vector[None, None])[0, 0] - (means @ vector)[labels]
            back = rows.total(along[None, None])[0, 0]
            return np.asarray(back - means.T @ np.bincount(labels, along, minlength=self.n_clusters))

        return float(np.sqrt(largest_eigenvalue(times, self.points.shape[1])))

    def fails_proximity(self) -> Array:
        """Whether each point fails the proximity condition with respect to some cluster, (n_points,).

        Projected on the line through the means of its own cluster s and of another r, the point must be nearer to mu_s
        than to mu_r by the gap g_rs. With L_rs the distance of the means, it is nearer by the difference of its squared
        distances to them over L_rs, but never by more than L_rs.
        """
        gaps = proximity_gaps(self.spectral_deviation, self.sizes)
        needed = np.where(self.distances >= gaps, gaps * self.distances, np.inf)  # of the difference of squares
        np.fill_diagonal(needed, -np.inf)
        origin = (self.sizes @ self.means)[None] / len(self.labels)

        def of_block(block: slice) -> Array:
            squares = scores(_rows(self.points[block]), self.means[None], origin)[0].T  # up to a constant of the point
            labels = self.labels[block]
            own = squares[np.arange(len(labels)), labels]
            return np.asarray((squares - own[:, None] < needed[labels]).any(axis=1))

        blocks = pool.blocks(len(self.labels), max(1, _BLOCK_ELEMENTS // max(self.n_clusters, self.points.shape[1])))
        return np.concatenate(list(pool.map_in_order(of_block, blocks, self._n_jobs)))


def _rows(points: Any, n_jobs: int | None = None) -> Rows:
    weights = np.ones((1, points.shape[0]))
    return SparseRows(points, weights) if checks.is_sparse(points) else BlockedRows(points, weights, n_jobs)
