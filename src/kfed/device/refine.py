"""Refined labels: each point gets the nearest of the global clusters that its device plausibly holds.

If a device looked for too few clusters, one of its centers stands for two global clusters, and all its points get one
label. On the device the points can be compared with both global centers. A point may move only to clusters that its
device plausibly holds: allowing all k makes labels worse, since some center is near by chance.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from kfed._base import checks, geometry, pool
from kfed._base.array import Array

LEAST_POINTS, LEAST_SHARE = 3, 0.25
"""A device holds a global cluster if its center is the nearest for this many points of a local cluster, and share."""

SPARSE_ELEMENTS = 2**20


def refined_labels(points: Any, labels: Array, own: Array, cluster_centers: Array) -> Array:
    """Global cluster of every point, (n_points,): the nearest of those that the device plausibly holds.

    Parameters
    ----------
    points : array or sparse matrix of shape (n_points, n_features)
    labels : array of shape (n_points,)
        Local cluster of every point.
    own : array of shape (n_local_clusters,)
        Global cluster of every local cluster.
    cluster_centers : array of shape (n_clusters, n_features)
    """
    held = plausible_clusters(labels, own, nearest_centers(points, cluster_centers), len(cluster_centers))
    return held[nearest_centers(points, cluster_centers[held])]


def plausible_clusters(labels: Array, own: Array, nearest: Array, n_clusters: int) -> Array:
    """Global clusters that a device plausibly holds, sorted.

    They are the global clusters of its local clusters, and those whose center is the nearest (`nearest`, for every
    point) for at least three points, and a quarter, of one local cluster.

    Examples
    --------
    >>> labels, nearest = np.repeat([0, 1], 8), np.array([5, 5, 5, 5, 2, 2, 2, 7, 0, 0, 0, 0, 0, 0, 4, 4])
    >>> plausible_clusters(labels, np.array([5, 0]), nearest, n_clusters=9)
    array([0, 2, 5])
    """
    pairs = labels.astype(np.intp) * n_clusters + nearest
    counts = np.bincount(pairs, minlength=len(own) * n_clusters).reshape(len(own), n_clusters)
    sizes = counts.sum(axis=1)
    is_held = (counts >= np.maximum(LEAST_POINTS, LEAST_SHARE * sizes)[:, None]).any(axis=0)
    is_held[own[sizes > 0]] = True
    return np.flatnonzero(is_held)


def nearest_centers(points: Any, centers: Array) -> Array:
    """Index of the nearest center of each point, dense or sparse."""
    dtype = np.result_type(points.dtype, centers.dtype)
    centers = centers.astype(dtype)
    if not checks.is_sparse(points):
        return geometry.nearest(points.astype(dtype, copy=False), centers)
    blocks = pool.blocks(points.shape[0], max(1, SPARSE_ELEMENTS // points.shape[1]))
    return np.concatenate([geometry.nearest(points[block].toarray().astype(dtype), centers) for block in blocks])
