"""``rule="robust"``: grouping device centers that are not all to be trusted.

Beyond the paper. Three things differ from Algorithm 2: tiny stray centers do not choose clusters, a center weighs as much
as the points it speaks for, and several seedings compete, each followed by Lloyd to convergence.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from kfed import _geometry, _random, _seeding
from kfed._averages import means_by_label

Array = npt.NDArray[Any]

N_GREEDY_SEEDINGS = 10
MAX_EXAMINED = 2048
"""Seeds are looked for among at most this many centers: building medoids needs all their pairwise distances."""

MAX_ITERATIONS = 300


def without_strays(centers: Array, counts: Array, owners: Array, n_clusters: int) -> Array:
    """Rows of the centers that may choose clusters.

    A center of few points is a stray, unless centers of at least three devices (its own among them) lie within half of
    its distance to the nearest center that is not tiny: a small cluster that several devices found is no accident.
    """
    tiny = np.flatnonzero(counts < max(2.0, 0.1 * float(np.median(counts))))
    large = np.setdiff1d(np.arange(len(centers)), tiny)
    if len(tiny) == 0 or len(large) < n_clusters:
        return np.arange(len(centers))
    to_large = _geometry.squared_distances(centers[tiny], centers[large]).min(axis=1)
    kept = [row for row, reach in zip(tiny, to_large / 4, strict=True) if _n_devices_near(centers, owners, row, reach) >= 3]
    return np.sort(np.concatenate([large, np.array(kept, dtype=np.intp)]))


def best_centers(centers: Array, counts: Array, farthest_first: Array, n_jobs: int | None) -> Array:
    """Cluster centers of the lowest weighted cost among several seedings; farthest-first wins a tie."""
    n_clusters = len(farthest_first)
    sample = _sample(centers, counts)
    seedings = [farthest_first, _medoids(*sample, n_clusters), *_greedy(*sample, n_clusters)]
    finished = [weighted_lloyd(*sample, seeds, n_jobs) for seeds in seedings]
    costs = [cost for _, cost in finished]
    best = next(i for i, cost in enumerate(costs) if cost <= min(costs) * (1 + 1e-9))
    return weighted_lloyd(centers, counts, finished[best][0], n_jobs)[0]


def weighted_lloyd(points: Array, weights: Array, centers: Array, n_jobs: int | None) -> tuple[Array, float]:
    """Assign to the nearest center and average by weight until nothing changes; centers and their weighted cost."""
    labels = np.full(len(points), -1)
    for _ in range(MAX_ITERATIONS):
        before, labels = labels, _geometry.nearest(points, centers, n_jobs)
        if np.array_equal(before, labels):
            break
        centers = means_by_label(points, labels, centers, weights, n_jobs)
    differences = points - centers[labels]
    return centers, float(np.einsum("nd,nd,n->", differences, differences, weights, dtype=np.float64))


def _n_devices_near(centers: Array, owners: Array, row: np.intp, squared_reach: float) -> int:
    distances = _geometry.squared_distances(centers, centers[[row]])[:, 0]
    return len(np.unique(owners[distances <= squared_reach]))


def _sample(centers: Array, counts: Array) -> tuple[Array, Array]:
    """The centers and weights that seedings compete on: all, or as many as can be examined pairwise."""
    if len(centers) <= MAX_EXAMINED:
        return centers, counts.astype(np.float64)
    lifted, weights = _seeding.coreset(_lifted(centers), counts.astype(np.float64)[None], MAX_EXAMINED)
    points = lifted[0, :-2].T + centers.mean(axis=0, dtype=np.float64)
    return np.ascontiguousarray(points, dtype=centers.dtype), weights[0]


def _medoids(points: Array, weights: Array, n_clusters: int) -> Array:
    """Add the point that lowers the weighted cost most, one at a time (the BUILD phase of PAM)."""
    distances = _geometry.squared_distances(points, points)
    chosen = [int((weights @ distances).argmin())]
    nearest = distances[:, chosen[0]]
    while len(chosen) < n_clusters:
        chosen.append(int((weights @ np.minimum(distances, nearest[:, None])).argmin()))
        nearest = np.minimum(nearest, distances[:, chosen[-1]])
    return points[chosen]


def _greedy(points: Array, weights: Array, n_clusters: int) -> list[Array]:
    """Greedy k-means++ seedings, always the same ones for the same centers."""
    keys = _random.device_keys(0, ["robust"])
    uniforms = _random.uniforms(keys, _seeding.n_draws(n_clusters, N_GREEDY_SEEDINGS))
    picks = _seeding.greedy_seeds(_lifted(points), weights[None], n_clusters, N_GREEDY_SEEDINGS, uniforms)
    return [points[seeds] for seeds in picks[0]]


def _lifted(points: Array) -> Array:
    lifted = np.empty((1, points.shape[1] + 2, len(points)))
    lifted[0, :-2] = (points - points.mean(axis=0, dtype=np.float64)).T
    return _seeding.lift(lifted)
