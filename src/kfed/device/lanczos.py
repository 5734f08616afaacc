"""The norm of points minus their centers by Lanczos steps on a batch of devices; no residual is formed."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from kfed._base import random
from kfed._base.array import Array
from kfed.device.rows import Rows

CHANCE = 1e-3
"""A device's bound is below the norm with at most this probability, whatever its points are."""

FIRST_CHECK, CHECK_EVERY, MAX_STEPS = 12, 3, 201
"""Bounds are computed after so many steps. Noise takes about twenty."""

_KEY = np.uint64(0x6C616E637A6F7300)
"""Makes the draws of a start independent of those of the clustering."""

_NEWTON_STEPS = 8


def lanczos_bound(
    rows: Rows,
    centers: Array,
    labels: Array,
    weights: Array,
    scales: Array,
    keys: npt.NDArray[np.uint64],
    tightness: float,
) -> Array:
    """Bound the norm of the residuals of each device from above, at most `tightness` times too high, (n_devices,).

    `scales` are lengths of about the norm or above; the steps are taken on the residuals divided by them.
    """
    residuals = _Residuals(rows, centers, labels, weights, scales)
    uniforms = random.uniforms(keys ^ _KEY, rows.n_points) - 0.5
    recurrence = _Recurrence(residuals.start(uniforms.astype(rows.dtype)))
    found = np.full(rows.n_devices, np.nan)
    for step in range(1, MAX_STEPS + 1):
        recurrence.advance(residuals)
        if step >= FIRST_CHECK and (step - FIRST_CHECK) % CHECK_EVERY == 0:
            lower, upper = recurrence.bounds()
            # Each device keeps its first tight bound, so that it does not depend on the others of the batch.
            found = np.where(np.isnan(found) & ((upper <= tightness * lower) | (step == MAX_STEPS)), upper, found)
            if not np.isnan(found).any():
                break
    return np.asarray(np.where(np.isnan(found), upper, found) * scales)


class _Residuals:
    """Products with R, the residuals of each device, rows times sqrt(weight), divided by its scale."""

    def __init__(self, rows: Rows, centers: Array, labels: Array, weights: Array, scales: Array) -> None:
        self._rows, self._centers = rows, centers
        self._inverse = (1 / scales).astype(rows.dtype)[:, None]
        self._weights = weights * self._inverse
        self._own = labels + np.arange(len(labels))[:, None] * centers.shape[1]  # rows of centers, over the batch
        self._roots = np.sqrt(weights)

    def start(self, uniforms: Array) -> Array:
        """R^T u, (n_devices, n_features)."""
        along = uniforms * self._roots
        parts = self._rows.map_blocks(lambda block: self._back(self._rows.part(block), along[:, block], block))
        return self._added(parts)

    def times(self, vectors: Array) -> Array:
        """R^T R v, (n_devices, n_features); each block of points is read once."""
        along_centers = np.matmul(self._centers, vectors[:, :, None]).ravel()

        def of_block(block: slice) -> Array:
            part = self._rows.part(block)
            along = part.along(vectors[:, None])[:, 0]
            along -= along_centers[self._own[:, block]]
            along *= self._weights[:, block]
            return self._back(part, along, block)

        return self._added(self._rows.map_blocks(of_block))

    def _back(self, part: Rows, along: Array, block: slice) -> Array:
        n_devices, n_clusters, _ = self._centers.shape
        by_cluster = np.bincount(self._own[:, block].ravel(), along.ravel(), minlength=n_devices * n_clusters)
        sums = by_cluster.astype(self._centers.dtype).reshape(n_devices, 1, n_clusters)
        return np.asarray((part.total(along[:, None]) - np.matmul(sums, self._centers))[:, 0])

    def _added(self, parts: list[Array]) -> Array:
        return np.asarray(sum(parts[1:], start=parts[0]) * self._inverse)


