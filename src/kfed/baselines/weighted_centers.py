"""Weighted k-means on device centers: k-FED's messages, grouped by k-means instead of farthest-first traversal."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kfed._base.array import Array
from kfed.baselines.pooling import CountedClusters
from kfed.server import OwnRule, register_rule
from kfed.simulate import Round
from kfed.wire import MessageBatch


def weighted_centers(
    devices: Sequence[Any], n_clusters: int, seed: int = 0, *, n_local_clusters: int | None = None, n_init: int = 10
) -> CountedClusters:
    """Cluster every device by Algorithm 1, and all device centers by k-means, each as heavy as it has points.

    Parameters
    ----------
    devices, n_clusters, seed
        As in `Baseline`.
    n_local_clusters : int, optional
        Clusters of each device, by default `n_clusters`.
    n_init : int
        Seedings on the server; the best is kept.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> done = weighted_centers([rng.normal(size=(20, 2)), rng.normal(size=(30, 2)) + 9], n_clusters=2)
    >>> done.sent.rounds, sorted(np.bincount(done.labels).tolist())
    (1, [20, 30])
    """

    def rule(batch: MessageBatch, k: int) -> Array:
        return weighted_kmeans(batch.centers, batch.counts, k, seed, n_init)[1]

    name = f"weighted k-means from {n_init} seedings, seed {seed}"
    return by_rule(name, rule, devices, n_clusters, n_local_clusters, seed)


def by_rule(
    name: str, rule: OwnRule, devices: Sequence[Any], n_clusters: int, n_local_clusters: int | None, seed: int
) -> CountedClusters:
    """One round of k-FED whose server goes by another rule."""
    register_rule(name, rule)
    named = {f"device-{position}": points for position, points in enumerate(devices)}
    done = Round.run(named, n_clusters, n_local_clusters or n_clusters, rule=name, random_state=seed)
    return CountedClusters(done.aggregation.cluster_centers, done.labels, done.sent)


def weighted_kmeans(points: Array, weights: Array, n_clusters: int, seed: int, n_init: int = 10) -> tuple[Array, Array]:
    """scikit-learn's k-means of weighted points: centers (n_clusters, n_features) and labels (n_points,)."""
    from sklearn.cluster import KMeans

    model = KMeans(n_clusters, n_init=n_init, random_state=seed % 2**32).fit(points, sample_weight=weights)
    return model.cluster_centers_, model.labels_.astype("int64")
