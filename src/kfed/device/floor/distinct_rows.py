"""Which clusters hold enough different rows, or rows of enough different people, to be sent at all.

Copies of one row, and rows that differ by rounding alone, count once: one patient entered three times
is no crowd to hide in. Where the caller says whose a row is, different ids are counted instead.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

from kfed._base import pool
from kfed._base.array import Array
from kfed.device.rows.dense import DenseRows
from kfed.device.rows.rows import Rows

ALIKE = 2.0**-18
"""Rows are alike if no value differs by more than this share of the largest of its column, judged by a few; 4e-6."""

CLOSE = 2.0**-10
"""In a column whose values all lie close together, far from zero, rows are alike up to this share of their range.

So only a range below ``ALIKE / CLOSE``, 0.4 %, of the largest value makes a difference.
"""

MANY = 10
"""So many times as many rows must differ where a column lies so close: fewer may be one row, rounded in some ways."""

CELLS_AT_ONCE = 2**22


def have_enough_rows(rows: Rows, centers: Array, labels: Array, asked: Array, least: int) -> npt.NDArray[np.bool_]:
    """Tell which of the `asked` clusters hold at least `least` different rows, (n_devices, n_clusters)."""
    n_clusters = centers.shape[1]
    some = _first(rows, n_judged_by(rows.n_points, least, n_clusters))
    tolerances = tolerances_of(some, centers)
    is_there = rows.weights > 0
    few = slice(some.shape[1])
    enough = _told_by_sums(some, labels[:, few], is_there[:, few], tolerances, n_clusters, least)
    if isinstance(rows, DenseRows):
        left = np.flatnonzero((asked & ~enough).any(axis=1))
        points = rows.points[left]
        enough[left] |= _told_by_sums(points, labels[left], is_there[left], tolerances[left], n_clusters, least)
    for device in np.flatnonzero((asked & ~enough).any(axis=1)):
        own = rows.select(slice(device, device + 1))
        within = np.concatenate([some[device][is_there[device, few]], centers[device]])  # means lie among their points
        close = _close_tolerances(own, within, tolerances[device])
        for cluster in np.flatnonzero(asked[device] & ~enough[device]):
            members = np.flatnonzero((labels[device] == cluster) & is_there[device])
            enough[device, cluster] = _are_many(own, members, tolerances[device], least) or (
                close is not None and _are_many(own, members, close, MANY * max(least, 3))
            )
    return np.asarray(enough & asked)


def n_judged_by(n_rows: int, least: int, n_clusters: int) -> int:
    """How many of the first rows of a device tolerances are judged by."""
    return min(n_rows, 2 * least * n_clusters + 8)


def tolerances_of(some: Array, centers: Array) -> Array:
    """How far values of each column may differ in rows that are alike, (..., n_features), judged by some rows."""
    return np.asarray(ALIKE * np.maximum(np.abs(some[..., ::4, :]).max(axis=-2), np.abs(centers).max(axis=-2)))


def are_outweighed(totals: Array, heaviest: Array, least: int) -> npt.NDArray[np.bool_]:
    """Which sums of weights are zero, or more than 1 / `least` of them the weight of a single row.

    The bound is lowered a little, since a sum of m equal weights may fall short of m times the weight by rounding.
    """
    return np.asarray((totals == 0) | (totals < (least - min(1e-6 * least, 0.5)) * heaviest))


def _first(rows: Rows, n_points: int) -> Array:
    """The first points of each device, (n_devices, n_points, n_features)."""
    if isinstance(rows, DenseRows):
        return np.asarray(rows.points[:, :n_points])
    return rows.take(np.arange(n_points)[None])


def _told_by_sums(
    points: Array, labels: Array, is_there: Array, tolerances: Array, n_clusters: int, least: int
) -> npt.NDArray[np.bool_]:
    """Tell which clusters hold enough different rows by a sum of the columns of these rows; the others may, too."""
    # If |sum_j u_j (a_j - b_j) / t_j| > sum_j u_j, then |a_j - b_j| > t_j for some j: the rows are not alike.
    factors = 0.5 + np.modf(np.arange(1, points.shape[2] + 1) * 0.6180339887498949)[0]
    scaled = np.divide(factors, tolerances, out=np.zeros(tolerances.shape), where=tolerances > 0)
    with np.errstate(invalid="ignore"):  # BLAS at times reports what it met in memory beyond the few numbers
        sums = np.matmul(points, scaled.astype(points.dtype)[:, :, None])[:, :, 0]
    clusters = np.arange(n_clusters, dtype=labels.dtype)
    nothing = sums.dtype.type(-np.inf)
    own = np.where((labels[:, None] == clusters[:, None]) & is_there[:, None], sums[:, None], nothing)
    apart = sums.dtype.type(factors.sum())
    for _ in range(least - 1):
        own = np.where(own < own.max(axis=2, keepdims=True) - apart, own, nothing)
    return np.asarray(own.max(axis=2) > nothing)


def _close_tolerances(rows: Rows, within: Array, tolerances: Array) -> Array | None:
    """Tolerances of one device by the ranges of its columns; None if none is small, as places within them may tell."""
    low, high = within.min(axis=0), within.max(axis=0)
    for block in pool.blocks(rows.n_points, _rows_at_once(rows)):
        if (CLOSE * (high - low) >= tolerances).all():
            return None
        members = np.flatnonzero(rows.weights[0, block] > 0) + block.start
        points = np.concatenate([low[None], high[None], rows.take(members[None])[0]])
        low, high = points.min(axis=0), points.max(axis=0)
    rounding = 8 * np.finfo(rows.dtype).eps / ALIKE * tolerances
    return np.asarray(np.minimum(tolerances, np.maximum(CLOSE * (high - low), rounding)))


def _rows_at_once(rows: Rows) -> int:
    return max(1, min(2**12, CELLS_AT_ONCE // rows.n_features))


def _are_many(rows: Rows, members: Array, tolerances: Array, least: int) -> bool:
    """Whether the members of one cluster are at least so many different rows."""
    blocks = pool.blocks(len(members), _rows_at_once(rows))
    return are_many((rows.take(members[None, block])[0] for block in blocks), tolerances, least)


def are_many(blocks: Iterable[Array], tolerances: Array, least: int) -> bool:
    """Whether the rows of all blocks, NaN where a cell is missing, hold at least so many that differ from each other.

    Two rows differ if they do so in a cell that both have. A row is kept if it differs from all that were kept before.
    Copies of one row never differ, whichever of their cells are missing, so no two rows that are kept are copies of
    one. Another order might keep more rows: then more is withheld than must be, never less.
    """
    kept: list[Array] = []
    for left in blocks:
        for known in kept:
            left = _unlike(left, known, tolerances)
        while len(left) and len(kept) < least:
            kept.append(left[0])
            left = _unlike(left, left[0], tolerances)
        if len(kept) >= least:
            return True
    return False


def _unlike(rows: Array, row: Array, tolerances: Array) -> Array:
    return np.asarray(rows[(np.abs(rows - row) > tolerances).any(axis=1)])  # no comparison with NaN is true


def have_enough_ids(ids: Array, weights: Array, labels: Array, n_clusters: int, least: int) -> npt.NDArray[np.bool_]:
    """Tell which clusters of one device hold at least `least` ids, none with more than half of it, (n_clusters,).

    Parameters
    ----------
    ids : array of int, shape (n_points,)
        Whose row it is: 0, 1, ...
    """
    pairs, position = np.unique(labels.astype(np.int64) * (int(ids.max()) + 1) + ids, return_inverse=True)
    mass = np.bincount(position, weights, minlength=len(pairs))
    clusters = pairs // (int(ids.max()) + 1)
    n_ids = np.bincount(clusters[mass > 0], minlength=n_clusters)
    total = np.bincount(clusters, mass, minlength=n_clusters)
    heaviest = np.zeros(n_clusters)
    np.maximum.at(heaviest, clusters, mass)
    return np.asarray((n_ids >= least) & ((least == 1) | ~are_mostly_of_one(total, heaviest)))


def are_mostly_of_one(totals: Array, heaviest: Array) -> npt.NDArray[np.bool_]:
    """Which totals are more than half the weight of one id."""
    return np.asarray(2 * heaviest > totals * (1 + 1e-6))
