"""The points behind each global cluster, in moments: what an aggregation may say of them in a message of its own.

A local center is the mean of its points, so by the parallel-axis theorem the moments of many local clusters give those
of their union exactly: the count, the mean, and the sum of squares about that mean.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from kfed._base.array import Array
from kfed._base.averages import means_by_label
from kfed.wire import MessageBatch


class Summary(NamedTuple):
    """Moments of the points of each cluster, (n_clusters, ...) each."""

    means: Array  # (n_clusters, n_features), of all points
    counts: Array  # (n_clusters,)
    sums_of_squares: Array | None  # (n_clusters,) about the means; None if a device did not say


def summarize(batch: MessageBatch, labels: Array, n_clusters: int) -> Summary:
    """Moments of the points behind the device centers of each label; every label must have a center.

    Examples
    --------
    >>> sent = kfed.DeviceMessage("a", [[0.0], [3.0]], counts=[10, 20], sums_of_squares=[5.0, 8.0])
    >>> summarize(MessageBatch.of([sent]), np.array([0, 0]), 1)  # 5 + 8, and 10 x 2^2 + 20 x 1^2 for the shift
    Summary(means=array([[2.]]), counts=array([30]), sums_of_squares=array([73.]))
    """
    nowhere = np.zeros((n_clusters, batch.n_features))
    means = means_by_label(batch.centers, labels, nowhere, batch.counts)
    counts = np.bincount(labels, weights=batch.counts, minlength=n_clusters).astype(batch.counts.dtype)
    if np.isnan(batch.sums_of_squares).any():
        return Summary(means, counts, None)
    shifts = batch.centers.astype(np.float64) - means[labels]
    about = batch.sums_of_squares + batch.counts * np.einsum("sf,sf->s", shifts, shifts)
    return Summary(means, counts, np.bincount(labels, weights=about, minlength=n_clusters))
