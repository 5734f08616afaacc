"""What a checkpoint must match: settings, data, clusters, selection and loss of the run that goes on from it.

Whatever has a value is compared by a digest of it. A loss is a function, so it is compared by what it gives for some
outputs and targets.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import fields
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from kfed.federated._fleet import Fleet
from kfed.federated._server import Optimizer
from kfed.federated._stack import Stack
from kfed.federated.settings import FedAvg

if TYPE_CHECKING:
    from kfed.federated.engine import Run

N_PROBED = 32
"""Rows on which two losses are compared."""

NOT_COMPARED = ("loss", "batched", "device", "threads")
"""Settings that are compared in another way, or do not change what is learned."""


def fingerprint_of(run: Run, stack: Stack) -> dict[str, Any]:
    """Everything that decides what a run learns, as JSON."""
    return {
        "settings": _settings(run.settings),
        "plan": run.plan.name,
        "selection": type(run.selection).__name__,
        "sizes": run.fleet.sizes.tolist(),
        "shapes": {name: list(values.shape) for name, values in stack.parameters.items()},
        "data": digest([run.fleet.device_ids, run.fleet.inputs, run.fleet.targets]),
        "clusters": digest(getattr(run.plan, "assignment", None)),
        "selection settings": digest(run.selection),
        "loss": _losses(stack, run.fleet, run.settings),
    }


def differences(ours: Mapping[str, Any], theirs: Mapping[str, Any]) -> list[str]:
    """Names of what differs; what an older checkpoint does not say is taken to be the same."""
    found = [name for name, value in ours.items() if name in theirs and not _agree(name, value, theirs[name])]
    return [name for name in found if name != "loss" or "data" not in found]  # losses are compared on the data


def digest(value: Any) -> str:
    """A digest of arrays, numbers, texts, collections, and objects made of these; of others, the type counts alone."""
    found = hashlib.sha256()
    for part in _parts(value):
        found.update(len(part).to_bytes(8, "little"))
        found.update(part)
    return found.hexdigest()


def _parts(value: Any) -> Iterator[bytes]:
    yield type(value).__name__.encode()
    if isinstance(value, torch.Tensor | np.ndarray):
        array = np.ascontiguousarray(value.cpu().numpy() if isinstance(value, torch.Tensor) else value)
        yield f"{array.dtype} {array.shape}".encode()
        yield array.tobytes()
    elif value is None or isinstance(value, str | bytes | int | float | np.generic):
        yield repr(value).encode()
    elif isinstance(value, Mapping | Iterable):
        pairs = value.items() if isinstance(value, Mapping) else value
        yield from sorted(map(_own, pairs)) if isinstance(value, set | frozenset | Mapping) else map(_own, pairs)
    else:
        yield _own(getattr(value, "__dict__", {}))


def _own(value: Any) -> bytes:
    return digest(value).encode()


def _settings(settings: FedAvg) -> dict[str, Any]:
    """The number of rounds may differ, unless the learning rate depends on it."""
    free = {*NOT_COMPARED, *(["rounds"] if settings.final_learning_rate is None else [])}
    kept = {each.name: getattr(settings, each.name) for each in fields(settings) if each.name not in free}
    return kept | {name: _optimizer(kept[name]) for name in ("optimizer", "server_optimizer")}


def _optimizer(factory: Optimizer | None) -> str | None:
    if factory is None:
        return None
    made = factory([torch.zeros(1)])
    return f"{type(made).__name__}({', '.join(f'{name}={value}' for name, value in sorted(made.defaults.items()))})"


def _losses(stack: Stack, fleet: Fleet, settings: FedAvg) -> list[float]:
    rows = torch.from_numpy(np.linspace(0, len(fleet.inputs) - 1, N_PROBED).astype(np.int64))
    form = stack.outputs(0, fleet.inputs[rows])
    outputs = np.random.default_rng(0).uniform(0.1, 0.9, form.shape)  # they may be scores as well as chances
    losses = settings.loss(torch.as_tensor(outputs, dtype=form.dtype), fleet.targets[rows].cpu())
    return [float(loss) for loss in losses]


def _agree(name: str, ours: Any, theirs: Any) -> bool:
    if name == "loss":
        return np.shape(ours) == np.shape(theirs) and np.allclose(ours, theirs, rtol=1e-3, atol=1e-5)
    if name == "settings":  # of an older kfed: what it did not know was as by default
        theirs = _settings(FedAvg()) | theirs
        theirs = {key: value for key, value in theirs.items() if key in ours}
    return bool(ours == theirs)
