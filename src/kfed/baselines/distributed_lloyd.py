"""Naive distributed k-means: each round the server sends centers, and devices answer with means and counts.

The first centers are rows of the data, drawn at random: they leave their devices, which k-FED never asks for.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from kfed._base import checks, files, geometry
from kfed._base.array import Array
from kfed._base.pool import one_blas_thread
from kfed.baselines.pooling import PooledClusters, pool
from kfed.simulate import Communication
from kfed.wire import DeviceMessage


@dataclass(frozen=True)
class Step:
    """State after a round.

    Attributes
    ----------
    cost : float
        The k-means cost of the clustering that the devices found in this round.
    sent : Communication
        What was sent from the start until now.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> devices = [rng.normal(size=(20, 2)), rng.normal(size=(30, 2)) + 9]
    >>> first = distributed_lloyd(devices, n_clusters=2).steps[0]
    >>> round(first.cost), first.sent.rounds
    (89, 2)
    """

    cost: float
    sent: Communication


@dataclass(frozen=True, eq=False)
class DistributedLloyd(PooledClusters):
    """Result of distributed Lloyd; `steps` has one entry for each round, the first of which draws the centers.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> devices = [rng.normal(size=(20, 2)), rng.normal(size=(30, 2)) + 9]
    >>> found = distributed_lloyd(devices, n_clusters=2)
    >>> len(found.steps), found.sent == found.steps[-1].sent
    (2, True)
    """

    steps: tuple[Step, ...] = field(repr=False)

    @property
    def sent(self) -> Communication:
        """What was sent in all rounds."""
        return self.steps[-1].sent


def distributed_lloyd(
    devices: Sequence[Any], n_clusters: int, seed: int = 0, *, max_rounds: int = 100
) -> DistributedLloyd:
    """Run Lloyd's heuristic over a network until no point changes its cluster.

    Parameters
    ----------
    devices, n_clusters, seed
        As in `Baseline`; the seed decides which rows are the first centers.
    max_rounds : int
        At most this many rounds.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> done = distributed_lloyd([rng.normal(size=(20, 2)), rng.normal(size=(30, 2)) + 9], n_clusters=2)
    >>> [round(step.cost) for step in done.steps], done.sent.rounds
    ([89, 89], 3)
    """
    centers, sent = _first_centers(pool(devices), n_clusters, np.random.default_rng(seed))
    return lloyd_rounds(devices, centers, sent, max_rounds)


def lloyd_rounds(devices: Sequence[Any], centers: Array, sent: Communication, max_rounds: int) -> DistributedLloyd:
    """Run Lloyd over the network from these centers, which took what was `sent`."""
    pooled, ends = pool(devices), np.cumsum([points.shape[0] for points in devices])[:-1]
    n_clusters, norms = len(centers), geometry.squared_norm(pooled)
    steps: list[Step] = []
    before = np.empty(0)
    with one_blas_thread():
        for _ in range(max_rounds):
            labels = _nearest(pooled, centers)  # every device labels its own points; here all at once
            local = [_means(*own, n_clusters) for own in zip(devices, np.split(labels, ends), strict=True)]
            down = [files.encode({"centers": centers})] * len(devices)
            sent += Communication.of_round((_message(means, counts) for means, counts in local), down)
            centers, explained = _combine(local, centers)  # on the server
            steps.append(Step(norms - explained, sent))
            if np.array_equal(labels, before):
                break
            before = labels
    return DistributedLloyd(centers, labels, tuple(steps))


def _first_centers(points: Any, n_clusters: int, rng: np.random.Generator) -> tuple[Array, Communication]:
    """Draw rows of all devices at random; each is sent by its device."""
    drawn = _dense(points[np.sort(rng.permutation(points.shape[0])[:n_clusters])])
    return drawn, Communication.of_round((files.encode({"row": row}) for row in drawn), ())


def _nearest(points: Any, centers: Array) -> Array:
    if not checks.is_sparse(points):
        return geometry.nearest(points, centers)
    return np.asarray((np.einsum("kd,kd->k", centers, centers) - 2 * (points @ centers.T)).argmin(axis=1))


def _means(points: Any, labels: Array, n_clusters: int) -> tuple[Array, Array]:
    """Mean and number of a device's points in each cluster."""
    counts = np.bincount(labels, minlength=n_clusters)
    members = np.eye(n_clusters, dtype=points.dtype)[labels]  # (n_points, n_clusters)
    sums = _dense((points.T @ members).T)
    return sums / np.maximum(counts, 1)[:, None].astype(points.dtype), counts


def _message(means: Array, counts: Array) -> bytes:
    """Encode a device's means and counts in the format of k-FED's messages."""
    return DeviceMessage("device", means[counts > 0], counts[counts > 0]).to_bytes()


def _combine(local: Sequence[tuple[Array, Array]], centers: Array) -> tuple[Array, float]:
    """Combine the means of all devices, with the squared norm that they explain; an empty cluster keeps its center."""
    counts = np.sum([own for _, own in local], axis=0)
    sums = np.sum([means.astype(np.float64) * own[:, None] for means, own in local], axis=0)
    means = sums / np.maximum(counts, 1)[:, None]
    explained = float(np.einsum("k,kd,kd->", counts, means, means))
    return np.where(counts[:, None] > 0, means, centers).astype(centers.dtype), explained


def _dense(points: Any) -> Array:
    return np.asarray(points.toarray() if checks.is_sparse(points) else points)
