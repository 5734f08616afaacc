"""The k-means cost of all points for every number of clusters, exactly, from messages alone.

The points behind a device center lie about it with a known sum of squares, so the cost of any grouping of the centers
is that sum plus the cost of the grouping. Ward's method ("Hierarchical grouping to optimize an objective function",
JASA 1963) merges the two groups that raise it least, and so gives one grouping for every number of clusters.
"""

from __future__ import annotations

import numpy as np

from kfed._base import geometry
from kfed._base.array import Array

MAX_CENTERS = 1024
"""Of more centers than this a sample is looked at."""


def calinski_harabasz(centers: Array, counts: Array, sums_of_squares: Array) -> Array:
    """The index of Calinski and Harabasz for k = 2, 3, ..., up to half of the centers.

    The variance between clusters over that within them ("A dendrite method for cluster analysis", Communications in
    Statistics 1974), of the points behind the centers: its maximum is a common proposal for the number of clusters.

    Parameters
    ----------
    centers : array of shape (n_device_centers, n_features)
    counts : array of shape (n_device_centers,)
    sums_of_squares : array of shape (n_device_centers,)

    Examples
    --------
    >>> centers = np.array([[0.0], [1.0], [10.0], [11.0], [20.0], [21.0]])
    >>> calinski_harabasz(centers, np.full(6, 30), np.full(6, 10.0)).round().tolist()
    [516.0, 10114.0]
    """
    sample = _sample(len(centers))
    counts = counts[sample].astype(np.float64)
    within = sums_of_squares[sample].sum() + np.cumsum(_ward(centers[sample], counts))  # of n - 1, n - 2, ..., 1
    within = within[::-1]  # of 1, 2, ..., n - 1 clusters
    n_clusters = np.arange(2, max(2, len(sample) // 2 + 1))
    some = np.maximum(within[n_clusters - 1], np.finfo(np.float64).eps * within[:1])
    left = np.maximum(counts.sum() - n_clusters, 1)
    return np.asarray((within[:1] - some) * left / ((n_clusters - 1) * np.maximum(some, 1e-300)))


def _sample(n_centers: int) -> Array:
    """Rows to look at: all, or some that any order of the messages gives, since a batch is sorted."""
    if n_centers <= MAX_CENTERS:
        return np.arange(n_centers)
    return np.sort(np.random.default_rng(0).choice(n_centers, MAX_CENTERS, replace=False))


def _ward(centers: Array, weights: Array) -> Array:
    """How much each merge raises the cost, (n_centers - 1,), the cheapest first."""
    weights = weights.copy()
    rises = geometry.squared_distances(centers, centers) * weights * weights[:, None] / (weights + weights[:, None])
    np.fill_diagonal(rises, np.inf)
    nearest = rises.argmin(axis=1)
    least = rises.min(axis=1)
    merged = np.empty(len(centers) - 1)
    for step in range(len(merged)):
        one = int(least.argmin())
        other = int(nearest[one])
        merged[step] = least[one]
        _merge(rises, weights, one, other)
        # a merged group is no nearer to any other than the nearer of its parts was: only these have to look again
        again = np.flatnonzero((nearest == one) | (nearest == other) | (np.arange(len(weights)) == one))
        nearest[again] = rises[again].argmin(axis=1)
        least[again] = rises[again, nearest[again]]
        least[other] = np.inf
    return merged


def _merge(rises: Array, weights: Array, one: int, other: int) -> None:
    """Let a group take in another, by the formula of Lance and Williams (Computer Journal 1967)."""
    a, b = weights[one], weights[other]
    joint = (a + weights) * rises[one] + (b + weights) * rises[other] - weights * rises[one, other]
    joint /= a + b + weights
    joint[[one, other]] = np.inf
    rises[one], rises[:, one] = joint, joint
    rises[other], rises[:, other] = np.inf, np.inf
    weights[one] += b
