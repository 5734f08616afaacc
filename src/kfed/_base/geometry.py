"""Distances between points and centers: direct ones, and fast ones with a bound on their error.

The direct squared distance is the sum of squared differences in float64. A matrix product in the points' own dtype is
many times faster but rounds more. Its error has a bound, so comparisons within that bound are repeated more exactly, in
the end directly. The answers are those of the direct distances, on any machine and with any number of threads.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kfed._base import checks, pool

Points = NDArray[np.floating[Any]]
RowNumbers = NDArray[np.intp]

_DIRECT_ELEMENTS = 2**16  # differences held at once: half a megabyte
_TWICE_SQUARED = 4.001  # 2 ** 2, and a little for the rounding of direct distances
_BLOCK_ELEMENTS = 2**20  # coordinates, or products, that one worker holds at once: four megabytes in float32


def squared_distances(points: Points, centers: Points) -> NDArray[np.float64]:
    """Squared distances by direct differences in float64; every faster way here agrees with them.

    Each entry depends on its point and its center only, to the last bit.

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


def squares_to_own(points: Points, centers: Points, labels: RowNumbers) -> NDArray[np.float64]:
    """Squared distance of each point to the center of its label, (n_points,), in blocks that fit the cache."""
    squares = np.empty(len(points))
    for block in pool.blocks(len(points), rows_per_block(1, centers.shape[1])):
        differences = (points[block] - centers[labels[block]]).astype(np.float64)
        np.einsum("nf,nf->n", differences, differences, out=squares[block])
    return squares


def squared_norm(points: Any) -> float:
    """Sum of the squares of all numbers of a table, dense or sparse, in float64."""
    values = np.ravel(points.data if checks.is_sparse(points) else points).astype(np.float64)
    return float(values @ values)


class Near(NamedTuple):
    """For each point some center, not always the nearest, and an upper bound on its distance."""

    labels: NDArray[np.int32]  # (n_points,)
    upper: NDArray[np.float64]  # (n_points,), bounds on the squared distance

    def of(self, rows: RowNumbers | slice) -> Near:
        """The same for some points."""
        return Near(self.labels[rows], self.upper[rows])

    def put(self, rows: RowNumbers | slice, known: Near) -> None:
        """Replace what is known of some points."""
        self.labels[rows], self.upper[rows] = known

    def update(self, labels: RowNumbers | int, upper: Points) -> None:
        """Take over the centers whose bounds are lower; NaN never is."""
        is_nearer = upper < self.upper
        np.copyto(self.labels, labels, where=is_nearer, casting="same_kind")
        np.copyto(self.upper, upper, where=is_nearer)


def nearest(points: Points, centers: Points, n_jobs: int | None = None, near: Near | None = None) -> NDArray[np.intp]:
    """Index of the nearest center of each point, ties to the lowest: the argmin of `squared_distances`.

    One blocked matrix product. Points whose two best centers lie within its rounding are compared again: in float32
    by a product in float64, in float64 directly. A point that is known to be less than half as far from a center as
    that center is from every other one is not compared at all.

    Parameters
    ----------
    points : array of shape (n_points, n_features)
    centers : array of shape (n_centers, n_features), of the same dtype
    n_jobs : int, optional
        Number of threads, by default one per core. It does not change the answer.
    near : Near, optional
        What is known already. It does not change the answer.

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


def _unknown(near: Near, centers: Moved) -> RowNumbers:
    """Points whose nearest center does not follow from `near`.

    All points, if that is most of them or if there are so many centers that finding out takes as long.
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
    """Nearest centers by lower bounds, and for which points the answer is certain."""
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

    ``|x - c|^2 / 2 = |x|^2 / 2 + |c|^2 / 2 - x . c``: `half_norms` belong to the side that varies in a comparison,
    shaped to broadcast; those of the other side are the same for all that is compared, so they are left out. Where
    they are NaN the product may overflow; the caller silences that warning.
    """
    products: Points = left @ right.T  # (n_left, n_right)
    return np.subtract(half_norms, products, out=products)


class Moved(NamedTuple):
    """Points relative to an origin amid the data, where they are small and a product rounds little."""

    coordinates: Points  # (n_points, n_features)
    norms: Points  # (n_points,), squared; NaN where a product could overflow

    def margins(self) -> Points:
        """Each point's part of the error bound of a squared distance by product."""
        return margins(self.norms, self.coordinates.shape[1])

    def half_norms(self, side: int) -> Points:
        """Half norms minus (`side` -1) or plus (+1) the margin; distances from them are lower or upper bounds."""
        return (self.norms + side * self.margins()) / 2


def margins(norms: Points, n_features: int) -> Points:
    """Each point's part of the error bound of a squared distance by product, from its squared norm.

    In epsilons of the dtype, each two roundings: the inner product and the norms lose half of `n_features` each, the
    move and the sums a few, the direct distance `n_features` of float64. A tenth more covers terms of second order, and
    the smallest normal number covers underflow.
    """
    limits = np.finfo(norms.dtype)
    epsilon = float(limits.eps) + float(np.finfo(np.float64).eps)
    return np.asarray((1.1 * n_features + 16) * epsilon * norms + (n_features + 16) * limits.tiny)


def move(points: Points, origin: Points | None) -> Moved:
    """Points relative to an origin; a common offset, however large, costs no precision afterwards."""
    coordinates = shift(points, origin)
    norms = np.einsum("nf,nf->n", coordinates, coordinates)
    norms[norms > np.finfo(norms.dtype).max / 4] = np.nan
    return Moved(coordinates, norms)


def shift(points: Points, origin: Points | None) -> Points:
    """Coordinates relative to an origin; without one, the points themselves, which must not be written to."""
    if origin is None:
        return points
    with np.errstate(over="ignore"):  # then the norm overflows, too
        return points - origin


def origin_amid(points: Points) -> Points | None:
    """An origin near the points: the mean of a sample, or None if zero is near enough."""
    sample = points[:: 1 + len(points) // 256].astype(np.float64)
    mean = sample.mean(axis=0)
    is_far = mean @ mean > sample.var(axis=0).sum()
    return mean.astype(points.dtype) if is_far else None


def middle(points: Points) -> Points:
    """Mean of the points in their own dtype, for use as an origin."""
    mean: Points = points.mean(axis=0, dtype=np.float64).astype(points.dtype)
    return mean


def rows_per_block(n_centers: int, n_features: int) -> int:
    """Rows that a worker takes at a time: enough for a fast product, few enough for the cache."""
    return max(64, _BLOCK_ELEMENTS // max(n_centers, n_features))
