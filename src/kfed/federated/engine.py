"""FedAvg over simulated devices, for one model or several: the loop that every method here shares.

In a round some devices are chosen, each trains copies of its models on its own rows, and each model becomes the
weighted mean of its copies; one that no device of the round trains stays as it is. In the first rounds all devices may
share one model. Whatever is random is a function of (seed, round, device), so a run that was stopped goes on from its
checkpoint to the same parameters.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from kfed._base.progress import progress_bar
from kfed.errors import DivergedError, InvalidInputError
from kfed.federated import _checkpoint
from kfed.federated._fingerprint import fingerprint_of
from kfed.federated._fleet import Fleet
from kfed.federated._local import LocalResult, Share, train_locally
from kfed.federated._plans import OneModel, Plan, losses_of_models
from kfed.federated._server import ServerStates, server_step
from kfed.federated._stack import Stack, average
from kfed.federated.selection import RandomSelection, Selection
from kfed.federated.settings import FedAvg
from kfed.simulate import Communication

Observed = Mapping[str, float] | bool | None
"""Numbers to keep in the history; True, or a true ``"stop"`` among them, ends the training."""

Observe = Callable[[int, Stack], Observed]


@dataclass(frozen=True)
class RoundRecord:
    """What happened in one round.

    Examples
    --------
    >>> import torch
    >>> from kfed.federated import fit_global
    >>> rows = np.random.default_rng(0).normal(size=(2, 20, 3))
    >>> devices = [(own, (own[:, 0] > 0).astype(int)) for own in rows]
    >>> models = fit_global(devices, lambda: torch.nn.Linear(3, 2), FedAvg(rounds=2, batched=False, threads=1))
    >>> last = models.history[-1]
    >>> last.round, last.devices, last.communication.messages
    (1, (0, 1), 4)
    """

    round: int
    devices: tuple[int, ...]
    models: tuple[int, ...]
    """Models that were trained."""
    loss: float
    """Mean training loss of its shares."""
    communication: Communication
    observed: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class Progress:
    """Models after some rounds, and the history so far: what a checkpoint keeps."""

    stack: Stack
    history: tuple[RoundRecord, ...] = ()
    server: ServerStates = field(default_factory=dict)
    stopped: bool = False


@dataclass(frozen=True, eq=False)
class Run:
    """One training run: data, plan and settings. `finish` runs it."""

    fleet: Fleet
    plan: Plan
    settings: FedAvg
    selection: Selection
    observe: Observe | None = None

    @classmethod
    def of(
        cls,
        fleet: Fleet,
        plan: Plan,
        settings: FedAvg,
        selection: Selection | None = None,
        observe: Observe | None = None,
    ) -> Run:
        """Check `clients_per_round`, use random selection by default, and settle what "auto" means."""
        n = settings.clients_per_round
        if n is not None and n > fleet.n_devices:
            raise InvalidInputError(
                f"clients_per_round must be at most {fleet.n_devices}, the number of devices; got {n}"
            )
        selection = selection or RandomSelection(fleet.n_devices, seed=settings.seed)
        weighting = settings.weighting
        if weighting == "auto":
            weighting = "devices" if getattr(selection, "draws_by_size", False) else "points"
        settings = replace(settings, clients_per_round=n or fleet.n_devices, weighting=weighting)
        return cls(fleet.to(settings.device), plan, settings, selection, observe)

    def finish(
        self,
        progress: Progress,
        *,
        checkpoint: str | os.PathLike[str] | None = None,
        checkpoint_every: int = 25,
        until: int | None = None,
        show_progress: bool | None = None,
    ) -> Progress:
        """Run the remaining rounds, or those before `until`.

        A checkpoint is written every `checkpoint_every` rounds, at the end, and when an error ends the run.
        """
        progress = replace(progress, stack=progress.stack.to(self.settings.device))
        fingerprint = fingerprint_of(self, progress.stack) if checkpoint is not None else {}
        if checkpoint is not None:
            progress = _checkpoint.resumed(checkpoint, progress, fingerprint)
        rounds, kept = until or self.settings.rounds, len(progress.history)
        with progress_bar("training", rounds - kept, show_progress) as advance:
            try:
                for round in range(kept, rounds):
                    if progress.stopped:
                        break
                    progress = self.one_round(progress, round)
                    if checkpoint is not None and (round + 1) % checkpoint_every == 0:
                        _checkpoint.save(checkpoint, progress, fingerprint)
                        kept = round + 1
                    advance(1)
            finally:
                if checkpoint is not None and len(progress.history) > kept:
                    _checkpoint.save(checkpoint, progress, fingerprint)
        return replace(progress, stack=progress.stack.to("cpu"))

    def one_round(self, progress: Progress, round: int) -> Progress:
        """Select devices, train them, average, and let the server's optimizer take its step."""
        stack, settings = progress.stack, self.settings
        asked = _Losses(self, stack)
        devices = self.selection.select(round, settings.clients_per_round or 0, losses=asked)
        is_shared = round < settings.shared_rounds
        plan = OneModel(self.fleet) if is_shared else self.plan
        shares = plan.shares(stack, devices, settings.batch_size)
        trained = train_locally(stack, self.fleet, shares, settings.local_training(round), round)
        models = np.array([share.model for share in shares])
        weights = [len(share.rows) if settings.weighting == "points" else 1 for share in shares]
        mean, server = average(stack, trained.parameters, models, weights), progress.server
        self._check_sound(mean, shares, trained, round)
        if settings.server_optimizer is not None:
            mean, server = server_step(stack, mean, np.unique(models).tolist(), server, settings.server_optimizer)
        stack = mean
        if is_shared:
            stack, server = mean.all_like(0), dict.fromkeys(range(mean.n_models), server[0]) if server else server
        observed, stopped = _answer(self.observe(round, stack) if self.observe else None)
        record = RoundRecord(
            round,
            tuple(int(device) for device in devices),
            tuple(int(model) for model in np.unique(models)),
            float(trained.losses.mean()),
            self._communication(plan, stack, devices, shares, asked.devices),
            observed,
        )
        return Progress(stack, (*progress.history, record), server, stopped)

    def _check_sound(self, stack: Stack, shares: list[Share], trained: LocalResult, round: int) -> None:
        """Raise if the loss or the parameters of a device are not finite."""
        if np.isfinite(trained.losses).all() and all(v.isfinite().all() for v in stack.parameters.values()):
            return
        is_bad = ~np.isfinite(trained.losses)
        for values in trained.parameters.values():
            is_bad |= ~values.flatten(1).isfinite().all(dim=1).cpu().numpy()
        device = self.fleet.device_ids[shares[int(is_bad.argmax())].device]
        raise DivergedError(
            f"training diverged: in round {round} the loss of device {device!r} is not finite; use a lower "
            "learning_rate, or clip_norm"
        )

    @staticmethod
    def _communication(plan: Plan, stack: Stack, devices: Any, shares: list[Share], asked: set[int]) -> Communication:
        """Models down to devices that train or were asked for their loss; trained models up."""
        told = {int(device) for device in devices} | asked
        n_down = sum(plan.models_for(device) for device in told)
        n_messages = len(told) + len({share.device for share in shares})
        return Communication(1, n_down * stack.model_bytes, len(shares) * stack.model_bytes, n_messages)


def _answer(observed: Observed) -> tuple[dict[str, float], bool]:
    """Numbers to keep, and whether to stop."""
    if not isinstance(observed, Mapping):
        return {}, observed is True
    return {name: value for name, value in observed.items() if name != "stop"}, bool(observed.get("stop", False))


class _Losses:
    """Losses of devices under their models, computed when a selection asks; remembers which devices were asked."""

    def __init__(self, run: Run, stack: Stack) -> None:
        self._run, self._stack = run, stack
        self.devices: set[int] = set()

    def __call__(self, devices: Any) -> Any:
        self.devices |= {int(device) for device in devices}
        settings = self._run.settings
        losses = losses_of_models(self._stack, self._run.fleet, devices, settings.loss, settings.n_loss_rows)
        return losses.min(axis=1)
