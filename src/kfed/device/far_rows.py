"""float32 points so far from the origin that float32 cannot resolve their spread: they are computed in float64.

The projection of Algorithm 1 is not centered, so centering the points would change it. In double precision the same
steps see the same points, and the answer is rounded to float32 at the end.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from kfed._base.array import Array
from kfed.device.blocked_rows import BlockedRows
from kfed.device.dense_rows import DenseRows
from kfed.device.lloyd import Solution
from kfed.device.lloyd_step import comparisons, nearest
from kfed.device.rows import Rows

FAR = 128.0
"""Points are far if their mean is this many times as far from the origin as they are from their mean.

The second moments then resolve the spread with eps * FAR**2, 0.1 %, of its square.
"""

N_EXAMINED = 32


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


def in_double(rows: Rows) -> Rows:
    """The same points in double precision."""
    points, weights = rows.points.astype(np.float64), rows.weights.astype(np.float64)
    return rows.like(points, weights) if isinstance(rows, BlockedRows) else DenseRows(points, weights)


def rounded(rows: Rows, solution: Solution, dtype: np.dtype[Any]) -> Solution:
    """Round the centers as they will be reported, and assign every point to the nearest of those."""
    centers = solution.centers.astype(dtype).astype(rows.dtype)

    def assigned(block: slice) -> Array:
        return nearest(comparisons(rows.part(block), centers))[0]

    labels = np.concatenate(rows.map_blocks(assigned), axis=1)
    return replace(solution, labels=labels, centers=centers, excess=None)
