"""What k-FED + FedAvg is compared with, on the same engine: one global model, and IFCA with k models for everyone.

IFCA (Ghosh, Chung, Yin and Ramchandran, "An Efficient Framework for Clustered Federated Learning", 2020) sends all k
models in every round, and each device trains the one that fits its training data best.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from kfed._base import checks
from kfed._base.array import Array
from kfed.errors import InvalidInputError
from kfed.federated._fleet import Devices, Fleet
from kfed.federated._plans import LowestLoss, OneModel, losses_of_models
from kfed.federated._routes import OneEach, Route
from kfed.federated._stack import Stack, check_fits
from kfed.federated.engine import Observe, Progress, RoundRecord, Run
from kfed.federated.models import FederatedModels, OnRound, total_sent, watching
from kfed.federated.selection import Selection
from kfed.federated.settings import FedAvg
from kfed.simulate import Communication

Start = tuple[Run, Progress]


def fit_global(
    devices: Devices,
    model_factory: Callable[[], torch.nn.Module],
    training: FedAvg | None = None,
    *,
    selection: Selection | None = None,
    observe: Observe | None = None,
    on_round: OnRound | None = None,
    checkpoint: str | os.PathLike[str] | None = None,
    progress: bool | None = None,
) -> FederatedModels:
    """Train one model for all devices: FedAvg. Parameters are those of `fit_personalized`.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> rows = [rng.normal(size=(40, 2)) for _ in range(4)]
    >>> devices = {f"phone-{i}": (own, (own[:, 0] > 0).astype(int)) for i, own in enumerate(rows)}
    >>> models = fit_global(devices, lambda: torch.nn.Linear(2, 2), FedAvg(rounds=5, batched=False, threads=1))
    >>> models.evaluate(devices).accuracy > 0.9
    True
    """
    fleet, training = Fleet.of(devices), training or FedAvg()
    stack = Stack.of(model_factory, 1, training.seed)
    check_fits(stack, fleet.inputs, fleet.targets, training.loss)
    route = OneEach(dict.fromkeys(fleet.device_ids, 0))

    def models(stack: Stack, history: tuple[RoundRecord, ...] = ()) -> FederatedModels:
        return FederatedModels("global", stack, route, training.loss, fleet.device_ids, history, total_sent(history))

    run = Run.of(fleet, OneModel(fleet), training, selection, watching(observe, on_round, models))
    done = run.finish(Progress(stack), checkpoint=checkpoint, show_progress=progress)
    return models(done.stack, done.history)


def fit_ifca(
    devices: Devices,
    n_clusters: int,
    model_factory: Callable[[], torch.nn.Module],
    training: FedAvg | None = None,
    *,
    n_starts: int = 1,
    start_rounds: int = 10,
    selection: Selection | None = None,
    observe: Observe | None = None,
    on_round: OnRound | None = None,
    checkpoint: str | os.PathLike[str] | None = None,
    progress: bool | None = None,
) -> IFCAModels:
    """Train `n_clusters` models, each on the devices that it fits best: IFCA.

    Parameters
    ----------
    n_starts, start_rounds : int
        Run `n_starts` starts from different first parameters for `start_rounds` rounds each, and continue with the one
        with the lowest training loss: IFCA depends on its start. All starts count as communication. After
        `FedAvg.shared_rounds` the models are copies; each start then lets devices begin with other ones of them.
    devices, n_clusters, model_factory, training, selection, observe, on_round, checkpoint, progress
        As in `fit_personalized`.

    Examples
    --------
    Two kinds of phone, whose labels mean the opposite:

    >>> rng = np.random.default_rng(0)
    >>> rows = [rng.normal(size=(40, 2)) for _ in range(4)]
    >>> devices = {f"phone-{i}": (own, ((-1) ** i * own[:, 0] > 0).astype(int)) for i, own in enumerate(rows)}
    >>> models = fit_ifca(devices, 2, lambda: torch.nn.Linear(2, 2), FedAvg(rounds=5, batched=False, threads=1))
    >>> models.n_models_in_use, models.evaluate(devices).accuracy > 0.9
    (2, True)
    """
    fleet, training = Fleet.of(devices), training or FedAvg()
    n_models = checks.positive_integer(n_clusters, "n_clusters")
    n_starts = checks.positive_integer(n_starts, "n_starts")
    check_fits(Stack.of(model_factory, 1, training.seed), fleet.inputs, fleet.targets, training.loss)
    start_rounds = min(checks.positive_integer(start_rounds, "start_rounds"), training.rounds - training.shared_rounds)
    starts = []
    watched = watching(observe, on_round, lambda stack: _so_far(stack, fleet, training))
    for seed in range(training.seed, training.seed + 1000 * n_starts, 1000):
        plan = LowestLoss(fleet, n_models, training.loss, training.n_loss_rows, seed)
        run = Run.of(fleet, plan, training, selection, watched)
        starts.append((run, Progress(Stack.of(model_factory, n_models, seed))))
    is_begun = checkpoint is not None and Path(checkpoint).exists()
    run, begun = starts[0] if n_starts == 1 or is_begun else _best_start(starts, start_rounds)
    done = run.finish(begun, checkpoint=checkpoint, show_progress=progress)
    choices = _choices(done, fleet, training)
    one_start = done.history[training.shared_rounds :][:start_rounds]  # every other sends as much
    return IFCAModels(
        "IFCA",
        done.stack,
        OneEach(choices),
        training.loss,
        fleet.device_ids,
        done.history,
        total_sent(done.history + one_start * (n_starts - 1)),
        choices,
    )


@dataclass(frozen=True, eq=False, repr=False)
class IFCAModels(FederatedModels):
    """Models, and the one that each device chose by its training data at the end.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> rows = [rng.normal(size=(40, 2)) for _ in range(4)]
    >>> devices = {f"phone-{i}": (own, ((-1) ** i * own[:, 0] > 0).astype(int)) for i, own in enumerate(rows)}
    >>> models = fit_ifca(devices, 2, lambda: torch.nn.Linear(2, 2), FedAvg(rounds=5, batched=False, threads=1))
    >>> models.choices["phone-0"] == models.choices["phone-2"] != models.choices["phone-1"]
    True
    """

    choices: dict[str, int]

    @property
    def n_models_in_use(self) -> int:
        """Number of models that at least one device chose; IFCA often leaves some unused."""
        return len(set(self.choices.values()))

    def _facts(self) -> dict[str, Any]:
        return {"choices": self.choices}

    @classmethod
    def _own_fields(cls, read: Any) -> dict[str, Any]:
        return {"choices": read.facts["choices"]}

    def _route_with(self, newcomer: Fleet, has_targets: bool) -> Route:
        if not has_targets:
            raise InvalidInputError("targets must be given: a device chooses the model with the lowest loss")
        used = sorted(set(self.choices.values()))
        losses = losses_of_models(self._stack.only(used), newcomer, [0], self._loss)
        return self._route_to(newcomer.device_ids[0], used[int(losses.argmin())])


def _so_far(stack: Stack, fleet: Fleet, training: FedAvg) -> FederatedModels:
    """The models of a round; a device chooses among them when it is asked for its route."""

    def route(device_id: str, inputs: torch.Tensor) -> Array:
        losses = losses_of_models(stack, fleet, [fleet.device_ids.index(device_id)], training.loss)
        return np.full(len(inputs), int(losses.argmin()))

    return FederatedModels("IFCA", stack, route, training.loss, fleet.device_ids, (), Communication())


def _best_start(starts: list[Start], n_rounds: int) -> Start:
    """Run every start for some rounds, after the shared ones, and return the one with the lowest training loss."""
    run, begun = starts[0]
    settings, everyone = run.settings, np.arange(run.fleet.n_devices)
    if settings.shared_rounds:
        shared = run.finish(begun, until=settings.shared_rounds, show_progress=False)
        starts = [(run, shared) for run, _ in starts]
    until = settings.shared_rounds + n_rounds
    starts = [(run, run.finish(begun, until=until, show_progress=False)) for run, begun in starts]
    losses = [
        losses_of_models(begun.stack, run.fleet, everyone, settings.loss, settings.n_loss_rows).min(axis=1).mean()
        for run, begun in starts
    ]
    return starts[int(np.argmin(losses))]


def _choices(done: Progress, fleet: Fleet, training: FedAvg) -> dict[str, int]:
    """Model with the lowest loss on all training rows of each device, of those that were trained.

    One device at a time, to limit memory.
    """
    trained = sorted({model for record in done.history[training.shared_rounds :] for model in record.models})
    stack = done.stack.only(trained)
    losses = [losses_of_models(stack, fleet, [device], training.loss) for device in range(fleet.n_devices)]
    chosen = np.asarray(trained)[np.concatenate(losses).argmin(axis=1)]
    return dict(zip(fleet.device_ids, chosen.tolist(), strict=True))
