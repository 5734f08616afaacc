"""Centralized k-means: every row goes to the server, which clusters them all."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from kfed._base import checks, files
from kfed.baselines.pooling import CountedClusters, pool
from kfed.simulate import Communication


@dataclass(frozen=True, eq=False)
class Centralized(CountedClusters):
    """Result of pooling, and what was sent for it: all rows up, the labels down.

    Examples
    --------
    >>> found = centralized([np.array([[0.0], [1.0]]), np.array([[9.0]])], n_clusters=2)
    >>> sorted(found.centers.ravel().tolist()), found.sent.messages
    ([0.5, 9.0], 4)
    """


def centralized(devices: Sequence[Any], n_clusters: int, seed: int = 0, *, n_init: int = 1) -> Centralized:
    """Pool the points of all devices and run scikit-learn's k-means.

    Parameters
    ----------
    devices, n_clusters, seed
        As in `Baseline`.
    n_init : int
        Number of seedings; the best is kept.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> done = centralized([rng.normal(size=(20, 2)), rng.normal(size=(30, 2)) + 9], n_clusters=2)
    >>> np.bincount(done.labels).tolist(), done.sent.rounds, done.sent.messages
    ([30, 20], 1, 4)
    """
    from sklearn.cluster import KMeans

    model = KMeans(n_clusters, n_init=n_init, random_state=seed % 2**32).fit(pool(devices))
    labels = model.labels_.astype(np.int64)
    ends = np.cumsum([points.shape[0] for points in devices])[:-1]
    down = (files.encode({"labels": own}) for own in np.split(labels, ends))
    sent = Communication.of_round(map(rows_message, devices), down)
    return Centralized(model.cluster_centers_, labels, sent)


def rows_message(points: Any) -> bytes:
    """Encode a device's points as they would be sent: the cost of pooling.

    Examples
    --------
    >>> len(rows_message(np.zeros((100, 2))))  # 100 rows of two numbers, and a header
    1680
    """
    if not checks.is_sparse(points):
        return files.encode({"points": np.ascontiguousarray(points)})
    return files.encode({name: getattr(points, name) for name in ("data", "indices", "indptr")})
