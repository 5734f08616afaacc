"""Means of clusters in double precision, and how far apart they are."""

from __future__ import annotations

from typing import Any

import numpy as np

from kfed._base import geometry, pool
from kfed._base.array import Array

_BLOCK_ELEMENTS = 2**20


def cluster_means(points: Any, labels: Array, weights: Array, n_clusters: int) -> Array:
    """Average the points of each cluster in double precision, (n_clusters, n_features), NaN if it has none."""
    from scipy.sparse import csc_array

    sums = np.zeros((n_clusters, points.shape[1]))
    for block in pool.blocks(points.shape[0], max(1, _BLOCK_ELEMENTS // points.shape[1])):
        own = weights[block].astype(np.float64)
        members = csc_array((own, labels[block], np.arange(len(own) + 1)), shape=(n_clusters, len(own)))
        partial = members @ points[block].astype(np.float64)
        sums += partial if isinstance(partial, np.ndarray) else partial.toarray()
    sizes = np.bincount(labels, weights, minlength=n_clusters)
    return np.asarray(sums / np.where(sizes > 0, sizes, np.nan)[:, None])


def distances_of(means: Array) -> Array:
    """Distances between means, (n_clusters, n_clusters)."""
    return np.asarray(np.sqrt(geometry.squared_distances(means, means)))
