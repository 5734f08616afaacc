"""Which clusters of a device lie apart, and how many are left when those that do not are merged.

Like Algorithm 1 it is written with a batch axis.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from kfed._base import seeding
from kfed._base.array import Array
from kfed.device.steps.lloyd_step import memberships, smallest_of

APART = 4.0
"""Standard deviations between two clusters of many points."""

CAUTION = 8.0
"""Two clusters of m points must lie ``1 + CAUTION / m`` times as far apart: in few points a gap opens by chance."""

BORROWED = 10.0
"""Two clusters of few points borrow this many points' worth of the spread of all clusters."""


class SignalClusters(NamedTuple):
    """Moments of the clusters of each device; m directions."""

    sizes: Array  # (n_devices, n_clusters)
    means: Array  # (n_devices, n_clusters, m)
    scatters: Array  # (n_devices, n_clusters, m, m): sums of outer products about the means


def clusters_at(signal: Array, weights: Array, centers: Array) -> SignalClusters:
    """Give every point to its nearest center; `signal` is lifted."""
    coordinates = signal[:, :-2]
    labels, _ = smallest_of(seeding.lifted_distances(signal, centers))
    members = memberships(labels, weights, centers.shape[1])
    sizes = members.sum(axis=2)
    means = np.matmul(members, coordinates.transpose(0, 2, 1)) / np.maximum(sizes, 1e-300)[:, :, None]
    return SignalClusters(sizes, means, _scatters(coordinates, members, means))


def _scatters(coordinates: Array, members: Array, means: Array) -> Array:
    scatters = np.empty((*members.shape[:2], coordinates.shape[1], coordinates.shape[1]))
    for cluster in range(members.shape[1]):
        centered = coordinates - means[:, cluster, :, None]
        np.matmul(centered * members[:, cluster, None], centered.transpose(0, 2, 1), out=scatters[:, cluster])
    return scatters


def are_apart(clusters: SignalClusters, rounding: Array) -> Array:
    """Tell whether every two clusters of a device lie apart, (n_devices,): farther than `rounding`, squared, too."""
    is_other = ~np.eye(clusters.sizes.shape[1], dtype=bool)
    is_near = (_shares_of_asked(clusters, rounding) < 1) & is_other
    return np.asarray(~is_near.any(axis=(1, 2)) & (clusters.sizes > 0).all(axis=1))


def _shares_of_asked(clusters: SignalClusters, rounding: Array) -> Array:
    """Squared gaps of every two clusters over what is asked of them, (n_devices, n_clusters, n_clusters)."""
    sizes, means, scatters = clusters
    lines = means[:, :, None] - means[:, None]  # (n_devices, n_clusters, n_clusters, m)
    gaps = np.einsum("brsd,brsd->brs", lines, lines)  # squared
    own = np.einsum("brsd,brsd->brs", np.matmul(lines, scatters), lines)
    every = np.einsum("brsd,brsd->brs", np.matmul(lines, scatters.sum(axis=1)[:, None]), lines)
    n_pair = sizes[:, :, None] + sizes[:, None]
    n_all = np.maximum(sizes.sum(axis=1) - np.count_nonzero(sizes, axis=1), 1)[:, None, None]
    # each spread is still times the squared gap, for want of dividing the line by its length
    spreads = (own + own.transpose(0, 2, 1) + BORROWED * every / n_all) / (np.maximum(n_pair - 2, 0) + BORROWED)
    asked = (APART * (1 + CAUTION / np.maximum(n_pair, 1))) ** 2 * spreads
    with np.errstate(over="ignore"):  # clusters without any spread lie infinitely far apart
        return np.where(gaps > rounding[:, None, None], gaps**2 / np.maximum(asked, 1e-300), 0)


def n_left_apart(clusters: SignalClusters, rounding: Array) -> Array:
    """Merge the two clusters that are least apart until all are, and count what is left, (n_devices,)."""
    n_devices, n_clusters = clusters.sizes.shape
    for _ in range(n_clusters - 1):
        is_there = clusters.sizes > 0
        shares = _shares_of_asked(clusters, rounding)
        shares[~(is_there[:, :, None] & is_there[:, None] & ~np.eye(n_clusters, dtype=bool))] = np.inf
        flat = shares.reshape(n_devices, -1)
        least = flat.argmin(axis=1)
        devices = np.flatnonzero(flat[np.arange(n_devices), least] < 1)
        if len(devices) == 0:
            break
        _merge(clusters, devices, *np.divmod(least[devices], n_clusters))
    return np.asarray(np.count_nonzero(clusters.sizes, axis=1))


def _merge(clusters: SignalClusters, devices: Array, one: Array, other: Array) -> None:
    """Let cluster `one` of each of the devices take in the `other`, by the parallel-axis theorem."""
    sizes, means, scatters = clusters
    lines = means[devices, one] - means[devices, other]
    a, b = sizes[devices, one], sizes[devices, other]
    between = np.einsum("bd,be->bde", lines, lines) * (a * b / (a + b))[:, None, None]
    scatters[devices, one] += scatters[devices, other] + between
    means[devices, one] -= lines * (b / (a + b))[:, None]
    sizes[devices, one] += b
    sizes[devices, other] = 0
    scatters[devices, other] = 0
