"""A distributed coreset by sensitivity sampling: devices send weighted rows, of which the server finds the clusters.

The rows that are drawn leave their devices as they are: it is a yardstick for cost, not a private method.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from kfed._base import files, geometry
from kfed._base.array import Array
from kfed.baselines.pooling import CountedClusters
from kfed.baselines.weighted_centers import weighted_kmeans
from kfed.simulate import Communication


def distributed_coreset(
    devices: Sequence[Any], n_clusters: int, seed: int = 0, *, n_drawn: int = 1_000, n_init: int = 10
) -> CountedClusters:
    """Cluster a sample of all rows, in which rows that are far from their device's own centers are more likely.

    Parameters
    ----------
    devices, n_clusters, seed
        As in `Baseline`; the points must be dense.
    n_drawn : int
        Rows that are drawn from all devices together. The local centers are in the coreset besides.
    n_init : int
        Seedings of k-means on the server; the best is kept.

    References
    ----------
    Balcan, Ehrlich and Liang, "Distributed k-means and k-median clustering on general topologies", NIPS 2013,
    Algorithm 1: round 1 tells the cost of every device, round 2 draws the rows.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> done = distributed_coreset([rng.normal(size=(200, 2)), rng.normal(size=(300, 2)) + 9], n_clusters=2, n_drawn=50)
    >>> done.sent.rounds, sorted(np.bincount(done.labels).tolist())
    (2, [200, 300])
    """
    rng = np.random.default_rng(seed)
    local = [_local(points, n_clusters, seed) for points in devices]
    total = sum(float(costs.sum()) for _, _, costs in local)
    told = [files.encode({"cost": np.array([costs.sum()])}) for _, _, costs in local]
    sizes = rng.multinomial(n_drawn, [costs.sum() / total if total else 1 / len(local) for _, _, costs in local])
    parts = [
        _coreset(points, *own, size, total / n_drawn, rng)
        for points, own, size in zip(devices, local, sizes, strict=True)
    ]
    rows, weights = (np.concatenate(column) for column in zip(*parts, strict=True))
    centers, _ = weighted_kmeans(rows, np.maximum(weights, 0), n_clusters, seed, n_init)
    up = [files.encode({"rows": rows, "weights": weights}) for rows, weights in parts]
    down = [files.encode({"centers": centers})] * len(devices)
    sent = Communication.of_round(told, [files.encode({"n_drawn": np.array([size])}) for size in sizes])
    labels = np.concatenate([geometry.nearest(points.astype(centers.dtype), centers) for points in devices])
    return CountedClusters(centers, labels, sent + Communication.of_round(up, down))


def _local(points: Array, n_clusters: int, seed: int) -> tuple[Array, Array, Array]:
    """Centers of a device, and the nearest of them and the squared distance to it for each row."""
    k = min(n_clusters, len(np.unique(points, axis=0)))
    centers, labels = weighted_kmeans(points, np.ones(len(points)), k, seed, n_init=1)
    return centers, labels, np.square(points - centers[labels]).sum(axis=1)


def _coreset(
    points: Array, centers: Array, labels: Array, costs: Array, size: int, unit: float, rng: np.random.Generator
) -> tuple[Array, Array]:
    """Rows drawn by their cost, and the centers, with the weights of a coreset: those of each center add up.

    A row of cost c is drawn with chance c / sum and weighs unit / c, so that sums over rows keep their expectation.
    """
    rows = rng.choice(len(points), size, p=costs / costs.sum()) if size and costs.sum() else np.empty(0, np.intp)
    weights = unit / costs[rows]
    left = np.bincount(labels, minlength=len(centers)) - np.bincount(labels[rows], weights, len(centers))
    return np.concatenate([points[rows], centers]), np.concatenate([weights, left])
