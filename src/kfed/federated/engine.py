"""FedAvg over simulated devices, for one model or several: the loop that every method here shares.

In a round some devices are chosen, each trains copies of its models on its own rows, and each model becomes the
weighted mean of its copies; one that no device of the round trains stays as it is. In the first rounds all devices may
share one model. Whatever is random is a function of (seed, round, device), so a run that was stopped goes on from its
checkpoint to the same parameters.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import numpy as np

from kfed._base import checks
from kfed._base.progress import progress_bar
from kfed.errors import DivergedError, InvalidInputError
from kfed.federated import _checkpoint
from kfed.federated._fleet import Fleet
from kfed.federated._local import LocalResult, LocalSteps, Share, train_locally
from kfed.federated._plans import OneModel, Plan, losses_of_models
from kfed.federated._stack import Loss, Stack, average, cross_entropy
from kfed.federated.selection import RandomSelection, Selection
from kfed.simulate import Communication

Observe = Callable[[int, Stack], Mapping[str, float]]


@dataclass(frozen=True)
class FedAvg:
    """Settings of federated averaging.

    Parameters
    ----------
    rounds : int
    clients_per_round : int, optional
        Number of devices that take part in a round; by default all.
    local_steps : int
        Gradient steps of a device in a round.
    batch_size : int
        Rows of a step. A device with fewer rows uses all of them.
    learning_rate : float
    final_learning_rate : float, optional
        Rate of the last round; the rate decays geometrically towards it. By default the rate is constant.
    shared_rounds : int
        Number of first rounds in which all devices train one shared model. The models of the clusters then start as
        copies of it.
    weighting : {"auto", "points", "devices"}
        Whether the mean weighs each device by its number of rows, or all devices alike. "auto" weighs by rows, unless
        the selection draws devices by size already, as power of choice does.
    clip_norm : float, optional
        Largest norm of a gradient; longer ones are scaled down.
    loss : callable
        Maps outputs and targets of n rows to n losses; by default cross-entropy.
    batched : bool
        Train devices side by side with `torch.func.vmap`; otherwise one after the other, which works for any model.
    n_loss_rows : int, optional
        Number of rows from which a device computes a loss before training (IFCA, power of choice); by default all.
    seed : int
        Decides the first parameters, the devices of each round and the rows of each step.
    """

    rounds: int = 100
    clients_per_round: int | None = None
    local_steps: int = 10
    batch_size: int = 32
    learning_rate: float = 0.1
    final_learning_rate: float | None = None
    shared_rounds: int = 0
    weighting: str = "auto"
    clip_norm: float | None = None
    loss: Loss = cross_entropy
    batched: bool = True
    n_loss_rows: int | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        for name in ("rounds", "local_steps", "batch_size"):
            checks.positive_integer(getattr(self, name), name)
        for name in ("clients_per_round", "n_loss_rows"):
            if getattr(self, name) is not None:
                checks.positive_integer(getattr(self, name), name)
        checks.positive_number(self.learning_rate, "learning_rate")
        for name in ("final_learning_rate", "clip_norm"):
            if getattr(self, name) is not None:
                checks.positive_number(getattr(self, name), name)
        checks.one_of(self.weighting, ["auto", "points", "devices"], "weighting")
        for name in ("shared_rounds", "seed"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or value < 0:
                raise InvalidInputError(f"{name} must be an integer of at least 0; got {value!r}")
        if self.shared_rounds >= self.rounds:
            raise InvalidInputError(
                f"shared_rounds must be less than rounds, {self.rounds}; got {self.shared_rounds}: the models of the "
                "clusters need rounds of their own"
            )

    def rate_in(self, round: int) -> float:
        """Return the learning rate of a round.

        Examples
        --------
        >>> [FedAvg(rounds=3, learning_rate=0.4, final_learning_rate=0.1).rate_in(round) for round in range(3)]
        [0.4, 0.2, 0.1]
        """
        if self.final_learning_rate is None or self.rounds == 1:
            return self.learning_rate
        return float(
            self.learning_rate * (self.final_learning_rate / self.learning_rate) ** (round / (self.rounds - 1))
        )


@dataclass(frozen=True)
class RoundRecord:
    """What happened in one round."""

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
        return cls(fleet, plan, settings, selection, observe)

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
        fingerprint = self._fingerprint(progress.stack)
        if checkpoint is not None:
            progress = _checkpoint.resumed(checkpoint, progress, fingerprint)
        rounds, kept = until or self.settings.rounds, len(progress.history)
        with progress_bar("training", rounds - kept, show_progress) as advance:
            try:
                for round in range(kept, rounds):
                    progress = self.one_round(progress, round)
                    if checkpoint is not None and (round + 1) % checkpoint_every == 0:
                        _checkpoint.save(checkpoint, progress, fingerprint)
                        kept = round + 1
                    advance(1)
            finally:
                if checkpoint is not None and len(progress.history) > kept:
                    _checkpoint.save(checkpoint, progress, fingerprint)
        return progress

    def one_round(self, progress: Progress, round: int) -> Progress:
        """Select devices, train them, average."""
        stack, settings = progress.stack, self.settings
        asked = _Losses(self, stack)
        devices = self.selection.select(round, settings.clients_per_round or 0, losses=asked)
        is_shared = round < settings.shared_rounds
        plan = OneModel(self.fleet) if is_shared else self.plan
        shares = plan.shares(stack, devices, settings.batch_size)
        steps = LocalSteps(
            settings.local_steps,
            settings.rate_in(round),
            settings.clip_norm,
            settings.loss,
            settings.batched,
            settings.seed,
        )
        trained = train_locally(stack, self.fleet, shares, steps, round)
        models = np.array([share.model for share in shares])
        weights = [len(share.rows) if settings.weighting == "points" else 1 for share in shares]
        stack = average(stack, trained.parameters, models, weights)
        self._check_sound(stack, shares, trained, round)
        stack = stack.all_like(0) if is_shared else stack
        record = RoundRecord(
            round,
            tuple(int(device) for device in devices),
            tuple(int(model) for model in np.unique(models)),
            float(trained.losses.mean()),
            self._communication(plan, stack, devices, shares, asked.devices),
            dict(self.observe(round, stack)) if self.observe else {},
        )
        return Progress(stack, (*progress.history, record))

    def _check_sound(self, stack: Stack, shares: list[Share], trained: LocalResult, round: int) -> None:
        """Raise if the loss or the parameters of a device are not finite."""
        if np.isfinite(trained.losses).all() and all(v.isfinite().all() for v in stack.parameters.values()):
            return
        is_bad = ~np.isfinite(trained.losses)
        for values in trained.parameters.values():
            is_bad |= ~values.flatten(1).isfinite().all(dim=1).numpy()
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

    def _fingerprint(self, stack: Stack) -> dict[str, Any]:
        """What a checkpoint must match. The number of rounds may differ, unless the learning rate depends on it."""
        free = {"loss", "batched"} | ({"rounds"} if self.settings.final_learning_rate is None else set())
        settings = {name: value for name, value in asdict(self.settings).items() if name not in free}
        shapes = {name: list(values.shape) for name, values in stack.parameters.items()}
        selection = type(self.selection).__name__
        sizes = [int(size) for size in self.fleet.sizes]
        return {"settings": settings, "plan": self.plan.name, "selection": selection, "sizes": sizes, "shapes": shapes}


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
