"""First updates: all devices train the same model for one round, and each sends what it learned as one point."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch

from kfed._base.array import Array
from kfed.federated._fleet import Fleet, halves_of
from kfed.federated._local import LocalSteps, Share, train_locally
from kfed.federated._stack import Stack
from kfed.federated.settings import FedAvg
from kfed.federated.sketch import SKETCH_SIZE, sketched
from kfed.simulate import Communication


@dataclass(frozen=True, eq=False)
class FirstUpdate:
    """How every device makes its point: from the same model, with the same steps."""

    origin: Stack
    steps: LocalSteps
    batch_size: int

    @classmethod
    def of(cls, stack: Stack, training: FedAvg) -> FirstUpdate:
        """Start from the first model, and train as in the first round."""
        return cls(stack.only([0]), training.local_training(0), training.batch_size)

    def points(self, fleet: Fleet, shares: Sequence[Share]) -> Array:
        """Train every share from the first model; the point of each, (n_shares, SKETCH_SIZE)."""
        same = [replace(share, model=0) for share in shares]
        trained = train_locally(self.origin, fleet, same, self.steps, 0).parameters
        moves = [(values - self.origin.parameters[name]).flatten(1) for name, values in trained.items()]
        return sketched(torch.cat(moves, dim=1).double().cpu().numpy(), self.steps.seed)

    def of_devices(self, fleet: Fleet) -> Array:
        """Points of all devices, (n_devices, SKETCH_SIZE)."""
        return self.points(fleet, [Share(i, 0, fleet.rows(i), self.batch_size) for i in range(fleet.n_devices)])

    def halves(self, fleet: Fleet) -> tuple[Array, Array]:
        """Points of two halves of the rows of each device, (n_devices, SKETCH_SIZE) each."""
        one, other = halves_of(fleet, range(fleet.n_devices), self.steps.seed)
        return self.of_devices(one), self.of_devices(other)

    def sent(self, n_devices: int, n_points: int, rounds: int = 0) -> Communication:
        """The model down to so many devices, and so many points up."""
        bytes_up = n_points * SKETCH_SIZE * np.dtype(np.float32).itemsize
        return Communication(rounds, n_devices * self.origin.model_bytes, bytes_up, 2 * n_devices)
