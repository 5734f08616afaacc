"""The spectral deviation that a device sends: an upper estimate, by whichever way takes the least work.

==============  =================================================================  ==================================
few features    all singular values                                                exact
or few points
some            powers of the second moments of the residuals (`norms`)            at most 4 % too high
many of both    Lanczos steps from a random start, no residual formed (`lanczos`)  at most 4 % too high; too low with
                                                                                   a chance of 1 in 1000 at most
==============  =================================================================  ==================================
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from kfed._base import pool
from kfed._base.array import Array
from kfed.device.lanczos import lanczos_bound
from kfed.device.norms import root_of_largest_bound
from kfed.device.rows import Rows
from kfed.theory import DEVIATION_MARGIN, EXACT_FEATURES

CACHED_BYTES = 2**20
"""Bytes of second moments that are taken at a time."""

LANCZOS_WORK = 640
"""Work of the Lanczos steps per value of the points, in flops at the speed of large matrix products."""


def deviation_bound(
    rows: Rows, centers: Array, labels: Array, weights: Array, roots: Array, keys: npt.NDArray[np.uint64]
) -> Array:
    """Norm of the residuals of each device, or up to `DEVIATION_MARGIN` above it, (n_devices,).

    `roots` are their Frobenius norms, which are never exceeded.
    """
    shorter = min(rows.n_points, rows.n_features)
    if shorter <= EXACT_FEATURES:
        return rows.residual_norm(centers, labels, weights)
    if rows.has_moments and _prefers_moments(rows, shorter):
        bounds = _bound_from_moments(rows, centers, labels, weights)
    else:
        scales = np.where(roots > 0, roots, 1)
        bounds = lanczos_bound(rows, centers, labels, weights, scales, keys, 1 + DEVIATION_MARGIN)
    return np.minimum(bounds, roots)


def _bound_from_moments(rows: Rows, centers: Array, labels: Array, weights: Array) -> Array:
    """Bounds from second moments, of so few devices at a time that what they take stays in the cache."""
    size = min(rows.n_points, rows.n_features)
    bounds = []
    for some in pool.blocks(rows.n_devices, max(1, CACHED_BYTES // (size**2 * rows.dtype.itemsize))):
        part = rows.select(some)
        moments = part.residual_moments(centers[some], labels[some], weights[some])
        bounds.append(root_of_largest_bound(moments, _starts(part, moments), 1 + DEVIATION_MARGIN))
    return np.concatenate(bounds)


def _starts(rows: Rows, moments: Array) -> Array:
    """A vector for each device that turns with its points: the first of them, or its products with all."""
    if rows.n_features > rows.n_points:
        return moments[:, 0]
    first = rows.take(np.zeros((rows.n_devices, 1), np.intp))[:, 0]
    return np.asarray(first / np.maximum(np.abs(first).max(axis=1, keepdims=True), np.finfo(first.dtype).tiny))


def _prefers_moments(rows: Rows, shorter: int) -> bool:
    """Whether second moments and four squarings take less work than Lanczos steps."""
    n_values = rows.n_points * rows.n_features
    return 2 * n_values * shorter + 8 * shorter**3 <= LANCZOS_WORK * n_values
