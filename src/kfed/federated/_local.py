"""Local steps of a round: every share (a device's rows for one model) trains its own copy, all copies in one batch.

`train_batched` is the fast way: copies stacked on a leading axis, one `vmap` over all. `train_one_by_one` is its slow
clear twin: an ordinary PyTorch loop. Both draw the same rows and give the same parameters; the twin also serves models
that `vmap` does not know, such as `torch.nn.LSTM`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch.func import grad_and_value, vmap

from kfed.errors import InvalidInputError
from kfed.federated._fleet import Fleet
from kfed.federated._stack import Loss, Parameters, Stack, mixes_rows

IntArray = np.ndarray[Any, np.dtype[np.int64]]

BATCH_BYTES = 2**24
"""Bytes of parameters that are trained in one batch."""


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
    """How a device trains: plain gradient steps on the mean loss of a batch."""

    n_steps: int
    learning_rate: float
    clip_norm: float | None
    loss: Loss
    batched: bool
    seed: int


@dataclass(frozen=True, eq=False)
class LocalResult:
    """Trained parameters, each (n_shares, ...), and the mean loss of each share over its steps, (n_shares,)."""

    parameters: Parameters
    losses: np.ndarray[Any, np.dtype[np.float64]]


def train_locally(stack: Stack, fleet: Fleet, shares: Sequence[Share], steps: LocalSteps, round: int) -> LocalResult:
    """Train every share from its model, independently of the others."""
    train = train_batched if steps.batched else train_one_by_one
    with torch.random.fork_rng(devices=[]):  # dropout draws from here; rows are drawn by `draw_rows`
        torch.manual_seed(steps.seed + round)
        parts = _parts(stack, shares, is_even=steps.batched and mixes_rows(stack, fleet.inputs))
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
    parameters = {name: values[models] for name, values in stack.parameters.items()}
    rows, weights = _padded(shares, steps, round)
    total = torch.zeros(len(shares))
    for own, weight in zip(rows, weights, strict=True):
        inputs, targets = _gathered(fleet.inputs, own), _gathered(fleet.targets, own)
        try:
            gradients, losses = gradient(parameters, inputs, targets, weight)
        except (RuntimeError, NotImplementedError) as error:
            raise InvalidInputError(
                f"torch.func.vmap cannot batch this model: {error}; use FedAvg(batched=False) to train device by device"
            ) from error
        _descend(parameters, gradients, steps)
        total += losses
    return LocalResult(parameters, (total / steps.n_steps).double().numpy())


def train_one_by_one(stack: Stack, fleet: Fleet, shares: Sequence[Share], steps: LocalSteps, round: int) -> LocalResult:
    """Train one share after the other, in a plain PyTorch loop."""
    modules, losses = [], []
    for share in shares:
        module = stack.module(share.model).train()
        optimizer = torch.optim.SGD(module.parameters(), lr=steps.learning_rate)
        total = 0.0
        for rows in torch.from_numpy(draw_rows(share, steps, round)):
            optimizer.zero_grad()
            loss = steps.loss(module(fleet.inputs[rows]), fleet.targets[rows]).mean()
            loss.backward()  # type: ignore[no-untyped-call]
            if steps.clip_norm is not None:
                torch.nn.utils.clip_grad_norm_(module.parameters(), steps.clip_norm)
            optimizer.step()
            total += float(loss.detach())
        modules.append(dict(module.named_parameters()))
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


def _descend(parameters: Parameters, gradients: Parameters, steps: LocalSteps) -> None:
    """Take one gradient step for every share, in place; gradients longer than `clip_norm` are scaled down to it."""
    scale = None
    if steps.clip_norm is not None:
        norms = torch.stack([gradient.flatten(1).norm(dim=1) for gradient in gradients.values()]).norm(dim=0)
        scale = (steps.clip_norm / (norms + CLIP_EPSILON)).clamp(max=1.0)
    for name, values in parameters.items():
        gradient = gradients[name]
        if scale is not None:
            gradient = gradient * scale.view(-1, *[1] * (gradient.ndim - 1))
        values.sub_(gradient, alpha=steps.learning_rate)
