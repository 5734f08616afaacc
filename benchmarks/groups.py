"""`groups`: are the groups of clients those that matter to the model? Forty clients of MNIST in three worlds.

In one world a client's images are turned, in one its labels are permuted, and in one all clients are alike.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from kfed import AggregationWarning, datasets

if TYPE_CHECKING:
    import torch

    from kfed.federated import FedAvg, FederatedModels

N_CLIENTS, N_GROUPS, N_LATE = 40, 4, 20
TURNED, PERMUTED, ALIKE = "images turned", "labels permuted", "all alike"
WORLDS = (TURNED, PERMUTED, ALIKE)
USELESS = "groups-do-not-matter"
PIXEL_MEAN, PIXEL_DEVIATION = 0.13, 0.31

Devices = dict[str, tuple[Any, Any]]


@dataclass(frozen=True)
class Trained:
    """What one method reached in one world."""

    world: str
    method: str
    by: str
    accuracy: float
    late: float
    megabytes: float
    warned: bool
    share: float
    seconds: float


@dataclass(frozen=True)
class Judged:
    """In how many of some seeds a warning came, for groups found in one way in one world."""

    world: str
    by: str
    expected: bool
    warned: int
    seeds: int
    shares: tuple[float, ...]


def world(kind: str, n_rows: int, seed: int) -> tuple[Devices, Devices, Devices, Devices]:
    """Training and test rows of the clients, and of some that come late."""
    rng = np.random.default_rng(seed)
    permutations = [rng.permutation(10) for _ in range(N_GROUPS)]
    parts: list[Devices] = []
    for data, share in ((datasets.mnist("train"), n_rows), (datasets.mnist("test"), min(n_rows, 160))):
        members: Devices = {}
        late: Devices = {}
        order = rng.permutation(len(data.points))
        for client in range(N_CLIENTS + N_LATE):
            own = order[np.arange(client * share, (client + 1) * share) % len(order)]
            images, classes = data.points[own].reshape(-1, 28, 28), np.asarray(data.classes)[own]
            if kind == TURNED:
                images = np.rot90(images, client % N_GROUPS, axes=(1, 2))
            if kind == PERMUTED:
                classes = permutations[client % N_GROUPS][classes]
            inputs = ((images - PIXEL_MEAN) / PIXEL_DEVIATION).astype(np.float32)[:, None]
            (members if client < N_CLIENTS else late)[f"client-{client:02}"] = np.ascontiguousarray(inputs), classes
        parts += [members, late]
    train, late_train, test, late_test = parts
    return train, test, late_train, late_test


def network() -> torch.nn.Module:
    """Two convolutions and two layers: 11,122 parameters, 44 kB."""
    from torch import nn

    return nn.Sequential(
        *(nn.Conv2d(1, 8, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(8, 16, 3), nn.ReLU(), nn.MaxPool2d(2)),
        *(nn.Flatten(), nn.Linear(400, 24), nn.ReLU(), nn.Linear(24, 10)),
    )


def settings(rounds: int, seed: int) -> FedAvg:
    """Ten clients a round, ten steps each."""
    from kfed.federated import FedAvg

    return FedAvg(rounds, clients_per_round=10, local_steps=10, batch_size=32, learning_rate=0.1, seed=seed)


def trained(quick: bool, seed: int = 0) -> Iterator[Trained]:
    """Train by every method in every world, and let clients in that come late."""
    from kfed.federated import fit_global, fit_ifca, fit_personalized

    n_rows, rounds = (60, 6) if quick else (400, 60)
    for kind in WORLDS:
        train, test, late_train, late_test = world(kind, n_rows, seed)
        training = settings(rounds, seed)
        methods = {
            "one model": lambda t=training, d=train: fit_global(d, network, t),
            "IFCA": lambda t=training, d=train: fit_ifca(d, N_GROUPS, network, t),
            "k-FED by inputs": lambda t=training, d=train: fit_personalized(d, N_GROUPS, network, t, rule="robust"),
            "k-FED, auto": lambda t=training, d=train: fit_personalized(
                d, N_GROUPS, network, t, by="auto", if_useless="merge"
            ),
        }
        for method, fit in methods.items():
            began = time.process_time()
            models, warned = _listening(fit)
            accuracy = models.evaluate(test).accuracy
            late = _late_accuracy(models, late_train, late_test)
            sent = models.communication.bytes_total / 1e6
            by, worth = getattr(models, "by", ""), getattr(models, "worth", None)
            share = worth.share if worth else float("nan")
            yield Trained(kind, method, by, accuracy, late, sent, warned, share, time.process_time() - began)


def judged(quick: bool) -> Iterator[Judged]:
    """Whether a warning comes where groups do not matter, and only there, over several seeds."""
    from kfed.federated import fit_personalized

    seeds = range(3 if quick else 10)
    for kind, by, expected in (
        (TURNED, "inputs", False),
        (PERMUTED, "inputs", True),
        (ALIKE, "inputs", True),
        (PERMUTED, "updates", False),
        (ALIKE, "updates", True),
    ):
        found = []
        for seed in seeds:
            train, *_ = world(kind, 100, seed)
            found.append(
                _listening(
                    lambda d=train, s=seed, how=by: fit_personalized(
                        d, N_GROUPS, network, settings(1, s), by=how, rule="robust"
                    )
                )
            )
        shares = tuple(models.worth.share for models, _ in found)
        yield Judged(kind, by, expected, sum(warned for _, warned in found), len(seeds), shares)


def _listening(fit: Any) -> tuple[Any, bool]:
    """What a function returns, and whether it warned that groups do not matter."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", AggregationWarning)
        models = fit()
    return models, any(getattr(one.message, "code", "") == USELESS for one in caught)


