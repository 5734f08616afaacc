"""Which model serves which row of a device: one model for the whole device, or that of the nearest local center."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import torch

from kfed._base.array import Array


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
