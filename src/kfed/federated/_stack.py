"""`Stack`: several models of one architecture, each parameter with a leading axis of models, as `torch.func` has it."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch.func import functional_call

from kfed.errors import InvalidInputError

Parameters = dict[str, torch.Tensor]
"""Named parameters, each of shape (n_models, ...)."""

Loss = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]
"""Maps outputs and targets of n rows to n losses."""

CHUNK_ROWS = 4096
"""Rows that are evaluated at a time."""


@dataclass(frozen=True, eq=False)
class Stack:
    """One architecture with the parameters of `n_models` models; frozen parameters belong to the architecture."""

    form: torch.nn.Module
    parameters: Parameters

    @classmethod
    def of(cls, model_factory: Callable[[], torch.nn.Module], n_models: int, seed: int) -> Stack:
        """Build `n_models` models with the factory, each with its own random seed."""
        models = []
        with torch.random.fork_rng(devices=[]):
            for model in range(n_models):
                torch.manual_seed(int(np.random.SeedSequence([seed, model]).generate_state(1, np.uint64)[0] >> 1))
                models.append(_checked(model_factory()))
        named = [_trainable(model) for model in models]
        if any({n: p.shape for n, p in other.items()} != {n: p.shape for n, p in named[0].items()} for other in named):
            raise InvalidInputError("model_factory must return models with parameters of the same names and shapes")
        parameters = {name: torch.stack([other[name].detach() for other in named]) for name in named[0]}
        return cls(models[0], parameters)

    @property
    def n_models(self) -> int:
        """Number of models."""
        return len(next(iter(self.parameters.values())))

    @property
    def model_bytes(self) -> int:
        """Bytes of the parameters of one model, the cost of sending it."""
        return sum(values[0].numel() * values.element_size() for values in self.parameters.values())

    def call(self, parameters: Parameters, inputs: torch.Tensor) -> torch.Tensor:
        """Outputs of one model with these parameters (no leading axis)."""
        outputs: torch.Tensor = functional_call(self.form, parameters, (inputs,))
        return outputs

    def of_model(self, model: int) -> Parameters:
        """Return the parameters of one model, without the leading axis."""
        return {name: values[model] for name, values in self.parameters.items()}

    def with_parameters(self, parameters: Parameters) -> Stack:
        """Return the same architecture with other parameters."""
        return Stack(self.form, parameters)

    def only(self, models: Sequence[int]) -> Stack:
        """Return a stack of some of the models."""
        return self.with_parameters({name: values[list(models)] for name, values in self.parameters.items()})

    def all_like(self, model: int) -> Stack:
        """Return a stack whose models are all copies of one of these."""
        same = {name: values[model].expand_as(values).contiguous() for name, values in self.parameters.items()}
        return self.with_parameters(same)

    def module(self, model: int) -> torch.nn.Module:
        """Return one of the models as a separate module."""
        module = copy.deepcopy(self.form)
        with torch.no_grad():
            for name, values in _trainable(module).items():
                values.copy_(self.parameters[name][model])
        return module.eval()

    @property
    def device(self) -> torch.device:
        """Where the parameters are."""
        return next(iter(self.parameters.values())).device

    def to(self, device: str | torch.device) -> Stack:
        """Return the same models on another device."""
        if self.device == torch.device(device):
            return self
        parameters = {name: values.to(device) for name, values in self.parameters.items()}
        return Stack(copy.deepcopy(self.form).to(device), parameters)

    @torch.no_grad()
    def outputs(self, model: int, inputs: torch.Tensor) -> torch.Tensor:
        """Outputs of one model for many rows, in evaluation mode (no dropout), on the CPU."""
        was_training, parameters = self.form.training, self.of_model(model)
        self.form.eval()
        try:
            chunks = (rows.to(self.device) for rows in torch.split(inputs, CHUNK_ROWS))
            return torch.cat([self.call(parameters, rows).cpu() for rows in chunks])
        finally:
            self.form.train(was_training)


def average(stack: Stack, trained: Parameters, models: Any, weights: Any) -> Stack:
    """Replace each model by the weighted mean of what was trained from it; a model that was not trained is unchanged.

    Parameters
    ----------
    stack : Stack
    trained : parameters of shape (n_shares, ...)
    models : array of int, shape (n_shares,)
        The model that each share was trained from.
    weights : array of shape (n_shares,)
    """
    mixing = np.zeros((stack.n_models, len(models)))
    mixing[models, np.arange(len(models))] = weights
    used = mixing.sum(axis=1) > 0
    mixing[used] /= mixing[used].sum(axis=1, keepdims=True)
    parameters = {}
    for name, values in trained.items():
        means = torch.as_tensor(mixing, dtype=values.dtype, device=values.device) @ values.flatten(1)
        parameters[name] = stack.parameters[name].clone()
        parameters[name][used] = means.view_as(parameters[name])[used]
    return stack.with_parameters(parameters)


def mixes_rows(stack: Stack, inputs: torch.Tensor) -> bool:
    """Whether an output of the model in training depends on the other rows of its batch, as with batch statistics."""

    def beside(other: int) -> torch.Tensor:
        torch.manual_seed(0)  # the same dropout each time
        return stack.call(stack.of_model(0), inputs[[0, other]])[0]

    with torch.random.fork_rng(devices=[]), torch.no_grad():
        return not torch.allclose(beside(0), beside(len(inputs) - 1), rtol=1e-4, atol=1e-6)


def check_fits(stack: Stack, inputs: torch.Tensor, targets: torch.Tensor, loss: Loss) -> None:
    """Raise unless the model accepts the inputs and its outputs fit the targets."""
    try:
        outputs = stack.outputs(0, inputs[:2])
    except (RuntimeError, TypeError, IndexError, ValueError) as error:
        raise InvalidInputError(
            f"the model does not accept inputs of shape {tuple(inputs.shape[1:])}: {error}"
        ) from error
    if loss is cross_entropy:
        _check_classes(outputs, targets)
    losses = loss(outputs, targets[:2])
    if losses.shape != (len(outputs),):
        raise InvalidInputError(
            f"loss must return one number for each row; got shape {tuple(losses.shape)} for {len(outputs)} rows; "
            "use reduction='none'"
        )


def cross_entropy(outputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    """Cross-entropy of the scores of each class against integer targets, (n_rows,).

    As in PyTorch, classes are on axis 1 of the outputs; a row with several targets has their mean loss.
    """
    losses = torch.nn.functional.cross_entropy(outputs, targets, reduction="none")
    return losses if losses.ndim == 1 else losses.flatten(1).mean(dim=1)


def _check_classes(outputs: torch.Tensor, targets: torch.Tensor) -> None:
    if targets.is_floating_point():
        raise InvalidInputError("targets must be integers, the classes; or use another loss")
    lowest, highest = int(targets.min()), int(targets.max())
    fits = outputs.ndim == targets.ndim + 1 and outputs.shape[2:] == targets.shape[1:]
    if not fits or lowest < 0 or highest >= outputs.shape[1]:
        raise InvalidInputError(
            f"the model must return one score for each class; got outputs of shape {tuple(outputs.shape[1:])} for "
            f"targets from {lowest} to {highest}; change its last layer, or number the classes from 0"
        )


def _checked(model: Any) -> torch.nn.Module:
    if not isinstance(model, torch.nn.Module):
        raise InvalidInputError(f"model_factory must return a torch.nn.Module; got a {type(model).__name__}")
    if not _trainable(model):
        raise InvalidInputError("model_factory must return a model with trainable parameters; this one has none")
    for name, module in model.named_modules():
        if getattr(module, "track_running_stats", False):
            raise InvalidInputError(
                f"the model must not keep running statistics, which cannot be averaged over devices; {name!r} does; "
                "use GroupNorm or LayerNorm, or track_running_stats=False"
            )
    return model.train()


def _trainable(model: torch.nn.Module) -> Parameters:
    return {name: values for name, values in model.named_parameters() if values.requires_grad}
