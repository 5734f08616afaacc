"""Mixtures with two distances: one of clusters that share a device, and a smaller one of clusters that share none."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from kfed._base.array import Array
from kfed.theory import (
    LEAST_RATIO,
    Presence,
    centralized_separations,
    cluster_means,
    required_separations,
)

N_FEATURES, N_CLUSTERS, CLUSTER_SIZE = 100, 16, 900
"""d, k and n_r."""

ABOVE_ROUNDING = 1 + 1e-9


@dataclass(frozen=True, eq=False)
class TwoDistances:
    """Points of Gaussian clusters of unit variance on devices, and what the theorems ask of the clusters' distances."""

    devices: dict[str, Array] = field(repr=False)
    targets: Array = field(repr=False)  # the cluster of each point, device by device
    means: Array = field(repr=False)  # (n_clusters, n_features), of the clusters' points
    inactive_bound: float  # 10 sqrt(m0) lambda
    active_bound: float  # 2c sqrt(m0) (Delta_r + Delta_s)
    centralized_bound: float  # c sqrt(k) (1 / sqrt(n_r) + 1 / sqrt(n_s)) norm(A - C), of every pair


def two_distances(
    n_local: int, n_sharing: int, inactive: float | None, active: float | None, rng: np.random.Generator
) -> TwoDistances:
    """Draw a mixture whose groups of `n_local` clusters are on `n_sharing` devices each.

    Clusters of a group are `active` apart. Each cluster has a twin in every other group, `inactive` apart from it; no
    other pair is nearer than these two distances. A distance of None is the one that the main theorem asks for.
    """
    groups = np.arange(N_CLUSTERS).reshape(-1, n_local)
    share = CLUSTER_SIZE // n_sharing
    held = [np.repeat(group, share) for group in groups for _ in range(n_sharing)]
    targets = np.concatenate(held)
    noise = rng.standard_normal((len(targets), N_FEATURES))
    noise -= cluster_means(noise, targets, np.ones(len(targets)), N_CLUSTERS)[targets]  # A - C
    spectral = float(np.linalg.norm(noise.T @ noise, 2) ** 0.5)
    presence = Presence.of(np.repeat(np.arange(len(held)), list(map(len, held))), targets, n_clusters=N_CLUSTERS)
    required = required_separations(spectral, presence) * ABOVE_ROUNDING
    apart = ~np.eye(N_CLUSTERS, dtype=bool) & ~presence.is_active
    asked, weaker = float(required[presence.is_active].max()), float(required[apart].max())
    means = _means(groups, weaker if inactive is None else inactive, asked if active is None else active, rng)
    ends = np.cumsum(list(map(len, held)))[:-1]
    tables = np.split(means[targets] + noise, ends)
    everywhere = float(np.nanmax(centralized_separations(spectral, presence.cluster_sizes, LEAST_RATIO)))
    devices = {f"device-{z:03d}": points for z, points in enumerate(tables)}
    return TwoDistances(devices, targets, means, weaker, asked, everywhere)


def _means(groups: Array, inactive: float, active: float, rng: np.random.Generator) -> Array:
    """A place for each position in a group, and around it a step of its own for every group."""
    n_local = groups.shape[1]
    axes = np.linalg.qr(rng.standard_normal((N_FEATURES, n_local + N_CLUSTERS)))[0].T
    places, steps = axes[:n_local], axes[n_local:]
    reach = np.sqrt(max(active**2 - inactive**2, 0.0) / 2)
    return np.asarray(reach * np.tile(places, (len(groups), 1)) + inactive / np.sqrt(2) * steps)
