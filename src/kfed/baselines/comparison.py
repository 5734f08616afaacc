"""Methods side by side on the same devices: the face that all of them have, and `compare`, which measures them."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal, Protocol

from kfed._base.array import Array
from kfed.baselines.centralized import centralized
from kfed.baselines.one_round import one_round
from kfed.baselines.pooling import CountedClusters, pool
from kfed.metrics import measures
from kfed.results import ResultTable
from kfed.server import OwnRule
from kfed.simulate import Communication


class FoundClusters(Protocol):
    """What a method gives; `CountedClusters` is such a thing.

    Examples
    --------
    >>> from kfed.baselines import centralized
    >>> found = centralized([np.array([[0.0], [1.0]]), np.array([[9.0]])], n_clusters=2)
    >>> found.centers.shape, found.labels.shape, found.sent.rounds
    ((2, 1), (3,), 1)
    """

    @property
    def centers(self) -> Array:
        """Centers of the clusters, (n_clusters, n_features)."""

    @property
    def labels(self) -> Array:
        """The cluster of each point of all devices, one device after the other, (n_points,)."""

    @property
    def sent(self) -> Communication:
        """What crossed the network."""


class Baseline(Protocol):
    """A method to compare with: any callable of this form, such as the functions of this room.

    Examples
    --------
    One of your own, measured beside the others by `compare`:

    >>> from kfed.baselines import compare
    >>> def mine(devices, n_clusters, seed=0):
    ...     return k_fed(1, rule="robust")(devices, n_clusters, seed)
    >>> rng = np.random.default_rng(0)
    >>> devices = [rng.normal(size=(20, 2)), rng.normal(size=(30, 2)) + 9]
    >>> [row["method"] for row in compare({"mine": mine, "k-FED": k_fed(1)}, devices, 2, [0]).rows]
    ['mine', 'k-FED']
    """

    def __call__(self, devices: Sequence[Any], n_clusters: int, seed: int = 0) -> FoundClusters:
        """Cluster the points of all devices.

        Parameters
        ----------
        devices : sequence of arrays or sparse matrices of shape (n_points, n_features)
        n_clusters : int
        seed : int
            Decides every random choice of the method.
        """


def k_fed(n_local_clusters: int | Literal["auto"], *, rule: str | OwnRule = "paper") -> Baseline:
    """k-FED with the face of the other methods.

    Parameters
    ----------
    n_local_clusters : int or "auto"
        k^(z), for every device.
    rule : str or callable
        As in `kfed.aggregate`.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> devices = [rng.normal(size=(20, 2)), rng.normal(size=(30, 2)) + 9]
    >>> found = k_fed(1)(devices, n_clusters=2)
    >>> sorted(np.bincount(found.labels).tolist()), found.sent.rounds
    ([20, 30], 1)
    """

    def fit(devices: Sequence[Any], n_clusters: int, seed: int = 0) -> CountedClusters:
        names = [f"device-{position}" for position in range(len(devices))]
        k: Any = n_local_clusters
        done = one_round(devices, n_clusters, k, names, seed, rule=rule)
        return CountedClusters(done.aggregation.cluster_centers, done.labels, done.sent)

    return fit


def compare(
    methods: Mapping[str, Baseline],
    devices: Sequence[Any],
    n_clusters: int,
    seeds: Iterable[int],
    *,
    classes: Sequence[Any] | None = None,
    **about: Any,
) -> ResultTable:
    """Run every method with every seed on the same devices, and measure all of them alike.

    Parameters
    ----------
    methods : mapping from name to Baseline
    devices : sequence of arrays or sparse matrices of shape (n_points, n_features)
    n_clusters : int
    seeds : iterable of int
        Methods share a seed, so that they can be compared in pairs.
    classes : sequence of arrays of shape (n_points,), optional
        True classes of the points of each device.
    **about
        Further columns of every row, such as the name of the data set.

    Returns
    -------
    ResultTable
        A row for each method and seed with the measures of `kfed.metrics.measures`, and ``seconds``. ``cost_ratio`` is
        over the best of ten runs of k-means on all rows.

    Examples
    --------
    >>> from kfed.baselines import distributed_lloyd
    >>> from kfed.datasets import mixture
    >>> drawn = mixture(16, 4, separation=20, points_per_cluster=50)
    >>> found = compare({"k-FED": k_fed(2), "Lloyd": distributed_lloyd}, drawn.points, 4, range(3), data="mixture")
    >>> [row["data"] for row in found.rows[:1]], {row["rounds"] for row in found.rows if row["method"] == "k-FED"}
    (['mixture'], {1.0})
    """
    points, reference = pool(devices), centralized(devices, n_clusters, n_init=10).labels
    truth = None if classes is None else [name for own in classes for name in own]
    rows = []
    for seed in seeds:
        for name, method in methods.items():
            started = time.perf_counter()
            found = method(devices, n_clusters, seed)
            seconds = time.perf_counter() - started
            measured = measures(points, found.labels, classes=truth, reference=reference, sent=found.sent)
            rows.append({**about, "method": name, "seed": seed, **measured, "seconds": seconds})
    return ResultTable(rows)
