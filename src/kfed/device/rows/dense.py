"""`DenseRows`: devices of one padded size, stacked as one batch."""

from __future__ import annotations

from functools import cached_property

import numpy as np

from kfed._base import pool
from kfed._base.array import Array
from kfed.device.rows import small_products
from kfed.device.rows.norms import spectral_norm, squared_lengths
from kfed.device.rows.rows import SMALL_BYTES, Rows

CANCELLED = 2.0**-6
"""A squared distance below this share of the squared lengths that it is computed from is measured directly."""

NEAR = 0.25
"""Residuals with at least this share of the second moments of the points are not formed to get their own."""


class DenseRows(Rows):
    """Devices stacked and padded to one number of rows."""

    def __init__(self, points: Array, weights: Array) -> None:
        self.points = points  # (n_devices, n_points, n_features)
        self.weights = weights
        self.n_features = int(points.shape[2])

    @cached_property
    def squared_lengths(self) -> Array:
        """Squared length of every point, (n_devices, n_points)."""
        return squared_lengths(self.points)

    def along(self, vectors: Array, out: Array | None = None) -> Array:
        """See `Rows.along`."""
        return small_products.along(self.points, vectors, out)

    def total(self, weights: Array) -> Array:
        """See `Rows.total`."""
        return small_products.total(self.points, weights)

    def take(self, indices: Array) -> Array:
        """See `Rows.take`."""
        return _by_device(self.points, indices)

    @property
    def shares_moments(self) -> bool:
        """See `Rows.shares_moments`."""
        return self.needs_moments and self.is_tall

    def second_moments(self) -> Array:
        """See `Rows.second_moments`."""
        return self._own_moments

    @cached_property
    def _own_moments(self) -> Array:
        return _moments(_weighted(self.points, self.weights))

    def inner_products(self) -> Array:
        """See `Rows.inner_products`."""
        return np.asarray(np.matmul(self.points, self.points.transpose(0, 2, 1)))

    def squared_residuals(self, centers: Array, labels: Array, excess: Array | None = None) -> Array:
        """See `Rows.squared_residuals`."""
        own = labels.astype(np.intp)
        if excess is None:
            lengths = self.squared_lengths + np.take_along_axis(squared_lengths(centers), own, axis=1)
            squares: Array = lengths - 2 * np.take_along_axis(self.along(centers), own[:, None], axis=1)[:, 0]
        else:
            lengths = self.squared_lengths + squared_lengths(centers[:, :1])
            squares = lengths - 2 * self.along(centers[:, :1])[:, 0] + excess
        # A squared distance from products is off by a few eps * lengths. Where it is at least CANCELLED * lengths, its
        # relative error is at most a few eps / CANCELLED; elsewhere, and where excess is NaN, x - c itself is measured.
        devices, points = np.nonzero(~(squares >= CANCELLED * lengths))
        for some in pool.blocks(len(points), max(1, SMALL_BYTES // (self.dtype.itemsize * self.n_features))):
            at = devices[some], points[some]
            squares[at] = squared_lengths(self.points[at] - centers[at[0], own[at]])
        return squares

    def residual_norm(self, centers: Array, labels: Array, weights: Array) -> Array:
        """See `Rows.residual_norm`."""
        return spectral_norm(self._residuals(centers, labels, weights).astype(np.float64))

    def residual_moments(self, centers: Array, labels: Array, weights: Array) -> Array:
        """See `Rows.residual_moments`."""
        # As centers are means, sum w (x - c)(x - c)' = sum w x x' - sum n_c c c': no residual is needed. The difference
        # is off by a few eps of the first term. Where it cancels more than most of it, residuals are formed after all.
        moments = self.second_moments()
        others = (weights != self.weights).any(axis=1)
        if others.any():
            moments = moments.copy()
            moments[others] = _moments(_weighted(self.points[others], weights[others]))
        total = np.einsum("bii->b", moments)
        sizes = np.bincount(_flat(labels, centers.shape[1]).ravel(), weights.ravel(), minlength=centers[..., 0].size)
        weighted = centers * sizes.reshape(*centers.shape[:2], 1).astype(centers.dtype)
        moments = moments - np.matmul(centers.transpose(0, 2, 1), weighted)
        far = ~(np.einsum("bii->b", moments) >= NEAR * total)
        if far.any():
            residuals = self.select(far)._residuals(centers[far], labels[far], weights[far])
            moments[far] = _moments(residuals)
        return np.asarray(moments)

    def _residuals(self, centers: Array, labels: Array, weights: Array) -> Array:
        """Points minus their own centers, times sqrt(weight)."""
        residuals = np.take(centers.reshape(-1, self.n_features), _flat(labels, centers.shape[1]), axis=0)
        return _weighted(np.subtract(self.points, residuals, out=residuals), weights)

    def select(self, devices: Array | slice) -> DenseRows:
        """Only these devices of the batch."""
        return DenseRows(self.points[devices], self.weights[devices])

    def _points_of(self, devices: Array, points: Array) -> Array:
        return np.asarray(self.points[devices, points])

    def points_at(self, indices: Array) -> DenseRows:
        """Only the points at `indices`, of all devices."""
        if len(indices) == self.n_points:
            return self
        return DenseRows(np.take(self.points, indices, axis=1), np.take(self.weights, indices, axis=1))


def _weighted(points: Array, weights: Array) -> Array:
    """Each point times sqrt(weight)."""
    return points * np.sqrt(weights)[:, :, None] if (weights != 1).any() else points


def _moments(points: Array) -> Array:
    """Sums of the outer products of the points; NumPy sees that both factors are one array, and computes one half."""
    return np.asarray(np.matmul(points.transpose(0, 2, 1), points))


def _flat(labels: Array, n_clusters: int) -> Array:
    """Cluster of every point, counted over all devices of the batch."""
    return np.asarray(labels + np.arange(len(labels))[:, None] * n_clusters)


def _by_device(stack: Array, indices: Array) -> Array:
    """``stack[b, indices[b]]`` for every device b."""
    return np.asarray(stack[np.arange(len(stack))[:, None], indices])
