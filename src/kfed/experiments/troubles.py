"""Mixtures with what real data brings and the paper assumes away: outliers, a wrong k^(z), devices that are alike."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from kfed._base.array import Array
from kfed.datasets import mixture
from kfed.device import LocalClustering
from kfed.simulate import cluster_devices

N_FEATURES, N_CLUSTERS, DEVICES_PER_GROUP, N_ALIKE = 100, 16, 5, 20
POINTS_EACH = 100
NEAREST, FARTHEST = 5.0, 20.0
"""How far from the middle of the clusters an outlier lies, in distances of two clusters."""


@dataclass(frozen=True)
class Trouble:
    """What is wrong with the data, or with what devices know of it."""

    n_outliers: int = 0  # rows that are replaced by far ones, each on a random device
    n_extra: int = 0  # local clusters that each device looks for beyond those it has
    is_alike: bool = False  # every device has all clusters
    is_unequal: bool = False  # a device keeps a random share of each of its clusters, between a fifth and all


TROUBLES = {
    "clean": Trouble(),
    "unequal sizes": Trouble(is_unequal=True),
    "1 outlier": Trouble(n_outliers=1),
    "5 outliers": Trouble(n_outliers=5),
    "20 outliers": Trouble(n_outliers=20),
    "k^(z) + 1": Trouble(n_extra=1),
    "IID devices": Trouble(is_alike=True),
}


@dataclass(frozen=True, eq=False)
class TroubledWorld:
    """Points on devices, and the component of each: -1 of an outlier."""

    points: tuple[Array, ...]
    targets: tuple[Array, ...]
    n_local_clusters: int

    @property
    def devices(self) -> dict[str, Array]:
        """The points of each device, by its name."""
        return {f"device-{device:04d}": points for device, points in enumerate(self.points)}

    def clustered(self, n_local_clusters: Any, seed: int, min_cluster_size: int) -> dict[str, LocalClustering]:
        """Run Algorithm 1 on every device."""
        least = min_cluster_size
        return cluster_devices(
            self.devices, n_local_clusters, random_state=seed, min_cluster_size=least, measure_deviation=True
        )


def troubled(trouble: Trouble, separation: float, seed: int) -> TroubledWorld:
    """Draw the mixture of Table 1's first row, `separation` standard deviations apart, and spoil it."""
    rng = np.random.default_rng(seed)
    n_devices = N_ALIKE if trouble.is_alike else DEVICES_PER_GROUP
    drawn = mixture(
        N_FEATURES,
        N_CLUSTERS,
        devices_per_group=n_devices,
        points_per_cluster=POINTS_EACH * n_devices,
        separation=separation,
        seed=seed,
    )
    devices = list(zip(drawn.points, drawn.targets, strict=True))
    if trouble.is_alike:
        devices = _alike(devices)
    if trouble.is_unequal:
        devices = [_thinned(*device, rng) for device in devices]
    points, targets = ([part.copy() for part in parts] for parts in zip(*devices, strict=True))
    middle, reach = drawn.means.mean(axis=0), separation
    for _ in range(trouble.n_outliers):
        device = rng.integers(len(points))
        row, direction = rng.integers(len(points[device])), rng.standard_normal(N_FEATURES)
        points[device][row] = middle + direction / np.linalg.norm(direction) * reach * rng.uniform(NEAREST, FARTHEST)
        targets[device][row] = -1
    n_local = N_CLUSTERS if trouble.is_alike else drawn.n_local_clusters
    return TroubledWorld(tuple(points), tuple(targets), n_local + trouble.n_extra)


def _alike(devices: list[tuple[Array, Array]]) -> list[tuple[Array, Array]]:
    """Deal out again so that each device has all clusters: one device of every group makes one."""
    dealt = [devices[first::N_ALIKE] for first in range(N_ALIKE)]
    return [(np.concatenate([p for p, _ in own]), np.concatenate([t for _, t in own])) for own in dealt]


def _thinned(points: Array, targets: Array, rng: np.random.Generator) -> tuple[Array, Array]:
    shares = dict(zip(np.unique(targets).tolist(), rng.uniform(0.2, 1, len(np.unique(targets))), strict=True))
    kept = rng.random(len(targets)) < np.array([shares[target] for target in targets.tolist()])
    return points[kept], targets[kept]
