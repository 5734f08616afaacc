"""``n_local_clusters="auto"``: the largest number of clusters of a device that all lie clearly apart.

The points are projected on the few directions that rise above the noise and clustered there for every number of
clusters up to a bound. The answer is the largest number for which every two clusters lie at least four standard
deviations apart, along the line through their centers. Halves of one Gaussian lie 2.7 apart and halves of a uniform
distribution 3.5, however long or flat it is, so a cut through one cluster does not count as two.

This goes beyond the paper, which takes k^(z) as given. Like Algorithm 1 it is written with a batch axis.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from kfed._base import random, seeding
from kfed._base.array import Array
from kfed.device.algorithm1 import N_TRIES, Draws, cheapest_try
from kfed.device.lloyd_step import memberships, nearest
from kfed.device.projection import project
from kfed.device.rows import Rows

MAX_LOCAL_CLUSTERS = 16

POINTS_PER_CLUSTER = 5
"""A device gets at most one cluster for this many points."""

APART = 4.0
"""Standard deviations that must lie between two clusters of many points."""

CAUTION = 8.0
"""Two clusters of m points in all must lie ``1 + CAUTION / m`` times as far apart: few points show gaps by chance."""

BORROWED = 10.0
"""The spread of two clusters is averaged with that of all clusters, which counts as much as this many points."""

N_STEPS = 10
EDGE_SLACK = 4.0


def choose_local_k(rows: Rows, max_clusters: int, keys: npt.NDArray[np.uint64]) -> npt.NDArray[np.intp]:
    """Choose k^(z) for every device of a batch, (n_devices,), from 1 to `max_clusters`."""
    n_points = rows.weights.sum(axis=1, dtype=np.float64)
    most = np.clip(n_points // POINTS_PER_CLUSTER, 1, max_clusters).astype(np.intp)
    chosen = np.ones(rows.n_devices, np.intp)
    if most.max() == 1:
        return chosen
    coordinates, variances = _principal_coordinates(rows, max_clusters, keys)
    n_directions = _n_above_noise(rows, variances, n_points, most - 1)
    for n_wide in np.unique(n_directions[n_directions > 0]):  # batches of devices with equally many
        own = np.flatnonzero(n_directions == n_wide)
        signal = np.empty((len(own), n_wide + 2, rows.n_points))
        signal[:, :-2] = coordinates[own, :n_wide]
        sample = _standing_for_all(seeding.lift(signal), rows.weights[own].astype(np.float64), keys[own])
        chosen[own] = _most_apart(*sample, most[own], keys[own], np.finfo(rows.dtype).eps)
    return chosen


def _principal_coordinates(rows: Rows, max_clusters: int, keys: npt.NDArray[np.uint64]) -> tuple[Array, Array]:
    """Coordinates of the points along their principal directions, the widest first, and the variances along them."""
    lifted = project(rows, max_clusters + 1, Draws(keys, max_clusters + 1, rows.dtype).rows)
    coordinates = lifted[:, :-2].astype(np.float64)
    moments = np.matmul(coordinates * rows.weights[:, None], coordinates.transpose(0, 2, 1))
    sums_of_squares, vectors = np.linalg.eigh(moments)
    coordinates = np.matmul(vectors[:, :, ::-1].transpose(0, 2, 1), coordinates)
    return coordinates, sums_of_squares[:, ::-1] / rows.weights.sum(axis=1, dtype=np.float64)[:, None]


def _n_above_noise(rows: Rows, variances: Array, n_points: Array, most: Array) -> Array:
    """Number of directions with more variance than noise would show, (n_devices,), at most `most`.

    Noise of equal variance in all directions has sample variances up to the edge of Marchenko and Pastur
    ("Distribution of eigenvalues for some sets of random matrices", 1967). For each number of directions the variance
    of the noise is estimated from the remaining ones.
    """
    squares = rows.squared_residuals(rows.mean[:, None], np.zeros(rows.weights.shape, np.int8))
    total = np.einsum("bn,bn->b", squares, rows.weights, dtype=np.float64) / n_points
    before = np.arange(variances.shape[1])
    n_left = rows.n_features - before
    left = np.maximum(total[:, None] - np.cumsum(variances, axis=1), 0) / np.maximum(n_left - 1, 1)
    noise = np.where(n_left > 1, left, 0)
    edge = noise * (1 + np.sqrt(n_left / n_points[:, None])) ** 2 * (1 + EDGE_SLACK * n_points[:, None] ** (-2 / 3))
    rounding = 64 * np.finfo(rows.dtype).eps * variances[:, :1]
    is_above = (variances > np.maximum(edge, rounding)) & (before < most[:, None])
    return np.asarray((is_above * (before + 1)).max(axis=1))


def _standing_for_all(signal: Array, weights: Array, keys: npt.NDArray[np.uint64]) -> tuple[Array, Array]:
    """Sample large devices, with weights that add up to those of all points."""
    sample, sample_weights = seeding.coreset(signal, weights, keys)
    return sample, sample_weights * (weights.sum(axis=1) / sample_weights.sum(axis=1))[:, None]


def _most_apart(
    signal: Array, weights: Array, most: Array, keys: npt.NDArray[np.uint64], precision: float
) -> npt.NDArray[np.intp]:
    """Find the largest number of clusters that all lie apart, (n_devices,); `signal` holds lifted points."""
    chosen = np.ones(len(signal), np.intp)
    rounding = (64 * precision) ** 2 * signal[:, -2].max(axis=1)
    for n_clusters in range(2, int(most.max()) + 1):
        uniforms = random.uniforms(keys, seeding.n_draws(n_clusters, N_TRIES))
        centers = cheapest_try(signal, weights, n_clusters, uniforms, N_STEPS)
        chosen[(n_clusters <= most) & _are_apart(signal, weights, centers, rounding)] = n_clusters
    return chosen


def _are_apart(signal: Array, weights: Array, centers: Array, rounding: Array) -> Array:
    """Whether every two clusters of a device lie apart, (n_devices,), by more than `rounding` (squared)."""
    n_clusters = centers.shape[1]
    coordinates = signal[:, :-2]
    labels, _ = nearest(seeding.squared_distances(signal, centers))
    members = memberships(labels, weights, n_clusters)
    sizes = members.sum(axis=2)
    means = np.matmul(members, coordinates.transpose(0, 2, 1)) / np.maximum(sizes, 1e-300)[:, :, None]
    scatters = _scatters(coordinates, members, means)
    lines = means[:, :, None] - means[:, None]  # (n_devices, n_clusters, n_clusters, n_directions)
    gaps = np.einsum("brsd,brsd->brs", lines, lines)  # squared
    own = np.einsum("brsd,brde,brse->brs", lines, scatters, lines)
    every = np.einsum("brsd,bde,brse->brs", lines, scatters.sum(axis=1), lines)
    n_pair = sizes[:, :, None] + sizes[:, None]
    n_all = np.maximum(weights.sum(axis=1) - n_clusters, 1)[:, None, None]
    # `lines` are not divided by their lengths, so `spreads` are variances times squared gaps, hence gaps**2 below
    spreads = (own + own.transpose(0, 2, 1) + BORROWED * every / n_all) / (np.maximum(n_pair - 2, 0) + BORROWED)
    asked = (APART * (1 + CAUTION / np.maximum(n_pair, 1))) ** 2 * spreads
    is_apart = (gaps**2 >= asked) & (gaps > rounding[:, None, None])
    return np.asarray((is_apart | np.eye(n_clusters, dtype=bool)).all(axis=(1, 2)) & (sizes > 0).all(axis=1))


def _scatters(coordinates: Array, members: Array, means: Array) -> Array:
    """Sums of outer products of the points of each cluster about its mean, (n_devices, n_clusters, m, m)."""
    scatters = np.empty((*members.shape[:2], coordinates.shape[1], coordinates.shape[1]))
    for cluster in range(members.shape[1]):
        centered = coordinates - means[:, cluster, :, None]
        np.matmul(centered * members[:, cluster, None], centered.transpose(0, 2, 1), out=scatters[:, cluster])
    return scatters
