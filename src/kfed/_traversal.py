"""Farthest-first traversal (steps 3 to 6 of Algorithm 2), where a point is measured only when it could be the farthest.

The set M only grows, so a distance to M only shrinks: an old one is an upper bound. A point whose bound is below the
farthest distance cannot be the next pick and may stay out of date. Only the *front*, the rows whose bounds are close
under the highest, is kept up to date, by matrix product with a rounding margin; the few rows that compete for the pick
are *settled* by the textbook's distance. The picks are the textbook's, for far fewer than its O(n k^2) distances.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from kfed import _geometry, _pool
from kfed._geometry import Moved, Points

Rows = NDArray[np.intp]

_FRONT_DEPTH = 1 / 64  # the front reaches down to this share below the highest bound
_DEEPEST = 1 / 2


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


def farthest_first(
    points: Points, n_picks: int, start: Sequence[int] | NDArray[np.intp], n_jobs: int | None = None
) -> Traversal:
    """Grow M from `start` to `n_picks` rows, each time by the row farthest from M, ties to the lowest index.

    When every row left coincides with one of M, the lowest row not in M is next, at distance zero.

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
    distances = np.zeros(n_picks - len(start))
    with _pool.one_blas_thread():
        bounds = _Bounds(points, n_picks, start, n_jobs)
        for step in range(len(distances)):
            row = bounds.farthest()
            distances[step] = np.sqrt(bounds.upper[row])
            bounds.admit([row])
    return Traversal(np.array(bounds.picks, dtype=np.intp), distances)


class _Bounds:
    """Upper bounds on each row's squared distance to M, brought up to date where the farthest row may be."""

    def __init__(self, points, n_picks, start, n_jobs) -> None:
        n_points, n_features = points.shape
        self._points = points
        self._n_jobs = n_jobs
        self._rows_per_block = _geometry.rows_per_block(1, n_features)
        self._origin = _geometry.middle(points[start])
        self.picks: list[int] = []
        self.upper = np.full(n_points, np.inf)
        self._seen = np.zeros(n_points, dtype=np.min_scalar_type(n_picks))  # how many of M the bound accounts for
        self._settled = np.zeros(n_points, dtype=np.bool_)  # the bound is the textbook's distance to those
        self._front = np.empty(0, dtype=np.intp)  # all rows whose bound is at least the floor, in order
        self._floor = np.inf
        self._depth = _FRONT_DEPTH
        self._served=1
        self.admit(start)

    def admit(self, rows: Sequence[int] | NDArray[np.intp]) -> None:
        """Let rows into M; they are never picked again."""
        self.picks.extend(int(row) for row in rows)
        self.upper[rows] = -1
        self._members = _geometry.move(self._points[self.picks], self._origin)

    def farthest(self) -> int:
        """Return the lowest row not in M with the largest distance to M; its bound is then that distance, squared."""
        parts = [self._front[b] for b in _pool.blocks(len(self._front), PART * self._rows_per_block)]
        self._front = self._collect(self._refresh, parts)
        while True:
            if self._front.size == 0:
                self._lower_floor()
                continue
            top = self._front[self.upper[self._front].argmax()]
            if self._settled[top]:
                self._served+=1
                return int(top)
            self._settle(top)

    def _lower_floor(self) -> None:
        """Take into the front what lies at most `depth` below the highest bound of all."""
        STAT['descend']=STAT.get('descend',0)+1
        if self._served==0: self._depth=min(.5,self._depth*2)
        elif self._served>ADAPT: self._depth/=2
        self._served=0
        self._floor = self.upper.max() * (1 - self._depth)
        n=len(self.upper)
        self._front = self._collect(self._sweep, _pool.blocks(n, -(-n//CHUNKS)))

    def _collect(self, function, parts):
        if not parts: return self._front
        return np.concatenate(list(_pool.map_in_order(function, parts, self._n_jobs)))

    def _sweep(self, part: slice):
        return self._refresh(part.start + np.flatnonzero(self.upper[part] >= self._floor))

    def _refresh(self, rows):
        """Bring the front up to date with M, and let go the rows that fall below the floor."""
        stale = rows[self._seen[rows] < len(self.picks)]
        settled = self._settled[stale]
        self._update(self._measure, stale[settled])
        self._update(self._bound, stale[~settled])
        return rows[self.upper[rows] >= self._floor]

    def _settle(self, top: np.intp) -> None:
        """Measure the top row, then all rows of the front that still compete with it."""
        self._remeasure(np.array([top]))
        rivals = self._front[self.upper[self._front] >= self.upper[top]]
        self._remeasure(rivals[~self._settled[rivals]])
        self._front = self._front[self.upper[self._front] >= self._floor]

    def _remeasure(self, rows: NDArray[np.intp]) -> None:
        """Replace bounds by the textbook's distances to all of M."""
        self.upper[rows], self._seen[rows], self._settled[rows] = np.inf, 0, True
        self._update(self._measure, rows)

    def _update(self, kernel: Callable[[Rows, int], None], rows: NDArray[np.intp]) -> None:
        """Run a kernel on rows, in blocks of rows that are about equally stale, from their first unseen pick on."""
        if not rows.size: return
        STAT['touch']=STAT.get('touch',0)+rows.size
        STAT['update']=STAT.get('update',0)+1
        rows = rows[np.argsort(self._seen[rows], kind="stable")]
        for b in _pool.blocks(len(rows), self._rows_per_block):
            block=rows[b]
            kernel(block, int(self._seen[block[0]]))

    def _bound(self, rows: Rows, first: int) -> None:
        """Lower the bounds by product with the picks from `first` on."""
        STAT['pairs']=STAT.get('pairs',0)+rows.size*(len(self.picks)-first)
        block = _geometry.move(self._points, self._origin, rows)
        members = Moved(*(field[first:] for field in self._members))
        bounds = 2 * _geometry.half_bounds(members, block, side=+1).min(axis=0)
        self.upper[rows] = np.fmin(self.upper[rows], bounds)  # not a number: keep the old bound
        self._seen[rows] = len(self.picks)

    def _measure(self, rows: Rows, first: int) -> None:
        """Lower the settled distances by the textbook's to the picks from `first` on."""
        distances = _geometry.squared_distances(self._points.take(rows,axis=0), self._points[self.picks[first:]])
        self.upper[rows] = np.minimum(self.upper[rows], distances.min(axis=1))
        self._seen[rows] = len(self.picks)
STAT={}
ADAPT=3
PART=4
CHUNKS=8
