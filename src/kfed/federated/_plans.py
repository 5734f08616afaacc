"""Who trains which model on which rows: one model for all, one for each cluster, or the one with the lowest loss."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np
import torch

from kfed._base.array import Array
from kfed.federated._fleet import Fleet
from kfed.federated._local import Share
from kfed.federated._stack import Loss, Stack


class Plan(Protocol):
    """Decides what the devices of a round train.

    Where that is settled beforehand, the attribute `assignment` has the model of each row.
    """

    name: str

    def models_for(self, device: int) -> int:
        """Number of models sent to a device."""

    def shares(self, stack: Stack, devices: Array, batch_size: int) -> list[Share]:
        """Return what each device trains."""


class OneModel:
    """FedAvg: every device trains model 0 on all its rows."""

    name = "one model"

    def __init__(self, fleet: Fleet) -> None:
        self._fleet = fleet

    def models_for(self, device: int) -> int:  # noqa: ARG002 - the same for all
        """Number of models sent to a device: one."""
        return 1

    def shares(self, stack: Stack, devices: Array, batch_size: int) -> list[Share]:  # noqa: ARG002 - the same for all
        """Return all rows of each device."""
        return [Share(int(device), 0, self._fleet.rows(device), batch_size) for device in devices]


class ByLabel:
    """Each row trains the model of its label. A device with several labels splits its batch between their models.

    So the number of rows that a device touches in a step is the same as with one model.
    """

    name = "by label"

    def __init__(self, fleet: Fleet, labels: Array) -> None:
        self.assignment = labels
        self._shares = [
            [(int(model), rows[labels[rows] == model]) for model in np.unique(labels[rows])]
            for rows in map(fleet.rows, range(fleet.n_devices))
        ]

    def models_for(self, device: int) -> int:
        """Number of models sent to a device: one for each of its labels."""
        return len(self._shares[device])

    def shares(self, stack: Stack, devices: Array, batch_size: int) -> list[Share]:  # noqa: ARG002 - fixed beforehand
        """Return the rows of each label of each device."""
        return [share for device in devices for share in self._shares_of(int(device), batch_size)]

    def _shares_of(self, device: int, batch_size: int) -> list[Share]:
        n_rows = sum(len(rows) for _, rows in self._shares[device])
        return [
            Share(device, model, rows, max(1, round(batch_size * len(rows) / n_rows)))
            for model, rows in self._shares[device]
        ]


class LowestLoss:
    """IFCA: all models go to every device of the round, which trains the one with the lowest loss on its own rows.

    Of models that fit equally well, as copies of one model do, a device takes the one that `seed` says.
    """

    name = "lowest loss"

    def __init__(self, fleet: Fleet, n_models: int, loss: Loss, n_loss_rows: int | None, seed: int = 0) -> None:
        self._fleet, self._n_models, self._loss, self._n_loss_rows = fleet, n_models, loss, n_loss_rows
        self._preferences = np.random.default_rng(seed).random((fleet.n_devices, n_models))

    def models_for(self, device: int) -> int:  # noqa: ARG002 - the same for all
        """Number of models sent to a device: all."""
        return self._n_models

    def shares(self, stack: Stack, devices: Array, batch_size: int) -> list[Share]:
        """Return all rows of each device, for the model that fits them best."""
        losses = losses_of_models(stack, self._fleet, devices, self._loss, self._n_loss_rows)
        return [
            Share(int(device), int(model), self._fleet.rows(device), batch_size)
            for device, model in zip(devices, self._lowest(losses, devices), strict=True)
        ]

    def _lowest(self, losses: Array, devices: Array) -> Array:
        """Model with the lowest loss for each device; ties are broken by the preferences."""
        is_lowest = losses == losses.min(axis=1, keepdims=True)
        return np.asarray(np.where(is_lowest, self._preferences[devices], np.inf).argmin(axis=1))


def losses_of_models(
    stack: Stack, fleet: Fleet, devices: Sequence[int] | Array, loss: Loss, n_loss_rows: int | None = None
) -> Array:
    """Mean loss of every model on the rows of every device, (n_devices, n_models).

    `n_loss_rows` limits the rows of each device: evenly spaced ones stand for all, the same in every round.
    """
    rows = [_spread(fleet.rows(int(device)), n_loss_rows) for device in devices]
    everything = torch.from_numpy(np.concatenate(rows))
    inputs, targets = fleet.inputs[everything], fleet.targets[everything].cpu()
    owners = np.repeat(np.arange(len(rows)), list(map(len, rows)))
    columns = []
    for model in range(stack.n_models):
        each = loss(stack.outputs(model, inputs), targets).double().numpy()
        columns.append(np.bincount(owners, each) / np.bincount(owners))
    return np.stack(columns, axis=1)


def _spread(rows: Array, n_rows: int | None) -> Array:
    if n_rows is None or n_rows >= len(rows):
        return rows
    return rows[np.linspace(0, len(rows) - 1, n_rows).astype(np.int64)]
