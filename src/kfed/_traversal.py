"""Farthest-first traversal (Algorithm 2, steps 3 to 6) that measures a row only when it could be the farthest.

M only grows, so the distance of a row to M only shrinks, and an old one is an upper bound. A row whose bound is
below the farthest distance cannot be the next pick, and may stay out of date. Only the *front* is kept up to date,
the rows whose bounds lie close under the highest: by matrix product, with a margin for its rounding. The few rows
that compete for a pick are *settled* by the textbook's distance, so the picks are the textbook's.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from kfed import _geometry, _pool
from kfed._geometry import Points

Rows = NDArray[np.intp]

_FIRST_DEPTH = 1 / 64  # how far the front reaches below the highest bound, as a share of it; adapts
_LEAST_DEPTH, _GREATEST_DEPTH = 2.0**-12, 1 / 4
_PART_ELEMENTS = 2**24  # coordinates that one worker searches for the front at a time


@dataclass(frozen=True)
class Traversal:
    """The rows of M in order, and how far from M each added one was.

    Attributes
    ----------
    picks : array of shape (n_picks,)
        Row indices: the start, then each pick.
    distances : array of shape (n_picks - n_start,)
        d_M of each pick when it was picked; never increasing.
    """

    picks: NDArray[np.intp]
    distances: NDArray[np.float64]


def farthest_first(points: Points, n_picks: int, start: Sequence[int] | Rows, n_jobs: int | None = None) -> Traversal:
    """Grow M from `start` to `n_picks` rows, each time by the row farthest from M, ties to the lowest index.

    Once all rows coincide with rows of M, the lowest rows not in M follow, at distance zero.

    Parameters
    ----------
    points : array of shape (n_points, n_features)
    n_picks : int
        The size of M to reach, from ``len(start)`` to `n_points`.
    start : sequence of int
        Distinct rows that M begins with: the centers of one device, Theta^(z).
    n_jobs : int, optional
        Number of threads, by default one per core. It does not change the answer.

    Examples
    --------
    >>> farthest_first(np.array([[0.0], [1.0], [9.0], [5.0]]), n_picks=3, start=[0])
    Traversal(picks=array([0, 2, 3]), distances=array([9., 4.]))
    """
    squared = np.empty(n_picks - len(start))
    with _pool.one_blas_thread():
        bounds = _Bounds(points, n_picks, np.asarray(start, dtype=np.intp), n_jobs)
        front = _Front(bounds, n_jobs)
        for step in range(len(squared)):
            row = front.farthest()
            squared[step] = bounds.upper[row]
            bounds.admit(np.array([row]))
    return Traversal(bounds.picks, np.sqrt(squared))


class _Front:
    """The rows whose bounds are at least the floor: the farthest is one of them, or the floor is too high."""

    def __init__(self, bounds: _Bounds, n_jobs: int | None) -> None:
        self._bounds = bounds
        self._n_jobs = n_jobs
        self._rows = np.empty(0, dtype=np.intp)  # ascending
        self._floor = np.inf
        self._depth = _FIRST_DEPTH

    def farthest(self) -> int:
        """Lowest of the rows farthest from M and not in it; its bound is then its squared distance."""
        self._keep_up()
        while True:
            while self._rows.size == 0:
                self._lower_floor()
            top = self._rows[self._bounds.upper[self._rows].argmax()]
            if self._bounds.settled[top]:
                return int(top)
            self._settle(top)

    def _keep_up(self) -> None:
        """Bring the front up to date; if that costs more than to look for a new one, make it shallower first."""
        upper = self._bounds.upper
        if self._rows.size * self._bounds.points.shape[1] > upper.size:
            self._depth = max(self._depth / 2, _LEAST_DEPTH)
            self._floor = max(self._floor, upper[self._rows].max() * (1 - self._depth))
        self._rows = self._above_floor(self._rows)
        if self._floor > 0:  # else all are zero and stay so
            self._bounds.refresh(self._rows)
        self._rows = self._above_floor(self._rows)

    def _lower_floor(self) -> None:
        """Look for a new front under the highest bound; if no row stays in it, look deeper the next time."""
        self._floor = self._bounds.upper.max() * (1 - self._depth)
        n_points, n_features = self._bounds.points.shape
        parts = _pool.blocks(n_points, max(1, _PART_ELEMENTS // n_features))
        self._rows = np.concatenate(list(_pool.map_in_order(self._search, parts, self._n_jobs)))
        if self._rows.size == 0:
            self._depth = min(self._depth * 2, _GREATEST_DEPTH)

    def _search(self, part: slice) -> Rows:
        rows = part.start + np.flatnonzero(self._bounds.upper[part] >= self._floor)
        self._bounds.refresh(rows)
        return self._above_floor(rows)

    def _above_floor(self, rows: Rows) -> Rows:
        return rows[self._bounds.upper[rows] >= self._floor]

    def _settle(self, top: np.intp) -> None:
        """Settle the top row, then the rows that may still be farther."""
        upper, settled = self._bounds.upper, self._bounds.settled
        self._bounds.settle(np.array([top]))
        self._bounds.settle(self._rows[(upper[self._rows] >= upper[top]) & ~settled[self._rows]])
        self._rows = self._above_floor(self._rows)


class _Bounds:
    """For each row, an upper bound on its squared distance to M, as of the time it was last refreshed."""

    def __init__(self, points: Points, n_picks: int, start: Rows, n_jobs: int | None) -> None:
        n_points, n_features = points.shape
        self.points = points
        self.upper = np.full(n_points, np.inf)
        self.settled = np.zeros(n_points, dtype=np.bool_)  # whether the bound is the textbook's distance
        self._seen = np.zeros(n_points, dtype=np.int32)  # how many picks it accounts for
        self.picks = np.empty(n_picks, dtype=np.intp)
        self._n_members = 0
        self._origin = _geometry.origin_amid(points)
        self._half_norms = np.empty(n_points, dtype=points.dtype)  # from the origin, with margin
        self._members = np.empty((n_picks, n_features), dtype=points.dtype)  # from the origin
        self._rows_per_block = _geometry.rows_per_block(1, n_features)
        self._half_norms[start] = _geometry.move(points[start], self._origin).half_norms(+1)
        self.admit(start)
        _pool.consume(_pool.map_in_order(self._open, _pool.blocks(n_points, self._rows_per_block), n_jobs))

    def _open(self, block: slice) -> None:
        """See a block for the first time: its norms, and its bounds to the start."""
        moved = _geometry.move(self.points[block], self._origin)
        self._half_norms[block] = moved.half_norms(+1)
        self._lower_bounds(block, moved.coordinates, 0)
        self._seen[block] = self._n_members

    def admit(self, rows: Rows) -> None:
        """Let rows into M, never to be picked again."""
        added = slice(self._n_members, self._n_members + len(rows))
        self.picks[added] = rows
        self._members[added] = _geometry.shift(self.points[rows], self._origin)
        self.upper[rows] = -1
        self._n_members = added.stop

    def refresh(self, rows: Rows) -> None:
        """Make bounds account for all of M."""
        stale = rows[self._seen[rows] < self._n_members]
        settled = self.settled[stale]
        self._update(self._measure, stale[settled])
        self._update(self._bound, stale[~settled])

    def settle(self, rows: Rows) -> None:
        """Replace bounds by the textbook's distances; from now on they are kept up as such."""
        self.upper[rows], self._seen[rows], self.settled[rows] = np.inf, 0, True
        self._update(self._measure, rows)

    def _update(self, kernel: Callable[[Rows, int], None], rows: Rows) -> None:
        """Run a kernel over rows, each time over those that miss more than half as many picks as the stalest."""
        while rows.size > 0:
            missing = self._n_members - self._seen[rows]
            most = int(missing.max())
            alike = missing > most // 2
            group = rows[alike]
            for block in _pool.blocks(len(group), self._rows_per_block):
                kernel(group[block], self._n_members - most)
            self._seen[group] = self._n_members
            rows = rows[~alike]

    def _bound(self, rows: Rows, first: int) -> None:
        """Account for the picks from `first` on by product."""
        self._lower_bounds(rows, _geometry.shift(self.points.take(rows, axis=0), self._origin), first)

    def _lower_bounds(self, rows: Rows | slice, coordinates: Points, first: int) -> None:
        members = slice(first, self._n_members)
        member_norms = self._half_norms[self.picks[members], np.newaxis]
        halves = _geometry.product_distances(self._members[members], coordinates, member_norms).min(axis=0)
        bounds = 2 * (halves + self._half_norms[rows])
        self.upper[rows] = np.fmin(self.upper[rows], bounds)  # where not a number, the old bound stands

    def _measure(self, rows: Rows, first: int) -> None:
        """Account for the picks from `first` on by the textbook's distance."""
        members = self.points[self.picks[first : self._n_members]]
        distances = _geometry.squared_distances(self.points[rows], members).min(axis=1)
        self.upper[rows] = np.minimum(self.upper[rows], distances)
