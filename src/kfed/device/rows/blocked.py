"""`BlockedRows`: one large device, processed in blocks that the workers share."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from kfed._base import pool
from kfed._base.array import Array
from kfed.device.rows.dense import DenseRows
from kfed.device.rows.norms import root_of_largest
from kfed.device.rows.rows import Result, Rows

BLOCK_BYTES = 2**21
"""Bytes of points in a block, few enough to stay in the cache; with many centers, an eighth of their distances."""


class BlockedRows(Rows):
    """One large device; blocks do not depend on the number of workers, so neither do the results."""

    def __init__(self, points: Array, weights: Array, n_jobs: int | None = None, n_clusters: int = 1) -> None:
        self.points = points  # (n_points, n_features)
        self.weights = weights  # (1, n_points)
        self.n_features = int(points.shape[1])
        self._n_jobs, self._n_clusters = n_jobs, n_clusters
        self._rows_per_block = max(1, BLOCK_BYTES // (points.itemsize * max(self.n_features, n_clusters // 8)))

    def like(self, points: Array, weights: Array) -> BlockedRows:
        """Other points of this device, with the same settings."""
        return BlockedRows(points, weights, self._n_jobs, self._n_clusters)

    def map_blocks(self, function: Callable[[slice], Result]) -> list[Result]:
        """See `Rows.map_blocks`."""
        return list(pool.map_in_order(function, pool.blocks(self.n_points, self._rows_per_block), self._n_jobs))

    def part(self, block: slice) -> DenseRows:
        """See `Rows.part`."""
        return DenseRows(self.points[None, block], self.weights[:, block])

    def along(self, vectors: Array, out: Array | None = None) -> Array:
        """See `Rows.along`."""
        products = np.empty((1, vectors.shape[1], self.n_points), self.dtype) if out is None else out

        def fill(block: slice) -> None:
            self.part(block).along(vectors, out=products[:, :, block])

        self.map_blocks(fill)
        return products

    def total(self, weights: Array) -> Array:
        """See `Rows.total`."""
        return self._sum(lambda block: self.part(block).total(weights[:, :, block]))

    def take(self, indices: Array) -> Array:
        """See `Rows.take`."""
        return np.asarray(self.points[indices])

    def _points_of(self, devices: Array, points: Array) -> Array:  # noqa: ARG002
        return np.asarray(self.points[points])

    def second_moments(self) -> Array:
        """See `Rows.second_moments`."""
        return self._sum(lambda block: self.part(block).second_moments())

    def inner_products(self) -> Array:
        """See `Rows.inner_products`."""
        return np.asarray(np.matmul(self.points, self.points.T)[None])

    def squared_residuals(self, centers: Array, labels: Array, excess: Array | None = None) -> Array:  # noqa: ARG002
        """See `Rows.squared_residuals`."""
        parts = self.map_blocks(lambda block: self.part(block).squared_residuals(centers, labels[:, block]))
        return np.concatenate(parts, axis=1)

    def residual_norm(self, centers: Array, labels: Array, weights: Array) -> Array:
        """See `Rows.residual_norm`."""
        if self.n_features > self.n_points:
            return DenseRows(self.points[None], self.weights).residual_norm(centers, labels, weights)
        return root_of_largest(self.residual_moments(centers, labels, weights))

    def residual_moments(self, centers: Array, labels: Array, weights: Array) -> Array:
        """See `Rows.residual_moments`."""
        return self._sum(lambda block: self._residual_moments(centers, labels, weights, block))

    def _residual_moments(self, centers: Array, labels: Array, weights: Array, block: slice) -> Array:
        residuals = self.points[block] - centers[0, labels[0, block]]
        return np.asarray(np.matmul(residuals.T, residuals * weights[0, block, None])[None])

    def _sum(self, function: Callable[[slice], Array]) -> Array:
        """Sum results over the blocks, in order and in double precision."""
        total: Array = sum(part.astype(np.float64) for part in self.map_blocks(function))  # type: ignore[assignment]
        return total.astype(self.dtype)
