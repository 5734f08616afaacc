"""``rule="pooled"``: clusters as good as if all rows were in one place, from fine summaries of the devices.

Beyond the paper. A summary has many centers, so weighted k-means on the centers of all devices is close to k-means on
their rows. What is in the way are centers that stand for rows of several clusters: a device with two rows of a cluster
must not send their mean, so they are in a center with others. Such a center has a larger variance than the clusters it
lies among, and the larger it is, the less the center weighs. Where clusters are as wide as mixed centers, this harms.
So both weights are tried, and the clusters are taken that explain places and variances of the centers better.
"""

from __future__ import annotations

import numpy as np

from kfed._base import geometry, pool
from kfed._base.array import Array
from kfed._base.averages import means_by_label
from kfed.server.rules import noise, swaps
from kfed.server.rules.grouping import Grouping
from kfed.server.rules.traversal import farthest_first
from kfed.server.view.quality import RowMoments
from kfed.wire import MessageBatch

CAUTION = 5.0
"""How fast the weight of a center falls with its variance, where centers are much finer than clusters."""

FEW = 8.0
"""Centers of at most this many rows may have been merged to reach the floor; if most have more, none was."""

MOST_SINGLE = 0.01
"""Centers without any spread are single rows. If they have more of the weight than this, no floor asked for merging,
and they would outweigh centers of two rows."""

MAX_STEPS = 20
BLOCK_ELEMENTS = 2**20


def pooled_rule(batch: MessageBatch, n_clusters: int, start: Array, n_jobs: int | None) -> Grouping:
    """Weighted k-means on all centers; where some may be mixed, also with less weight for these, if that is better."""
    centers, weights = batch.centers, np.asarray(noise.weights(batch), np.float64)
    heaviest = start[[batch.counts[start].argmax()]]
    traversal = farthest_first(centers, n_clusters, heaviest, n_jobs)
    initial_centers = centers[traversal.picks]
    means = swaps.swapped_centers(centers, weights, initial_centers, n_jobs)
    variances = _variances(batch)
    if variances is not None and _may_be_mixed(batch, variances):
        purity = Purity(centers, weights, variances)
        lighter = swaps.swapped_centers(centers, purity.weights(means, n_jobs), initial_centers, n_jobs)
        means = min(means, purity.lloyd(lighter, n_jobs), key=purity.cost)
    return Grouping(initial_centers, traversal.distances, geometry.nearest(centers, means, n_jobs), means)


def _may_be_mixed(batch: MessageBatch, variances: Array) -> bool:
    single = batch.counts[variances == 0].sum()
    return bool(np.median(batch.counts) <= FEW and single <= MOST_SINGLE * batch.counts.sum())


def _variances(batch: MessageBatch) -> Array | None:
    """Mean squared distance of the rows to each center, or None if devices said it of less than half of the rows."""
    moments = RowMoments.of(batch)
    return moments.variances if moments.has_squares else None


class Purity:
    """How much centers weigh if they may stand for rows of several clusters.

    Parameters
    ----------
    centers : array of shape (n_device_centers, n_features)
    weights : array of shape (n_device_centers,)
        Their weights if all were pure.
    variances : array of shape (n_device_centers,)
        Mean squared distance of the rows behind each to it.
    """

    def __init__(self, centers: Array, weights: Array, variances: Array) -> None:
        self.centers, self.full_weights, self.variances = centers, weights, variances

    def weights(self, means: Array, n_jobs: int | None) -> Array:
        """Weights of the centers, given the means of the clusters, (n_device_centers,)."""
        return self._weights(means, geometry.nearest(self.centers, means, n_jobs))

    def lloyd(self, means: Array, n_jobs: int | None) -> Array:
        """Assign to the nearest mean and average by weight, where weights follow from the means."""
        labels = np.full(len(self.centers), -1)
        for _ in range(MAX_STEPS):
            before, labels = labels, geometry.nearest(self.centers, means, n_jobs)
            if np.array_equal(before, labels):
                break
            means = means_by_label(self.centers, labels, means, self._weights(means, labels), n_jobs)
        return means

    def cost(self, means: Array) -> float:
        """What the rows cost if each center stands for rows of one or two clusters, whichever explains it better.

        Shares 1 - t and t of rows around the means a and b have their mean at a + t (b - a), and a variance that is
        larger by t (1 - t) |b - a|^2. The distance of a center from there, and the variance that is left, are the cost.
        """
        origin = np.average(means, axis=0)
        total = 0.0
        for block in pool.blocks(len(self.centers), max(64, BLOCK_ELEMENTS // len(means))):
            costs = _costs_of_mixed(self.centers[block] - origin, self.variances[block], means - origin)
            total += float(costs @ self.full_weights[block])
        return total

    def _weights(self, means: Array, labels: Array) -> Array:
        """Multiply by (s / (s + v)) ** p, with v the variance of a center and s that of the cluster it is in.

        A center without any spread is pure. Where most centers are about as wide as clusters, which is so in many
        dimensions, v tells little: p is then near zero.
        """
        total = self.variances + geometry.squares_to_own(self.centers, means, labels)
        usual = medians_by_label(total, self.full_weights, labels, len(means))[labels]
        everywhere = np.zeros(len(labels), np.intp)
        widths = [medians_by_label(of, self.full_weights, everywhere, 1)[0] for of in (self.variances, total)]
        power = CAUTION * (1 - widths[0] / max(widths[1], 1e-300))
        shares = np.divide(usual, usual + self.variances, out=np.ones_like(usual), where=self.variances > 0)
        return np.asarray(self.full_weights * shares**power)


def _costs_of_mixed(centers: Array, variances: Array, means: Array) -> Array:
    """Mean cost of the rows behind each center, (n_device_centers,), with a its nearest mean and b any other.

    Examples
    --------
    >>> means = np.array([[0.0, 0.0], [4.0, 0.0]])
    >>> _costs_of_mixed(np.array([[0.5, 0.0], [1.0, 0.0]]), np.array([1.0, 4.0]), means)
    array([0., 1.])
    """
    rows, inner, products = np.arange(len(centers)), means @ means.T, centers @ means.T
    squares = geometry.squared_distances(centers, means)
    own = squares.argmin(axis=1)
    # (c - a)(b - a) and |b - a|^2 for every b, from products alone.
    along = products - products[rows, own][:, None] - inner[own] + inner[own, own][:, None]
    gaps = inner.diagonal() - 2 * inner[own] + inner[own, own][:, None]
    shares = np.clip(np.divide(along, gaps, out=np.zeros_like(along), where=gaps > 0), 0, 1)
    beside = squares[rows, own][:, None] - 2 * shares * along + shares**2 * gaps
    return np.asarray((beside + np.maximum(variances[:, None] - shares * (1 - shares) * gaps, 0)).min(axis=1))


def medians_by_label(values: Array, weights: Array, labels: Array, n_labels: int) -> Array:
    """The weighted median of the values of each label, (n_labels,); 0 without values.

    Examples
    --------
    >>> medians_by_label(np.array([1.0, 2.0, 9.0, 5.0]), np.array([1, 1, 5, 1]), np.array([0, 0, 0, 2]), 3)
    array([9., 0., 5.])
    """
    order = np.lexsort((values, labels))
    below = np.cumsum(weights[order])
    edges = np.searchsorted(labels[order], np.arange(n_labels + 1))
    starts = np.concatenate([[0.0], below])[edges]
    middles = np.searchsorted(below, (starts[:-1] + starts[1:]) / 2)
    found = values[order[np.minimum(middles, len(values) - 1)]]
    return np.where(np.diff(edges) > 0, found, 0.0)
