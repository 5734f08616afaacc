"""`SparseRows`: one device in compressed sparse rows (CSR), made dense only if it has few features."""

from __future__ import annotations

from typing import Any

import numpy as np

from kfed._base.array import Array
from kfed.device.rows.blocked import BlockedRows
from kfed.device.rows.rows import Rows, copied

NARROW = 64
"""Sparse rows with at most this many features may be made dense."""


class SparseRows(Rows):
    """One device in compressed sparse rows."""

    def __init__(self, points: Any, weights: Array) -> None:
        self.points = points  # scipy CSR (n_points, n_features)
        self.weights = weights  # (1, n_points)
        self.n_features = int(points.shape[1])

    def along(self, vectors: Array, out: Array | None = None) -> Array:
        """See `Rows.along`."""
        return copied((self.points @ vectors[0].T).T[None], out)

    def total(self, weights: Array) -> Array:
        """See `Rows.total`."""
        return np.ascontiguousarray((self.points.T @ weights[0].T).T)[None]

    def take(self, indices: Array) -> Array:
        """See `Rows.take`."""
        dense: Array = self.points[indices[0]].toarray()
        return dense[None]

    def _points_of(self, devices: Array, points: Array) -> Array:  # noqa: ARG002
        return np.asarray(self.points[points].toarray())

    def second_moments(self) -> Array:
        """See `Rows.second_moments`."""
        weighted = self.points.multiply(self.weights.T).tocsr()
        moments: Array = (self.points.T @ weighted).toarray()
        return moments[None]

    def inner_products(self) -> Array:
        """See `Rows.inner_products`."""
        products: Array = (self.points @ self.points.T).toarray()
        return products[None]

    def squared_residuals(self, centers: Array, labels: Array, excess: Array | None = None) -> Array:  # noqa: ARG002
        """See `Rows.squared_residuals`; from products in double precision, and zero where below their rounding."""
        own = centers[0].astype(np.float64)
        norms = np.asarray(self.points.astype(np.float64).power(2).sum(axis=1)).ravel()
        own_norms = np.einsum("kd,kd->k", own, own)[labels[0]]
        cross = np.take_along_axis(self.points @ own.T, labels[0][:, None].astype(np.intp), axis=1)[:, 0]
        squares = norms - 2 * cross + own_norms
        rounding = 64 * np.finfo(np.float64).eps * (norms + own_norms)
        return np.where(squares > rounding, squares, 0).astype(self.dtype)[None]

    def residual_norm(self, centers: Array, labels: Array, weights: Array) -> Array:
        """See `Rows.residual_norm`; the residuals, which are dense, are formed only if they are narrow."""
        if self.n_features <= NARROW:
            return BlockedRows(self.points.toarray(), self.weights).residual_norm(centers, labels, weights)
        return self._norm_by_lanczos(centers[0].astype(np.float64), labels[0], np.sqrt(weights[0].astype(np.float64)))

    def _norm_by_lanczos(self, centers: Array, labels: Array, roots: Array) -> Array:
        from scipy.sparse.linalg import LinearOperator, svds

        sparse = self.points.astype(np.float64)

        def times(vector: Array) -> Array:
            return np.asarray(roots * (sparse @ vector.ravel() - (centers @ vector.ravel())[labels]))

        def transposed_times(vector: Array) -> Array:
            scaled = roots * vector.ravel()
            by_cluster = np.bincount(labels, scaled, minlength=len(centers))
            return np.asarray(sparse.T @ scaled - centers.T @ by_cluster)

        if self.n_points <= 2:
            residuals = np.stack([transposed_times(unit) for unit in np.eye(self.n_points)])
            return np.atleast_1d(np.linalg.norm(residuals, 2))
        operator = LinearOperator(sparse.shape, matvec=times, rmatvec=transposed_times, dtype=np.float64)
        start = np.random.default_rng(0).standard_normal(min(sparse.shape))
        return np.asarray(svds(operator, k=1, return_singular_vectors=False, v0=start))
