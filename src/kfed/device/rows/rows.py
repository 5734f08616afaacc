"""`Rows`: the points of a batch of devices, behind the few products that Algorithm 1 needs.

==============  ================================================  =============================================
`DenseRows`     devices stacked and padded to one number of rows  (n_devices, n_points, n_features)
`BlockedRows`   one device larger than a block, walked in blocks  (n_points, n_features), never copied
`SparseRows`    one device in compressed sparse rows              (n_points, n_features), never made dense
==============  ================================================  =============================================

The last axis of an array that is indexed by points is theirs, (n_devices, ..., n_points); padding has weight zero.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import cached_property
from typing import Any, TypeVar

import numpy as np

from kfed._base import pool
from kfed._base.array import Array, Length

Result = TypeVar("Result")

FEATURES_OF_TALL, POINTS_PER_FEATURE = 128, 4
"""Points with at most so many features, and at least so many points for each, are tall."""

SMALL_BYTES = 2**18
"""Bytes of points to copy at a time, where a copy is needed."""


class Rows(ABC):
    """Weighted points of one or more devices."""

    points: Any
    weights: Array  # (n_devices, n_points)
    n_features: int
    needs_moments = False  # whether the deviation is measured, which takes the second moments of tall points

    n_devices = Length("weights", 0, "Length of the batch axis.")

    n_points = Length("weights", 1, "Length of the points' axis, padding included.")

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
        """The points of one slice that `map_blocks` passed to its function."""
        return self

    def select(self, _devices: Array | slice) -> Rows:
        """The rows of some devices of the batch; a batch of one returns itself."""
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

    @property
    def is_tall(self) -> bool:
        """Whether products with the second moments take far less time than products with the points."""
        return self.n_features <= min(self.n_points // POINTS_PER_FEATURE, FEATURES_OF_TALL)

    @property
    def shares_moments(self) -> bool:
        """Whether the second moments are needed anyway, so that one more use of them costs little."""
        return False

    @abstractmethod
    def second_moments(self) -> Array:
        """Weighted sum of outer products of the points, (n_devices, n_features, n_features)."""

    @abstractmethod
    def inner_products(self) -> Array:
        """Inner products of all pairs of points, (n_devices, n_points, n_points)."""

    def is_center(self, centers: Array, labels: Array, near: Array) -> Array:
        """Which of the points `near` their own center equal it in every value, (n_devices, n_points)."""
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

        It is faster if the `excess` over the squared distance to the first center is known; NaN where it is not.
        """

    @abstractmethod
    def residual_norm(self, centers: Array, labels: Array, weights: Array) -> Array:
        """Spectral norm of the points minus their own centers, each row times sqrt(weight), (n_devices,)."""

    def residual_moments(self, _centers: Array, _labels: Array, _weights: Array) -> Array | None:
        """R^T R for the matrix R of `residual_norm`, (n_devices, n_features, n_features); None if it takes too long.

        Centers must be the weighted means of their points.
        """
        return None


def copied(array: Array, out: Array | None) -> Array:
    """`array` in row-major order, in `out` if given."""
    if out is None:
        return np.ascontiguousarray(array)
    np.copyto(out, array)
    return out
