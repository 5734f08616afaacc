"""The two networks of the client-selection figure: digits with two classes on each device, and Shakespeare's roles."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from kfed._base.array import Array
from kfed.datasets import Dataset, digits_files, femnist, letter_features, mnist, partition, shakespeare_roles, windows
from kfed.errors import AggregationWarning
from kfed.simulate import Round

Devices = dict[str, tuple[Array, Array]]

TEST_SHARE = 0.2
WINDOW, MOST_TEST_WINDOWS, LEAST_CHARACTERS = 80, 10, 2000
FEATURE_WINDOW, N_COMPONENTS = 1000, 2


@dataclass(frozen=True, eq=False)
class SelectionWorld:
    """Devices with training and test rows, the points that k-FED clusters, and how a network is trained there."""

    source: str
    train: Devices
    test: Devices
    points: dict[str, Any]
    n_clusters: int
    n_local_clusters: int
    model_factory: Callable[[], Any]
    training: dict[str, Any]

    @property
    def sizes(self) -> Array:
        """Training rows of each device."""
        return np.array([len(targets) for _, targets in self.train.values()])

    def clusters(self, rule: str, seed: int) -> list[list[int]]:
        """Global clusters of each device, by one round of k-FED."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", AggregationWarning)  # clusters of the many devices that they describe
            done = Round.run(self.points, self.n_clusters, self.n_local_clusters, rule=rule, random_state=seed)
        return [np.unique(own).tolist() for own in done.clusters.values()]


@lru_cache(maxsize=1)
def digits_world(n_devices: int, seed: int) -> SelectionWorld:
    """Digits, two classes on each device, sizes by a power law over devices and over the classes of each."""
    from kfed.experiments._networks import perceptron

    data = _digits()
    split = partition.two_classes(data.classes, n_devices, seed)
    rng = np.random.default_rng(seed)
    train: Devices = {}
    test: Devices = {}
    for name, rows in zip(split.device_ids, split.rows, strict=True):
        shuffled = rng.permutation(rows)
        n_test = max(1, round(TEST_SHARE * len(rows)))
        for part, own in ((test, shuffled[:n_test]), (train, shuffled[n_test:])):
            part[name] = data.points[own], np.asarray(data.classes)[own]
    points = {name: inputs for name, (inputs, _) in train.items()}
    training: dict[str, Any] = {"batch_size": 10, "learning_rate": 0.1, "local_steps": 20, "n_loss_rows": 50}
    training |= {"final_learning_rate": 0.02}
    training |= {"batched": True}  # never "auto": it goes by timing, and the ways round differently
    return SelectionWorld(data.name, train, test, points, 10, 2, perceptron, training)


def needed_digits() -> tuple[str, ...]:
    """What the digits are read from here: FEMNIST as in the paper if it is at hand, else MNIST."""
    return ("mnist",) if "mnist" in digits_files() else digits_files()


@lru_cache(maxsize=1)
def _digits() -> Dataset:
    return mnist() if "mnist" in digits_files() else femnist(n_classes=10)


@lru_cache(maxsize=1)
def shakespeare_world(n_devices: int, seed: int) -> SelectionWorld:
    """Roles with enough text: the first four fifths of it to train with, the rest to test with."""
    from kfed.experiments._networks import NextCharacter

    source, roles = shakespeare_roles()
    able = sorted(name for name, text in roles.items() if len(text) >= LEAST_CHARACTERS)
    chosen = np.sort(np.random.default_rng(seed).choice(able, n_devices, replace=False))
    alphabet = {character: number for number, character in enumerate(sorted(set("".join(roles.values()))))}
    train: Devices = {}
    test: Devices = {}
    points = {}
    for name in chosen.tolist():
        text, cut = roles[name], int((1 - TEST_SHARE) * len(roles[name]))
        train[name] = _rows(text[:cut], alphabet)
        test[name] = tuple(column[:MOST_TEST_WINDOWS] for column in _rows(text[cut:], alphabet))  # type: ignore[assignment]
        points[name] = _letters(text[:cut])
    points = _projected(points, [_letters(roles[name]) for name in able if name not in points])
    training: dict[str, Any] = {"batch_size": 10, "learning_rate": 2.0, "local_steps": 10, "n_loss_rows": 10}
    training |= {"final_learning_rate": 0.5, "clip_norm": 1.0, "batched": False}
    return SelectionWorld(source, train, test, points, 10, 2, lambda: NextCharacter(len(alphabet)), training)


def _letters(text: str) -> Array:
    return np.asarray(letter_features(windows(text, FEATURE_WINDOW)), np.float64)


def _projected(points: dict[str, Array], others: list[Array]) -> dict[str, Array]:
    """Points on a common scale, along the principal components of roles that are no devices: nothing more is sent."""
    public = np.concatenate(others)
    mean, spread = public.mean(axis=0), public.std(axis=0)
    scale = np.where(spread > 0, spread, 1)
    components = np.linalg.svd((public - mean) / scale, full_matrices=False)[2][:N_COMPONENTS]
    return {name: (own - mean) / scale @ components.T for name, own in points.items()}


def _rows(text: str, alphabet: dict[str, int]) -> tuple[Array, Array]:
    """Windows of characters, and the character after each of them, both (n_windows, WINDOW)."""
    pieces = [[alphabet[character] for character in piece] for piece in windows(text, WINDOW + 1)]
    numbers = np.array(pieces, np.int64)
    return numbers[:, :-1], numbers[:, 1:]
