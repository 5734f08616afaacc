"""Algorithm 1 of the paper (Awasthi and Sheffet's variant of Lloyd's method), on a batch of devices.

One device is a batch of one, and gets the same answer to the bit: no step mixes devices of a batch.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from kfed._base import random, seeding
from kfed._base.array import Array
from kfed._base.seeding import lifted_distances
from kfed.device.rows.blocked import BlockedRows
from kfed.device.rows.rows import Rows
from kfed.device.steps.bounded_lloyd import bounded_lloyd
from kfed.device.steps.lloyd import Solution, batch_lloyd
from kfed.device.steps.lloyd_step import (
    FEW_CENTERS,
    means,
    memberships,
    smallest_of,
    sums_by_label,
    two_nearest,
    two_nearest_of_many,
)
from kfed.device.steps.projection import n_started, project

N_TRIES = 4
"""Seedings to try; the cheapest is kept. One try fails on some devices where four do not."""

N_POLISHING_STEPS = 1
"""Lloyd steps of each try among the projected points; one costs far less than the step on all features it saves."""

N_SAMPLE_STEPS, MAX_SAMPLE_STEPS = 10, 100
"""Lloyd steps of each try, and of the cheapest, among a sample of a large device: a step on all points costs far more.
With one step of each try, half of the seeds of W4 took 50 to 250 steps on all points; with ten, all took nine."""

SAMPLE_PER_CLUSTER = 64
"""With many clusters, points of a large device to seed from for each of them; then one try costs what few do."""


def local_kmeans(rows: Rows, n_clusters: int, keys: npt.NDArray[np.uint64], max_iterations: int) -> Solution:
    """Run Algorithm 1 on every device: project, seed, average the core sets, run Lloyd to convergence."""
    draws = Draws(keys, n_clusters, rows.dtype)
    projected = project(rows, n_clusters, draws.rows)  # step 2
    seeds = approximate_centers(rows, projected, n_clusters, draws)
    centers = core_means(rows, projected, seeds)  # step 3
    return lloyd(rows, centers, max_iterations)  # step 4


class Draws:
    """The random numbers of Algorithm 1; how many depends on `n_clusters` only, not on the data."""

    def __init__(self, keys: npt.NDArray[np.uint64], n_clusters: int, dtype: np.dtype[Any]) -> None:
        n_rows = n_started(n_clusters)
        uniforms = random.uniforms(keys, n_rows + seeding.n_draws(n_clusters, n_tries(n_clusters))).astype(dtype)
        self.keys, self.rows, self.seeds = keys, uniforms[:, :n_rows], uniforms[:, n_rows:]


# Step 2, second half: the approximation -------------------------------------------------------------------------


def approximate_centers(rows: Rows, projected: Array, n_clusters: int, draws: Draws) -> Array:
    """Centers nu of the projected points, (n_devices, n_clusters, k).

    Each of several tries is a greedy k-means++ seeding and a Lloyd step among the projected points; the try of the
    lowest cost is kept. A large device is seeded from a sample, on which Lloyd runs until nothing changes.
    """
    if isinstance(rows, BlockedRows):
        return _from_sample(rows, projected, n_clusters, draws)
    sample = seeding.coreset(projected, rows.weights, draws.keys)
    return cheapest_try(*sample, n_clusters, draws.seeds, N_POLISHING_STEPS, n_tries(n_clusters))


def n_tries(n_clusters: int) -> int:
    """How many seedings to try; with many clusters, polishing one does more than trying several."""
    return N_TRIES if n_clusters <= FEW_CENTERS else 1


def _from_sample(rows: Rows, projected: Array, n_clusters: int, draws: Draws) -> Array:
    """Seed one large device from a sample and run Lloyd there, (1, n_clusters, k)."""
    if n_clusters <= FEW_CENTERS:
        sample, weights = seeding.coreset(projected, rows.weights, draws.keys)
        start = cheapest_try(sample, weights, n_clusters, draws.seeds, N_SAMPLE_STEPS)
    else:
        sample, weights = seeding.coreset(projected, rows.weights, draws.keys, SAMPLE_PER_CLUSTER * n_clusters)
        picks = seeding.greedy_seeds(sample, weights, n_clusters, 1, draws.seeds)[:, 0]
        start = seeding.points_at(sample, picks)
    small = BlockedRows(np.ascontiguousarray(sample[0, :-2].T), weights, 1, n_clusters)
    return bounded_lloyd(small, start, MAX_SAMPLE_STEPS).centers


def cheapest_try(
    projected: Array, weights: Array, n_clusters: int, uniforms: Array, n_steps: int, n_tries: int = N_TRIES
) -> Array:
    """Run every try for `n_steps` Lloyd steps and return the centers of the cheapest, (n_devices, n_clusters, k)."""
    picks = seeding.greedy_seeds(projected, weights, n_clusters, n_tries, uniforms)
    tries = seeding.points_at(projected, picks.reshape(len(picks), -1))  # (n_devices, n_tries * n_clusters, k)
    by_try = (len(picks) * n_tries, n_clusters, -1)
    try_weights = np.repeat(weights, n_tries, axis=0)
    for _ in range(n_steps):
        labels, _ = smallest_of(lifted_distances(projected, tries).reshape(by_try))
        members = memberships(labels, try_weights, n_clusters).reshape(*tries.shape[:2], -1)
        sums = np.matmul(members, projected.transpose(0, 2, 1))  # the last of a lifted point is 1: sums to the size
        tries = means(sums[:, :, :-2], sums[:, :, -1], tries)
    costs = lifted_distances(projected, tries).reshape(by_try).min(axis=1)
    cheapest = np.einsum("tn,tn->t", costs, try_weights).reshape(-1, n_tries).argmin(axis=1)
    return np.asarray(tries.reshape(len(picks), n_tries, n_clusters, -1)[np.arange(len(picks)), cheapest])


# Step 3: core sets ----------------------------------------------------------------------------------------------


def core_means(rows: Rows, projected: Array, seeds: Array) -> Array:
    """Means theta of the original points of the core sets S_r, (n_devices, n_clusters, n_features).

    A point is in the core set of a seed if its projection is at most a third as far from it as from any other seed. A
    seed with an empty core set gets all points that are nearest to it.
    """
    n_clusters = seeds.shape[1]

    def cores(block: slice) -> tuple[Array, Array, Array]:
        labels, first, second = _two_nearest_seeds(rows, projected[:, :, block], seeds)
        in_core = 9 * first <= second
        return labels, in_core, _sizes(labels, rows.weights[:, block] * in_core, n_clusters)

    blocks_of_labels, blocks_of_cores, core_sizes = zip(*rows.map_blocks(cores), strict=True)
    labels, in_core = np.concatenate(blocks_of_labels, axis=1), np.concatenate(blocks_of_cores, axis=1)
    in_core |= np.take_along_axis(sum(core_sizes), labels.astype(np.intp), axis=1) == 0
    sums, sizes = sums_by_label(rows, labels, rows.weights * in_core, n_clusters)
    middle = sums.sum(axis=1, keepdims=True) / sizes.sum(axis=1)[:, None, None]
    return means(sums, sizes, np.repeat(middle, n_clusters, axis=1).astype(rows.dtype))


def _two_nearest_seeds(rows: Rows, projected: Array, seeds: Array) -> tuple[Array, Array, Array]:
    if seeds.shape[1] <= FEW_CENTERS or not isinstance(rows, BlockedRows):
        return two_nearest(lifted_distances(projected, seeds))
    return two_nearest_of_many(projected[0].T, seeding.query_of(seeds)[0].T)


def _sizes(labels: Array, weights: Array, n_clusters: int) -> Array:
    """Weight of each cluster, (n_devices, n_clusters)."""
    if n_clusters <= FEW_CENTERS:
        return np.asarray(memberships(labels, weights, n_clusters).sum(axis=2))
    return np.stack([np.bincount(*own, minlength=n_clusters) for own in zip(labels, weights, strict=True)])


# Step 4: Lloyd --------------------------------------------------------------------------------------------------


def lloyd(rows: Rows, centers: Array, max_iterations: int) -> Solution:
    """Assign every point to its nearest center and average, until nothing changes; large devices use bounds."""
    if isinstance(rows, BlockedRows):
        return bounded_lloyd(rows, centers, max_iterations)
    return batch_lloyd(rows, centers, max_iterations)