class _Recurrence:
    """Lanczos' recurrence for G = R^T R, from R^T u; a device that has exhausted its space stands still."""

    def __init__(self, start: Array) -> None:
        self._length = _lengths(start)
        self._previous = np.zeros_like(start)
        self._vectors = start / _positive(self._length, start.dtype)
        self._diagonal: list[Array] = []
        self._beside: list[Array] = []  # of the tridiagonal matrix; its last entry is outside
        self._is_alive = self._length > 0

    def advance(self, residuals: _Residuals) -> None:
        """Take one step."""
        product = residuals.times(self._vectors)
        diagonal = np.einsum("bd,bd->b", self._vectors, product)
        product -= diagonal[:, None] * self._vectors
        if self._beside:
            product -= self._beside[-1].astype(product.dtype)[:, None] * self._previous
        beside = _lengths(product)
        # Below this, what is left is rounding: the space is exhausted, and holds the largest eigenvalue.
        rounding = 8 * np.finfo(product.dtype).eps * np.max([diagonal, *self._diagonal], axis=0)
        ends = self._is_alive & (beside <= rounding)
        self._diagonal.append(np.where(self._is_alive, diagonal, 0))
        self._beside.append(np.where(ends, rounding, np.where(self._is_alive, beside, 0)))
        self._is_alive = self._is_alive & ~ends
        self._previous = self._vectors
        self._vectors = np.where(self._is_alive[:, None], product / _positive(beside, product.dtype), 0)

    def bounds(self) -> tuple[Array, Array]:
        """Lower and upper bounds of the norm of R, (n_devices,) each.

        The lower bound is the root of the largest Ritz value. The upper bound is that of Hochstenbach ("Probabilistic
        upper bounds for the matrix two-norm", J. Sci. Comput. 2013). After m steps the next vector is p(G) v, where v
        is the unit vector along R^T u and p(x) = prod_j (x - theta_j) / beta_j. Its length is 1, and at least that of
        its part along the first singular vector: 1 >= p(s^2) s |g| / |R^T u|, with s the norm and g the part of u along
        the first left singular vector. As p increases above the Ritz values, s^2 is at most where p(x) sqrt(x) is
        |R^T u| / |g|. For u uniform in a cube of side 1, the density of g is at most sqrt(2) (Ball, "Cube slicing in
        R^n", Proc. AMS 1986), so |g| < d has a chance of at most 2 sqrt(2) d.
        """
        ritz, log_beside = self._ritz_values()
        top = np.maximum(ritz[:, -1:], np.finfo(np.float64).tiny)
        gaps = np.maximum(top - ritz, 0)
        least = CHANCE / (2 * np.sqrt(2))
        target = log_beside + np.log(np.maximum(self._length, np.finfo(np.float64).tiny) / least)
        # Solve for y = log(x - top). In y each log(x - theta_j) is convex and increases, so Newton's steps come down to
        # the root from above: stopped early, the bound holds all the same.
        y = np.log(top[:, 0]) + 3
        for _ in range(_NEWTON_STEPS):
            above = np.exp(y)[:, None]
            value = np.log(above + gaps).sum(axis=1) + 0.5 * np.log(top + above)[:, 0] - target
            slope = (above / (above + gaps)).sum(axis=1) + 0.5 * (above / (top + above))[:, 0]
            y = y - value / slope
        return np.sqrt(top[:, 0]), np.sqrt(top[:, 0] + np.exp(y))

    def _ritz_values(self) -> tuple[Array, Array]:
        """Eigenvalues of the tridiagonal matrix, increasing, and the logarithm of the product of all beta_j."""
        diagonal, beside = (np.stack(entries, axis=1).astype(np.float64) for entries in (self._diagonal, self._beside))
        n_steps = diagonal.shape[1]
        matrices = np.zeros((len(diagonal), n_steps, n_steps))
        at = np.arange(n_steps)
        matrices[:, at, at] = diagonal
        matrices[:, at[1:], at[:-1]] = matrices[:, at[:-1], at[1:]] = beside[:, :-1]
        ritz = np.linalg.eigvalsh(matrices)
        # A step that was not taken has the eigenvalue 0, and counts as (x - 0) / top, about 1.
        ignored = np.where(beside > 0, beside, np.maximum(ritz[:, -1:], np.finfo(np.float64).tiny))
        return ritz, np.log(ignored).sum(axis=1)


def _lengths(vectors: Array) -> Array:
    return np.asarray(np.sqrt(np.einsum("bd,bd->b", vectors, vectors)))


def _positive(lengths: Array, dtype: np.dtype[np.floating]) -> Array:
    return np.asarray(np.where(lengths > 0, lengths, 1).astype(dtype)[:, None])
