"""Labels of the rows of a device that sent a summary: the nearest cluster, if the device is likely to hold it.

A row between two clusters is more likely to be of the one that its device holds much of. With pi_r the share of
cluster r on this device, a row x gets the cluster of the largest log pi_r - g_r(x). Here g_r(x) is how much farther x
is from center r than from its nearest center a, |x - r|^2 - |x - a|^2, over twice the variance of the rows along the
line from a to r. Shares are found by expectation maximisation (Dempster, Laird and Rubin, JRSS B 1977). On a device
whose rows the shares of all devices explain as well, a row gets its nearest cluster. Beyond the paper: this is what its
induced labels know of a device that holds few clusters, without a number of local clusters.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from kfed._base.array import Array

LEAST_HELD = 2.0
"""Rows that speak for a cluster by chance: a cluster with fewer is not held by the device."""

UNSEEN = 0.05
"""Rows that all clusters together are given beforehand, so that none is out of the question."""

LEAST_SHARE = 1e-3
"""Of all devices, a cluster is taken to have at least this part of an even share."""

FAR_OUT, NOT_FAR = 25.0, 0.9
"""A row is far out if its square is more than 25 times what nine tenths of the rows stay below: a cell may be wrong."""

N_PASSES, MAX_STEPS, SMALL_CHANGE = 3, 100, 1e-6

MOST_EXAMINED = 2**14
"""Of a device with more rows, so many tell the shares."""


def labels_by_share(
    points: Any, cluster_centers: Array, shares_of_all: Array | None = None, *, by_size: bool = True
) -> Array:
    """Global cluster of every point, (n_points,), on a device that may hold few of them.

    Parameters
    ----------
    points : array or sparse matrix of shape (n_points, n_features)
    cluster_centers : array of shape (n_clusters, n_features)
    shares_of_all : array of shape (n_clusters,), optional
        Which share of the rows of all devices each cluster has; by default, all have the same.
    by_size : bool
        Whether a row between two clusters that the device holds rather goes to the larger one. Otherwise it goes to the
        nearest that the device holds.

    Examples
    --------
    >>> points = np.array([-0.6, -0.4, -0.2, 0.0, 0.1, 0.2, 0.4, 0.6, 0.8, 1.1])[:, None]
    >>> labels_by_share(points, np.array([[0.0], [2.0]]))  # 1.1 is nearer to 2, where this device has nothing else
    array([0, 0, 0, 0, 0, 0, 0, 0, 0, 0])
    """
    if len(cluster_centers) == 1:
        return np.zeros(points.shape[0], np.intp)
    products, centers = _relative(points, cluster_centers)
    some = products[:: -(-len(products) // MOST_EXAMINED)]
    even = np.full(len(cluster_centers), 1 / len(cluster_centers))
    usual = even if shares_of_all is None else _at_least(LEAST_SHARE * even, shares_of_all)
    evidence = _Among(centers)
    labels = evidence.nearest(some)
    for _ in range(N_PASSES):
        variances = evidence.variances(some, labels)
        against = evidence.against(some, variances)
        own = _shares(against)
        held = own if by_size else _evened(own, len(some))
        shares = held if _differs(own, usual, against) else even
        labels = (np.log(shares) - against).argmax(axis=1)
    if len(some) == len(products):
        return labels
    return np.asarray((np.log(shares) - evidence.against(products, variances)).argmax(axis=1))


def _relative(points: Any, centers: Array) -> tuple[Array, Array]:
    """Products of points and centers, (n_points, n_clusters), and the centers: relative to the first, in steps of 1."""
    first = centers[0].astype(np.float64)
    moved = centers - first
    length = np.abs(moved).max() or 1.0
    moved /= length
    return np.asarray((points @ moved.T - first @ moved.T) / length), moved


class _Among:
    """How rows lie among cluster centers, from their products with these."""

    def __init__(self, centers: Array) -> None:
        self.among = centers @ centers.T  # (n_clusters, n_clusters)
        lengths = np.diag(self.among)
        self.squares = np.maximum(lengths[:, None] + lengths - 2 * self.among, 0)

    def nearest(self, products: Array) -> Array:
        """The nearest center of each row."""
        return np.asarray((np.diag(self.among) - 2 * products).argmin(axis=1))

    def variances(self, products: Array, labels: Array) -> Array:
        """Variance of rows about the centers of their labels, along the line through any two centers, (k, k).

        With q_r the product of a residual and center r, it is the mean of (q_r - q_s)^2 over the squared distance. Rows
        that lie far out count less.
        """
        residuals = products - self.among[labels]
        squares = np.einsum("ir,ir->i", residuals, residuals)
        weights = np.minimum(1, FAR_OUT * np.quantile(squares, NOT_FAR) / np.maximum(squares, 1e-300))
        moments = (residuals.T * weights) @ residuals / max(weights.sum(), 1e-300)
        spread = np.diag(moments)[:, None] + np.diag(moments) - 2 * moments
        return np.asarray(np.maximum(spread, 0) / np.maximum(self.squares, 1e-300))

    def against(self, products: Array, variances: Array) -> Array:
        """How much less likely each cluster is than the nearest one of the row, a log ratio, (n_rows, n_clusters)."""
        distances = np.diag(self.among) - 2 * products  # less the squared length of the row
        nearest = distances.argmin(axis=1)
        gaps = distances - distances.min(axis=1, keepdims=True)
        return np.asarray(gaps / np.maximum(2 * variances[nearest], 1e-300 + 1e-12 * self.squares[nearest]))


def _at_least(least: Array, shares: Array) -> Array:
    raised = np.maximum(shares, least)
    return np.asarray(raised / raised.sum())


def _shares(against: Array) -> Array:
    """Share of each cluster on the device, (n_clusters,); clusters of few rows have next to none."""
    n_clusters = against.shape[1]
    likelihoods = np.exp(-np.minimum(against, 700))
    shares = np.full(n_clusters, 1 / n_clusters)
    for _ in range(MAX_STEPS):
        of_rows = likelihoods * shares
        held = (of_rows / of_rows.sum(axis=1, keepdims=True)).sum(axis=0)
        after = np.maximum(held - LEAST_HELD, 0) + UNSEEN / n_clusters
        after /= after.sum()
        change, shares = np.abs(after - shares).max(), after
        if change < SMALL_CHANGE:
            break
    return shares


def _evened(shares: Array, n_rows: int) -> Array:
    """The same share for all clusters that hold a row, or for the largest if none does."""
    is_held = shares >= min(1 / n_rows, float(shares.max()))
    return np.where(is_held, 1 / np.count_nonzero(is_held), shares)


def _differs(own: Array, usual: Array, against: Array) -> bool:
    """Whether shares of its own explain the rows of a device better than those of all, and not only by chance.

    On a device of rows like all others, twice the gain has a mean of k - 1 (Wilks, 1938): about one such device in
    three counts as different, with shares that differ little.
    """
    likelihoods = np.exp(-np.minimum(against, 700))
    gain = np.log(likelihoods @ own).sum() - np.log(likelihoods @ usual).sum()
    return bool(2 * gain > len(own) - 1)
