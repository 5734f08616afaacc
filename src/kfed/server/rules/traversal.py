"""Farthest-first traversal (Algorithm 2, steps 3 to 6) that measures a row only when it could be the farthest.

Why it is exact. M only grows, so d_M(x) = min over m in M of |x - m| never increases, and a value measured earlier is
an upper bound: d_M(x) <= upper(x). Let x be a row whose distance is up to date with lower(x) <= d_M(x). Every row y
with upper(y) < lower(x) has d_M(y) < d_M(x), so it is not the next pick, and its bound may stay out of date. Only the
*front* is kept up to date: the rows with upper(y) >= floor, a little below the highest bound. While some row of the
front is still at or above the floor, the farthest row is in the front.

Bounds come from a matrix product, whose error is at most e (`geometry.margins`): upper = product + e, and
lower = upper - 2e or less. Rows that cannot be told apart within that margin are *settled*: measured by the textbook's
sum of squared differences. So picks and ties are the textbook's, to the last bit.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from kfed._base import geometry, pool
from kfed._base.geometry import Near, Points, RowNumbers

_FIRST_DEPTH = 1 / 16  # how far the front reaches below the highest bound, as a share of it; adapts
_LEAST_DEPTH, _GREATEST_DEPTH = 2.0**-12, 1 / 4
_FRONT_ELEMENTS = 2**17  # coordinates of a front that are little work in any case
_PART_ELEMENTS = 2**25  # coordinates that one worker searches for the front at a time: smaller parts take longer in all
_SETTLED_TOGETHER = 64  # picks
_SEARCHED_VALUES = 2**13  # above this size a matrix product finds the smallest of each column faster
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
    near : Near
        For each row, which of the picks was seen to be near, and how near: it spares an assignment much of its work.
    """

    picks: NDArray[np.intp]
    distances: NDArray[np.float64]
    near: Near = field(repr=False)


def farthest_first(
    points: Points, n_picks: int, start: Sequence[int] | RowNumbers, n_jobs: int | None = None
) -> Traversal:
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
    with pool.one_blas_thread(), _expect_overflow():
        bounds = _UpperBounds(points, n_picks, np.asarray(start, dtype=np.intp), n_jobs)
        front = _Front(bounds, n_jobs)
        squared = np.array([front.admit_farthest() for _ in range(n_picks - len(start))])
    near = Near(bounds.near.labels, np.maximum(bounds.near.upper, 0))
    return Traversal(bounds.picks, np.sqrt(_settled(squared, points[bounds.picks])), near)


def _settled(squared: NDArray[np.float64], members: Points) -> NDArray[np.float64]:
    """Squared distances of the last members to those before them, measured where they are not a number."""
    unknown = np.flatnonzero(np.isnan(squared))
    for block in pool.blocks(len(unknown), _SETTLED_TOGETHER):
        orders = len(members) - len(squared) + unknown[block, np.newaxis]
        distances = geometry.squared_distances(members[orders[:, 0]], members[: orders[-1, 0]])
        distances[np.arange(distances.shape[1]) >= orders] = np.inf
        squared[unknown[block]] = distances.min(axis=1)
    return squared


