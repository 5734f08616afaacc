"""``rule="robust"``: grouping device centers that are not all to be trusted.

Beyond the paper. Three things differ from Algorithm 2: tiny stray centers do not choose clusters, a center weighs as
much as its points, and several seedings compete, each followed by Lloyd to convergence.
"""

from __future__ import annotations

import numpy as np

from kfed._base import geometry, pool, random, seeding
from kfed._base.array import Array
from kfed._base.averages import means_by_label
from kfed.server import trust

N_GREEDY_SEEDINGS = 10
MAX_EXAMINED = 2048
"""Seeds are looked for among at most this many centers, or four for each cluster if that is more."""

MAX_ITERATIONS = 300


def without_strays(centers: Array, counts: Array, owners: Array, n_clusters: int, n_jobs: int | None = None) -> Array:
    """Rows of the centers that may choose clusters: all but strays, or all if too few would be left."""
    kept = np.flatnonzero(~trust.strays(centers, counts, owners, n_jobs))
    return kept if len(kept) >= n_clusters else np.arange(len(centers))


def best_centers(centers: Array, counts: Array, farthest_first: Array, n_jobs: int | None) -> Array:
    """Cluster centers of the lowest weighted cost among several seedings; farthest-first wins a tie."""
    n_clusters = len(farthest_first)
    sample = _sample(centers, counts, n_clusters)
    seedings = [farthest_first, _medoids(*sample, n_clusters), *_greedy(*sample, n_clusters)]
    finished = [weighted_lloyd(*sample, seeds, n_jobs) for seeds in seedings]
    costs = [cost for _, cost in finished]
    best = next(i for i, cost in enumerate(costs) if cost <= min(costs) * (1 + 1e-9))
    return weighted_lloyd(centers, counts, finished[best][0], n_jobs)[0]


def weighted_lloyd(points: Array, weights: Array, centers: Array, n_jobs: int | None) -> tuple[Array, float]:
    """Assign to the nearest center and average by weight until nothing changes; centers and their weighted cost."""
    labels = np.full(len(points), -1)
    for _ in range(MAX_ITERATIONS):
        before, labels = labels, geometry.nearest(points, centers, n_jobs)
        if np.array_equal(before, labels):
            break
        centers = means_by_label(points, labels, centers, weights, n_jobs)
    differences = points - centers[labels]
    return centers, float(np.einsum("nd,nd,n->", differences, differences, weights, dtype=np.float64))


def _sample(centers: Array, counts: Array, n_clusters: int) -> tuple[Array, Array]:
    """The centers and weights that seedings compete on: all, or a sample that stands for them."""
    weights, size = counts.astype(np.float64), max(MAX_EXAMINED, 4 * n_clusters)
    if len(centers) <= size:
        return centers, weights
    lifted, weights = seeding.coreset(_lifted(centers), weights[None], size)
    points = lifted[0, :-2].T + centers.mean(axis=0, dtype=np.float64)
    return np.ascontiguousarray(points, dtype=centers.dtype), weights[0]


def _medoids(points: Array, weights: Array, n_clusters: int) -> Array:
    """Add the point that lowers the weighted cost most, one at a time (the BUILD phase of PAM).

    What a point would save only falls as others are added, so only the one that seems to save most is measured anew,
    until it still does.
    """
    lifted = _lifted(points)
    blocks = [np.arange(block.start, block.stop) for block in pool.blocks(len(points), MAX_EXAMINED // 8)]
    chosen = [int(np.concatenate([_squares(lifted, rows) @ weights for rows in blocks]).argmin())]
    costs = _squares(lifted, chosen)[0]
    savings = np.concatenate([np.maximum(costs - _squares(lifted, rows), 0) @ weights for rows in blocks])
    while len(chosen) < n_clusters:
        best = int(savings.argmax())
        squares = _squares(lifted, [best])[0]
        savings[best] = np.maximum(costs - squares, 0) @ weights
        if best == savings.argmax():
            chosen.append(best)
            costs = np.minimum(costs, squares)
    return points[chosen]


def _squares(lifted: Array, rows: Array | list[int]) -> Array:
    """Squared distances of some points to all, (n_rows, n_points)."""
    return np.asarray(seeding.squared_distances(lifted, seeding.points_at(lifted, np.asarray(rows)[None]))[0])


def _greedy(points: Array, weights: Array, n_clusters: int) -> list[Array]:
    """Greedy k-means++ seedings, always the same ones for the same centers."""
    keys = random.device_keys(0, ["robust"])
    uniforms = random.uniforms(keys, seeding.n_draws(n_clusters, N_GREEDY_SEEDINGS))
    picks = seeding.greedy_seeds(_lifted(points), weights[None], n_clusters, N_GREEDY_SEEDINGS, uniforms)
    return [points[seeds] for seeds in picks[0]]


def _lifted(points: Array) -> Array:
    lifted = np.empty((1, points.shape[1] + 2, len(points)))
    lifted[0, :-2] = (points - points.mean(axis=0, dtype=np.float64)).T
    return seeding.lift(lifted)
