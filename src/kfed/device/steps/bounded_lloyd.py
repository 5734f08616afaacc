"""Step 4 of Algorithm 1 on one large device: Lloyd steps that skip the points that cannot change cluster."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from kfed._base.array import Array
from kfed.device.rows.blocked import BlockedRows
from kfed.device.rows.dense import DenseRows
from kfed.device.steps.lloyd import Solution, reseat_empty
from kfed.device.steps.lloyd_step import (
    FEW_CENTERS,
    label_dtype,
    means,
    memberships,
    scores,
    sums_by_label,
    sums_of_many,
    two_nearest,
    two_nearest_of_many,
)
from kfed.device.steps.near_moves import NearMoves


def bounded_lloyd(rows: BlockedRows, centers: Array, max_iterations: int) -> Solution:
    """Run Lloyd on one large device; a step skips the points that cannot change cluster, so late steps cost little.

    The bounds are those of Hamerly, "Making k-means even faster", SDM 2010, with the moves of near centers alone.
    """
    # The slack of x is |x - b| - |x - a| > 0, with a its own center and b the nearest other. When a moves by m_a and
    # every other center by at most m, then |x - a'| <= |x - a| + m_a, and |x - c'| >= |x - b| - m for every other c.
    # So x keeps its label while the sum of m_a + m over the steps is less than its slack (`NearMoves`: which centers
    # m has to be over). Bounds and running sums are rounded, so the end is not left to them: a step that looked at
    # every point must change nothing.
    state = _LloydState(rows, centers)
    n_iterations, looked_at_all, settled = 0, True, False
    for _ in range(max_iterations):
        changed = state.step()
        n_iterations += changed
        settled = not changed and looked_at_all
        if settled:
            break
        looked_at_all = not changed
        if looked_at_all:
            state.forget()
    return Solution(state.labels, state.exact_means(), np.array([n_iterations]), np.array([settled]))


@dataclass(frozen=True)
class _Change:
    """What a step did to a block of points."""

    sums: Array  # (1, n_clusters, n_features), what is added to the sums of the clusters
    sizes: Array  # (1, n_clusters)
    radii: Array  # (n_clusters,), the largest distance of the points that were looked at to their own center
    of_labels: bool


class _LloydState:
    """Labels of one device's points, sums of the points by label, and the slack of every point."""

    def __init__(self, rows: BlockedRows, centers: Array) -> None:
        self.rows, self.centers, self.n_clusters = rows, centers, centers.shape[1]
        self.labels = np.full((1, rows.n_points), -1, label_dtype(self.n_clusters))
        self.slack = np.full(rows.n_points, -1, rows.dtype)
        self.reach = np.sqrt(rows.squared_residuals(rows.mean[:, None], np.zeros_like(self.labels)))  # from the mean
        self.near_moves = NearMoves(centers[0])
        self.moved = np.zeros(self.n_clusters, rows.dtype)
        self.sums = np.zeros(centers.shape)
        self.sizes = np.zeros((1, self.n_clusters))

    def step(self) -> bool:
        """Take one Lloyd step; return whether it changed a label."""
        changes = self.rows.map_blocks(self._update)
        self.sums += np.sum([change.sums for change in changes], axis=0, dtype=np.float64)
        self.sizes += np.sum([change.sizes for change in changes], axis=0, dtype=np.float64)
        self.near_moves.widen(np.max([change.radii for change in changes], axis=0))
        if (self.sizes < 1e-9 * self.sizes.sum()).any():  # empty, except for rounding errors
            self.sums, self.sizes = self._exact_sums()
            if (self.sizes == 0).any() and reseat_empty(self.rows, self.centers, self.labels, self.n_clusters):
                self.forget()
                self.sums, self.sizes = self._exact_sums()
        self.centers = means(self.sums, self.sizes, self.centers)
        self.moved = self.near_moves.to(self.centers[0]).astype(self.rows.dtype)
        return any(change.of_labels for change in changes)

    def forget(self) -> None:
        """Discard the bounds, so that the next step looks at every point."""
        self.slack.fill(-1)
        self.near_moves = NearMoves(self.centers[0])

    def exact_means(self) -> Array:
        """Means by label, computed from the points, without the rounding errors of the running sums."""
        return means(*self._exact_sums(), self.centers)

    def _update(self, block: slice) -> _Change:
        """Assign the points of a block whose slack is used up."""
        labels, slack = self.labels[0, block], self.slack[block]
        slack -= self.moved.take(labels)
        open_points = np.flatnonzero(slack <= 0)
        part = self.rows.part(block).points_at(open_points)
        found, first, second = self._two_nearest(part)
        offset = self.reach[:, block][:, open_points] ** 2
        to_own = np.sqrt(np.maximum(first + offset, 0))
        reach = to_own + np.sqrt(np.maximum(second + offset, 0))
        # |x - b| - |x - a| as (|x - b|^2 - |x - a|^2) / (|x - b| + |x - a|): the difference of scores is precise
        with np.errstate(invalid="ignore"):  # with one cluster the slack is NaN, and never used up
            slack[open_points] = ((second - first) / np.maximum(reach, np.finfo(reach.dtype).tiny))[0]
        radii = np.zeros(self.n_clusters, to_own.dtype)
        np.maximum.at(radii, found[0].astype(np.intp), to_own[0])
        changed = np.flatnonzero(found[0] != labels[open_points])
        sums, sizes = self._moved_sums(part.points_at(changed), found[:, changed], labels[None, open_points[changed]])
        labels[open_points] = found[0]
        return _Change(sums, sizes, radii, len(changed) > 0)

    def _two_nearest(self, part: DenseRows) -> tuple[Array, Array, Array]:
        """Nearest center of each point, its score and the second smallest; see `scores`."""
        if self.n_clusters <= FEW_CENTERS:
            return two_nearest(scores(part, self.centers, self.rows.mean))
        shifted = self.centers[0] - self.rows.mean
        queries = np.concatenate([-2 * shifted.T, np.einsum("kd,kd->k", shifted, shifted)[None]])
        with_one = np.ones((part.n_points, part.n_features + 1), part.dtype)
        np.subtract(part.points[0], self.rows.mean, out=with_one[:, :-1])
        return two_nearest_of_many(with_one, queries)

    def _moved_sums(self, part: DenseRows, to: Array, away_from: Array) -> tuple[Array, Array]:
        """Changes of sums and sizes if the points of `part` join clusters and leave others (-1: none)."""
        if self.n_clusters <= FEW_CENTERS:
            joined = memberships(to, part.weights, self.n_clusters)
            joined -= memberships(away_from, part.weights, self.n_clusters)
            return part.total(joined), joined.sum(axis=2)
        had_one = away_from[0] >= 0
        points = np.concatenate([part.points[0], part.points[0, had_one]])
        weights = np.concatenate([part.weights[0], -part.weights[0, had_one]])
        return sums_of_many(points, np.concatenate([to[0], away_from[0, had_one]]), weights, self.n_clusters)

    def _exact_sums(self) -> tuple[Array, Array]:
        return sums_by_label(self.rows, self.labels, self.rows.weights, self.n_clusters)
