"""The points behind each global cluster, in moments: what an aggregation may say of them in a message of its own.

A local center is the mean of its points, so by the parallel-axis theorem the moments of many local clusters give those
of their union exactly: the count, the mean, and the sum of squares about that mean.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from kfed._base.array import Array
from kfed._base.averages import means_by_label
from kfed.server.rules import noise
from kfed.server.rules.support import part_of
from kfed.wire import MAX_COUNT, BatchDetails, Details, MessageBatch


class Summary(NamedTuple):
    """Moments of the points of each cluster, (n_clusters, ...) each."""

    means: Array  # (n_clusters, n_features), of all points
    counts: Array  # (n_clusters,)
    sums_of_squares: Array | None  # (n_clusters,) about the means; None if a device did not say
    details: Details | None = None  # the same by column, where devices said it


def summarize(batch: MessageBatch, labels: Array, n_clusters: int, left_out: Sequence[int] | Array = ()) -> Summary:
    """Moments of the points behind the device centers of each label; every label must have a center.

    Rows of centers that are left out do not count, unless messages are private.

    Examples
    --------
    >>> sent = kfed.DeviceMessage("a", [[0.0], [3.0]], counts=[10, 20], sums_of_squares=[5.0, 8.0])
    >>> summarize(MessageBatch.of([sent]), np.array([0, 0]), 1)  # 5 + 8, and 10 x 2^2 + 20 x 1^2 for the shift
    Summary(means=array([[2.]]), counts=array([30]), sums_of_squares=array([73.]), details=None)
    """
    rows = np.setdiff1d(np.arange(len(labels)), left_out, assume_unique=True)
    if batch.schema.scaling == "by message" and batch.details is not None:
        return _by_column(batch, batch.details, labels, rows, n_clusters)
    if batch.details is None:
        batch, labels = part_of(batch, rows), labels[rows]
    nowhere = np.zeros((n_clusters, batch.n_features))
    means = means_by_label(batch.centers, labels, nowhere, batch.counts)
    counts = np.minimum(total_counts(batch.counts, labels, n_clusters), MAX_COUNT)
    if np.isnan(batch.sums_of_squares).any():
        return Summary(means, counts, None, noise.summary_details(batch, labels, n_clusters))
    shifts = batch.centers.astype(np.float64) - means[labels]
    about = batch.sums_of_squares + batch.counts * np.einsum("sf,sf->s", shifts, shifts)
    return Summary(means, counts, np.bincount(labels, weights=about, minlength=n_clusters))


def total_counts(counts: Array, labels: Array, n_clusters: int) -> Array:
    """Sum counts by label: whole numbers stay whole unless a sum is too large for that, (n_clusters,).

    Examples
    --------
    >>> total_counts(np.full(1024, 2**53), np.zeros(1024, int), 1), total_counts(np.array([3, 4]), np.array([1, 1]), 2)
    (array([9.22337204e+18]), array([0, 7]))
    """
    totals = np.bincount(labels, weights=counts, minlength=n_clusters)
    return totals.astype(counts.dtype) if totals.max(initial=0) < 2**63 else totals


def _by_column(batch: MessageBatch, details: BatchDetails, labels: Array, rows: Array, n_clusters: int) -> Summary:
    """The same column by column, over the cells that were observed."""
    members = np.zeros((n_clusters, len(labels)))
    members[labels[rows], rows] = 1
    observed = members @ details.observed
    means = members @ (details.observed * batch.centers) / np.maximum(observed, 1)
    squares = members @ (details.squares + details.observed * (batch.centers - means[labels]) ** 2)
    counts = (members @ batch.counts).astype(batch.counts.dtype)
    return Summary(means, counts, squares.sum(axis=1), Details(observed=observed, squares=squares))
