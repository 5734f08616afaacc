"""How well clusters fit: how far apart they are, which devices fit badly, and what is left without a device."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from kfed._base.array import Array
from kfed.errors import KFedError
from kfed.server.aggregation import Aggregation, aggregate_batch
from kfed.server.view.quality import RowMoments
from kfed.wire import MessageBatch

MOST_LEFT_OUT = 30
"""Devices that are left out one at a time; of more, those with the most rows."""


class Without(NamedTuple):
    """What became of the clusters without one device: the share of the rows of others that keep their cluster."""

    device_id: str
    share_kept: float


def gaps_between(aggregation: Aggregation) -> Array:
    """How far apart clusters are, in standard deviations of their rows along the line that joins them, (k, k).

    NaN if devices did not say how far their rows spread, and for clusters without rows. How far device centers
    spread along a line is exact; about a center, rows are taken to spread as its columns do, or equally in all
    directions if devices sent no spread of each column.
    """
    moments, labels, k = RowMoments.of(aggregation.messages), aggregation.center_labels, aggregation.n_clusters
    gaps = np.full((k, k), np.nan)
    if not moments.has_squares:
        return gaps
    means, sizes = moments.means(labels, k), np.bincount(labels, moments.counts, k)
    by_column = _squares_by_column(aggregation.messages.rescaled, moments)
    for r in range(k):
        for s in range(r):
            if sizes[r] and sizes[s]:
                line = means[r] - means[s]
                length = float(np.linalg.norm(line))
                line = line / max(length, 1e-300)
                total = sum(_squares_along(moments, by_column, means[t], labels == t, line) for t in (r, s))
                deviation = np.sqrt(total / (sizes[r] + sizes[s]))
                gaps[r, s] = gaps[s, r] = length / max(deviation, 1e-300)
    return gaps


def _squares_by_column(batch: MessageBatch, moments: RowMoments) -> Array:
    """Sum of squares of the rows about each device center, by feature, (n_device_centers, n_features)."""
    details = batch.details
    if details is not None and np.isfinite(details.squares).all():
        return details.squares
    return np.repeat(moments.squares[:, None] / batch.n_features, batch.n_features, axis=1)


def _squares_along(moments: RowMoments, by_column: Array, mean: Array, own: Array, line: Array) -> float:
    """Sum of squares of the rows of a cluster about its mean, along a line of length 1."""
    places = (moments.centers[own] - mean) @ line
    return float(moments.counts[own] @ places**2 + by_column[own].sum(axis=0) @ line**2)


def misfits(aggregation: Aggregation) -> Array:
    """Root mean squared distance of the rows of each device to their clusters, over the median device, (n_devices,).

    Without spreads, that of the device centers. NaN for a device without centers.
    """
    moments, labels = RowMoments.of(aggregation.messages), aggregation.center_labels
    means = moments.means(labels, aggregation.n_clusters)
    squares = moments.squares + moments.counts * np.square(moments.centers - means[labels]).sum(axis=1)
    n_devices = aggregation.messages.n_devices
    rows = np.bincount(moments.owners, moments.counts, n_devices)
    distances = np.full(n_devices, np.nan)
    np.divide(np.bincount(moments.owners, squares, n_devices), rows, out=distances, where=rows > 0)
    distances = np.sqrt(distances)
    usual = float(np.nanmedian(distances)) if (rows > 0).any() else np.nan
    return np.asarray(distances / usual) if usual > 0 else np.ones(n_devices)


def without_each(aggregation: Aggregation, n_jobs: int | None = None) -> Iterator[Without]:
    """Aggregate again without each device, as if it had never joined, and compare what becomes of the others."""
    batch = aggregation.messages
    rows = np.bincount(batch.owners, batch.counts, batch.n_devices)
    if np.count_nonzero(rows) < 2:
        return
    for position in np.argsort(-rows, kind="stable")[:MOST_LEFT_OUT]:
        device_id = batch.device_ids[position]
        others = batch.owners != position
        asked = aggregation.settings.without(device_id)
        present, labels = np.unique(aggregation.center_labels[others], return_inverse=True)
        try:
            how = (aggregation.rule, asked.first_device, n_jobs, asked.min_devices)
            again = aggregate_batch(batch.without(device_id), len(present), *how)
        except KFedError:
            continue
        yield Without(device_id, share_kept(labels, again.center_labels, batch.counts[others].astype(np.float64)))


def share_kept(labels: Array, others: Array, weights: Array) -> float:
    """Share of the weight that is in the same cluster in both labelings, under the names that match best.

    Examples
    --------
    >>> share_kept(np.array([0, 0, 1, 1]), np.array([1, 1, 0, 1]), np.ones(4))
    0.75
    """
    from scipy.optimize import linear_sum_assignment

    size = 1 + max(int(labels.max()), int(others.max()))
    shared = np.bincount(labels * size + others, weights, size * size).reshape(size, size)
    return float(shared[linear_sum_assignment(-shared)].sum() / max(weights.sum(), 1e-300))


def nearest_pair(gaps: Array) -> tuple[int, int] | None:
    """The two clusters that are least apart; None if that is not known."""
    if not np.isfinite(gaps).any():
        return None
    r, s = np.unravel_index(np.nanargmin(gaps), gaps.shape)
    return min(int(r), int(s)), max(int(r), int(s))
