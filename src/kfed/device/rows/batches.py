"""The points of devices in the form that Algorithm 1 runs on: a padded stack of many, or one large or sparse device."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Literal

import numpy as np

from kfed._base import checks
from kfed._base.array import Array
from kfed.device.rows.blocked import BlockedRows
from kfed.device.rows.dense import DenseRows
from kfed.device.rows.rows import Rows
from kfed.device.rows.sparse import SparseRows
from kfed.device.steps.lloyd_step import FEW_CENTERS

LARGE_BYTES = 2**23
"""A device with more bytes of points than this is processed in blocks by all workers instead of by one."""

LARGE_WORK = 2**21
"""So is a device with more distances between points and centers than this."""

LARGE_WORK_OF_MANY = 2**19
"""The same for many clusters, for which bounds pay sooner: at 30,000 points and k = 63 they halve the time."""


def rows_of_one(
    points: Any, weights: Array | None, n_clusters: int | Literal["auto"], n_jobs: int | None = None
) -> Rows:
    """The rows of one device outside of a batch, in the form that suits their size and kind."""
    if not checks.is_sparse(points) and not is_large(points, n_clusters):
        return stacked([points], [weights])
    own_weights = np.ones(points.shape[0], points.dtype) if weights is None else weights
    if checks.is_sparse(points):
        return SparseRows(points, own_weights[None])
    return BlockedRows(points, own_weights[None], n_jobs, 1 if n_clusters == "auto" else n_clusters)


def is_large(points: Any, n_clusters: int | Literal["auto"]) -> bool:
    """Whether all workers share this device, block by block; its size decides, and the work if that is known."""
    if checks.is_sparse(points):
        return False
    if points.nbytes > LARGE_BYTES or n_clusters == "auto":
        return bool(points.nbytes > LARGE_BYTES)
    most = LARGE_WORK if n_clusters <= FEW_CENTERS else min(LARGE_WORK, LARGE_WORK_OF_MANY)
    return bool(points.shape[0] * n_clusters > most)


def padded_size(n_points: int) -> int:
    """Number of points that a device is padded to, so that devices of similar sizes can share a batch.

    A device on its own is padded, too, so that its result is the same. Padding adds at most 1/16, and at most 7 points.
    """
    step = min(8, 1 << max(0, n_points.bit_length() - 5))
    return -(-n_points // step) * step


def stacked(
    points: Sequence[Array], weights: Sequence[Array | None], allocate: Callable[..., Array] = np.empty
) -> DenseRows:
    """Stack devices of one padded size as a batch; either all have weights or none has.

    Padding repeats the first point of a device, with weight zero.
    """
    n_points = padded_size(len(points[0]))
    if len(points) == 1 and len(points[0]) == n_points:
        stack = points[0][None]
    else:
        stack = allocate((len(points), n_points, points[0].shape[1]), points[0].dtype)
        np.concatenate(list(_padded(points, n_points)), out=stack.reshape(-1, stack.shape[2]))
    is_point = np.arange(n_points) < np.array([len(own) for own in points])[:, None]
    stacked_weights = is_point.astype(stack.dtype)
    given = [own for own in weights if own is not None]
    if given:
        stacked_weights[is_point] = np.concatenate(given)
    return DenseRows(stack, stacked_weights)


def _padded(points: Sequence[Array], n_points: int) -> Iterator[Array]:
    for own in points:
        yield own
        if len(own) < n_points:
            yield np.repeat(own[:1], n_points - len(own), axis=0)
