"""`FedAvg`: the settings of federated averaging, checked when they are made."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import torch

from kfed._base import checks
from kfed.errors import InvalidInputError
from kfed.federated._local import LocalSteps
from kfed.federated._server import Optimizer
from kfed.federated._stack import Loss, cross_entropy


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
    batched : bool or "auto"
        Train devices side by side with `torch.func.vmap`, or one after the other, which works for any model. "auto"
        times one step of each, and takes the faster; parameters then differ by rounding from those of the other.
    n_loss_rows : int, optional
        Number of rows from which a device computes a loss before training (IFCA, power of choice); by default all.
    seed : int
        Decides the first parameters, the devices of each round and the rows of each step.
    optimizer : callable, optional
        Makes the optimizer of a device, as ``optimizer(parameters, lr=rate)``, such as `torch.optim.Adam`; by default
        plain gradient steps. It is made anew in each round.
    proximal : float
        Weight mu of FedProx: mu / 2 times the squared distance to the model that came is added to each loss.
    server_optimizer : callable, optional
        Makes the optimizer of the server for each model, as ``server_optimizer(parameters)``, such as
        ``functools.partial(torch.optim.Adam, lr=0.01)``: the mean update is its gradient. By default models become the
        means.
    device : str
        Where PyTorch computes, such as "cuda"; models come back to the CPU.
    threads : int, optional
        Threads of PyTorch while training; by default one or all, whichever takes less time here.

    Examples
    --------
    Adam on devices, twenty of them in each round:

    >>> training = FedAvg(rounds=60, clients_per_round=20, optimizer=torch.optim.Adam, learning_rate=0.001)
    >>> training.rate_in(59)
    0.001
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
    batched: bool | Literal["auto"] = "auto"
    n_loss_rows: int | None = None
    seed: int = 0
    optimizer: Optimizer | None = None
    proximal: float = 0.0
    server_optimizer: Optimizer | None = None
    device: str = "cpu"
    threads: int | None = None

    def __post_init__(self) -> None:
        for name in ("rounds", "local_steps", "batch_size"):
            checks.positive_integer(getattr(self, name), name)
        for name in ("clients_per_round", "n_loss_rows", "threads"):
            if getattr(self, name) is not None:
                checks.positive_integer(getattr(self, name), name)
        checks.positive_number(self.learning_rate, "learning_rate")
        for name in ("final_learning_rate", "clip_norm"):
            if getattr(self, name) is not None:
                checks.positive_number(getattr(self, name), name)
        if not isinstance(self.batched, bool):
            checks.one_of(self.batched, ["auto"], "batched")
        if not (isinstance(self.proximal, int | float) and 0 <= self.proximal < math.inf):
            raise InvalidInputError(f"proximal must be a number of at least 0; got {self.proximal!r}")
        _check_device(self.device)
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

    def local_training(self, round: int) -> LocalSteps:
        """Return how devices train in a round."""
        return LocalSteps(
            self.local_steps,
            self.rate_in(round),
            self.clip_norm,
            self.loss,
            self.batched,
            self.seed,
            self.optimizer,
            float(self.proximal),
            self.threads,
        )


def _check_device(device: str) -> None:
    try:
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError) as error:
        raise InvalidInputError(f"device must be one that PyTorch has here; got {device!r}") from error
