"""How good models are on test data: over all rows, for each device and for each model."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch

from kfed._base.array import Array
from kfed.federated._fleet import Fleet
from kfed.federated._stack import Loss, Stack


@dataclass(frozen=True, eq=False)
class Evaluation:
    """Accuracy and loss of test rows, each evaluated by its model.

    Attributes
    ----------
    device_ids : tuple of str
    accuracy, loss : float
        Means over all rows. Accuracies are NaN where targets are not classes. If the model has one output, the classes
        are 0 and 1, and a row is right if the loss of its class is less than that of the other.
    device_accuracies, device_losses : arrays of shape (n_devices,)
    model_accuracies : array of shape (n_models,)
        NaN for a model that no row went to.
    model_rows : array of int, shape (n_models,)
        How many rows went to each model.

    Examples
    --------
    >>> from kfed.federated import FedAvg, fit_global
    >>> rows = np.random.default_rng(0).normal(size=(2, 20, 3))
    >>> devices = {f"phone-{i}": (own, (own[:, 0] > 0).astype(int)) for i, own in enumerate(rows)}
    >>> models = fit_global(devices, lambda: torch.nn.Linear(3, 2), FedAvg(rounds=2, batched=False, threads=1))
    >>> found = models.evaluate(devices)
    >>> found.device_ids, found.device_accuracies.shape, found.model_rows
    (('phone-0', 'phone-1'), (2,), array([40]))
    """

    device_ids: tuple[str, ...]
    accuracy: float
    loss: float
    device_accuracies: Array
    device_losses: Array
    model_accuracies: Array
    model_rows: Array

    @property
    def device_variance(self) -> float:
        """Variance of the accuracy across devices: how unevenly they are served."""
        return float(np.var(self.device_accuracies))

    def __repr__(self) -> str:
        return (
            f"Evaluation(accuracy={self.accuracy:.4f}, loss={self.loss:.4f}, "
            f"device_variance={self.device_variance:.4g}, n_devices={len(self.device_ids)})"
        )


def evaluate(stack: Stack, fleet: Fleet, models: Array, loss: Loss) -> Evaluation:
    """Evaluate every row of `fleet` by the model of its entry in `models`, (n_rows,)."""
    losses, correct = np.empty(len(models)), np.full(len(models), np.nan)
    for model, rows in _by_model(models, stack.n_models):
        outputs = stack.outputs(model, fleet.inputs[torch.from_numpy(rows)])
        targets = fleet.targets[torch.from_numpy(rows)]
        losses[rows] = loss(outputs, targets).double().numpy()
        correct[rows] = _correct(outputs, targets, loss)
    return Evaluation(
        fleet.device_ids,
        float(correct.mean()),
        float(losses.mean()),
        _means(correct, fleet.owners, fleet.n_devices),
        _means(losses, fleet.owners, fleet.n_devices),
        _means(correct, models, stack.n_models),
        np.bincount(models, minlength=stack.n_models),
    )


def _correct(outputs: torch.Tensor, targets: torch.Tensor, loss: Loss) -> Array:
    """Share of the targets of each row that are predicted, NaN where targets are not classes, (n_rows,)."""
    has_one = outputs.shape == targets.shape or outputs.shape == (*targets.shape, 1)
    has_scores = outputs.ndim == targets.ndim + 1 and outputs.shape[2:] == targets.shape[1:]
    if targets.is_floating_point() or not (has_one or has_scores):
        return np.full(len(targets), np.nan)
    if not has_one:
        is_right = outputs.argmax(dim=1) == targets
    elif targets.ndim == 1 and ((targets == 0) | (targets == 1)).all():
        is_right = loss(outputs, targets) < loss(outputs, 1 - targets)  # the same for logits and for probabilities
    else:
        return np.full(len(targets), np.nan)
    return is_right.double().view(len(targets), -1).mean(dim=1).cpu().numpy()


def outputs_of(stack: Stack, inputs: torch.Tensor, models: Array) -> torch.Tensor:
    """Return the output of each row's own model."""
    parts = [
        (rows, stack.outputs(model, inputs[torch.from_numpy(rows)]))
        for model, rows in _by_model(models, stack.n_models)
    ]
    order = np.concatenate([rows for rows, _ in parts])
    return torch.cat([part for _, part in parts])[torch.from_numpy(np.argsort(order))]


def _by_model(models: Array, n_models: int) -> Iterator[tuple[int, Array]]:
    for model in range(n_models):
        rows = np.flatnonzero(models == model)
        if len(rows):
            yield model, rows


def _means(values: Array, groups: Array, n_groups: int) -> Array:
    counts = np.bincount(groups, minlength=n_groups)
    sums = np.bincount(groups, values, minlength=n_groups)
    return np.asarray(np.divide(sums, counts, out=np.full(n_groups, np.nan), where=counts > 0))
