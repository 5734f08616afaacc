"""What a device says of itself, so that it can be grouped: centers of its rows, one point of features, or its update.

A way gives the local clustering of each device; the rest of the round is the same for all of them, and so is what
happens when a device comes late.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import torch

from kfed._base import checks
from kfed._base.array import Array
from kfed.device import LocalClustering
from kfed.errors import InvalidInputError
from kfed.federated._fleet import Fleet
from kfed.federated._updates import FirstUpdate
from kfed.federated.sketch import described_by, unit
from kfed.simulate import cluster_devices

Features = Callable[..., Any]
"""Maps the inputs of a device, or its inputs and targets, to points: one for each row, or one for the device."""


class Way(Protocol):
    """How devices describe themselves."""

    name: str
    is_whole: bool
    """Whether a device is described as a whole, and so is in one group with all its rows."""

    @property
    def needs_targets(self) -> bool:
        """Whether a device must know its targets to describe itself."""

    def local(self, fleet: Fleet) -> dict[str, LocalClustering]:
        """Return what each device found; its message is all that it sends."""


@dataclass(frozen=True, eq=False)
class ByRows:
    """Centers of the rows of a device: Algorithm 1 of the paper."""

    features: Features
    n_local_clusters: Any
    min_cluster_size: int
    seed: int
    name = "inputs"
    is_whole = False

    @property
    def needs_targets(self) -> bool:
        """Whether features are made from inputs and targets."""
        return takes_targets(self.features)

    def local(self, fleet: Fleet) -> dict[str, LocalClustering]:
        """Cluster the rows of each device."""
        alike = self.n_local_clusters
        if not isinstance(alike, int | str) and len(alike) != fleet.n_devices:  # a late device was not foreseen
            alike = max(alike, key=lambda own: own if isinstance(own, int) else 0)
        points = features_of(fleet, self.features)
        return cluster_devices(
            points, alike, min_cluster_size=self.min_cluster_size, random_state=self.seed, progress=None
        )


@dataclass(frozen=True, eq=False)
class ByPoint:
    """One point of features for each device, such as a histogram of its labels."""

    features: Features
    min_cluster_size: int
    name = "features"
    is_whole = True

    @property
    def needs_targets(self) -> bool:
        """Whether features are made from inputs and targets."""
        return takes_targets(self.features)

    def local(self, fleet: Fleet) -> dict[str, LocalClustering]:
        """Compute the point of each device."""
        return one_point_each(fleet, features_of(fleet, self.features).values(), self.min_cluster_size)


@dataclass(frozen=True, eq=False)
class ByUpdate:
    """The first update of each device, as one point."""

    first: FirstUpdate
    min_cluster_size: int
    name = "updates"
    needs_targets = True
    is_whole = True

    def local(self, fleet: Fleet) -> dict[str, LocalClustering]:
        """Train each device for one round from the same model."""
        return self.local_of(fleet, *self.first.halves(fleet))

    def local_of(self, fleet: Fleet, *halves: Array) -> dict[str, LocalClustering]:
        """Return the same from updates of parts of the rows."""
        points = unit(np.sum(halves, axis=0)).astype(np.float32)
        return one_point_each(fleet, points, self.min_cluster_size)


def one_point_each(fleet: Fleet, points: Iterable[Any], min_cluster_size: int) -> dict[str, LocalClustering]:
    """Describe each device by one point, (n_features,)."""
    of_devices = zip(fleet.device_ids, fleet.sizes.tolist(), points, strict=True)
    return {name: described_by(own, size, min_cluster_size=min_cluster_size) for name, size, own in of_devices}


def features_of(fleet: Fleet, features: Features) -> dict[str, Any]:
    """Features of each device, from its inputs or from its inputs and targets."""
    both = takes_targets(features)
    return {
        name: features(fleet.inputs_of(device), fleet.targets_of(device)) if both else features(fleet.inputs_of(device))
        for device, name in enumerate(fleet.device_ids)
    }


def takes_targets(features: Features) -> bool:
    """Whether a function asks for inputs and targets."""
    try:
        asked = inspect.signature(features).parameters.values()
    except (TypeError, ValueError):
        return False
    positional = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return sum(one.kind in positional and one.default is one.empty for one in asked) > 1


def gives_one_point(fleet: Fleet, features: Features) -> bool:
    """Whether a function gives one point for each device, judged by the largest device."""
    largest = int(fleet.sizes.argmax())
    name, rows = fleet.device_ids[largest], torch.from_numpy(fleet.rows(largest))
    part = Fleet((name,), fleet.inputs[rows], fleet.targets[rows], fleet.sizes[[largest]])
    given = features_of(part, features)[name]
    shape = given.shape if checks.is_sparse(given) else np.shape(given)
    if len(shape) == 1 or shape[:1] == (1,) != (len(rows),):
        return True
    if shape[:1] != (len(rows),):
        raise InvalidInputError(
            f"features must return one row for each of the {len(rows)} rows of a device, or one for the device; got "
            f"shape {tuple(shape)}"
        )
    return False


def flattened(inputs: torch.Tensor) -> Array:
    """Inputs as points to cluster, (n_points, n_features)."""
    return np.asarray(inputs.reshape(len(inputs), -1).cpu().numpy())
