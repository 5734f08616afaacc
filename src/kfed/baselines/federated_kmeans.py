"""Federated k-means in many rounds: a k-means++ start over the network, then Lloyd until nothing changes.

The k first centers are rows of the data: they leave their devices, which k-FED never asks for.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from kfed._base import files
from kfed._base.array import Array
from kfed.baselines.distributed_lloyd import DistributedLloyd, lloyd_rounds
from kfed.simulate import Communication


def federated_kmeans(
    devices: Sequence[Any], n_clusters: int, seed: int = 0, *, max_rounds: int = 100
) -> DistributedLloyd:
    """Draw the first centers as k-means++ does, one a round, and run Lloyd over the network.

    It is a `Baseline` for dense points. Lloyd ends after `max_rounds` rounds at the latest.

    References
    ----------
    Arthur and Vassilvitskii, "k-means++: the advantages of careful seeding", SODA 2007. Each device tells the sum of
    squared distances of its rows to the centers so far; the server draws a device by that sum, and the device a row.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> done = federated_kmeans([rng.normal(size=(20, 2)), rng.normal(size=(30, 2)) + 9], n_clusters=2)
    >>> sorted(np.bincount(done.labels).tolist()), done.sent.rounds
    ([20, 30], 4)
    """
    centers, sent = plus_plus(devices, n_clusters, np.random.default_rng(seed))
    return lloyd_rounds(devices, centers, sent, max_rounds)


def plus_plus(devices: Sequence[Array], n_clusters: int, rng: np.random.Generator) -> tuple[Array, Communication]:
    """The first centers, (n_clusters, n_features), and what was sent for them."""
    weights = [np.ones(len(points)) for points in devices]
    drawn: list[Array] = []
    sent = Communication()
    for _ in range(n_clusters):
        sums = np.array([own.sum() for own in weights])
        sums = sums if sums.sum() else np.array([float(len(own)) for own in weights])  # only copies of centers are left
        device = int(rng.choice(len(devices), p=sums / sums.sum()))
        own = weights[device] if weights[device].sum() else np.ones(len(weights[device]))
        drawn.append(devices[device][rng.choice(len(own), p=own / own.sum())])
        up = [*(files.encode({"sum": np.array([one])}) for one in sums), files.encode({"row": drawn[-1]})]
        sent += Communication.of_round(up, [files.encode({"row": drawn[-1]})] * len(devices))
        gaps = [np.square(points - drawn[-1]).sum(axis=1) for points in devices]
        weights = gaps if len(drawn) == 1 else [np.minimum(*pair) for pair in zip(weights, gaps, strict=True)]
    return np.array(drawn), sent
