"""The silhouette that k clusters would have if all device centers were one Gaussian cloud: what chance alone gives.

The cloud has the covariance of the device centers, and its points have their counts and spreads.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from kfed._base.array import Array
from kfed.server.k.stability import MAX_CENTERS, cluster_again
from kfed.server.view.quality import RowMoments

N_CLOUDS = 6


def silhouette_of_one_cloud(moments: RowMoments, n_clusters: int) -> float:
    """Mean silhouette of `n_clusters` clusters over a few clouds; always the same for the same messages."""
    factor = _factor(moments)
    rows = _sample(len(moments.centers), max(MAX_CENTERS, 16 * n_clusters))
    part = replace(
        moments,
        centers=moments.centers[rows],
        counts=moments.counts[rows],
        squares=moments.squares[rows],
        owners=moments.owners[rows],
        cells=None,
    )
    found = []
    for turn in range(N_CLOUDS):
        normals = np.random.default_rng([turn, n_clusters]).normal(size=(len(rows), len(factor)))
        cloud = replace(part, centers=normals @ factor)
        labels = cluster_again(cloud, cloud.counts, n_clusters, f"cloud {turn}")
        if labels is not None:
            found.append(cloud.quality(labels, n_clusters).silhouette)
    return float(np.mean(found)) if found else float("nan")


def _factor(moments: RowMoments) -> Array:
    """A matrix F with F^T F the covariance of the device centers, each as often as its count."""
    mean = np.average(moments.centers, axis=0, weights=moments.counts)
    weighted = (moments.centers - mean) * np.sqrt(moments.counts / moments.counts.sum())[:, None]
    if len(weighted) <= weighted.shape[1]:
        return np.asarray(weighted)
    values, vectors = np.linalg.eigh(weighted.T @ weighted)
    return np.asarray(np.sqrt(np.maximum(values, 0))[:, None] * vectors.T)


def _sample(n_centers: int, size: int) -> Array:
    if n_centers <= size:
        return np.arange(n_centers)
    return np.sort(np.random.default_rng(0).choice(n_centers, size, replace=False))
