"""Small worlds for the tests: mixtures spread over devices as in the paper, and Hypothesis strategies for messages."""

from __future__ import annotations

from dataclasses import dataclass
from math import isqrt
from typing import Any

import numpy as np
from hypothesis import settings
from hypothesis import strategies as st

import kfed

Array = np.ndarray[Any, Any]

few_examples = settings(max_examples=settings.default.max_examples // 5)
"""For laws whose every example takes long."""


@dataclass(frozen=True)
class World:
    """Points of every device, which target cluster each is of, and k^(z) of every device."""

    points: list[Array]
    targets: list[Array]
    n_clusters: int
    n_local_clusters: int

    @property
    def ids(self) -> list[str]:
        return [f"device-{i:03}" for i in range(len(self.points))]

    def clusterings(self, seed: int = 0, **options: Any) -> list[kfed.LocalClustering]:
        return kfed.cluster_fleet(self.points, self.n_local_clusters, device_ids=self.ids, random_state=seed, **options)

    def messages(self, seed: int = 0) -> list[kfed.DeviceMessage]:
        return [local.to_message(name) for local, name in zip(self.clusterings(seed), self.ids, strict=True)]


def mixture_world(
    n_clusters: int = 16,
    n_features: int = 24,
    *,
    gap: float = 20.0,
    devices_per_group: int = 3,
    points_per_cluster: int = 12,
    seed: int = 0,
) -> World:
    """k Gaussians of unit variance, all pairs of means `gap` apart, in sqrt(k) groups; m0 devices hold each group."""
    rng = np.random.default_rng(seed)
    size = isqrt(n_clusters)
    axes = np.linalg.qr(rng.normal(size=(n_features, n_features)))[0][:n_clusters]
    means = axes * (gap / np.sqrt(2)) + rng.normal(size=n_features)
    points, targets = [], []
    for group in range(size):
        for _ in range(devices_per_group):
            target = np.repeat(np.arange(group * size, (group + 1) * size), points_per_cluster)
            target = rng.permutation(target)
            points.append(means[target] + rng.normal(size=(len(target), n_features)))
            targets.append(target)
    return World(points, targets, n_clusters, size)


def theorem_world(required_ratio: float, seed: int = 0) -> World:
    """A mixture whose every pair of means satisfies the active separation of the proofs (2c), with this c."""
    world = mixture_world(seed=seed)
    separation, active_scale = _separation_and_scale(world)
    needed = 2 * required_ratio * np.sqrt(_SIZE_IMBALANCE) * 2 * active_scale
    stretched = mixture_world(gap=1.02 * 20.0 * needed / separation, seed=seed)
    separation, active_scale = _separation_and_scale(stretched)
    assert separation >= 2 * required_ratio * np.sqrt(_SIZE_IMBALANCE) * 2 * active_scale
    return stretched


_SIZE_IMBALANCE = 3.0  # m0: three devices share each cluster evenly


def _separation_and_scale(world: World) -> tuple[float, float]:
    """The least distance of two target means, and the largest Delta_r."""
    points, targets = np.concatenate(world.points), np.concatenate(world.targets)
    means = np.array([points[targets == r].mean(axis=0) for r in range(world.n_clusters)])
    spectral = np.linalg.norm(points - means[targets], 2)
    apart = np.linalg.norm(means[:, None] - means, axis=2)
    apart[np.diag_indices(len(means))] = np.inf
    return float(apart.min()), float(world.n_local_clusters * spectral / np.sqrt(np.bincount(targets).min()))


def blobs(
    n_points: int, n_features: int, n_blobs: int, seed: int, *, gap: float = 10.0, dtype: Any = np.float64
) -> Array:
    """Points around `n_blobs` random places, as many around each, on one device."""
    rng = np.random.default_rng(seed)
    places = gap * rng.normal(size=(n_blobs, n_features))
    target = rng.permutation(np.arange(n_points) % n_blobs)
    return (places[target] + rng.normal(size=(n_points, n_features))).astype(dtype)


def rotation(n_features: int, seed: int) -> Array:
    """A random orthogonal matrix."""
    rotated: Array = np.linalg.qr(np.random.default_rng(seed).normal(size=(n_features, n_features)))[0]
    return rotated


def same_partition(first: Array, second: Array) -> bool:
    """Whether two labelings agree up to the names of the labels."""
    pairs = set(zip(first.tolist(), second.tolist(), strict=True))
    return len(pairs) == len(set(first.tolist())) == len(set(second.tolist()))


def assert_same_clustering(one: kfed.LocalClustering, other: kfed.LocalClustering) -> None:
    """Every field of two local clusterings is the same, to the bit."""
    for name in ("labels", "centers", "counts", "sums_of_squares", "withheld"):
        first, second = getattr(one, name), getattr(other, name)
        assert first.dtype == second.dtype, name
        np.testing.assert_array_equal(first, second, err_msg=name)
    assert one.spectral_deviation == other.spectral_deviation
    assert one.n_iterations == other.n_iterations
    assert one.feature_names == other.feature_names


# Hypothesis strategies ------------------------------------------------------------------------------------------

names_of_devices = st.text(min_size=1, max_size=12).filter(str.isprintable)


@st.composite
def messages(
    draw: st.DrawFn,
    device_id: st.SearchStrategy[str] = names_of_devices,
    n_features: int | None = None,
    max_centers: int = 4,
    values: st.SearchStrategy[float] | None = None,
    name_prefix: st.SearchStrategy[str] | None = None,
) -> kfed.DeviceMessage:
    """A message of any legal shape: no centers or some, single or double, with and without statistics and names."""
    if n_features is None:
        n_features = draw(st.integers(1, 5))
    values = st.floats(-(2.0**99), 2.0**99, width=32) if values is None else values
    n_centers = draw(st.integers(0, max_centers))
    dtype = draw(st.sampled_from([np.float32, np.float64]))
    row = st.lists(values, min_size=n_features, max_size=n_features)
    centers = draw(st.lists(row, min_size=n_centers, max_size=n_centers))
    count = draw(
        st.sampled_from([st.integers(1, 60), st.floats(1e-3, 1e3), st.integers(1, 2**30)]),
    )
    statistic = st.floats(0, 1e30)
    several = st.lists(statistic, min_size=n_centers, max_size=n_centers)
    prefix = draw(name_prefix if name_prefix is not None else st.text(max_size=8))
    named = draw(st.booleans())
    return kfed.DeviceMessage(
        draw(device_id),
        np.array(centers, dtype).reshape(n_centers, n_features),
        draw(st.lists(count, min_size=n_centers, max_size=n_centers)),
        draw(st.none() | several),
        draw(st.none() | statistic),
        [f"{prefix}{i}" for i in range(n_features)] if named else None,
    )


@st.composite
def gatherings(draw: st.DrawFn, min_devices: int = 1, max_devices: int = 6) -> tuple[list[kfed.DeviceMessage], int]:
    """Messages of distinct devices with the same features on a small grid, so full of ties, and a legal k."""
    n_features = draw(st.integers(1, 3))
    ids = draw(st.lists(names_of_devices, min_size=min_devices, max_size=max_devices, unique=True))
    grid = st.integers(-3, 3).map(float)
    found = [draw(messages(st.just(name), n_features, values=grid, name_prefix=st.just("feature "))) for name in ids]
    if not sum(message.n_local_clusters for message in found):
        found[0] = kfed.DeviceMessage(ids[0], np.zeros((1, n_features)), [1])
    return found, draw(st.integers(1, sum(message.n_local_clusters for message in found)))


def codes(table):
    """The codes of what is said of a table."""
    return [notice.code for notice in table.notices]
