"""The training or test data of simulated devices: checked once, and laid out as one tensor to draw batches from."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import torch

from kfed._base import checks
from kfed.errors import InvalidInputError

Devices = Mapping[str, Any] | Sequence[Any]
"""Inputs and targets of each device, by name or in order: a pair of arrays or tensors, (n_points, ...) and
(n_points,), or a `torch.utils.data.Dataset` that gives such pairs for single rows."""


BATCH_ROWS = 1024
"""Rows that are read from a dataset at a time."""


@dataclass(frozen=True, eq=False)
class Fleet:
    """Rows of all devices, stored device by device.

    Attributes
    ----------
    device_ids : tuple of str
    inputs : Tensor of shape (n_rows, ...)
    targets : Tensor of shape (n_rows, ...)
    sizes : array of int, shape (n_devices,)
        Number of rows of each device.
    """

    device_ids: tuple[str, ...]
    inputs: torch.Tensor
    targets: torch.Tensor
    sizes: np.ndarray[Any, np.dtype[np.int64]]

    @classmethod
    def of(cls, devices: Devices) -> Fleet:
        """Check the data of each device, and concatenate them."""
        names, pairs = _named(devices)
        if len(pairs) == 0:
            raise InvalidInputError("devices must hold at least one device; got none")
        checked = [_device(name, pair) for name, pair in zip(names, pairs, strict=True)]
        for name, (inputs, targets) in zip(names, checked, strict=True):
            _check_alike(name, inputs, names[0], checked[0][0], "inputs")
            _check_alike(name, targets, names[0], checked[0][1], "targets")
        inputs = torch.cat([inputs for inputs, _ in checked])
        targets = torch.cat([targets for _, targets in checked])
        return cls(tuple(names), inputs, targets, np.array([len(inputs) for inputs, _ in checked]))

    def to(self, device: str | torch.device) -> Fleet:
        """Return the same rows on another device of PyTorch."""
        return replace(self, inputs=self.inputs.to(device), targets=self.targets.to(device))

    @property
    def n_devices(self) -> int:
        """Number of devices, Z."""
        return len(self.device_ids)

    @cached_property
    def starts(self) -> np.ndarray[Any, np.dtype[np.int64]]:
        """First row of each device, with the number of rows at the end, (n_devices + 1,)."""
        return np.concatenate([[0], np.cumsum(self.sizes)])

    @cached_property
    def owners(self) -> np.ndarray[Any, np.dtype[np.int64]]:
        """Device of each row, (n_rows,)."""
        return np.repeat(np.arange(self.n_devices), self.sizes)

    def rows(self, device: int) -> np.ndarray[Any, np.dtype[np.int64]]:
        """Return the rows of one device."""
        return np.arange(self.starts[device], self.starts[device + 1])

    def inputs_of(self, device: int) -> torch.Tensor:
        """Return the inputs of one device, (n_points, ...)."""
        return self.inputs[self.starts[device] : self.starts[device + 1]]

    def targets_of(self, device: int) -> torch.Tensor:
        """Return the targets of one device, (n_points, ...)."""
        return self.targets[self.starts[device] : self.starts[device + 1]]


def fleet_of_rows(fleet: Fleet, rows_of: Mapping[int, np.ndarray[Any, np.dtype[np.int64]]]) -> Fleet:
    """Return a fleet of some devices, with some of the rows of each."""
    rows = torch.from_numpy(np.concatenate(list(rows_of.values())))
    names = tuple(fleet.device_ids[device] for device in rows_of)
    return Fleet(names, fleet.inputs[rows], fleet.targets[rows], np.array([len(own) for own in rows_of.values()]))


def halves_of(fleet: Fleet, devices: Iterable[int], seed: int) -> tuple[Fleet, Fleet]:
    """Deal the rows of some devices into two fleets, at random. A single row is in both."""
    first, second = {}, {}
    for device in devices:
        rows = np.random.default_rng([seed, device]).permutation(fleet.rows(device))
        first[device], second[device] = rows[: len(rows) // 2 or None], rows[len(rows) // 2 :]
    return fleet_of_rows(fleet, first), fleet_of_rows(fleet, second)


def as_inputs(values: Any, name: str) -> torch.Tensor:
    """Convert inputs of a model to a tensor: floats to PyTorch's default precision, integers as they are."""
    inputs = _tensor(values, f"inputs of {name}")
    if not inputs.is_floating_point():
        return inputs
    if not inputs.sum().isfinite() and not inputs.isfinite().all():  # the sum is a quick test; it rarely overflows
        raise InvalidInputError(f"inputs of {name} must be finite; drop or fill the rows that are not")
    return inputs.to(torch.get_default_dtype())


