"""Weighted k-means on many centers that leaves local optima: means are added where they save most, and dropped again.

Lloyd cannot take a mean from a cluster that has two and give it to one that needs another. Adding some means, and then
dropping those that are missed least, does (Fritzke, "The k-means algorithm evolves", 2020). It is done on the first
principal components of the centers: what these leave out adds about the same to the cost of every clustering (Cohen,
Elder, Musco, Musco and Persu, STOC 2015), and a step takes a fraction of the time. The last steps are on all features.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from kfed._base import geometry, seeding
from kfed._base.array import Array
from kfed._base.averages import means_by_label
from kfed.server.rules import robust

MAX_COMPONENTS = 64
"""So many components are kept, or one for each cluster if that is more. With less than twice as many features, all
features are."""

MAX_SWAPPED = 8192
"""Means are swapped on at most this many centers, or 16 for each cluster."""

ADDED = 4
"""Means that are added at first; one fewer each time that this does not help."""

MAX_SWAPS = 30
CANDIDATES = 64


def swapped_centers(centers: Array, weights: Array, farthest_first: Array, n_jobs: int | None) -> Array:
    """Cluster centers of low weighted cost: the best of several seedings, and then swaps; see `robust.best_centers`."""
    n_clusters = len(farthest_first)
    some, own_weights = robust.sample(centers, weights, max(MAX_SWAPPED, 16 * n_clusters))
    components = Components.of(some, own_weights, max(MAX_COMPONENTS, n_clusters))
    few = components.of_points(some)
    means, _ = robust.best_seeding(few, own_weights, components.of_points(farthest_first), n_jobs)
    means = swapped(few, own_weights, means, n_jobs)
    labels = geometry.nearest(few, means, n_jobs)
    means, cost = robust.weighted_lloyd(
        some, own_weights, means_by_label(some, labels, farthest_first, own_weights, n_jobs), n_jobs
    )
    return means if len(some) == len(centers) else robust.polished(centers, weights, means, cost, n_jobs)


class Components(NamedTuple):
    """The first principal components of centers, or all features."""

    origin: Array  # (n_features,)
    directions: Array | None  # (n_features, n_components)

    @classmethod
    def of(cls, centers: Array, weights: Array, n_components: int) -> Components:
        """Find them on a sample of the centers."""
        from scipy.linalg import eigh

        origin = np.average(centers, axis=0, weights=weights)
        if centers.shape[1] < 2 * n_components:
            return cls(origin, None)
        some, own_weights = robust.sample(centers, weights, max(robust.MAX_EXAMINED, 2 * n_components))
        moved = (some - origin) * np.sqrt(own_weights)[:, None]
        is_wide = len(moved) < moved.shape[1]
        products = moved @ moved.T if is_wide else moved.T @ moved
        last = len(products) - 1
        vectors = eigh(products, subset_by_index=(max(0, last + 1 - n_components), last))[1]
        if is_wide:  # v = M^T u / s gives right singular vectors from left ones; QR also where s is 0
            vectors = np.linalg.qr(moved.T @ vectors)[0]
        return cls(origin, vectors)

    def of_points(self, points: Array) -> Array:
        """Points in these components, (n_points, n_components)."""
        moved = points - self.origin
        return np.asarray(moved if self.directions is None else moved @ self.directions)


def swapped(points: Array, weights: Array, means: Array, n_jobs: int | None) -> Array:
    """Add means and drop as many, with Lloyd steps after both, as long as that lowers the weighted cost.

    The mean of `points` should be near zero, since distances lose precision far from it.
    """
    means, cost = robust.weighted_lloyd(points, weights, means, n_jobs)
    n_added = min(ADDED, len(means) - 1)
    # This ends: a turn that fails lowers n_added, so at most `ADDED` of them do; one that succeeds makes the cost less
    # than 1 - 1e-9 times what it was, so no clustering comes back. `MAX_SWAPS` bounds the time.
    for turn in range(MAX_SWAPS):
        if n_added == 0 or cost == 0:
            break
        more = _with_added(points, weights, means, n_added, turn, n_jobs)
        more, _ = robust.weighted_lloyd(points, weights, more, n_jobs, robust.SMALL_GAIN * cost)
        fewer = _without_least_missed(points, weights, more, len(means))
        fewer, lower = robust.weighted_lloyd(points, weights, fewer, n_jobs, robust.SMALL_GAIN * cost)
        if lower < cost * (1 - 1e-9):
            means, cost = fewer, lower
        else:
            n_added -= 1
    return means


def _with_added(points: Array, weights: Array, means: Array, n_added: int, turn: int, n_jobs: int | None) -> Array:
    """The means, and points that lower the weighted cost most, one after the other, of some that cost most."""
    costs = geometry.squares_to_own(points, means, geometry.nearest(points, means, n_jobs))
    draws = seeding.stratified(robust.fixed_uniforms(f"swap {turn}", CANDIDATES))
    candidates = np.unique(seeding.draw((costs * weights)[None], draws[None])[0])
    squares = _squares(points, points[candidates])
    chosen: list[int] = []
    for _ in range(min(n_added, len(candidates))):
        best = int((np.maximum(costs - squares, 0) @ weights).argmax())
        chosen.append(int(candidates[best]))
        costs = np.minimum(costs, squares[best])
    return np.concatenate([means, points[chosen]])


def _without_least_missed(points: Array, weights: Array, means: Array, n_kept: int) -> Array:
    """Drop means, each time the one whose points are nearly as close to the next mean: that raises the cost least."""
    squares, kept = _squares(points, means), np.ones(len(means), bool)
    two = _nearest_two(squares)
    for _ in range(len(means) - n_kept):
        # Without its mean a point goes to the next; all others stay. So with the other means where they are, the cost
        # rises by exactly the sum of w (d_2^2 - d_1^2) over the points of the mean that is dropped.
        nearest, second = np.take_along_axis(squares, two, axis=0)
        missed = np.bincount(two[0], weights * (second - nearest), minlength=len(means))
        dropped = int(np.where(kept, missed, np.inf).argmin())
        kept[dropped] = False
        squares[dropped] = np.inf
        changed = np.flatnonzero((two == dropped).any(axis=0))
        two[:, changed] = _nearest_two(squares[:, changed])
    return means[kept]


def _nearest_two(squares: Array) -> Array:
    """The nearest mean of each point, and the next, (2, n_points)."""
    two = np.argpartition(squares, 1, axis=0)[:2]
    near, next_ = np.take_along_axis(squares, two, axis=0)
    return np.where(near <= next_, two, two[::-1])


def _squares(points: Array, means: Array) -> Array:
    """Squared distances by a product, (n_means, n_points); rounding matters little where they are added up."""
    lifted = np.empty((1, points.shape[1] + 2, len(points)))
    lifted[0, :-2] = points.T
    return np.asarray(np.maximum(seeding.lifted_distances(seeding.lift(lifted), means[None])[0], 0))
