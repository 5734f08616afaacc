"""The public comparison of private k-means, on one device and on ten, and what others published of it."""

from __future__ import annotations

import sys
import warnings
from importlib import import_module
from importlib.util import find_spec
from types import ModuleType
from typing import Any

import numpy as np

from kfed._base import geometry
from kfed._base.array import Array
from kfed.device import Privacy
from kfed.errors import AggregationWarning, PrivacyWarning
from kfed.experiments.axes import seed_of
from kfed.server import aggregate
from kfed.simulate import cluster_devices, messages_of

EPSILONS = (0.25, 0.5, 1.0, 2.0, 4.0)
N_ROWS, N_SITES = 20_000, 10
DELTA = N_ROWS**-1.1
PUBLISHED = {  # (k, d): PE-means, Google, FastLloyd, diffprivlib, as PE-means (2026) gives them
    (4, 4): (0.0778, 0.1305, 0.1777, 0.2355),
    (16, 4): (0.0445, 0.0979, 0.0990, 0.1409),
    (4, 16): (0.0955, 0.1395, 0.7110, 0.5049),
    (16, 16): (0.0668, 0.1596, 0.7160, 0.5809),
    (64, 16): (0.1183, 0.3872, 0.7631, 0.8720),
    (16, 64): (0.1189, 0.2258, 1.7475, 1.3716),
}
FEDERATED = tuple(sizes for sizes in PUBLISHED if max(sizes) <= 16)
LOCAL = 2
"""Clusters that a site has where rows are spread by cluster."""


def blobs(k: int, d: int) -> tuple[Array, Array]:
    """Rows in the unit ball, and the blob of each."""
    from sklearn.datasets import make_blobs

    points, labels = make_blobs(N_ROWS, d, centers=k, random_state=1)
    points = np.round(points, 4)
    points -= points.mean(axis=0)
    return points / np.linalg.norm(points, axis=1).max(), labels


def loss(points: Array, centers: Array) -> float:
    """Mean squared distance of the rows to the nearest center."""
    residuals = points - centers[geometry.nearest(points, centers)]
    return float(np.einsum("nd,nd->", residuals, residuals) / len(points))


def area(losses: Any) -> float:
    """The score: area under the mean losses over epsilon."""
    return float(np.trapezoid(np.mean(losses, axis=0), EPSILONS))


def private_losses(method: str, k: int, d: int, run: int, seed: int) -> list[float]:
    """The loss of one run of a method at every epsilon; empty if diffprivlib is not installed."""
    points, labels = blobs(k, d)
    own = seed_of(seed, method=method, k=k, d=d, run=run)
    if method == "without privacy":
        from sklearn.cluster import KMeans

        exact = KMeans(k, n_init=5, random_state=own % 2**31).fit(points)
        return [loss(points, exact.cluster_centers_)] * len(EPSILONS)
    if method == "diffprivlib":
        return diffprivlib_losses(points, k, own)
    devices, n_local = sites(points, labels, method, np.random.default_rng(own))
    return [round_loss(devices, points, k, n_local or k, epsilon, own) for epsilon in EPSILONS]


def sites(points: Array, labels: Array, spread: str, rng: np.random.Generator) -> tuple[dict[str, Array], int]:
    """The rows of each device, and how many clusters it has: all in one place, spread at random, or by cluster."""
    if spread == "one device":
        return {"0": points}, 0
    k = int(labels.max()) + 1
    n_shards = N_SITES * LOCAL
    shards = [rng.permutation(len(points))] if spread == "IID" else _shards(labels, k, n_shards, rng)
    if spread == "IID":
        return {str(i): points[rows] for i, rows in enumerate(np.array_split(shards[0], N_SITES))}, 0
    return {str(i): points[np.concatenate(shards[i::N_SITES])] for i in range(N_SITES)}, LOCAL


def _shards(labels: Array, k: int, n_shards: int, rng: np.random.Generator) -> list[Array]:
    """Rows of each cluster, cut so that there are `n_shards` parts in the order of the clusters."""
    parts = [n_shards // k + (cluster < n_shards % k) for cluster in range(k)]
    every = (np.array_split(rng.permutation(np.flatnonzero(labels == own)), n) for own, n in enumerate(parts))
    return [shard for own in every for shard in own]


def round_loss(
    devices: dict[str, Array], points: Array, k: int, n_local: int, epsilon: float, seed: int, delta: float = DELTA
) -> float:
    """The loss of one private round: of `k` clusters, or of as many centers as can be told from the noise."""
    privacy = Privacy(epsilon=epsilon, delta=delta, radius=1.0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PrivacyWarning)
        warnings.simplefilter("ignore", AggregationWarning)
        messages = messages_of(cluster_devices(devices, n_local, random_state=seed, privacy=privacy))
        n_centers = sum(message.n_local_clusters for message in messages)
        if n_centers == 0:
            return loss(points, np.zeros((1, points.shape[1])))
        return loss(points, aggregate(messages, min(k, n_centers), rule="robust").cluster_centers)


def diffprivlib_losses(points: Array, k: int, seed: int) -> list[float]:
    """k-means of diffprivlib, told that every value lies between -1 and 1."""
    if find_spec("diffprivlib") is None:
        return []
    # Its forests need an older scikit-learn and are not used here; without this, nothing of it can be imported.
    sys.modules.setdefault("diffprivlib.models.forest", _no_forest())
    private_kmeans: Any = import_module("diffprivlib.models.k_means").KMeans
    losses = []
    for epsilon in EPSILONS:
        model = private_kmeans(k, epsilon=epsilon, bounds=(-1.0, 1.0), random_state=seed % 2**31)
        losses.append(loss(points, np.nan_to_num(model.fit(points).cluster_centers_)))
    return losses


def _no_forest() -> ModuleType:
    module = ModuleType("diffprivlib.models.forest")
    module.RandomForestClassifier = module.DecisionTreeClassifier = None  # type: ignore[attr-defined]
    return module
