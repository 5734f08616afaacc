"""``n_local_clusters="auto"``: as many clusters as the points of a device show without two of them being one.

The points are looked at in the few directions that rise above the noise. There they are clustered for every number of
clusters up to 16, and once for many, of which those that are not apart are merged. The answer is the largest number for
which every two clusters lie clearly apart: at least four standard deviations, measured along the line through their
centers. Halves of one Gaussian lie 2.7 apart and halves of a uniform 3.5, however long or flat it is, so what is no
more than a cut through one cluster does not count.

Where no two clusters are apart, but points fill a region too evenly for one Gaussian, there may be many clusters that
these points are too few to tell. Then one center of everything would hide them: the answer is a fine summary.

Beyond the paper, which takes k^(z) as given. Like Algorithm 1 it is written with a batch axis.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from kfed._base import random, seeding
from kfed._base.array import Array
from kfed.device.algorithm1 import N_TRIES, Draws, cheapest_try
from kfed.device.rows.rows import Rows
from kfed.device.steps.projection import project
from kfed.device.summaries.merging import are_apart, clusters_at, n_left_apart

MAX_LOCAL_CLUSTERS = 64

EACH_UP_TO = 16
"""Every number of clusters up to this is tried, and beyond it only what merging finds."""

MERGED_FROM = (64, 32)
"""Numbers of clusters to merge from: the first that the points of a device, and the bound, allow."""

MERGE_ELEMENTS = 2**22
"""Distances that are held at once while there are many clusters."""

POINTS_PER_CLUSTER = 5
"""A device with fewer points than this for each cluster does not get as many clusters."""

N_STEPS = 10
EDGE_SLACK = 4.0

TOO_EVEN = -2.75
"""Kurtosis of points too even for one Gaussian: standard errors, on a logarithmic scale. Fewer than one of a thousand
Gaussians gets there; a uniform in two dimensions does with about a hundred points."""


class LocalChoice(NamedTuple):
    """k^(z) of every device of a batch, (n_devices,), and where it is a fine summary, since it could not be told."""

    n_clusters: npt.NDArray[np.intp]
    is_summary: npt.NDArray[np.bool_]


def choose_local_k(rows: Rows, max_clusters: int, keys: npt.NDArray[np.uint64]) -> LocalChoice:
    """Choose k^(z) for every device of a batch, from 1 to `max_clusters`."""
    n_points = rows.weights.sum(axis=1, dtype=np.float64)
    most = np.clip(n_points // POINTS_PER_CLUSTER, 1, max_clusters).astype(np.intp)
    chosen, is_summary = np.ones(rows.n_devices, np.intp), np.zeros(rows.n_devices, bool)
    if most.max() == 1:
        return LocalChoice(chosen, is_summary)
    coordinates, variances = _principal_coordinates(rows, min(max_clusters, EACH_UP_TO), keys)
    n_directions = _n_above_noise(rows, variances, n_points, most - 1)
    for n_wide in np.unique(n_directions[n_directions > 0]):  # a device shares arrays with its like only
        own = np.flatnonzero(n_directions == n_wide)
        signal = np.empty((len(own), n_wide + 2, rows.n_points))
        signal[:, :-2] = coordinates[own, :n_wide]
        sample = _standing_for_all(seeding.lift(signal), rows.weights[own].astype(np.float64), keys[own])
        chosen[own] = _most_apart(*sample, most[own], keys[own], np.finfo(rows.dtype).eps)
        is_summary[own] = (chosen[own] == 1) & _are_too_even(signal[:, :-2], rows.weights[own], n_points[own])
    return LocalChoice(np.where(is_summary, most, chosen), is_summary)


def _principal_coordinates(rows: Rows, max_clusters: int, keys: npt.NDArray[np.uint64]) -> tuple[Array, Array]:
    """Points along the directions in which they spread most, the widest first, and their variances along these."""
    lifted = project(rows, max_clusters + 1, Draws(keys, max_clusters + 1, rows.dtype).rows)
    coordinates = lifted[:, :-2].astype(np.float64)
    moments = np.matmul(coordinates * rows.weights[:, None], coordinates.transpose(0, 2, 1))
    sums_of_squares, vectors = np.linalg.eigh(moments)
    coordinates = np.matmul(vectors[:, :, ::-1].transpose(0, 2, 1), coordinates)
    return coordinates, sums_of_squares[:, ::-1] / rows.weights.sum(axis=1, dtype=np.float64)[:, None]


def _n_above_noise(rows: Rows, variances: Array, n_points: Array, most: Array) -> Array:
    """How many directions spread wider than noise does, (n_devices,), and at most `most`.

    Noise of one variance in all directions gives sample variances up to the edge that Marchenko and Pastur found
    ("Distribution of eigenvalues for some sets of random matrices", 1967). For each number of directions the variance
    of noise is taken from what the others leave.
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
    """Find the largest number of clusters that all lie apart, (n_devices,); `signal` is lifted."""
    chosen = np.ones(len(signal), np.intp)
    rounding = (64 * precision) ** 2 * signal[:, -2].max(axis=1)
    for n_clusters in range(2, min(int(most.max()), EACH_UP_TO) + 1):
        centers = _cheapest(signal, weights, n_clusters, keys)
        is_apart = are_apart(clusters_at(signal, weights, centers), rounding)
        chosen[(n_clusters <= most) & is_apart] = n_clusters
    start = np.select([most >= many for many in MERGED_FROM], MERGED_FROM, 0)
    for many in MERGED_FROM:
        n_together = max(1, MERGE_ELEMENTS // (N_TRIES * many * signal.shape[2]))
        devices = np.flatnonzero(start == many)
        for own in np.split(devices, range(n_together, len(devices), n_together)) if len(devices) else []:
            centers = _cheapest(signal[own], weights[own], many, keys[own])
            found = n_left_apart(clusters_at(signal[own], weights[own], centers), rounding[own])
            chosen[own] = np.where(found > EACH_UP_TO, found, chosen[own])
    return chosen


def _cheapest(signal: Array, weights: Array, n_clusters: int, keys: npt.NDArray[np.uint64]) -> Array:
    uniforms = random.uniforms(keys, seeding.n_draws(n_clusters, N_TRIES))
    return cheapest_try(signal, weights, n_clusters, uniforms, N_STEPS)


def _are_too_even(coordinates: Array, weights: Array, n_points: Array) -> Array:
    """Tell whose points have too low a kurtosis for one Gaussian of whatever shape, (n_devices,).

    Mardia ("Measures of multivariate skewness and kurtosis with applications", Biometrika 1970) gives the mean and the
    variance of the kurtosis of Gaussian points. Coordinates are centered, and uncorrelated.
    """
    n_wide = coordinates.shape[1]
    shares = weights / n_points[:, None]
    means = np.einsum("bdn,bn->bd", coordinates, shares)[:, :, None]
    variances = np.einsum("bdn,bn->bd", (coordinates - means) ** 2, shares)
    lengths = np.einsum("bdn,bd->bn", (coordinates - means) ** 2, 1 / np.maximum(variances, 1e-300))
    kurtosis = np.einsum("bn,bn->b", lengths**2, shares)
    expected = n_wide * (n_wide + 2) * (n_points - 1) / (n_points + 1)
    error = np.sqrt(8 * n_wide * (n_wide + 2) / n_points) / expected
    return np.asarray(np.log(np.maximum(kurtosis, 1e-300) / expected) < TOO_EVEN * error)
