"""A server optimizer: each model takes a step of it along the mean update, instead of becoming the mean."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import torch

from kfed.federated._stack import Stack

ServerStates = Mapping[int, dict[int, dict[str, Any]]]
"""What the optimizer of each model remembers of each parameter, by the number of the model and of the parameter."""

Optimizer = Callable[..., torch.optim.Optimizer]


def server_step(
    before: Stack, mean: Stack, models: Iterable[int], states: ServerStates, optimizer: Optimizer
) -> tuple[Stack, ServerStates]:
    """Move the models that were trained, with the update as their gradient; others keep parameters and state."""
    stepped = {name: values.clone() for name, values in before.parameters.items()}
    after = dict(states)
    for model in models:
        own = [values[model].clone() for values in before.parameters.values()]
        made = optimizer(own)
        if model in states:
            known = made.state_dict()
            made.load_state_dict({**known, "state": copy.deepcopy(states[model])})
        for parameter, values in zip(own, mean.parameters.values(), strict=True):
            parameter.grad = parameter - values[model]
        made.step()
        after[model] = made.state_dict()["state"]
        for name, parameter in zip(stepped, own, strict=True):
            stepped[name][model] = parameter
    return before.with_parameters(stepped), after


def to_arrays(states: ServerStates) -> dict[str, Any]:
    """States as named arrays, for a file."""
    return {
        f"server.{model}.{parameter}.{name}": torch.as_tensor(value).cpu().numpy()
        for model, own in states.items()
        for parameter, kept in own.items()
        for name, value in kept.items()
        if value is not None
    }


def from_arrays(arrays: Mapping[str, Any]) -> ServerStates:
    """Read what `to_arrays` wrote."""
    states: dict[int, dict[int, dict[str, Any]]] = {}
    for key, values in arrays.items():
        if key.startswith("server."):
            model, parameter, name = key.removeprefix("server.").split(".", 2)
            states.setdefault(int(model), {}).setdefault(int(parameter), {})[name] = torch.tensor(values)
    return states
