"""How good a clustering is: its k-means cost, how well it agrees with classes, how far apart it is, what it sent.

`measures` gives all of these at once, as a row of a table of results.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from kfed._base import checks, geometry
from kfed._base.array import Array
from kfed.errors import InvalidInputError
from kfed.simulate import Communication


def kmeans_cost(points: Any, centers: Any, labels: Any = None) -> float:
    """Sum of squared distances of points to their centers.

    Parameters
    ----------
    points : array of shape (n_points, n_features)
    centers : array of shape (n_clusters, n_features)
    labels : array of int, shape (n_points,), optional
        The center of each point; by default the nearest.

    Examples
    --------
    >>> points = [[0.0], [1.0], [5.0]]
    >>> kmeans_cost(points, centers=[[0.0], [5.0]])
    1.0
    >>> kmeans_cost(points, centers=[[0.0], [5.0]], labels=[0, 1, 1])
    16.0
    """
    points, centers = checks.finite_table(points), checks.finite_table(centers, "centers")
    if points.shape[1] != centers.shape[1]:
        raise InvalidInputError(
            f"centers must have the {points.shape[1]} features of the points; got {centers.shape[1]}"
        )
    dtype = np.result_type(points, centers)
    points, centers = points.astype(dtype, copy=False), centers.astype(dtype, copy=False)
    labels = geometry.nearest(points, centers) if labels is None else _labels(labels, len(points), "labels")
    if not 0 <= labels.min() <= labels.max() < len(centers):
        raise InvalidInputError(f"labels must be integers from 0 to {len(centers) - 1}")
    residuals = np.subtract(points, centers[labels], dtype=np.float64)
    return float(np.einsum("nf,nf->", residuals, residuals))


def partition_cost(points: Any, labels: Any) -> float:
    """Sum of squared distances of points to the mean of all points with their label.

    Parameters
    ----------
    points : array or sparse matrix of shape (n_points, n_features)
    labels : array of shape (n_points,)
        The cluster of each point; any labels that can be sorted.

    Examples
    --------
    >>> partition_cost([[0.0], [2.0], [5.0]], ["a", "a", "b"])
    2.0
    """
    points = checks.table(points, "points")
    clusters, labels = np.unique(np.asarray(labels), return_inverse=True)
    if labels.shape != (points.shape[0],):
        raise InvalidInputError(f"labels must have one entry for each of {points.shape[0]} points")
    cost = 0.0
    for cluster in range(len(clusters)):
        own = points[labels == cluster].astype(np.float64)
        mean = np.asarray(own.mean(axis=0)).ravel()
        squares = own.multiply(own).sum() if checks.is_sparse(own) else np.einsum("nf,nf->", own, own)
        cost += float(squares - len(labels[labels == cluster]) * (mean @ mean))
    return max(cost, 0.0)


def matched_accuracy(true: Any, predicted: Any) -> float:
    """Share of points whose cluster is the one matched to their class.

    Each class is matched with at most one cluster, and each cluster with at most one class, so that the share
    is as large as it can be (the Hungarian method). Points of unmatched clusters count as wrong.

    Parameters
    ----------
    true, predicted : arrays of shape (n_points,)
        Class and cluster of each point; any labels that can be sorted.

    Examples
    --------
    >>> matched_accuracy(["a", "a", "b", "b"], [1, 1, 0, 1])
    0.75
    """
    from scipy.optimize import linear_sum_assignment

    classes, true = np.unique(np.asarray(true), return_inverse=True)
    clusters, predicted = np.unique(np.asarray(predicted), return_inverse=True)
    if true.ndim != 1 or true.shape != predicted.shape or len(true) == 0:
        raise InvalidInputError("true and predicted must have one label for each of the same points")
    table = np.zeros((len(classes), len(clusters)), np.int64)  # points by class and cluster
    np.add.at(table, (true, predicted), 1)
    return float(table[linear_sum_assignment(table, maximize=True)].sum() / len(true))


def cost_ratio(points: Any, labels: Any, reference: Any) -> float:
    """K-means cost of a clustering over that of another, such as k-means on all rows; both with their own means.

    Examples
    --------
    >>> round(cost_ratio([[0.0], [2.0], [5.0], [7.0]], [0, 0, 0, 1], reference=[0, 0, 1, 1]), 3)
    3.167
    """
    cost, other = partition_cost(points, labels), partition_cost(points, reference)
    if other == 0:
        return 1.0 if cost == 0 else float("inf")
    return cost / other


def silhouette(points: Any, labels: Any, *, n_sampled: int = 2_000, seed: int = 0) -> float:
    """Mean silhouette of the rows, from -1 to 1, over a sample of them if they are many; 0 for a single cluster.

    Examples
    --------
    >>> round(silhouette([[0.0], [1.0], [9.0], [10.0]], [0, 0, 1, 1]), 3)
    0.889
    """
    from sklearn.metrics import silhouette_score

    points, labels = checks.finite_table(points), np.unique(np.asarray(labels), return_inverse=True)[1].ravel()
    rows = np.sort(np.random.default_rng(seed).permutation(points.shape[0])[:n_sampled])
    n_clusters = len(np.unique(labels[rows]))
    return float(silhouette_score(points[rows], labels[rows])) if 1 < n_clusters < len(rows) else 0.0


def measures(
    points: Any, labels: Any, *, classes: Any = None, reference: Any = None, sent: Communication | None = None
) -> dict[str, float]:
    """All measures of a clustering, as far as what they need is given.

    Parameters
    ----------
    points : array or sparse matrix of shape (n_points, n_features)
    labels : array of shape (n_points,)
        The cluster of each point.
    classes : array of shape (n_points,), optional
        True classes: gives ``ari``, ``nmi``, ``ami`` and ``accuracy`` (under the best matching).
    reference : array of shape (n_points,), optional
        Labels of another clustering, such as k-means on all rows: gives ``cost_ratio``.
    sent : Communication, optional
        What was sent for it: gives ``bytes`` and ``rounds``.

    Examples
    --------
    >>> found = measures([[0.0], [1.0], [9.0], [10.0]], [1, 1, 0, 0], classes=["a", "a", "b", "b"])
    >>> {name: round(value, 3) for name, value in found.items()}
    {'cost': 1.0, 'silhouette': 0.889, 'ari': 1.0, 'nmi': 1.0, 'ami': 1.0, 'accuracy': 1.0}
    """
    from sklearn import metrics

    found = {"cost": partition_cost(points, labels)}
    if reference is not None:
        found["cost_ratio"] = cost_ratio(points, labels, reference)
    found["silhouette"] = silhouette(points, labels)
    if classes is not None:
        found["ari"] = float(metrics.adjusted_rand_score(classes, labels))
        found["nmi"] = float(metrics.normalized_mutual_info_score(classes, labels))
        found["ami"] = float(metrics.adjusted_mutual_info_score(classes, labels))
        found["accuracy"] = matched_accuracy(classes, labels)
    if sent is not None:
        found |= {"bytes": float(sent.bytes_total), "rounds": float(sent.rounds)}
    return found


def _labels(labels: Any, n_points: int, name: str) -> Array:
    array = np.asarray(labels)
    if array.shape != (n_points,) or array.dtype.kind not in "iu":
        raise InvalidInputError(f"{name} must be integers, one for each of {n_points} points")
    return array
