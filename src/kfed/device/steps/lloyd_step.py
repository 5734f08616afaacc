"""A Lloyd step on a batch of devices: the nearest center of every point, and the mean of every cluster."""

from __future__ import annotations

from typing import Any

import numpy as np

from kfed._base import pool
from kfed._base.array import Array
from kfed.device.rows.blocked import BlockedRows
from kfed.device.rows.rows import Rows

FEW_CENTERS = 32
"""Up to this many centers are walked over one by one, for all points at once."""

DISTANCES = 2**17
"""Distances to many centers that are held at once, few enough to stay in the cache."""


def comparisons(rows: Rows, centers: Array) -> Array:
    """Squared distances of points to centers, minus that to the first center, (n_devices, n_clusters, n_points).

    The smallest of a point is its excess: the squared distance to its own center minus that to the first.
    """
    result = np.zeros((rows.n_devices, centers.shape[1], rows.n_points), rows.dtype)
    scores(rows, centers[:, 1:], centers[:, 0], out=result[:, 1:])
    return result


def scores(rows: Rows, centers: Array, origins: Array, out: Array | None = None) -> Array:
    """Squared distances of points to centers, minus that to `origins` (n_devices, n_features); shaped as `along`."""
    # |x - c|^2 - |x - o|^2 = -2 x . (c - o) + (c - o) . (c + o): the squared length of x cancels on paper, so it is
    # never computed, and the smallest score is that of the nearest center. Rounding changes a score by a few
    # eps |x| |c - o|, no more than if x itself were rounded. From |x|^2 - 2 x . c + |c|^2 it would be eps |x|^2, which
    # for points far from zero and close to each other is larger than the difference asked for.
    shifted = centers - origins[:, None]
    result = rows.along(shifted * shifted.dtype.type(-2), out)
    result += np.einsum("bkd,bkd->bk", shifted, shifted + 2 * origins[:, None])[:, :, None]
    return result


def smallest_of(distances: Array) -> tuple[Array, Array]:
    """Index of the smallest of `distances` (n_devices, n_clusters, n_points), ties to the lowest, and its value."""
    smallest = distances[:, 0].copy()
    labels = np.zeros(smallest.shape, label_dtype(distances.shape[1]))
    for cluster in range(1, distances.shape[1]):
        is_smaller = distances[:, cluster] < smallest  # of equal distances the first stays
        np.maximum(labels, is_smaller * labels.dtype.type(cluster), out=labels)
        np.minimum(smallest, distances[:, cluster], out=smallest)
    return labels, smallest


def two_nearest(distances: Array) -> tuple[Array, Array, Array]:
    """Index of the smallest distance, that distance, and the second smallest (infinite if there is one cluster)."""
    smallest = distances[:, 0].copy()
    second = np.full_like(smallest, np.inf)
    for cluster in range(1, distances.shape[1]):
        np.minimum(second, np.maximum(smallest, distances[:, cluster]), out=second)
        np.minimum(smallest, distances[:, cluster], out=smallest)
    return smallest_of(distances)[0], smallest, second


def two_nearest_of_many(points: Array, queries: Array) -> tuple[Array, Array, Array]:
    """What `two_nearest` gives for the distances ``points @ queries`` of one device, (n_points, n_clusters).

    With many centers it is faster to search the row of a point than to walk over the centers.
    """
    n_points, n_clusters = len(points), queries.shape[1]
    labels = np.empty((1, n_points), label_dtype(n_clusters))
    smallest, second = np.empty((2, 1, n_points), points.dtype)
    for block in pool.blocks(n_points, max(64, DISTANCES // n_clusters)):
        distances = np.matmul(points[block], queries)
        rows, own = np.arange(len(distances)), distances.argmin(axis=1)
        labels[0, block], smallest[0, block] = own, distances[rows, own]
        distances[rows, own] = np.inf
        second[0, block] = distances[rows, distances.argmin(axis=1)]  # faster than their minimum
    return labels, smallest, second


def memberships(labels: Array, weights: Array, n_clusters: int) -> Array:
    """The weight of each point in its own cluster and zero in others, (n_devices, n_clusters, n_points)."""
    clusters = np.arange(n_clusters, dtype=labels.dtype)
    return np.asarray((labels[:, None] == clusters[:, None]) * weights[:, None])


def sums_by_label(rows: Rows, labels: Array, weights: Array, n_clusters: int) -> tuple[Array, Array]:
    """Weighted sums of the points of each cluster, and the clusters' weights."""

    def of_block(block: slice) -> tuple[Array, Array]:
        if n_clusters > FEW_CENTERS and isinstance(rows, BlockedRows):
            return sums_of_many(rows.points[block], labels[0, block], weights[0, block], n_clusters)
        members = memberships(labels[:, block], weights[:, block], n_clusters)
        return rows.part(block).total(members), members.sum(axis=2)

    sums, sizes = zip(*rows.map_blocks(of_block), strict=True)
    return np.stack(sums).sum(axis=0, dtype=np.float64), np.stack(sizes).sum(axis=0, dtype=np.float64)


def sums_of_many(points: Array, labels: Array, weights: Array, n_clusters: int) -> tuple[Array, Array]:
    """What `sums_by_label` gives for one device, in double precision and in time that does not grow with clusters."""
    n_features = points.shape[1]
    cells = labels.astype(np.intp)[:, None] * n_features + np.arange(n_features)
    sums = np.bincount(cells.ravel(), (points * weights[:, None]).ravel(), minlength=n_clusters * n_features)
    return sums.reshape(1, n_clusters, n_features), np.bincount(labels, weights, minlength=n_clusters)[None]


def means(sums: Array, sizes: Array, otherwise: Array) -> Array:
    """Means from sums and weights; a cluster without weight keeps its row of `otherwise`."""
    filled = (sizes > 0)[:, :, None]
    averages = np.divide(sums, sizes[:, :, None], out=otherwise.astype(sums.dtype), where=filled)
    return np.asarray(averages, dtype=otherwise.dtype)


def label_dtype(n_clusters: int) -> np.dtype[Any]:
    """The smallest integer type that holds every cluster's index and -1."""
    return np.dtype(np.int8 if n_clusters < 2**7 else np.int16 if n_clusters < 2**15 else np.int32)
