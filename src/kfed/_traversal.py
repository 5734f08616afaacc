"""Farthest-first traversal (Algorithm 2, steps 3 to 6) that measures a row only when it could be the farthest.

M only grows, so the distance of a row to M only shrinks, and an old one is an upper bound. A row whose bound is
below the farthest distance cannot be the next pick, and may stay out of date. Only the *front* is kept up to date,
the rows whose bounds lie close under the highest: by matrix product, with a margin for its rounding. The few rows
that compete for a pick are *settled* by the textbook's distance, so the picks are the textbook's.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from kfed import _geometry, _pool
from kfed._geometry import Points

Rows = NDArray[np.intp]

_FIRST_DEPTH = 1 / 32  # how far the front reaches below the highest bound, as a share of it; adapts
_LEAST_DEPTH, _GREATEST_DEPTH = 2.0**-12, 1 / 4
_FRONT_ELEMENTS = 2**16  # coordinates of a front that are little work in any case
_PART_ELEMENTS = 2**24  # coordinates that one worker searches for the front at a time
_expect_overflow = functools.partial(np.errstate, over="ignore", invalid="ignore")  # such a bound is not used


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
    with _pool.one_blas_thread(), _expect_overflow():
        bounds = _Bounds(points, n_picks, np.asarray(start, dtype=np.intp), n_jobs)
        front = _Front(bounds, n_jobs)
        for step in range(len(squared)):
            row = front.farthest()
            squared[step] = bounds.upper[row]
            bounds.admit(np.array([row]))
    return Traversal(bounds.picks, np.sqrt(squared))


class _Front:
    """The rows whose bounds were at least the floor: while one's still is, the farthest is among them."""

    def __init__(self, bounds: _Bounds, n_jobs: int | None) -> None:
        self._bounds = bounds
        self._n_jobs = n_jobs
        self._rows = np.zeros(1, dtype=np.intp)  # ascending, at least one; none is above an infinite floor
        self._floor = np.inf
        self._depth = _FIRST_DEPTH

    def farthest(self) -> np.intp:
        """Lowest of the rows farthest from M and not in it; its bound is then its squared distance."""
        bounds = self._bounds
        if self._floor > 0:  # else all bounds are zero and stay so
            bounds.refresh(self._rows)
        while True:
            top: np.intp = self._rows[bounds.upper[self._rows].argmax()]
            if bounds.upper[top] < self._floor:
                self._renew()
            elif bounds.is_settled(top):
                return top
            else:
                self._settle(top)

    def _renew(self) -> None:
        """Look for the rows close under the highest bound: deeper if none are, less deep if too many are."""
        upper, (n_points, n_features) = self._bounds.upper, self._bounds.points.shape
        self._rows = self._close_under_highest()
        while self._rows.size == 0:
            self._depth = min(self._depth * 2, _GREATEST_DEPTH)
            self._rows = self._close_under_highest()
        while self._rows.size * n_features > max(n_points, _FRONT_ELEMENTS) and self._depth > _LEAST_DEPTH:
            self._depth /= 2  # to keep them up would cost more than to look for others
            self._floor = max(self._floor, upper[self._rows].max() * (1 - self._depth))
            self._rows = self._above_floor(self._rows)

    def _close_under_highest(self) -> Rows:
        """Rows at least at a floor that is put close under the highest bound, once they are up to date."""
        n_points, n_features = self._bounds.points.shape
        self._floor = self._bounds.upper.max() * (1 - self._depth)
        parts = _pool.blocks(n_points, max(1, _PART_ELEMENTS // n_features))
        return np.concatenate(list(_pool.map_in_order(self._search, parts, self._n_jobs)))

    def _search(self, part: slice) -> Rows:
        rows = part.start + np.flatnonzero(self._bounds.upper[part] >= self._floor)
        with _expect_overflow():  # in a worker thread
            self._bounds.refresh(rows)
        return self._above_floor(rows)

    def _above_floor(self, rows: Rows) -> Rows:
        return rows[self._bounds.upper[rows] >= self._floor]

    def _settle(self, top: np.intp) -> None:
        """Settle the top row, then the rows that may still be farther."""
        self._bounds.settle(np.array([top]))
        upper = self._bounds.upper
        rivals = self._rows[upper[self._rows] >= upper[top]]
        if rivals.size > 1:
            self._bounds.settle(rivals)


class _Bounds:
    """For each row, an upper bound on its squared distance to M, as of the time it was last refreshed."""

    def __init__(self, points: Points, n_picks: int, start: Rows, n_jobs: int | None) -> None:
        n_points, n_features = points.shape
        self.points = points
        self.upper = np.full(n_points, np.inf)
        self.picks = np.empty(n_picks, dtype=np.intp)
        self._n_members = 0
        self._bounded = np.zeros(n_points, dtype=np.int32)  # how many picks the bound accounts for
        self._settled = np.zeros(n_points, dtype=np.int32)  # how many of them by the textbook's distance
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
        with _expect_overflow():  # in a worker thread
            self._lower_bounds(block, moved.coordinates, 0)
        self._bounded[block] = self._n_members

    def admit(self, rows: Rows) -> None:
        """Let rows into M, never to be picked again."""
        added = slice(self._n_members, self._n_members + len(rows))
        self.picks[added] = rows
        self._members[added] = _geometry.shift(self.points[rows], self._origin)
        self.upper[rows] = -1
        self._n_members = added.stop

    def refresh(self, rows: Rows) -> None:
        """Make bounds account for all of M, by product."""
        for group, first in self._missing_alike(rows, self._bounded):
            coordinates = _geometry.shift(self.points.take(group, axis=0), self._origin)
            self._lower_bounds(group, coordinates, first)

    def settle(self, rows: Rows) -> None:
        """Make bounds the textbook's distances to M."""
        for group, first in self._missing_alike(rows, self._settled):
            members = self.points[self.picks[first : self._n_members]]
            distances = _geometry.squared_distances(self.points[group], members).min(axis=1)
            self.upper[group] = np.minimum(self.upper[group], distances)

    def is_settled(self, row: np.intp) -> bool:
        """Whether the bound of a row is the textbook's distance to M."""
        return bool(self._settled[row] == self._n_members or self.upper[row] == 0)

    def _missing_alike(self, rows: Rows, seen: NDArray[np.int32]) -> Iterator[tuple[Rows, int]]:
        """Rows that have not seen all of M, together those that miss about as many picks, and the first pick missed."""
        while rows.size > 0 and (first := int(seen[rows].min())) < self._n_members:
            alike = seen[rows] <= (first + self._n_members - 1) // 2
            group, rows = rows[alike], rows[~alike]
            for block in _pool.blocks(group.size, self._rows_per_block):
                yield group[block], first
            seen[group] = self._n_members

    def _lower_bounds(self, rows: Rows | slice, coordinates: Points, first: int) -> None:
        members = slice(first, self._n_members)
        member_norms = self._half_norms[self.picks[members], np.newaxis]
        halves = _geometry.product_distances(self._members[members], coordinates, member_norms).min(axis=0)
        bounds = 2 * (halves + self._half_norms[rows])
        self.upper[rows] = np.fmin(self.upper[rows], bounds)  # where not a number, the old bound stands
