"""Local steps of a round: every share (a device's rows for one model) trains its own copy, all copies in one batch.

`train_batched` is the fast way: copies stacked on a leading axis, one `vmap` over all. `train_one_by_one` is its slow
clear twin: an ordinary PyTorch loop. Both draw the same rows and give the same parameters; the twin also serves models
that `vmap` does not know, such as `torch.nn.LSTM`.
"""

from __future__ import annotations

import warnings
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
import torch
from torch.func import grad_and_value, vmap

from kfed.errors import InvalidInputError
from kfed.federated._fleet import Fleet
from kfed.federated._server import Optimizer
from kfed.federated._speed import N_TIMED, fastest, using_threads
from kfed.federated._stack import Loss, Parameters, Stack, mixes_rows

IntArray = np.ndarray[Any, np.dtype[np.int64]]

BATCH_BYTES = 2**24
"""Bytes of parameters that are trained in one batch."""


ELEMENTWISE = (
    *(torch.optim.SGD, torch.optim.Adam, torch.optim.AdamW, torch.optim.RMSprop, torch.optim.Adagrad),
    *(torch.optim.Adadelta, torch.optim.Adamax, torch.optim.NAdam, torch.optim.RAdam),
)
"""Optimizers that treat every number of a parameter by itself, so that copies can be stacked."""

CLIP_EPSILON = 1e-6
"""What `torch.nn.utils.clip_grad_norm_` adds to a norm before it divides."""


@dataclass(frozen=True, eq=False)
class Share:
    """What one device does for one model in a round: the rows it trains on, and how many a step takes."""

    device: int
    model: int
    rows: IntArray
    batch_size: int

    @property
    def n_drawn(self) -> int:
        """Rows of a step."""
        return min(self.batch_size, len(self.rows))


@dataclass(frozen=True)
class LocalSteps:
    """How a device trains: steps on the mean loss of a batch, plain ones or those of an optimizer."""

    n_steps: int
    learning_rate: float
    clip_norm: float | None
    loss: Loss
    batched: bool | Literal["auto"]
    seed: int
    optimizer: Optimizer | None = None
    proximal: float = 0.0
    threads: int | None = 1

    @property
    def can_batch(self) -> bool:
        """Whether one optimizer of many copies does what one for each would do."""
        if self.optimizer is None:
            return True
        return type(self.optimizer([torch.zeros(1)], lr=self.learning_rate)) in ELEMENTWISE


@dataclass(frozen=True, eq=False)
class LocalResult:
    """Trained parameters, each (n_shares, ...), and the mean loss of each share over its steps, (n_shares,)."""

    parameters: Parameters
    losses: np.ndarray[Any, np.dtype[np.float64]]


def train_locally(stack: Stack, fleet: Fleet, shares: Sequence[Share], steps: LocalSteps, round: int) -> LocalResult:
    """Train every share from its model, independently of the others, in the fastest way that is allowed."""
    if steps.batched is True and not steps.can_batch:
        raise InvalidInputError("optimizer must treat every number by itself to train side by side; use batched=False")

    def step(batched: bool) -> LocalResult:
        return _train(stack, fleet, shares[:N_TIMED], replace(steps, n_steps=1), round, batched)

    speed = fastest(_key(stack, fleet, shares, steps), steps.batched, steps.threads, step, steps.can_batch)
    with using_threads(speed.threads):
        return _train(stack, fleet, shares, steps, round, speed.batched)


def _key(stack: Stack, fleet: Fleet, shares: Sequence[Share], steps: LocalSteps) -> Hashable:
    """What decides how fast a step is."""
    optimizer = None if steps.optimizer is None else repr(steps.optimizer)
    batch = max(share.n_drawn for share in shares)
    return (str(stack.form), fleet.inputs.shape[1:], fleet.inputs.device, batch, min(len(shares), N_TIMED), optimizer)


def _train(
    stack: Stack, fleet: Fleet, shares: Sequence[Share], steps: LocalSteps, round: int, batched: bool
) -> LocalResult:
    train = train_batched if batched else train_one_by_one
    with torch.random.fork_rng(devices=[]):  # dropout draws from here; rows are drawn by `draw_rows`
        torch.manual_seed(steps.seed + round)
        parts = _parts(stack, shares, is_even=batched and mixes_rows(stack, fleet.inputs))
        done = [train(stack, fleet, [shares[i] for i in part], steps, round) for part in parts]
    if len(done) == 1:
        return done[0]
    back = np.argsort(np.concatenate(parts))
    joined = {name: torch.cat([part.parameters[name] for part in done])[back] for name in stack.parameters}
    return LocalResult(joined, np.concatenate([part.losses for part in done])[back])


def train_batched(stack: Stack, fleet: Fleet, shares: Sequence[Share], steps: LocalSteps, round: int) -> LocalResult:
    """Train all shares at once; shorter batches are padded with rows of weight zero."""

    def mean_loss(parameters: Parameters, inputs: torch.Tensor, targets: torch.Tensor, weights: torch.Tensor) -> Any:
        return torch.dot(steps.loss(stack.call(parameters, inputs), targets), weights)

    gradient = vmap(grad_and_value(mean_loss), randomness="different")
    models = torch.tensor([share.model for share in shares])
    start = {name: values[models] for name, values in stack.parameters.items()}
    parameters = {name: values.clone() for name, values in start.items()}
    optimizer = steps.optimizer and steps.optimizer(list(parameters.values()), lr=steps.learning_rate)
    rows, weights = (values.to(fleet.inputs.device) for values in _padded(shares, steps, round))
    total = torch.zeros(len(shares), device=fleet.inputs.device)
    for own, weight in zip(rows, weights, strict=True):
        inputs, targets = _gathered(fleet.inputs, own), _gathered(fleet.targets, own)
        try:
            with warnings.catch_warnings():
                warnings.filterwarnings("ignore", "There is a performance drop")  # who asks for "auto" had it measured
                gradients, losses = gradient(parameters, inputs, targets, weight)
        except (RuntimeError, NotImplementedError) as error:
            raise InvalidInputError(
                f"torch.func.vmap cannot batch this model: {error}; use FedAvg(batched=False) to train device by device"
            ) from error
        if steps.proximal:
            gradients = {n: g + steps.proximal * (parameters[n] - start[n]) for n, g in gradients.items()}
            losses = losses + steps.proximal / 2 * _squared_distance(parameters, start, first_axis=1)
        _descend(parameters, gradients, steps, optimizer)
        total += losses
    return LocalResult(parameters, (total / steps.n_steps).double().cpu().numpy())