def _named(devices: Devices) -> tuple[list[str], list[tuple[Any, Any]]]:
    if isinstance(devices, Mapping):
        names, pairs = list(devices), list(devices.values())
    else:
        pairs = list(devices)
        names = [f"device-{position:0{len(str(max(len(pairs) - 1, 0)))}d}" for position in range(len(pairs))]
    return [checks.device_id(name) for name in names], pairs


def _device(name: str, pair: Any) -> tuple[torch.Tensor, torch.Tensor]:
    pair = _read(pair, name) if isinstance(pair, torch.utils.data.Dataset) else pair
    if not isinstance(pair, Sequence) or len(pair) != 2:
        raise InvalidInputError(f"device {name!r} must be a pair (inputs, targets); got a {type(pair).__name__}")
    inputs, targets = as_inputs(pair[0], f"device {name!r}"), _targets(pair[1], name)
    if inputs.ndim == 0 or targets.ndim == 0 or len(inputs) != len(targets):
        shapes = f"{tuple(inputs.shape)} and {tuple(targets.shape)}"
        raise InvalidInputError(f"device {name!r} must have a target for each input; got shapes {shapes}")
    if len(inputs) == 0:
        raise InvalidInputError(f"device {name!r} must have at least one row; drop this device")
    return inputs, targets


def _read(dataset: torch.utils.data.Dataset[Any], name: str) -> Any:
    """All rows of a dataset, as one pair of tensors."""
    batches = list(torch.utils.data.DataLoader(dataset, batch_size=BATCH_ROWS))
    if not batches:
        raise InvalidInputError(f"device {name!r} must have at least one row; drop this device")
    if not all(isinstance(batch, Sequence) and len(batch) == 2 for batch in batches):
        raise InvalidInputError(f"the dataset of device {name!r} must give pairs (input, target)")
    return tuple(torch.cat([torch.as_tensor(batch[column]) for batch in batches]) for column in (0, 1))


def _targets(values: Any, name: str) -> torch.Tensor:
    targets = _tensor(values, f"targets of device {name!r}")
    return targets.to(torch.get_default_dtype() if targets.is_floating_point() else torch.int64)


def _tensor(values: Any, name: str) -> torch.Tensor:
    """Convert `values` to a tensor. An error does not quote them: they may be private."""
    if isinstance(values, torch.Tensor):
        return values.detach()
    array = np.asarray(values)
    if array.dtype.kind not in "biuf":
        raise InvalidInputError(f"{name} must be numbers in rows of one length; encode them first")
    return torch.tensor(array)


def _check_alike(name: str, ours: torch.Tensor, other: str, theirs: torch.Tensor, what: str) -> None:
    if ours.shape[1:] != theirs.shape[1:] or ours.dtype != theirs.dtype:
        raise InvalidInputError(
            f"{what} of all devices must have the same dtype and shape; got {_form(theirs)} from {other!r} "
            f"and {_form(ours)} from {name!r}"
        )


def _form(tensor: torch.Tensor) -> str:
    return f"{str(tensor.dtype).removeprefix('torch.')} rows of shape {tuple(tensor.shape[1:])}"