class _Front:
    """The rows whose bounds were at least the floor: while one's still is, the farthest is among them."""

    def __init__(self, bounds: _UpperBounds, n_jobs: int | None) -> None:
        self._bounds = bounds
        self._n_jobs = n_jobs
        self._depth = _FIRST_DEPTH
        self._floor = np.inf
        self._look_at(np.empty(0, dtype=np.intp))

    def admit_farthest(self) -> float:
        """Add the farthest row to M (lowest index on ties); return its squared distance, NaN if only bounded."""
        place, lower = self._farthest()
        squared = lower if lower == self._near.upper[place] else np.nan
        newest = self._bounds.n_members
        self._bounds.admit(self._rows[[place]])
        self._near.labels[place], self._near.upper[place] = newest, -1
        if self._floor > 0:  # else all bounds are zero and stay so
            self._near.update(*self._bounds.by_product(self._coordinates, self._half_norms, first=newest))
        return squared

    def _farthest(self) -> tuple[np.intp, float]:
        """Place of the farthest row in the front, and a lower bound on its squared distance."""
        while True:
            place, highest = self._highest()
            lower = self._bounds.lower(self._rows[place], highest)
            are_rivals = ~(self._near.upper < lower)
            if highest == 0 or (lower >= self._floor and np.count_nonzero(are_rivals) == 1):
                return place, lower
            rivals = np.flatnonzero(are_rivals)
            if self._bounds.are_settled(self._rows[rivals]):
                return place, lower
            self._settle(rivals)

    def _highest(self) -> tuple[np.intp, float]:
        """Place of the highest bound in the front, which is renewed unless that is the highest of all rows."""
        while True:
            if self._rows.size > 0:
                place: np.intp = self._near.upper.argmax()
                highest = float(self._near.upper[place])
                if highest >= self._floor:
                    return place, highest
            self._renew()

    def _settle(self, places: RowNumbers) -> None:
        rows = self._rows[places]
        self._bounds.note(rows, self._near.of(places))
        self._bounds.settle(rows)
        self._near.put(places, self._bounds.near.of(rows))

    def _renew(self) -> None:
        """Choose a new front: rows close under the highest bound, deeper if there are none, less deep if too many."""
        self._bounds.note(self._rows, self._near)
        upper, (n_points, n_features) = self._bounds.near.upper, self._bounds.points.shape
        rows = self._close_under_highest()
        while rows.size == 0:
            self._depth = min(self._depth * 2, _GREATEST_DEPTH)
            rows = self._close_under_highest()
        while rows.size * n_features > max(n_points, _FRONT_ELEMENTS) and self._depth > _LEAST_DEPTH:
            self._depth /= 2  # keeping this many rows up to date costs more than a new search
            self._floor = max(self._floor, upper[rows].max() * (1 - self._depth))
            rows = self._above_floor(rows)
        self._look_at(rows)

    def _look_at(self, rows: RowNumbers) -> None:
        self._rows = rows  # ascending
        self._near = self._bounds.near.of(rows)
        if self._floor > 0:
            self._coordinates, self._half_norms = self._bounds.coordinates(rows), self._bounds.half_norms[rows]

    def _close_under_highest(self) -> RowNumbers:
        """Set the floor close under the highest bound; return the rows above it once they are up to date."""
        n_points, n_features = self._bounds.points.shape
        self._floor = self._bounds.near.upper.max() * (1 - self._depth)
        parts = pool.blocks(n_points, max(1, _PART_ELEMENTS // n_features))
        return np.concatenate(list(pool.map_in_order(self._search, parts, self._n_jobs)))

    def _search(self, part: slice) -> RowNumbers:
        rows = part.start + np.flatnonzero(self._bounds.near.upper[part] >= self._floor)
        with _expect_overflow():  # in a worker thread
            self._bounds.refresh(rows)
        return self._above_floor(rows)

    def _above_floor(self, rows: RowNumbers) -> RowNumbers:
        return rows[self._bounds.near.upper[rows] >= self._floor]


class _UpperBounds:
    """For each row, a near row of M and an upper bound on the squared distance to it, as of when it was refreshed."""

    def __init__(self, points: Points, n_picks: int, start: RowNumbers, n_jobs: int | None) -> None:
        n_points, n_features = points.shape
        self.points = points
        self.near = Near(np.zeros(n_points, dtype=np.int32), np.full(n_points, np.inf))
        self.half_norms = np.empty(n_points, dtype=points.dtype)  # from the origin, with margin
        self.picks = np.empty(n_picks, dtype=np.intp)
        self.n_members = 0
        self._bounded = np.zeros(n_points, dtype=np.int32)  # how many picks the bound accounts for
        self._settled = np.zeros(n_points, dtype=np.int32)  # how many of them by the textbook's distance
        self._origin = geometry.origin_amid(points)
        self._members = np.empty((n_picks, n_features), dtype=points.dtype)  # from the origin
        self._member_norms = np.empty((n_picks, 1), dtype=points.dtype)
        self._rows_per_block = geometry.rows_per_block(1, n_features)
        self.half_norms[start] = geometry.move(points[start], self._origin).half_norms(+1)
        self.admit(start)
        pool.consume(pool.map_in_order(self._open, pool.blocks(n_points, self._rows_per_block), n_jobs))
        largest_norm = 2 * self.half_norms.max(keepdims=True)
        self._error = 4 * float(geometry.margins(largest_norm, n_features)[0])  # of a bound up to date

    def _open(self, block: slice) -> None:
        """Compute the norms of a block, and its bounds to the start of M."""
        moved = geometry.move(self.points[block], self._origin)
        self.half_norms[block] = moved.half_norms(+1)
        with _expect_overflow():  # in a worker thread
            self.near.of(block).update(*self.by_product(moved.coordinates, self.half_norms[block], first=0))
        self._bounded[block] = self.n_members

    def admit(self, rows: RowNumbers) -> None:
        """Add rows to M; they are never picked again."""
        added = slice(self.n_members, self.n_members + len(rows))
        self.picks[added] = rows
        self._members[added] = self.coordinates(rows)
        self._member_norms[added, 0] = self.half_norms[rows]
        self.near.labels[rows] = np.arange(added.start, added.stop)
        self.near.upper[rows] = -1
        self.n_members = added.stop

    def coordinates(self, rows: RowNumbers) -> Points:
        """Coordinates of rows relative to the origin."""
        return geometry.shift(self.points.take(rows, axis=0), self._origin)

    def by_product(self, coordinates: Points, half_norms: Points, first: int) -> tuple[RowNumbers | int, Points]:
        """For each row the nearest of the members from the first given one on, by bounds, and its bound."""
        members = slice(first, self.n_members)
        halves = geometry.product_distances(self._members[members], coordinates, self._member_norms[members])
        places, smallest = _argmin_and_min(halves)
        return first + places, 2 * (smallest + half_norms)

    def refresh(self, rows: RowNumbers) -> None:
        """Bring bounds up to date with all of M, by matrix product."""
        for group, first in self._missing_alike(rows, self._bounded):
            self._update(group, *self.by_product(self.coordinates(group), self.half_norms[group], first))

    def note(self, rows: RowNumbers, near: Near) -> None:
        """Store bounds that are up to date with all of M."""
        self.near.put(rows, near)
        self._bounded[rows] = self.n_members

    def lower(self, row: np.intp, upper: float) -> float:
        """Lower bound on the squared distance of a row to M, given its up-to-date upper bound; NaN if unknown."""
        is_settled = upper == 0 or self._settled[row] == self.n_members
        return upper if is_settled else upper - self._error

    def are_settled(self, rows: RowNumbers) -> bool:
        """Whether bounds of rows are the textbook's distances to M."""
        return bool((self._settled[rows] == self.n_members).all())

    def settle(self, rows: RowNumbers) -> None:
        """Make bounds the textbook's distances to M."""
        for group, first in self._missing_alike(rows, self._settled):
            members = self.points[self.picks[first : self.n_members]]
            distances = geometry.squared_distances(self.points[group], members)
            self._update(group, first + distances.argmin(axis=1), distances.min(axis=1))

    def _update(self, rows: RowNumbers, members: RowNumbers | int, upper: Points) -> None:
        near = self.near.of(rows)
        near.update(members, upper)
        self.near.put(rows, near)

    def _missing_alike(self, rows: RowNumbers, seen: NDArray[np.int32]) -> Iterator[tuple[RowNumbers, int]]:
        """Groups of rows whose bounds miss about equally many picks, each with the first pick that is missed."""
        while rows.size > 0 and (first := int(seen[rows].min())) < self.n_members:
            alike = seen[rows] <= (first + self.n_members - 1) // 2
            group, rows = rows[alike], rows[~alike]
            for block in pool.blocks(group.size, self._rows_per_block):
                yield group[block], first
            seen[group] = self.n_members


def _argmin_and_min(values: Points) -> tuple[RowNumbers | int, Points]:
    """Position and value of the smallest entry in each column; overwrites `values`."""
    if len(values) == 1:
        return 0, values[0]
    if values.size <= _SEARCHED_VALUES:
        return values.argmin(axis=0), values.min(axis=0)
    smallest = values.min(axis=0)
    marks = np.equal(values, smallest, out=values)
    weights = np.ones((2, len(values)), dtype=values.dtype)
    weights[1] = np.arange(len(values))
    n_marks, places = weights @ marks
    several = np.flatnonzero(n_marks != 1)
    places[several] = marks[:, several].argmax(axis=0)
    return places.astype(np.intp), smallest