def _late_accuracy(models: FederatedModels, train: Devices, test: Devices) -> float:
    for name, (inputs, targets) in train.items():
        models = models.add(name, inputs, targets)
    return models.evaluate(test).accuracy


def page(runs: Iterable[Trained], verdicts: Iterable[Judged]) -> str:
    """The page of the documentation."""
    lines = [
        "# Groups that matter to the model",
        "",
        "Written by `python -m benchmarks groups --markdown docs/benchmarks-groups.md`.",
        f"{N_CLIENTS} clients of MNIST with 400 images each in {N_GROUPS} groups, a convolutional network of 44 kB, 60",
        "rounds of ten clients. In one world the images of a group are turned by quarters, in one its labels are",
        f'permuted, and in one all clients are alike. {N_LATE} clients come late and get a model at once. "auto"',
        "looks for groups by inputs and by updates, and trains one model for all where neither matters.",
        "",
        "| world | method | groups by | test accuracy | late clients | megabytes | at home in their group | warned |",
        "|---|---|---|---:|---:|---:|---:|---|",
    ]
    for run in runs:
        share = "" if np.isnan(run.share) else f"{run.share:.2f}"
        lines.append(
            f"| {run.world} | {run.method} | {run.by} | {run.accuracy:.3f} | {run.late:.3f} | {run.megabytes:.1f} | "
            f"{share} | {'yes' if run.warned else ''} |"
        )
    lines += [
        "",
        "Is there a warning where groups do not matter, and none where they do? One round for each seed, 100 images a",
        "client; the share of clients that are at home in their group is 1/4 by chance.",
        "",
        "| world | groups by | a warning is | warned | share, lowest to highest |",
        "|---|---|---|---|---|",
    ]
    lines += [
        f"| {one.world} | {one.by} | {'right' if one.expected else 'wrong'} | {one.warned} of {one.seeds} seeds | "
        f"{min(one.shares):.2f} to {max(one.shares):.2f} |"
        for one in verdicts
    ]
    return "\n".join(lines) + "\n"