def train_one_by_one(stack: Stack, fleet: Fleet, shares: Sequence[Share], steps: LocalSteps, round: int) -> LocalResult:
    """Train one share after the other, in a plain PyTorch loop."""
    modules, losses = [], []
    for share in shares:
        module = stack.module(share.model).train()
        parameters, start = dict(module.named_parameters()), stack.of_model(share.model)
        trainable: Parameters = {name: parameters[name] for name in start}
        optimizer = (steps.optimizer or torch.optim.SGD)(list(trainable.values()), lr=steps.learning_rate)
        total = 0.0
        for rows in torch.from_numpy(draw_rows(share, steps, round)).to(fleet.inputs.device):
            optimizer.zero_grad()
            loss = steps.loss(module(fleet.inputs[rows]), fleet.targets[rows]).mean()
            if steps.proximal:
                loss = loss + steps.proximal / 2 * _squared_distance(trainable, start)
            loss.backward()  # type: ignore[no-untyped-call]
            if steps.clip_norm is not None:
                torch.nn.utils.clip_grad_norm_(trainable.values(), steps.clip_norm)
            optimizer.step()
            total += float(loss.detach())
        modules.append(trainable)
        losses.append(total / steps.n_steps)
    trained = {name: torch.stack([module[name].detach() for module in modules]) for name in stack.parameters}
    return LocalResult(trained, np.array(losses))


def draw_rows(share: Share, steps: LocalSteps, round: int) -> IntArray:
    """Rows of each step, (n_steps, batch_size): shuffled rows one after the other, shuffled again when all were used.

    They depend on the seed, the round, the device and the model, not on the other devices.
    """
    rng = np.random.default_rng([steps.seed, round, share.device, share.model])
    size = share.n_drawn
    n_passes = -(-steps.n_steps * size // len(share.rows))
    order = np.concatenate([rng.permutation(share.rows) for _ in range(n_passes)])
    return order[: steps.n_steps * size].reshape(steps.n_steps, size)


def _parts(stack: Stack, shares: Sequence[Share], is_even: bool) -> list[IntArray]:
    """Positions of the shares to train together: not too many and, if `is_even`, of one batch size, so not padded."""
    lengths = np.array([share.n_drawn if is_even else 0 for share in shares])
    size = max(1, BATCH_BYTES // stack.model_bytes)
    alike = (np.flatnonzero(lengths == length) for length in np.unique(lengths))
    return [part for own in alike for part in np.array_split(own, -(-len(own) // size))]


def _padded(shares: Sequence[Share], steps: LocalSteps, round: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Rows and weights of each step, both (n_steps, n_shares, longest batch); the weights of a batch sum to 1."""
    drawn = [draw_rows(share, steps, round) for share in shares]
    longest = max(rows.shape[1] for rows in drawn)
    rows = np.zeros((steps.n_steps, len(shares), longest), np.int64)
    weights = np.zeros((len(shares), longest))
    for i, own in enumerate(drawn):
        rows[:, i, : own.shape[1]] = own
        rows[:, i, own.shape[1] :] = own[:, :1]  # any row that the share holds
        weights[i, : own.shape[1]] = 1 / own.shape[1]
    weights_of_a_step = torch.tensor(weights, dtype=torch.get_default_dtype())
    return torch.from_numpy(rows), weights_of_a_step.expand(steps.n_steps, -1, -1)


def _gathered(values: torch.Tensor, rows: torch.Tensor) -> torch.Tensor:
    """The rows of each share, (n_shares, longest batch, ...)."""
    return values.index_select(0, rows.flatten()).view(*rows.shape, *values.shape[1:])


def _squared_distance(parameters: Parameters, start: Parameters, first_axis: int = 0) -> torch.Tensor:
    """Squared distance over all parameters; from axis 1 on, of each share."""
    moves = [(values - start[name]).square() for name, values in parameters.items()]
    return torch.stack([move.flatten(first_axis).sum(dim=-1) for move in moves]).sum(dim=0)


def _descend(parameters: Parameters, gradients: Parameters, steps: LocalSteps, optimizer: Any = None) -> None:
    """Take one gradient step for every share, in place; gradients longer than `clip_norm` are scaled down to it."""
    scale = None
    if steps.clip_norm is not None:
        norms = torch.stack([gradient.flatten(1).norm(dim=1) for gradient in gradients.values()]).norm(dim=0)
        scale = (steps.clip_norm / (norms + CLIP_EPSILON)).clamp(max=1.0)
    for name, values in parameters.items():
        gradient = gradients[name]
        if scale is not None:
            gradient = gradient * scale.view(-1, *[1] * (gradient.ndim - 1))
        if optimizer is None:
            values.sub_(gradient, alpha=steps.learning_rate)
        values.grad = gradient
    if optimizer is not None:
        optimizer.step()
