"""How well clusters survive other devices: leave some out, or draw them anew, cluster again, and compare.

Two clusterings agree as far as they put the same pairs of rows together: the adjusted Rand index, which is 1 for the
same clusters under any names and about 0 for unrelated ones (Hubert and Arabie, "Comparing partitions", 1985). Rows
are those behind the device centers, each center with its count.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from kfed._base import geometry, random, seeding
from kfed._base.array import Array
from kfed.server.view.quality import RowMoments

N_TRIES = 4
MAX_CENTERS = 1024
"""A resampling is clustered on at most this many centers, or 16 for each cluster; then all centers are labelled."""

N_FIRST_STEPS, MAX_STEPS, SMALL_GAIN = 4, 60, 1e-4

LEFT_OUT = 0.2
"""Share of the devices that every other resampling leaves out; the others draw as many anew, with replacement."""


def agreement(first: Array, second: Array, weights: Array) -> float:
    """Adjusted Rand index of two labelings of device centers, each center as often as its weight.

    Examples
    --------
    >>> agreement(np.array([0, 0, 1, 1]), np.array([5, 5, 3, 3]), np.full(4, 10.0))
    1.0
    """
    _, left = np.unique(first, return_inverse=True)
    _, right = np.unique(second, return_inverse=True)
    table = np.bincount(left * (right.max() + 1) + right, weights)
    together = _pairs(table)
    in_first, in_second = _pairs(np.bincount(left, weights)), _pairs(np.bincount(right, weights))
    expected = in_first * in_second / max(_pairs(weights.sum(keepdims=True)), 1e-300)
    most = (in_first + in_second) / 2
    return 1.0 if most <= expected else float((together - expected) / (most - expected))


def _pairs(sizes: Array) -> float:
    return float((sizes * np.maximum(sizes - 1, 0)).sum() / 2)


class Survival(NamedTuple):
    """How a clustering survives other devices.

    `agreements` has the agreement with each resampling, NaN where that has too few centers. `weakest` is the mean
    Jaccard similarity to the best match in each resampling, for the cluster where it is lowest.
    """

    agreements: Array  # (n_resamplings,)
    weakest: float


def survival(moments: RowMoments, labels: Array, n_clusters: int, resamplings: Sequence[Array]) -> Survival:
    """Cluster every resampling into as many clusters as have rows there, and compare the labels of those rows.

    A cluster that lives on devices that were not drawn cannot come back, which says nothing of the others.
    """
    agreements = np.full(len(resamplings), np.nan)
    similarities = np.full((len(resamplings), n_clusters), np.nan)
    for turn, weights in enumerate(resamplings):
        drawn = np.flatnonzero(weights)
        present, own = np.unique(labels[drawn], return_inverse=True)
        found = cluster_again(moments, weights, len(present), f"resampling {turn}")
        if found is not None:
            agreements[turn] = agreement(own, found[drawn], weights[drawn])
            similarities[turn, present] = jaccard(own, found[drawn], weights[drawn])
    seen = similarities[:, np.isfinite(similarities).any(axis=0)]
    return Survival(agreements, float(np.nanmean(seen, axis=0).min()) if seen.size else float("nan"))


def jaccard(labels: Array, others: Array, weights: Array) -> Array:
    """Similarity of each cluster of `labels` to the cluster of `others` that is most like it, from 0 to 1.

    Examples
    --------
    >>> jaccard(np.array([0, 0, 1, 1]), np.array([1, 1, 1, 0]), np.ones(4)).round(2)
    array([0.67, 0.5 ])
    """
    present, left = np.unique(labels, return_inverse=True)
    found, right = np.unique(others, return_inverse=True)
    shared = np.bincount(left * len(found) + right, weights, len(present) * len(found)).reshape(len(present), -1)
    joint = shared.sum(axis=1, keepdims=True) + shared.sum(axis=0) - shared
    return np.asarray((shared / joint).max(axis=1))


def resampled_weights(moments: RowMoments, n_resamplings: int, seed: int) -> Iterator[Array]:
    """How many rows each device center stands for in each resampling, (n_device_centers,)."""
    devices = np.unique(moments.owners)
    keys = random.device_keys(seed, [f"resampling {i}" for i in range(n_resamplings)])
    for turn, draws in enumerate(random.uniforms(keys, len(devices))):
        times = np.zeros(int(devices.max()) + 1)
        if turn % 2:
            np.add.at(times, devices[(draws * len(devices)).astype(int)], 1)
        else:
            n_left_out = max(1, round(LEFT_OUT * len(devices)))
            times[devices[np.argsort(draws, kind="stable")[n_left_out:]]] = 1
        yield moments.counts * times[moments.owners]


def cluster_again(moments: RowMoments, weights: Array, n_clusters: int, key: str) -> Array | None:
    """Cluster the centers that have a weight, and label all centers; None if there are fewer than `n_clusters`."""
    there = np.flatnonzero(weights)
    if len(there) < n_clusters:
        return None
    points, sample_weights = _sample(moments.centers[there], weights[there], max(MAX_CENTERS, 16 * n_clusters), key)
    lifted = np.empty((1, points.shape[1] + 2, len(points)))
    lifted[0, :-2] = (points - points.mean(axis=0)).T
    uniforms = random.uniforms(random.device_keys(0, [key]), seeding.n_draws(n_clusters, N_TRIES))
    picks = seeding.greedy_seeds(seeding.lift(lifted), sample_weights[None], n_clusters, N_TRIES, uniforms)
    return geometry.nearest(moments.centers, _lloyd(points, sample_weights, points[picks[0]]), 1)


def _sample(points: Array, weights: Array, size: int, key: str) -> tuple[Array, Array]:
    """The points and their weights, or a sample of this size that stands for them."""
    if len(points) <= size:
        return points, weights
    squares = np.square(points - np.average(points, axis=0, weights=weights)).sum(axis=1)
    uniforms = random.uniforms(random.device_keys(1, [key]), size)[0]
    rows, sample_weights = seeding.sample_by_cost(squares, weights, size, uniforms)
    return points[rows], sample_weights


def _lloyd(points: Array, weights: Array, centers: Array) -> Array:
    """The best of several tries, (n_tries, n_clusters, n_features): each a few steps, then the best to the end.

    `weighted_lloyd` of the robust rule is exact and made for many centers; here hundreds of small problems are solved,
    and all tries share a product.
    """
    origin = points.mean(axis=0)
    points, centers = points - origin, centers - origin
    for _ in range(N_FIRST_STEPS):
        centers, costs = _step(points, weights, centers)
    centers, before = centers[[costs.argmin()]], costs.min()
    for _ in range(MAX_STEPS):
        centers, costs = _step(points, weights, centers)
        if costs[0] >= before - SMALL_GAIN * abs(before):
            break
        before = costs[0]
    return np.asarray(centers[0] + origin)


def _step(points: Array, weights: Array, centers: Array) -> tuple[Array, Array]:
    """One step of Lloyd for every try, and the cost of each before it, less the same number for all."""
    n_tries, n_clusters, _ = centers.shape
    norms = np.einsum("tkf,tkf->tk", centers, centers)
    halves = norms.reshape(-1, 1) / 2 - centers.reshape(-1, points.shape[1]) @ points.T  # (n_tries * k, n_points)
    halves = halves.reshape(n_tries, n_clusters, -1)
    labels = halves.argmin(axis=1)  # (n_tries, n_points)
    costs = np.array([weights @ least for least in halves.min(axis=1)])
    members = (labels[:, None] == np.arange(n_clusters)[:, None]) * weights  # (n_tries, k, n_points)
    sizes = members.sum(axis=2)[..., None]
    sums = (members.reshape(-1, len(points)) @ points).reshape(centers.shape)
    return np.divide(sums, sizes, out=centers.copy(), where=sizes > 0), costs
