"""Distances between points and centers: the textbook's, and a fast one that knows how wrong it can be.

The textbook's squared distance is the sum of squared differences in float64. A matrix product in the points' own dtype
is many times faster but rounds; its error has a bound, so whatever it leaves undecided is asked of the textbook. The
answers are therefore the textbook's, bit for bit, on any machine and with any number of threads.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kfed import _pool

Points = NDArray[np.floating[Any]]

_DIRECT_ELEMENTS = 2**16  # differences held at once: half a megabyte
_BLOCK_ELEMENTS = 2**18  # points, or products, held at once by one worker: a megabyte in float32


def squared_distances(points: Points, centers: Points) -> NDArray[np.float64]:
    """Squared distances by direct differences in float64: what every faster answer here must agree with.

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
    for block in _pool.blocks(len(points), max(1, _DIRECT_ELEMENTS // max(1, centers.size))):
        differences = points[block, np.newaxis].astype(np.float64) - wide_centers
        np.einsum("ncf,ncf->nc", differences, differences, out=distances[block])
    return distances


def nearest(points: Points, centers: Points, n_jobs: int | None = None) -> NDArray[np.intp]:
    """Index of the nearest center of each point, ties to the lowest: the argmin of `squared_distances`.

    One blocked matrix product; only points whose two best centers lie within its rounding are measured directly.

    Parameters
    ----------
    points : array of shape (n_points, n_features)
    centers : array of shape (n_centers, n_features), of the same dtype
    n_jobs : int, optional
        Number of threads, by default one per core. It does not change the answer.

    Returns
    -------
    array of shape (n_points,)

    Examples
    --------
    >>> nearest(np.array([[0.0], [1.0], [2.0], [9.0]]), np.array([[0.0], [2.0]]))
    array([0, 0, 1, 1])
    """
    origin = middle(centers)
    moved_centers = move(centers, origin)
    labels = np.empty(len(points), dtype=np.intp)

    def label(block: slice) -> None:
        candidates, sure = _nearest_by_product(move(points[block], origin), moved_centers)
        unsure = np.flatnonzero(~sure)
        candidates[unsure] = squared_distances(points[block][unsure], centers).argmin(axis=1)
        labels[block] = candidates

    blocks = _pool.blocks(len(points), rows_per_block(*centers.shape))
    _pool.consume(_pool.map_in_order(label, blocks, n_jobs))
    return labels


def _nearest_by_product(points: Moved, centers: Moved) -> tuple[NDArray[np.intp], NDArray[np.bool_]]:
    """Nearest centers by lower bound, and for which points no other center can be as near."""
    bounds = half_bounds(points, centers, side=-1)
    labels = bounds.argmin(axis=1)
    rows = np.arange(len(labels))
    best = bounds[rows, labels]
    bounds[rows, labels] = np.inf
    gap = bounds.min(axis=1) - best
    return labels, gap > points.margins + centers.margins[labels]


class Moved(NamedTuple):
    """Points as seen from an origin amid the data, where they are small and a product rounds little."""

    points: Points  # (n_points, n_features)
    norms: Points  # (n_points,), squared; not a number where a product could overflow
    margins: Points  # (n_points,), what the point adds to the error of a squared distance by product


def middle(points: Points) -> Points:
    """Their mean in their own dtype, to serve as an origin."""
    return points.mean(axis=0, dtype=np.float64).astype(points.dtype)


def move(points: Points, origin: Points, rows: NDArray[np.intp] | None = None) -> Moved:
    """See points from an origin: a shared offset, however large, cancels here and costs no precision later.

    The margin counts epsilons of the dtype, each two rounding errors: the inner product and the norms lose half of
    `n_features` each, the move and the sums a few, and the textbook `n_features` of its own epsilon; a tenth covers
    terms of second order. What underflows is covered by the smallest normal number.
    """
    limits, n_features = np.finfo(points.dtype), points.shape[1]
    epsilons = (1.1 * n_features + 16) * (float(limits.eps) + float(np.finfo(np.float64).eps))
    with np.errstate(over="ignore", invalid="ignore"):
        moved = points - origin if rows is None else points.take(rows, axis=0) - origin
        norms = np.einsum("nf,nf->n", moved, moved)
    norms[norms > limits.max / 4] = np.nan
    return Moved(moved, norms, epsilons * norms + (n_features + 16) * limits.tiny)


def half_bounds(left: Moved, right: Moved, side: int) -> Points:
    """Half of each squared distance by one matrix product, never above (`side` -1) or below (+1) the textbook's.

    ``|x - c|^2 / 2 = |x|^2 / 2 + |c|^2 / 2 - x . c``, and the margins cover all that is lost on the way. Where a norm is
    not a number, so is the bound.
    """
    with np.errstate(over="ignore", invalid="ignore"):
        bounds: Points = left.points @ right.points.T  # (n_left, n_right)
    np.subtract((right.norms + side * right.margins) / 2, bounds, out=bounds)
    bounds += ((left.norms + side * left.margins) / 2)[:, np.newaxis]
    return bounds


def rows_per_block(n_centers: int, n_features: int) -> int:
    """Rows that one worker takes at a time: enough for a fast product, few enough for the cache."""
    return max(64, _BLOCK_ELEMENTS // max(n_centers, n_features))


def means_by_label(
    points: Points,
    labels: NDArray[np.intp],
    otherwise: Points,
    weights: NDArray[Any] | None = None,
    n_jobs: int | None = None,
) -> Points:
    """Mean of the points of each label, summed in float64; a label that no point has keeps its place in `otherwise`.

    Parameters
    ----------
    points : array of shape (n_points, n_features)
    labels : array of shape (n_points,)
    otherwise : array of shape (n_labels, n_features)
    weights : array of shape (n_points,), optional

    Examples
    --------
    >>> means_by_label(np.array([[0.0], [2.0], [9.0]]), np.array([0, 0, 2]), otherwise=np.array([[7.0], [7.0], [7.0]]))
    array([[1.],
           [7.],
           [9.]])
    """

    def of_block(block: slice) -> tuple[NDArray[np.intp], NDArray[np.float64]]:
        order = np.argsort(labels[block], kind="stable")
        present, starts = np.unique(labels[block][order], return_index=True)
        ordered = points[block][order].astype(np.float64)
        if weights is not None:
            ordered *= weights[block][order, np.newaxis]
        return present, np.add.reduceat(ordered, starts, axis=0)

    sums = np.zeros(otherwise.shape)
    blocks = _pool.blocks(len(points), rows_per_block(1, points.shape[1]))
    for present, partial in _pool.map_in_order(of_block, blocks, n_jobs):
        sums[present] += partial
    sizes = np.bincount(labels, weights=weights, minlength=len(otherwise))[:, np.newaxis]
    means = np.divide(sums, sizes, out=otherwise.astype(np.float64), where=sizes > 0)
    return means.astype(points.dtype)
