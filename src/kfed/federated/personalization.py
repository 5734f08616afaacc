"""k-FED + FedAvg: one cheap round of clustering, then one model for each cluster of the data.

A device whose data is of several clusters trains each of its models on its share. A row that comes later goes to the
model of the global cluster of its nearest local center. The devices stay apart: what crosses between them and the
server is the k-FED message, its answer, and parameters.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch

from kfed import _checks, _refine
from kfed.errors import FeatureMismatchError
from kfed.federated._fleet import Devices, Fleet
from kfed.federated._plans import ByLabel
from kfed.federated._stack import Stack, check_fits
from kfed.federated.communication import Communication
from kfed.federated.engine import FedAvg, Observe, Progress, Run
from kfed.federated.models import FederatedModels, total
from kfed.federated.selection import Selection
from kfed.fleet import cluster_fleet
from kfed.identity import Identity
from kfed.local import LocalClustering
from kfed.server import Aggregation, aggregate

Array = np.ndarray[Any, Any]


@dataclass(frozen=True, eq=False, repr=False)
class PersonalizedModels(FederatedModels):
    """Models of the clusters, with the clustering that they come from.

    Attributes
    ----------
    clustering : Clustering
        What the one round of k-FED found.
    """

    clustering: Clustering


def fit_personalized(
    devices: Devices,
    n_clusters: int,
    model_factory: Callable[[], torch.nn.Module],
    training: FedAvg | None = None,
    *,
    n_local_clusters: int | Literal["auto"] | Sequence[int | Literal["auto"]] = 1,
    rule: str = "paper",
    n_fine_clusters: int | None = None,
    features: Callable[[Any], Any] | None = None,
    selection: Selection | None = None,
    observe: Observe | None = None,
    checkpoint: str | os.PathLike[str] | None = None,
    progress: bool | None = None,
) -> PersonalizedModels:
    """Cluster the data of all devices in one round, then train one model for each cluster with FedAvg.

    Parameters
    ----------
    devices : mapping from device id to (inputs, targets), or sequence of such pairs
        Training data, arrays or tensors of shapes (n_points, ...) and (n_points,).
    n_clusters : int
        Number of global clusters, k, and of models.
    model_factory : callable
        Gives a new `torch.nn.Module`; called once for each cluster.
    training : FedAvg, optional
        Rounds, learning rate and so on.
    n_local_clusters : int, "auto", or sequence of such
        Clusters on a device, k^(z); with 1, devices are clustered as wholes.
    rule : {"paper", "robust"}
        The server's rule, see `kfed.aggregate`.
    n_fine_clusters : int, optional
        Cut the data of each device into so many small clusters as well, each of which goes as a whole where most of its
        points go. It goes beyond the paper, costs no communication, and mends local clusters with a ragged border.
    features : callable, optional
        Gives the points to cluster, (n_points, n_features), from the inputs of a device; by default they are flattened.
    selection : Selection, optional
        Who takes part in a round; by default random.
    observe : callable, optional
        Called with the number of the round and the models after each; the numbers it gives are kept in `history`.
    checkpoint : path, optional
        File to keep the run in. If it is there already, the run goes on from it.
    progress : bool, optional
        Show a progress bar; by default on a terminal, when it takes a while.

    Returns
    -------
    PersonalizedModels

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> def device(sign):  # two kinds of device, whose labels mean the opposite
    ...     x = rng.normal(loc=5 * sign, size=(60, 2)).astype(np.float32)
    ...     return x, (sign * (x[:, 0] - x[:, 1]) > 0).astype(int)
    >>> devices = {f"device-{i}": device((-1) ** i) for i in range(6)}
    >>> models = fit_personalized(devices, 2, lambda: torch.nn.Linear(2, 2), FedAvg(rounds=10))
    >>> models.evaluate(devices).accuracy > 0.95
    True
    """
    fleet, training = Fleet.of(devices), training or FedAvg()
    stack = Stack.of(model_factory, _checks.positive_integer(n_clusters, "n_clusters"), training.seed)
    check_fits(stack, fleet.inputs, fleet.targets, training.loss)
    clustering = cluster_once(fleet, n_clusters, n_local_clusters, rule, training.seed, features, n_fine_clusters)
    plan = ByLabel(fleet, clustering.labels)
    run = Run.of(fleet, plan, training, selection, observe)
    done = run.finish(Progress(stack), checkpoint=checkpoint, show_progress=progress)
    return PersonalizedModels(
        method="k-FED",
        _stack=done.stack,
        _route=clustering.route,
        _loss=training.loss,
        device_ids=fleet.device_ids,
        history=done.history,
        communication=clustering.communication + total(done.history),
        clustering=clustering,
    )


def cluster_once(
    fleet: Fleet,
    n_clusters: int,
    n_local_clusters: Any = 1,
    rule: str = "paper",
    seed: int = 0,
    features: Callable[[Any], Any] | None = None,
    n_fine_clusters: int | None = None,
) -> Clustering:
    """Run one round of k-FED over the devices of a fleet, and let every device map its own points."""
    features = features or flattened
    points = {name: features(fleet.inputs_of(device)) for device, name in enumerate(fleet.device_ids)}
    local = _clustered(points, n_local_clusters, seed)
    messages = [local[name].to_message(name) for name in local]
    aggregation = aggregate(messages, n_clusters, rule=rule)
    identities = {name: aggregation.identity(name) for name in local}
    maps = {name: Map.of(local[name], identities[name]) for name in local}
    if n_fine_clusters is not None:
        fine = _clustered(points, n_fine_clusters, seed)
        maps = {name: maps[name].finer(local[name], fine[name], n_clusters) for name in local}
        labels = [maps[name].clusters[fine[name].labels] for name in local]
    else:
        labels = [maps[name].clusters[local[name].labels] for name in local]
    bytes_down = sum(len(identity.to_bytes()) for identity in identities.values())
    sent = Communication(1, bytes_down, sum(len(message.to_bytes()) for message in messages))
    return Clustering(local, aggregation, np.concatenate(labels), sent, maps, features)


def _clustered(points: dict[str, Any], n_local_clusters: Any, seed: int) -> dict[str, LocalClustering]:
    found = cluster_fleet(points, n_local_clusters, random_state=seed, measure_deviation=False, progress=False)
    return dict(zip(points, found, strict=True))


@dataclass(frozen=True, eq=False)
class Map:
    """How a device finds the global cluster of a point: that of the nearest of some centers. It stays there.

    Attributes
    ----------
    centers : array of shape (n_centers, n_features)
    clusters : array of int, shape (n_centers,)
        Global cluster of each center.
    is_held : array of bool, shape (n_centers,)
        Centers that stand for points.
    """

    centers: Array
    clusters: Array
    is_held: Array

    @classmethod
    def of(cls, local: LocalClustering, identity: Identity) -> Map:
        """Give every local center the global cluster that the server put it in."""
        return cls(local.centers, local.global_clusters(identity), local.counts > 0)

    def finer(self, local: LocalClustering, fine: LocalClustering, n_clusters: int) -> Map:
        """Give every center of a finer clustering of the same points the global cluster of most of its points."""
        votes = np.zeros((fine.n_local_clusters, n_clusters), np.int64)
        np.add.at(votes, (fine.labels, self.clusters[local.labels]), 1)
        return Map(fine.centers, votes.argmax(axis=1), fine.counts > 0)

    def __call__(self, points: Any) -> Array:
        """Global cluster of each point, (n_points,)."""
        points = _checks.points(points, "inputs")
        if points.shape[1] != self.centers.shape[1]:
            raise FeatureMismatchError(
                f"inputs must have the {self.centers.shape[1]} features that were clustered, and have {points.shape[1]}"
            )
        centers = self.centers[self.is_held].astype(points.dtype)
        return np.asarray(self.clusters[self.is_held][_refine.nearest(points, centers)])


@dataclass(frozen=True, eq=False)
class Clustering:
    """One round of k-FED over a fleet: what stays on each device, what the server found, and what was sent.

    Attributes
    ----------
    local : dict from device id to LocalClustering
    aggregation : Aggregation
    labels : array of int, shape (n_rows,)
        Global cluster of every training row.
    communication : Communication
    maps : dict from device id to Map
        How each device finds the cluster of a point.
    """

    local: Mapping[str, LocalClustering]
    aggregation: Aggregation
    labels: Array
    communication: Communication
    maps: Mapping[str, Map]
    _features: Callable[[Any], Any]

    def route(self, device_id: str, inputs: torch.Tensor) -> Array:
        """Global cluster of each row of a device, (n_rows,)."""
        return self.maps[device_id](self._features(inputs))


def flattened(inputs: torch.Tensor) -> Array:
    """Inputs as points to cluster, (n_points, n_features)."""
    return np.asarray(inputs.reshape(len(inputs), -1).numpy())
