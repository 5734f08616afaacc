"""The network of Table 2: MNIST in four rotations, of which each device holds one or two."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from kfed._base.array import Array
from kfed.datasets import mnist

Devices = dict[str, tuple[Array, Array]]

N_ROTATIONS = 4
LAYOUTS: dict[str, tuple[tuple[int, ...], ...]] = {
    "k' = 1": ((0,), (1,), (2,), (3,)),
    "k' = 2, two blocks": ((0, 1), (2, 3)),
    "k' = 2, all pairs": ((0, 1), (2, 3), (0, 2), (1, 3), (0, 3), (1, 2)),
}
"""Rotations, in quarter turns, that devices hold; one of these groups after the other."""


def n_held(layout: str) -> int:
    """How many rotations a device holds, k'."""
    return len(LAYOUTS[layout][0])


@lru_cache(maxsize=1)
def rotated_mnist(layout: str, n_devices: int, share: float, seed: int) -> tuple[Devices, Devices, Array, Array]:
    """Training and test images of each device, and the rotations of all training and all test images.

    Every image is there in all four rotations, each on one of the devices that hold the rotation. Only a `share` of
    MNIST is used.
    """
    rng = np.random.default_rng(seed)
    train, rotations = _spread("train", layout, n_devices, share, rng)
    test, test_rotations = _spread("test", layout, n_devices, share, rng)
    return train, test, rotations, test_rotations


def _spread(split: Any, layout: str, n_devices: int, share: float, rng: Any) -> tuple[Devices, Array]:
    data, groups = mnist(split), LAYOUTS[layout]
    images, digits = data.points.reshape(-1, 28, 28), np.asarray(data.classes)
    held: list[list[tuple[int, Array]]] = [[] for _ in range(n_devices)]
    for rotation in range(N_ROTATIONS):
        holders = [device for device in range(n_devices) if rotation in groups[device % len(groups)]]
        used = rng.permutation(len(images))[: int(share * len(images))]
        for device, rows in zip(holders, np.array_split(used, len(holders)), strict=True):
            held[device].append((rotation, rows))
    devices = {f"device-{device:03d}": _turned(images, digits, own) for device, own in enumerate(held)}
    return devices, np.concatenate([np.full(len(rows), rotation) for own in held for rotation, rows in own])


def _turned(images: Array, digits: Array, held: list[tuple[int, Array]]) -> tuple[Array, Array]:
    """Give the images and digits of one device; written in place, since there are many."""
    turned = np.empty((sum(len(rows) for _, rows in held), 28, 28), images.dtype)
    start = 0
    for rotation, rows in held:
        np.rot90(turned[start : start + len(rows)], -rotation, axes=(1, 2))[...] = images[rows]
        start += len(rows)
    return turned.reshape(len(turned), -1), np.concatenate([digits[rows] for _, rows in held])
