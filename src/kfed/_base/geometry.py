"""Distances between points and centers: the textbook's, and a fast one that knows how wrong it can be.

The textbook's squared distance is the sum of squared differences in float64. A matrix product in the points'
own dtype is many times faster but rounds; its error has a bound, so what it leaves undecided is asked again,
in the end of the textbook. The answers are the textbook's, on any machine and with any number of threads.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kfed._base import pool

Points = NDArray[np.floating[Any]]
Rows = NDArray[np.intp]

_DIRECT_ELEMENTS = 2**16  # differences held at once: half a megabyte
_TWICE_SQUARED = 4.001  # 2 ** 2, and a little for the textbook's rounding
_BLOCK_ELEMENTS = 2**20  # coordinates, or products, that one worker holds at once: four megabytes in float32


def squared_distances(points: Points, centers: Points) -> NDArray[np.float64]:
    """Squared distances by direct differences in float64: what every faster answer here agrees with.

    Each entry depends on its point and its center alone, to the last bit, whatever else is in the call.

    Parameters
    ----------
    points : array of shape (n_points, n_features)
    centers : array of shape (n_centers, n_features)

    Returns
    -------
    array of shape (n_points, n_centers)

    Examples
    --------
    >>> squared_distances(np.array([[0.0, 0.0], [3.0, 0.0]]), np.array([[0.0, 4.0]]))
    array([[16.],
           [25.]])
    """
    wide_centers = centers.astype(np.float64)
    distances = np.empty((len(points), len(centers)))
    for block in pool.blocks(len(points), max(1, _DIRECT_ELEMENTS // centers.size)):
        differences = points[block, np.newaxis].astype(np.float64) - wide_centers
        np.einsum("ncf,ncf->nc", differences, differences, out=distances[block])
    return distances


class Near(NamedTuple):
    """For each point a center, not always the nearest, and at most how far it is."""

    labels: NDArray[np.int32]  # (n_points,)
    upper: NDArray[np.float64]  # (n_points,), bounds on the squared distance

    def of(self, rows: Rows | slice) -> Near:
        """What is known of some points."""
        return Near(self.labels[rows], self.upper[rows])

    def put(self, rows: Rows | slice, known: Near) -> None:
        """Put other knowledge of some points in the place of this."""
        self.labels[rows], self.upper[rows] = known

    def update(self, labels: Rows | int, upper: Points) -> None:
        """Take over centers whose bounds are lower: not where they are not a number."""
        is_nearer = upper < self.upper
        np.copyto(self.labels, labels, where=is_nearer, casting="same_kind")
        np.copyto(self.upper, upper, where=is_nearer)


def nearest(points: Points, centers: Points, n_jobs: int | None = None, near: Near | None = None) -> NDArray[np.intp]:
    """Index of the nearest center of each point, ties to the lowest: the argmin of `squared_distances`.

    One blocked matrix product. Points whose two best centers lie within its rounding are asked again: those of
    float32 by a product in float64, those of float64 directly. A point known to be less than half as far from a center
    as every other center is needs no asking.

    Parameters
    ----------
    points : array of shape (n_points, n_features)
    centers : array of shape (n_centers, n_features), of the same dtype
    n_jobs : int, optional
        Number of threads, by default one per core. It does not change the answer.
    near : Near, optional
        What is known before. It does not change the answer.

    Returns
    -------
    array of shape (n_points,)

    Examples
    --------
    >>> nearest(np.array([[0.0], [1.0], [2.0], [9.0]]), np.array([[0.0], [2.0]]))
    array([0, 0, 1, 1])
    """
    origin = origin_amid(centers)
    moved_centers = move(centers, origin)
    labels = np.empty(len(points), dtype=np.intp) if near is None else near.labels.astype(np.intp)
    left = np.arange(len(points)) if near is None else _unknown(near, moved_centers)

    def label(block: slice) -> None:
        rows = block if left.size == len(points) else left[block]
        labels[rows], sure = _nearest_by_product(move(points[rows], origin), moved_centers)
        unsure = left[block][~sure]
        if unsure.size > 0:
            labels[unsure] = _nearest_more_exactly(points[unsure], centers)

    blocks = pool.blocks(left.size, rows_per_block(*centers.shape))
    pool.consume(pool.map_in_order(label, blocks, n_jobs))
    return labels


def _unknown(near: Near, centers: Moved) -> Rows:
    """Points for which some other center is not sure to be more than twice as far from the near one as the point is.

    If they are most, or centers are so many that to tell takes as long, all points.
    """
    # If |x - a| < |a - b| / 2, then |x - b| >= |a - b| - |x - a| > |x - a|: squared, 4 |x - a|^2 < |a - b|^2.
    n_points = len(near.labels)
    if 4 * len(centers.coordinates) > n_points:
        return np.arange(n_points)
    unknown = np.flatnonzero(~(_TWICE_SQUARED * near.upper < _gaps(centers)[near.labels]))
    return unknown if 2 * unknown.size < n_points else np.arange(n_points)


def _gaps(centers: Moved) -> Points:
    """Lower bounds on the squared distance of each center to the nearest other."""
    norms = centers.half_norms(-1)
    gaps = np.empty_like(norms)
    with np.errstate(over="ignore", invalid="ignore"):  # where a margin is not a number
        for block in pool.blocks(len(norms), rows_per_block(*centers.coordinates.shape)):
            halves = product_distances(centers.coordinates[block], centers.coordinates, norms)
            rows = np.arange(len(halves))
            halves[rows, block.start + rows] = np.inf
            gaps[block] = 2 * (halves.min(axis=1) + norms[block])
    return gaps


def _nearest_by_product(points: Moved, centers: Moved) -> tuple[NDArray[np.intp], NDArray[np.bool_]]:
    """Nearest centers by lower bounds, and for which points no other center can be as near."""
    with np.errstate(over="ignore", invalid="ignore"):  # where a margin is not a number
        bounds = product_distances(points.coordinates, centers.coordinates, centers.half_norms(-1))
        rows, labels = np.arange(len(bounds)), bounds.argmin(axis=1)
        best = bounds[rows, labels]
        bounds[rows, labels] = np.inf
        second = bounds[rows, bounds.argmin(axis=1)]
        return labels, second - best > points.margins() + centers.margins()[labels]


def _nearest_more_exactly(points: Points, centers: Points) -> NDArray[np.intp]:
    if points.dtype == np.float64:
        labels: NDArray[np.intp] = squared_distances(points, centers).argmin(axis=1)
        return labels
    return nearest(points.astype(np.float64), centers.astype(np.float64), n_jobs=1)


def product_distances(left: Points, right: Points, half_norms: Points) -> Points:
    """Half of each squared distance by one matrix product, less half the squared norm of one side.

    ``|x - c|^2 / 2 = |x|^2 / 2 + |c|^2 / 2 - x . c``: `half_norms` is of the side that varies in a comparison,
    shaped to broadcast; the other side's, the same for all that are compared, is left to the caller. Where they are
    not a number, the product may overflow: the caller says that this is expected.
    """
    products: Points = left @ right.T  # (n_left, n_right)
    return np.subtract(half_norms, products, out=products)


class Moved(NamedTuple):
    """Points as seen from an origin amid the data, where they are small and a product rounds little."""

    coordinates: Points  # (n_points, n_features)
    norms: Points  # (n_points,), squared; not a number where a product could overflow

    def margins(self) -> Points:
        """Share of each point in the error of a squared distance by product."""
        return margins(self.norms, self.coordinates.shape[1])

    def half_norms(self, side: int) -> Points:
        """Half norms less (`side` -1) or plus (+1) the margin, so that distances from them are sure bounds."""
        return (self.norms + side * self.margins()) / 2


def margins(norms: Points, n_features: int) -> Points:
    """Share of points with these squared norms in the error of a squared distance by product.

    It counts epsilons of the dtype, each two roundings: the inner product and the norms lose half of `n_features`
    each, the move and the sums a few, the textbook `n_features` of its own; a tenth more covers terms of second order,
    and the smallest normal number what underflows.
    """
    limits = np.finfo(norms.dtype)
    epsilon = float(limits.eps) + float(np.finfo(np.float64).eps)
    return np.asarray((1.1 * n_features + 16) * epsilon * norms + (n_features + 16) * limits.tiny)


def move(points: Points, origin: Points | None) -> Moved:
    """See points from an origin: an offset that they share, however large, costs no precision afterwards."""
    coordinates = shift(points, origin)
    norms = np.einsum("nf,nf->n", coordinates, coordinates)
    norms[norms > np.finfo(norms.dtype).max / 4] = np.nan
    return Moved(coordinates, norms)


def shift(points: Points, origin: Points | None) -> Points:
    """Coordinates of points as seen from an origin, or as they are, and then not to be written to."""
    if origin is None:
        return points
    with np.errstate(over="ignore"):  # then the norm overflows too
        return points - origin


def origin_amid(points: Points) -> Points | None:
    """Where points look small from: the mean of a sample, or where they are seen from already if that is near it."""
    sample = points[:: 1 + len(points) // 256].astype(np.float64)
    mean = sample.mean(axis=0)
    is_far = mean @ mean > sample.var(axis=0).sum()
    return mean.astype(points.dtype) if is_far else None


def middle(points: Points) -> Points:
    """Mean of points in their own dtype, to serve as an origin."""
    mean: Points = points.mean(axis=0, dtype=np.float64).astype(points.dtype)
    return mean


def rows_per_block(n_centers: int, n_features: int) -> int:
    """Rows that a worker takes at a time: enough for a fast product, few enough for the cache."""
    return max(64, _BLOCK_ELEMENTS // max(n_centers, n_features))
