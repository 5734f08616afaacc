"""Which model serves which row of a device: one model for the whole device, or that of the nearest local center."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Protocol, Self

import numpy as np
import torch

from kfed._base import checks
from kfed._base.array import Array
from kfed.device import nearest_centers
from kfed.errors import FeatureMismatchError


class Route(Protocol):
    """Sends the rows of a device to models."""

    def __call__(self, device_id: str, inputs: torch.Tensor) -> Array:
        """Return the model of each row, (n_rows,)."""


@dataclass(frozen=True)
class OneEach:
    """One model for all rows of a device."""

    models: Mapping[str, int]

    def __call__(self, device_id: str, inputs: torch.Tensor) -> Array:
        """Return the model of each row, (n_rows,)."""
        return np.full(len(inputs), self.models[device_id])

    def plus(self, device_id: str, model: int) -> Self:
        """Return the route with one more device."""
        return replace(self, models={**self.models, device_id: model})


@dataclass(frozen=True, eq=False)
class ByNearestCenter:
    """The model of the nearest local center of each row; centers and models of each device have the same order."""

    centers: Mapping[str, Array]
    models: Mapping[str, Array]
    features: Callable[[Any], Any] = field(repr=False)

    def __call__(self, device_id: str, inputs: torch.Tensor) -> Array:
        """Return the model of each row, (n_rows,)."""
        points, centers = checks.finite_table(self.features(inputs), "inputs"), self.centers[device_id]
        if points.shape[1] != centers.shape[1]:
            raise FeatureMismatchError(
                f"inputs must have the {centers.shape[1]} features that were clustered; got {points.shape[1]}"
            )
        return np.asarray(self.models[device_id][nearest_centers(points, centers)])

    def plus(self, device_id: str, centers: Array, models: Array) -> Self:
        """Return the route with one more device."""
        return replace(self, centers={**self.centers, device_id: centers}, models={**self.models, device_id: models})
