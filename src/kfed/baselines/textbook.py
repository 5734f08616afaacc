"""Algorithm 1 as the paper words it, with one k-means++ seeding for its 10-approximation: simple, but less reliable."""

from __future__ import annotations

import numpy as np

from kfed._base import geometry
from kfed._base.array import Array
from kfed._base.averages import means_by_label

MAX_ITERATIONS = 300


def textbook_local(
    points: Array, n_local_clusters: int, seed: int = 0, *, n_candidates: int | None = 1
) -> tuple[Array, Array]:
    """Cluster the points of one device: local labels (n_points,) and centers (n_local_clusters, n_features).

    Each next seed is the best of `n_candidates`: plain k-means++ has one, None is scikit-learn's 2 + log(k).

    Examples
    --------
    >>> labels, centers = textbook_local(np.array([[0.0, 0.1], [0.1, 0.0], [9.0, 9.1], [9.1, 9.0]]), 2)
    >>> int(labels[0] == labels[1] != labels[2] == labels[3])
    1
    """
    from sklearn.cluster import kmeans_plusplus

    _, directions = np.linalg.eigh(points.T @ points)  # right singular vectors, the largest last
    projected = np.ascontiguousarray(points @ directions[:, -n_local_clusters:])  # step 1
    seeds, _ = kmeans_plusplus(
        projected, n_local_clusters, random_state=seed % 2**32, n_local_trials=n_candidates
    )  # step 2
    centers = _core_means(points, projected, seeds)  # step 3
    labels = geometry.nearest(points, centers)
    for _ in range(MAX_ITERATIONS):  # step 4: Lloyd, until nothing changes
        centers = means_by_label(points, labels, centers)
        before, labels = labels, geometry.nearest(points, centers)
        if np.array_equal(before, labels):
            break
    return labels, centers


def _core_means(points: Array, projected: Array, seeds: Array) -> Array:
    """Means of the points three times as near, projected, to one seed as to any other."""
    distances = np.sqrt(geometry.squared_distances(projected, seeds))
    nearest = distances.argmin(axis=1)
    rows = np.arange(len(points))
    own, others = distances[rows, nearest], distances.copy()
    others[rows, nearest] = np.inf
    core = own <= others.min(axis=1) / 3
    nearest_mean = means_by_label(points, nearest, np.zeros((len(seeds), points.shape[1])))
    return means_by_label(points[core], nearest[core], nearest_mean)
