"""``rule="robust"``: grouping device centers that are not all to be trusted.

Beyond the paper. Three things differ from Algorithm 2: tiny stray centers do not choose clusters, a center weighs as
much as its points, and several seedings compete, each followed by Lloyd.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np

from kfed._base import geometry, pool, random, seeding
from kfed._base.array import Array
from kfed._base.averages import means_by_label
from kfed.server.k import trust

N_GREEDY_SEEDINGS = 10
MAX_EXAMINED = 2048
"""Seeds are looked for among at most this many centers, or 16 for each cluster: so many are likely to meet each."""

MEASURED_TOGETHER = 16
"""Centers that are measured in one product as seeds: little more work than one of them."""

MAX_POLISHED = 2**15
"""The best seeding is polished on at most this many centers, or 64 for each cluster, before it meets all of them."""

SMALL_GAIN = 1e-4
"""On more centers than seedings compete on, and between swaps, Lloyd ends when a step lowers the cost by less than this
share."""

MAX_ITERATIONS = 300


def without_strays(centers: Array, counts: Array, owners: Array, n_clusters: int, n_jobs: int | None = None) -> Array:
    """Rows of the centers that may choose clusters: all but strays, or all if too few would be left."""
    kept = np.flatnonzero(~trust.strays(centers, counts, owners, n_jobs))
    return kept if len(kept) >= n_clusters else np.arange(len(centers))


def best_centers(centers: Array, counts: Array, farthest_first: Array, n_jobs: int | None) -> Array:
    """Cluster centers of the lowest weighted cost among several seedings; farthest-first wins a tie.

    Seedings compete on a sample. The best goes on from there to a larger sample, and then to all centers: the closer it
    is by then, the fewer steps over all of them it takes.
    """
    best, cost = best_seeding(centers, counts, farthest_first, n_jobs)
    is_sample = len(centers) > _n_examined(len(farthest_first))
    return polished(centers, counts, best, cost, n_jobs) if is_sample else best


def best_seeding(centers: Array, counts: Array, farthest_first: Array, n_jobs: int | None) -> tuple[Array, float]:
    """The best of the seedings, after Lloyd, on all centers or a sample of them; and its weighted cost there."""
    n_clusters = len(farthest_first)
    some = sample(centers, counts, _n_examined(n_clusters))
    seedings = [farthest_first, _medoids(*some, n_clusters), *_greedy(*some, n_clusters)]
    finished = [weighted_lloyd(*some, seeds, n_jobs) for seeds in seedings]
    least = min(cost for _, cost in finished)
    return next(own for own in finished if own[1] <= least * (1 + 1e-9))


def _n_examined(n_clusters: int) -> int:
    return max(MAX_EXAMINED, 16 * n_clusters)


def polished(centers: Array, counts: Array, means: Array, cost: float, n_jobs: int | None) -> Array:
    """Means that are good on a sample, where they have this cost, after Lloyd on a larger one and on all centers."""
    larger = sample(centers, counts, max(MAX_POLISHED, 64 * len(means)))
    means, cost = weighted_lloyd(*larger, means, n_jobs, SMALL_GAIN * cost)
    return weighted_lloyd(centers, counts, means, n_jobs, SMALL_GAIN * cost)[0]


def weighted_lloyd(
    points: Array, weights: Array, centers: Array, n_jobs: int | None, small_gain: float = 0.0
) -> tuple[Array, float]:
    """Assign to the nearest center and average by weight until nothing changes; centers and their weighted cost.

    It may also end when averaging lowers the cost by at most `small_gain`. That gain needs no distance to a point: with
    w_r the weight of a cluster, moving its center by Delta_r to the mean lowers the cost by w_r |Delta_r|^2.
    """
    labels = np.full(len(points), -1)
    for _ in range(MAX_ITERATIONS):
        before, labels = labels, geometry.nearest(points, centers, n_jobs)
        if np.array_equal(before, labels):
            break
        means = means_by_label(points, labels, centers, weights, n_jobs)
        moves = np.square(means - centers, dtype=np.float64).sum(axis=1)
        centers = means
        if np.bincount(labels, weights, minlength=len(centers)) @ moves <= small_gain:
            break
    return centers, float(geometry.squares_to_own(points, centers, labels) @ weights)


def sample(centers: Array, counts: Array, size: int) -> tuple[Array, Array]:
    """The centers and their weights, or a sample of this size that stands for them."""
    weights = counts.astype(np.float64)
    if len(centers) <= size:
        return centers, weights
    costs = geometry.squares_to_own(centers, geometry.middle(centers)[None], np.zeros(len(centers), np.intp))
    rows, weights = seeding.sample_by_cost(costs, weights, size, fixed_uniforms("sample", size))
    return centers[rows], weights


def fixed_uniforms(purpose: str, n_draws: int) -> Array:
    """Random numbers in [0, 1), always the same ones for the same purpose."""
    return np.asarray(random.uniforms(random.device_keys(0, [purpose]), n_draws)[0])


def _medoids(points: Array, weights: Array, n_clusters: int) -> Array:
    """Add the point that lowers the weighted cost most, one at a time (the BUILD phase of PAM).

    What a point would save only falls as others are added, so only those that seem to save most are measured anew,
    some at a time, until the best of all is one that was.
    """
    blocks = [np.arange(block.start, block.stop) for block in pool.blocks(len(points), MAX_EXAMINED // 8)]
    squares_of: Callable[[Array | list[int]], Array] = partial(_squares, _lifted(points))
    if len(points) <= MAX_EXAMINED:
        squares_of = np.concatenate(list(map(squares_of, blocks))).__getitem__
    chosen = [int(np.concatenate([squares_of(rows) @ weights for rows in blocks]).argmin())]
    costs = squares_of(chosen)[0]
    savings = np.concatenate([np.maximum(costs - squares_of(rows), 0) @ weights for rows in blocks])
    n_measured = min(MEASURED_TOGETHER, len(points))
    is_new = np.zeros(len(points), bool)
    while len(chosen) < n_clusters:
        best = int(savings.argmax())
        if is_new[best]:
            chosen.append(best)
            costs = np.minimum(costs, squares_of([best])[0])
            is_new[:] = False
            continue
        rows = np.argpartition(-savings, n_measured - 1)[:n_measured]
        rows[0] = best  # it may tie with others that are among them
        savings[rows] = np.maximum(costs - squares_of(rows), 0) @ weights
        is_new[rows] = True
    return points[chosen]


def _squares(lifted: Array, rows: Array | list[int]) -> Array:
    """Squared distances of some points to all, (n_rows, n_points)."""
    return np.asarray(seeding.lifted_distances(lifted, seeding.points_at(lifted, np.asarray(rows)[None]))[0])


def _greedy(points: Array, weights: Array, n_clusters: int) -> list[Array]:
    """Greedy k-means++ seedings, always the same ones for the same centers."""
    draws = fixed_uniforms("robust", seeding.n_draws(n_clusters, N_GREEDY_SEEDINGS))
    picks = seeding.greedy_seeds(_lifted(points), weights[None], n_clusters, N_GREEDY_SEEDINGS, draws[None])
    return [points[seeds] for seeds in picks[0]]


def _lifted(points: Array) -> Array:
    lifted = np.empty((1, points.shape[1] + 2, len(points)))
    lifted[0, :-2] = (points - points.mean(axis=0, dtype=np.float64)).T
    return seeding.lift(lifted)
