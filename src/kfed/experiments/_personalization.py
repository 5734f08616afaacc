"""Train on rotated MNIST by one of the methods of Table 2, and test on the images of the same devices."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from kfed._base.array import Array
from kfed.experiments._rotated_mnist import N_ROTATIONS, Devices, n_held, rotated_mnist
from kfed.experiments.axes import Axes, seed_of
from kfed.experiments.experiment import Result
from kfed.metrics import matched_accuracy
from kfed.simulate import Round

if TYPE_CHECKING:
    from kfed.federated import Evaluation, FedAvg
    from kfed.simulate import Communication

Place = tuple[str, int]
"""A layout and a number of devices: a row of the table."""

GLOBAL, IFCA, KFED = "global", "IFCA", "k-FED"
METHODS = (GLOBAL, IFCA, KFED)
ROBUST, TRUTH = "k-FED, robust rule", "true rotations"
IFCA_SHARED, KFED_SHARED = "IFCA, shared start", "k-FED, shared start"

PAPER = {
    (1, 100): {GLOBAL: 95.0, IFCA: 98.0, KFED: 98.0},
    (1, 200): {GLOBAL: 94.5, IFCA: 97.2, KFED: 97.8},
    (2, 100): {GLOBAL: 95.3, IFCA: 95.6, KFED: 97.1},
    (2, 200): {GLOBAL: 94.5, IFCA: 95.1, KFED: 96.4},
}
"""Test accuracy in percent, by k' and the number of devices."""

N_STARTS, START_ROUNDS = 3, 20
"""IFCA's starts from other first parameters, and how many rounds each runs before the best is chosen."""

ON_MNIST: dict[str, Any] = {"requires": ("mnist",), "package": "torch", "side_by_side": 2}
"""How such experiments are run: two networks at a time, with a thread each."""

Fitted = tuple["Evaluation", "Communication", dict[str, Any]]


def train_and_test(axes: Axes, seed: int) -> dict[str, Any]:
    """Do one run: its axes say the method, the draw of the devices and how is trained."""
    own = seed_of(seed, layout=axes["layout"], devices=axes["devices"], run=axes["run"]) % 2**31
    train, test, rotations, test_rotations = rotated_mnist(axes["layout"], axes["devices"], axes["share"], own)
    training = _training(axes, own)
    if axes["method"] == TRUTH:
        judged, sent, extra = _by_truth(axes, train, test, rotations, test_rotations, training)
    else:
        judged, sent, extra = _by_method(axes, train, test, rotations, training)
    return {
        "accuracy": 100 * judged.accuracy,
        "device_deviation": 100 * float(np.std(judged.device_accuracies)),
        "megabytes_down": sent.bytes_down / 1e6,
        "megabytes_up": sent.bytes_up / 1e6,
        **extra,
    }


def _training(axes: Axes, seed: int) -> FedAvg:
    from kfed.federated import FedAvg

    return FedAvg(
        rounds=axes["rounds"],
        clients_per_round=axes["per_round"],
        local_steps=10,
        batch_size=100,
        learning_rate=axes["rate"],
        final_learning_rate=axes["final_rate"],
        shared_rounds=round(axes["shared"] * axes["rounds"]),
        n_loss_rows=100,
        batched=axes["per_round"] is None,  # never "auto": it goes by timing, and the ways round differently
        seed=seed,
    )


def _by_method(axes: Axes, train: Devices, test: Devices, rotations: Array, training: FedAvg) -> Fitted:
    """Train by a method that does not know the rotations; what only this method tells comes with it."""
    from kfed.experiments._networks import NETWORKS
    from kfed.federated import fit_global, fit_ifca, fit_personalized

    network = NETWORKS[axes["network"]]
    if axes["method"] == GLOBAL:
        one = fit_global(train, network, training, progress=False)
        return one.evaluate(test), one.communication, {}
    if axes["method"] in (IFCA, IFCA_SHARED):
        ifca = fit_ifca(
            train, N_ROTATIONS, network, training, n_starts=N_STARTS, start_rounds=START_ROUNDS, progress=False
        )
        return ifca.evaluate(test), ifca.communication, {"models_in_use": ifca.n_models_in_use}
    rule, held = ("robust" if axes["method"] == ROBUST else "paper"), n_held(axes["layout"])
    ours = fit_personalized(
        train, N_ROTATIONS, network, training, n_local_clusters=held, rule=rule, if_useless="ignore", progress=False
    )
    local = ours.clustering.local
    found = {rule: Round.of(local, N_ROTATIONS, rule=rule).labels for rule in ("paper", "robust")}
    shares = {f"clustering_{rule}": 100 * matched_accuracy(rotations, labels) for rule, labels in found.items()}
    return ours.evaluate(test), ours.communication, shares


def _by_truth(
    axes: Axes, train: Devices, test: Devices, rotations: Array, test_rotations: Array, training: FedAvg
) -> Fitted:
    """Train one model for each true rotation: the ceiling of what clustering can do."""
    from kfed.experiments._networks import NETWORKS
    from kfed.federated import ByLabel, Fleet, Progress, Run, Stack, cross_entropy, evaluate, total_sent

    fleet = Fleet.of(train)
    start = Progress(Stack.of(NETWORKS[axes["network"]], N_ROTATIONS, training.seed))
    done = Run.of(fleet, ByLabel(fleet, rotations), training, None, None).finish(start, show_progress=False)
    judged = evaluate(done.stack, Fleet.of(test), test_rotations, cross_entropy)
    return judged, total_sent(done.history), {}


# What the results say, for all tables of this kind -------------------------------------------------------------------


def places_of(results: list[Result]) -> list[Place]:
    """The rows of a table, in order of appearance."""
    return list(dict.fromkeys((r["layout"], r["devices"]) for r in results))


def values(results: list[Result], place: Place, method: str, name: str = "accuracy") -> list[float]:
    """One number for each draw of the devices."""
    return [float(r[name]) for r in results if (r["layout"], r["devices"], r["method"]) == (*place, method)]


def leads_over(results: list[Result], place: Place, ours: str, theirs: str) -> list[float]:
    """By how much a method is ahead of another, draw by draw."""
    pairs = zip(values(results, place, ours), values(results, place, theirs), strict=True)
    return [one - other for one, other in pairs]


def printed(place: Place) -> dict[str, float]:
    """The paper's row."""
    layout, n_devices = place
    return PAPER[n_held(layout), n_devices]


def named(place: Place) -> str:
    """What a row is called."""
    layout, n_devices = place
    return f"{n_devices} devices, {layout}"


def by_method(accuracies: dict[str, float], digits: int = 2) -> str:
    """The accuracies of the three methods; the paper prints one digit after the point.

    Examples
    --------
    >>> by_method({GLOBAL: 95.5, IFCA: 95.54, KFED: 97.0}), by_method({GLOBAL: 95.3, IFCA: 95.6, KFED: 97.1}, 1)
    ('global 95.50, IFCA 95.54, k-FED 97.00', 'global 95.3, IFCA 95.6, k-FED 97.1')
    """
    return ", ".join(f"{method} {accuracies[method]:.{digits}f}" for method in METHODS)
