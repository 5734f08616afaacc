"""The points of a batch of devices, behind the few products that Algorithm 1 asks of them.

==============  ================================================  =============================================
`DenseRows`     devices stacked and padded to one number of rows  (n_devices, n_points, n_features)
`BlockedRows`   one device larger than a block, walked in blocks  (n_points, n_features), never copied
`SparseRows`    one device in compressed sparse rows              (n_points, n_features), never made dense
==============  ================================================  =============================================

Whatever is indexed by points has them on its last axis, (n_devices, ..., n_points); padding has weight zero.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import cached_property
from typing import Any, TypeVar

import numpy as np

from kfed._base import pool
from kfed._base.array import Array

Result = TypeVar("Result")

BLOCK_BYTES = 2**21
"""Bytes of points that are worked on at a time, so that they stay in the cache while they are."""

SMALL_BYTES = 2**18
"""Bytes of points that are copied at a time, where a copy is needed."""

CANCELLED = 2.0**-6
"""A squared distance below this share of the squared lengths that it is the difference of is measured directly."""

FEW = 4
"""Fewer vectors than this are multiplied one by one, since BLAS takes longer over a matrix of two or three rows."""

NARROW = 64
"""Sparse rows with at most this many features may be made dense, if what is asked of them needs it."""


class Rows(ABC):
    """Weighted points of one or more devices."""

    points: Any
    weights: Array  # (n_devices, n_points)
    n_features: int

    @property
    def n_devices(self) -> int:
        """Length of the batch axis."""
        return int(self.weights.shape[0])

    @property
    def n_points(self) -> int:
        """Length of the points' axis, padding included."""
        return int(self.weights.shape[1])

    @property
    def dtype(self) -> np.dtype[Any]:
        """The precision in which everything is computed."""
        return self.weights.dtype

    @cached_property
    def mean(self) -> Array:
        """Weighted mean of each device, (n_devices, n_features)."""
        mass = self.weights.sum(axis=1, dtype=np.float64)
        return np.asarray(self.total(self.weights[:, None])[:, 0] / mass[:, None], dtype=self.dtype)

    def map_blocks(self, function: Callable[[slice], Result]) -> list[Result]:
        """Call `function` on slices that cover the points' axis in order; by default on all points at once."""
        return [function(slice(0, self.n_points))]

    def part(self, _block: slice) -> Rows:
        """The points of one slice that `map_blocks` gave."""
        return self

    def select(self, _devices: Array) -> Rows:
        """Only these devices of the batch; where one device is all there is, that one."""
        return self

    @abstractmethod
    def along(self, vectors: Array, out: Array | None = None) -> Array:
        """Inner products with `vectors` (n_devices, m, n_features): (n_devices, m, n_points), in `out` if given."""

    @abstractmethod
    def total(self, weights: Array) -> Array:
        """Sums of points weighted by `weights` (n_devices, m, n_points): (n_devices, m, n_features)."""

    @abstractmethod
    def take(self, indices: Array) -> Array:
        """The points at `indices` (n_devices, m), as dense (n_devices, m, n_features)."""

    @abstractmethod
    def second_moments(self) -> Array:
        """Weighted sum of outer products of the points, (n_devices, n_features, n_features)."""

    @abstractmethod
    def inner_products(self) -> Array:
        """Inner products of all pairs of points, (n_devices, n_points, n_points)."""

    def is_center(self, centers: Array, labels: Array, near: Array) -> Array:
        """Which of the points `near` their own center equal it, value by value, (n_devices, n_points)."""
        found = np.zeros_like(near)
        devices, points = np.nonzero(near)
        for some in pool.blocks(len(points), max(1, SMALL_BYTES // (8 * self.n_features))):
            at = devices[some], points[some]
            found[at] = (self._points_of(*at) == centers[at[0], labels[at]]).all(axis=1)
        return found

    @abstractmethod
    def _points_of(self, devices: Array, points: Array) -> Array:
        """Single points, (n_wanted, n_features)."""

    @abstractmethod
    def squared_residuals(self, centers: Array, labels: Array, excess: Array | None = None) -> Array:
        """Squared distance of every point to its own center, (n_devices, n_points).

        It is faster if its `excess` over the squared distance to the first center is known, or NaN where it is not.
        """

    @abstractmethod
    def residual_norm(self, centers: Array, labels: Array, weights: Array) -> Array:
        """Spectral norm of the points minus their own centers, each row times sqrt(weight), (n_devices,)."""


class DenseRows(Rows):
    """Devices stacked and padded to one number of rows."""

    def __init__(self, points: Array, weights: Array) -> None:
        self.points = points  # (n_devices, n_points, n_features)
        self.weights = weights
        self.n_features = int(points.shape[2])

    @cached_property
    def squared_lengths(self) -> Array:
        """Squared length of every point, (n_devices, n_points)."""
        return _squared_lengths(self.points)

    def along(self, vectors: Array, out: Array | None = None) -> Array:
        """See `Rows.along`."""
        if vectors.shape[1] < FEW:
            return _row_by_row(vectors, self.points.transpose(0, 2, 1), out)
        products = np.matmul(self.points, vectors.transpose(0, 2, 1)).transpose(0, 2, 1)
        return _copied(products, out)

    def total(self, weights: Array) -> Array:
        """See `Rows.total`."""
        if weights.shape[1] < FEW:
            return _row_by_row(weights, self.points)
        return np.asarray(np.matmul(weights, self.points))

    def take(self, indices: Array) -> Array:
        """See `Rows.take`."""
        return _by_device(self.points, indices)

    def second_moments(self) -> Array:
        """See `Rows.second_moments`."""
        return np.asarray(np.matmul(self.points.transpose(0, 2, 1), self.points * self.weights[:, :, None]))

    def inner_products(self) -> Array:
        """See `Rows.inner_products`."""
        return np.asarray(np.matmul(self.points, self.points.transpose(0, 2, 1)))

    def squared_residuals(self, centers: Array, labels: Array, excess: Array | None = None) -> Array:
        """See `Rows.squared_residuals`."""
        own = labels.astype(np.intp)
        if excess is None:
            lengths = self.squared_lengths + np.take_along_axis(_squared_lengths(centers), own, axis=1)
            squares: Array = lengths - 2 * np.take_along_axis(self.along(centers), own[:, None], axis=1)[:, 0]
        else:
            lengths = self.squared_lengths + _squared_lengths(centers[:, :1])
            squares = lengths - 2 * self.along(centers[:, :1])[:, 0] + excess
        devices, points = np.nonzero(~(squares >= CANCELLED * lengths))
        for some in pool.blocks(len(points), max(1, SMALL_BYTES // (self.dtype.itemsize * self.n_features))):
            at = devices[some], points[some]
            squares[at] = _squared_lengths(self.points[at] - centers[at[0], own[at]])
        return squares

    def residual_norm(self, centers: Array, labels: Array, weights: Array) -> Array:
        """See `Rows.residual_norm`."""
        residuals = (self.points - _by_device(centers, labels)).astype(np.float64)
        residuals *= np.sqrt(weights)[:, :, None]
        return spectral_norm(residuals)

    def select(self, devices: Array) -> DenseRows:
        """Only these devices of the batch."""
        return DenseRows(self.points[devices], self.weights[devices])

    def _points_of(self, devices: Array, points: Array) -> Array:
        return np.asarray(self.points[devices, points])

    def points_at(self, indices: Array) -> DenseRows:
        """Only the points at `indices`, of all devices."""
        if len(indices) == self.n_points:
            return self
        return DenseRows(self.points[:, indices], self.weights[:, indices])


class BlockedRows(Rows):
    """One device larger than a block; blocks do not depend on the number of workers, so neither does the answer."""

    def __init__(self, points: Array, weights: Array, n_jobs: int | None = None) -> None:
        self.points = points  # (n_points, n_features)
        self.weights = weights  # (1, n_points)
        self.n_features = int(points.shape[1])
        self._n_jobs = n_jobs
        self._rows_per_block = max(1, BLOCK_BYTES // (points.itemsize * self.n_features))

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
        if self.n_features <= self.n_points:
            return _root_of_largest(self._sum(lambda block: self._residual_moments(centers, labels, weights, block)))
        return DenseRows(self.points[None], self.weights).residual_norm(centers, labels, weights)

    def _residual_moments(self, centers: Array, labels: Array, weights: Array, block: slice) -> Array:
        residuals = self.points[block] - centers[0, labels[0, block]]
        return np.asarray(np.matmul(residuals.T, residuals * weights[0, block, None])[None])

    def _sum(self, function: Callable[[slice], Array]) -> Array:
        """Sum a result over the blocks, in their order and in double precision."""
        total: Array = sum(part.astype(np.float64) for part in self.map_blocks(function))  # type: ignore[assignment]
        return total.astype(self.dtype)


class SparseRows(Rows):
    """One device in compressed sparse rows."""

    def __init__(self, points: Any, weights: Array) -> None:
        self.points = points  # scipy CSR (n_points, n_features)
        self.weights = weights  # (1, n_points)
        self.n_features = int(points.shape[1])

    def along(self, vectors: Array, out: Array | None = None) -> Array:
        """See `Rows.along`."""
        return _copied((self.points @ vectors[0].T).T[None], out)

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
        """See `Rows.squared_residuals`; in double precision, and zero below its rounding, for want of differences."""
        own = centers[0].astype(np.float64)
        norms = np.asarray(self.points.astype(np.float64).power(2).sum(axis=1)).ravel()
        own_norms = np.einsum("kd,kd->k", own, own)[labels[0]]
        cross = np.take_along_axis(self.points @ own.T, labels[0][:, None].astype(np.intp), axis=1)[:, 0]
        squares = norms - 2 * cross + own_norms
        rounding = 64 * np.finfo(np.float64).eps * (norms + own_norms)
        return np.where(squares > rounding, squares, 0).astype(self.dtype)[None]

    def residual_norm(self, centers: Array, labels: Array, weights: Array) -> Array:
        """See `Rows.residual_norm`; the residual is never formed unless it is narrow."""
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


def _squared_lengths(vectors: Array) -> Array:
    """Squared length of each vector along the last axis."""
    return np.asarray(np.matmul(vectors[..., None, :], vectors[..., None])[..., 0, 0])


def _row_by_row(rows: Array, matrices: Array, out: Array | None = None) -> Array:
    """``rows @ matrices`` for stacks of both."""
    products = np.empty((*rows.shape[:2], matrices.shape[2]), rows.dtype) if out is None else out
    for row in range(rows.shape[1]):
        products[:, row] = np.matmul(rows[:, row, None], matrices)[:, 0]
    return products


def _copied(array: Array, out: Array | None) -> Array:
    """`array` in row-major order, in `out` if given."""
    if out is None:
        return np.ascontiguousarray(array)
    np.copyto(out, array)
    return out


def spectral_norm(matrices: Array) -> Array:
    """Largest singular value of each matrix of a stack, from the eigenvalues on its shorter side."""
    transposed = matrices.transpose(0, 2, 1)
    wide = matrices.shape[1] < matrices.shape[2]
    return _root_of_largest(np.matmul(matrices, transposed) if wide else np.matmul(transposed, matrices))


def _root_of_largest(moments: Array) -> Array:
    return np.sqrt(np.maximum(np.linalg.eigvalsh(moments.astype(np.float64, copy=False))[:, -1], 0))


def _by_device(stack: Array, indices: Array) -> Array:
    """``stack[b, indices[b]]`` for every device b."""
    return np.asarray(stack[np.arange(len(stack))[:, None], indices])
