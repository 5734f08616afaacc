"""k-FED + FedAvg: one cheap round of clustering, then one model for each cluster of the data.

A device whose data is of several clusters trains each of its models on its share. A row that comes later goes to the
model of the global cluster of its nearest local center. The devices stay apart: what crosses between them and the
server is the k-FED message, its answer, and parameters.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
import torch

from kfed._base import checks
from kfed._base.array import Array
from kfed.device import nearest_centers
from kfed.errors import FeatureMismatchError
from kfed.federated._fleet import Devices, Fleet
from kfed.federated._plans import ByLabel
from kfed.federated._stack import Stack, check_fits
from kfed.federated.engine import Observe, Progress, Run
from kfed.federated.models import FederatedModels, total
from kfed.federated.selection import Selection
from kfed.federated.settings import FedAvg
from kfed.simulate import Communication, Round


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
        Returns a new `torch.nn.Module`; called once for each cluster.
    training : FedAvg, optional
        Rounds, learning rate and so on.
    n_local_clusters : int, "auto", or sequence of such
        Clusters on a device, k^(z); with 1, each device is one whole.
    rule : {"paper", "robust"}
        The server's rule, see `kfed.aggregate`.
    features : callable, optional
        Maps the inputs of a device to the points to cluster, (n_points, n_features); by default inputs are flattened.
    selection : Selection, optional
        Who takes part in a round; by default random.
    observe : callable, optional
        Called after each round with its number and the models; the numbers that it returns are kept in `history`.
    checkpoint : path, optional
        File to keep the run in. If it exists, the run continues from it.
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
    stack = Stack.of(model_factory, checks.positive_integer(n_clusters, "n_clusters"), training.seed)
    check_fits(stack, fleet.inputs, fleet.targets, training.loss)
    clustering = cluster_once(fleet, n_clusters, n_local_clusters, rule, training.seed, features)
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
        communication=clustering.sent + total(done.history),
        clustering=clustering,
    )


def cluster_once(
    fleet: Fleet,
    n_clusters: int,
    n_local_clusters: Any = 1,
    rule: str = "paper",
    seed: int = 0,
    features: Callable[[Any], Any] | None = None,
) -> Clustering:
    """Run one round of k-FED over the devices of a fleet."""
    features = features or flattened
    points = {name: features(fleet.inputs_of(device)) for device, name in enumerate(fleet.device_ids)}
    done = Round.run(points, n_clusters, n_local_clusters, rule=rule, random_state=seed, progress=None)
    return Clustering(done.local, done.messages, done.aggregation, done.identities, features)


@dataclass(frozen=True, eq=False)
class Clustering(Round):
    """One round of k-FED over a fleet, and the way of later rows to its clusters."""

    _features: Callable[[Any], Any] = field(repr=False)

    @property
    def communication(self) -> Communication:
        """What the round sent."""
        return self.sent

    def route(self, device_id: str, inputs: torch.Tensor) -> Array:
        """Global cluster of the nearest local center of each row, (n_rows,)."""
        local = self.local[device_id]
        points = checks.finite_table(self._features(inputs), "inputs")
        if points.shape[1] != local.n_features:
            raise FeatureMismatchError(
                f"inputs must have the {local.n_features} features that were clustered; got {points.shape[1]}"
            )
        held = np.flatnonzero(local.counts > 0)
        return np.asarray(self.clusters[device_id][held][nearest_centers(points, local.centers[held])])


def flattened(inputs: torch.Tensor) -> Array:
    """Inputs as points to cluster, (n_points, n_features)."""
    return np.asarray(inputs.reshape(len(inputs), -1).numpy())
