"""`FederatedModels`: the result of every method here, models and the rule that routes a row to its model."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
import torch

from kfed._base.array import Array
from kfed.errors import InvalidInputError, UnknownDeviceError
from kfed.federated import evaluation
from kfed.federated._fleet import Devices, Fleet, as_inputs
from kfed.federated._routes import OneEach, Route
from kfed.federated._stack import Loss, Stack, cross_entropy
from kfed.federated.engine import Observe, Observed, RoundRecord
from kfed.federated.evaluation import Evaluation
from kfed.simulate import Communication


@dataclass(frozen=True, eq=False)
class FederatedModels:
    """Trained models, and which of them serves which row.

    Attributes
    ----------
    method : str
    history : tuple of RoundRecord
    communication : Communication
        All that was sent, one-shot clustering included.

    Examples
    --------
    >>> from kfed.federated import FedAvg, fit_global
    >>> rng = np.random.default_rng(0)
    >>> rows = [rng.normal(size=(40, 2)) for _ in range(4)]
    >>> devices = {f"phone-{i}": (own, (own[:, 0] > 0).astype(int)) for i, own in enumerate(rows)}
    >>> models = fit_global(devices, lambda: torch.nn.Linear(2, 2), FedAvg(rounds=5, batched=False, threads=1))
    >>> models.predict("phone-0", rows[0]).shape
    torch.Size([40, 2])
    >>> len(models.history), models.communication.rounds
    (5, 5)
    >>> models.add("phone-9", rows[0]).device_ids[-1]  # a late one, with the model at once
    'phone-9'
    """

    method: str
    _stack: Stack
    _route: Route
    _loss: Loss
    device_ids: tuple[str, ...]
    history: tuple[RoundRecord, ...]
    communication: Communication

    @property
    def n_models(self) -> int:
        """Number of models."""
        return self._stack.n_models

    def model(self, number: int) -> torch.nn.Module:
        """One of the models, as a module of its own."""
        return self._stack.module(range(self.n_models)[number])

    def route(self, device_id: str, inputs: Any) -> Array:
        """Which model each row of a device goes to, (n_rows,)."""
        if device_id not in self.device_ids:
            raise UnknownDeviceError(f"{device_id!r} is not one of the {len(self.device_ids)} devices that took part")
        rows = as_inputs(inputs, f"device {device_id!r}")
        return self._route(device_id, rows)

    def predict(self, device_id: str, inputs: Any) -> torch.Tensor:
        """Outputs for rows of a device, each from the model it goes to, (n_rows, ...)."""
        rows = as_inputs(inputs, f"device {device_id!r}")
        return evaluation.outputs_of(self._stack, rows, self.route(device_id, rows))

    def evaluate(self, devices: Devices) -> Evaluation:
        """Evaluate test rows (inputs, targets) of devices that took part, by the same names or in the same order."""
        fleet = Fleet.of(devices)
        models = [self.route(name, fleet.inputs_of(i)) for i, name in enumerate(fleet.device_ids)]
        return evaluation.evaluate(self._stack, fleet, np.concatenate(models), self._loss)

    def add(self, device_id: str, inputs: Any, targets: Any = None, *, group: int | None = None) -> Self:
        """Let a late device in: it gets the model of its group at once, and nothing is trained.

        Parameters
        ----------
        device_id : str
        inputs, targets : arrays or tensors of shapes (n_points, ...) and (n_points,)
            Its rows. Targets are needed where they decide its group: for groups by updates or label histograms, and
            for IFCA.
        group : int, optional
            The group of the device, if it is known.

        Returns
        -------
        FederatedModels
            With the device; `self` is unchanged.
        """
        if device_id in self.device_ids:
            raise InvalidInputError(f"device_id must be new; {device_id!r} took part already")
        rows = as_inputs(inputs, f"device {device_id!r}")
        newcomer = Fleet.of({device_id: (rows, torch.zeros(len(rows)) if targets is None else targets)})
        if group is not None:
            route = self._route_to(device_id, range(self.n_models)[group])
        else:
            route = self._route_with(newcomer, targets is not None)
        return replace(self, device_ids=(*self.device_ids, device_id), _route=route)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the models to a file, with what it takes to let late devices in; its owner alone can read it.

        It holds local centers of devices, but no row. `load` reads it.
        """
        from kfed.federated import _models_file

        _models_file.write_models(path, self, {"class": type(self).__name__, **self._facts()}, self._way_in())

    @classmethod
    def load(
        cls,
        path: str | os.PathLike[str],
        model_factory: Callable[[], torch.nn.Module],
        *,
        loss: Loss = cross_entropy,
        features: Callable[..., Any] | None = None,
    ) -> Self:
        """Read models from a file.

        Parameters
        ----------
        path : path
        model_factory, loss, features : callables
            As given when the models were trained; a file holds no code.
        """
        from kfed.federated import _models_file

        read = _models_file.ModelsFile(path, Stack.of(model_factory, 1, 0), loss, features)
        if read.facts["class"] != cls.__name__:
            raise InvalidInputError(f"{os.fspath(path)} holds {read.facts['class']}; use {read.facts['class']}.load")
        return cls(**read.fields(), **cls._own_fields(read))

    def _facts(self) -> dict[str, Any]:
        """What a file says of this kind of models alone."""
        return {}

    def _way_in(self) -> Any:
        return None

    @classmethod
    def _own_fields(cls, read: Any) -> dict[str, Any]:  # noqa: ARG003 - others read more
        """Fields of this kind of models alone, from a file."""
        return {}

    def _route_with(self, newcomer: Fleet, has_targets: bool) -> Route:  # noqa: ARG002 - others need it
        """Return the route with the one device of this fleet, if all are served by one model."""
        return self._route_to(newcomer.device_ids[0], 0)

    def _route_to(self, device_id: str, model: int) -> Route:
        if not isinstance(self._route, OneEach):
            raise InvalidInputError("group must be None when rows have their own groups")
        return self._route.plus(device_id, model)

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}(method={self.method!r}, n_models={self.n_models}, "
            f"n_devices={len(self.device_ids)}, rounds={len(self.history)}, "
            f"megabytes={self.communication.bytes_total / 1e6:.1f})"
        )


OnRound = Callable[[int, FederatedModels], Observed]
"""Called after each round with its number and the models so far; see `fit_personalized`."""


def watching(
    observe: Observe | None, on_round: OnRound | None, models_of: Callable[[Stack], FederatedModels]
) -> Observe | None:
    """Join the two ways to look at a round into one; either may end the training."""
    if on_round is None:
        return observe

    def both(round: int, stack: Stack) -> Observed:
        answers = [observe(round, stack) if observe else None, on_round(round, models_of(stack))]
        found: dict[str, float] = {}
        for answer in answers:
            found |= answer if isinstance(answer, Mapping) else {"stop": True} if answer is True else {}
        return found

    return both


def total_sent(history: tuple[RoundRecord, ...]) -> Communication:
    """All that was sent in these rounds."""
    return sum((record.communication for record in history), Communication())
