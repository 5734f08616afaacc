"""float32 points so far from the origin, or so near to it, that float32 cannot resolve them: computed in float64.

The projection of Algorithm 1 is not centered, so centering the points would change it. In double precision the same
steps see the same points, and centers stay in double precision: rounded, they would be off by as much as the points.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from kfed._base.array import Array
from kfed.device.rows.blocked import BlockedRows
from kfed.device.rows.dense import DenseRows
from kfed.device.rows.rows import Rows

FAR = 128.0
"""Points are far if their mean is this many times as far from the origin as they are from their mean.

The second moments then resolve the spread with eps * FAR**2, 0.1 %, of its square.
"""

N_EXAMINED = 32

TINY = 2.0**-50
"""Squares of smaller values are below 8 ``tiny / eps`` of float32."""

SOME = 8
"""So many points show of most devices that they are larger."""


def are_far(rows: Rows) -> npt.NDArray[np.bool_]:
    """Which devices of a batch hold float32 points far from the origin, judged by a few of them, (n_devices,)."""
    found = np.zeros(rows.n_devices, bool)
    if rows.dtype != np.float32 or not isinstance(rows, DenseRows | BlockedRows):
        return found
    points = rows.points.reshape(rows.n_devices, rows.n_points, rows.n_features)
    some = points[:, :: max(1, rows.n_points // N_EXAMINED)]
    may_be = np.flatnonzero(_may_be_far(some))
    some = some[may_be]
    means = some.mean(axis=1, dtype=np.float64, keepdims=True)
    centered = some - means
    offsets = np.einsum("bnd,bnd->b", means, means) * some.shape[1]
    found[may_be] = offsets > FAR**2 * np.einsum("bnd,bnd->b", centered, centered)
    return found


def _may_be_far(points: Array) -> Array:
    """Tell by two points of each device whether it is worth looking at all of them, (n_devices,)."""
    # Let S be the sum of |x - mean|^2 over the m points. If they are far, m |mean|^2 > FAR^2 S. Then every point a is
    # within sqrt(S) < |mean| sqrt(m) / FAR <= |mean| / 16 of the mean, as m < 64, so |mean|^2 < 2 |a|^2. And for every
    # two of them S >= |a - b|^2 / 2. Together: 2 m |a|^2 > FAR^2 |a - b|^2 / 2.
    one, other = points[:, 0].astype(np.float64), points[:, -1].astype(np.float64)
    apart = one - other
    lengths = np.einsum("bd,bd->b", one, one)
    return np.asarray(2 * lengths * points.shape[1] > FAR**2 * np.einsum("bd,bd->b", apart, apart) / 2)


def are_tiny(rows: Rows) -> npt.NDArray[np.bool_]:
    """Which devices of a batch hold float32 points that are too small to be squared in float32, (n_devices,)."""
    if rows.dtype != np.float32 or not isinstance(rows, DenseRows | BlockedRows):
        return np.zeros(rows.n_devices, bool)
    points = rows.points.reshape(rows.n_devices, -1)
    found = np.abs(points[:, : SOME * rows.n_features]).max(axis=1) < TINY
    for device in np.flatnonzero(found):
        found[device] = 0 < max(points[device].max(), -points[device].min()) < TINY
    return np.asarray(found)


def in_double(rows: Rows) -> Rows:
    """The same points in double precision."""
    points, weights = rows.points.astype(np.float64), rows.weights.astype(np.float64)
    return rows.like(points, weights) if isinstance(rows, BlockedRows) else DenseRows(points, weights)
