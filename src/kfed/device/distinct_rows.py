"""Which clusters hold enough different rows, or rows of enough different people, to be sent at all.

Copies of one row, and rows that differ by rounding alone, count once: one patient entered three times
is no crowd to hide in. Where the caller says whose a row is, different ids are counted instead.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from kfed._base import pool
from kfed._base.array import Array
from kfed.device.dense_rows import DenseRows
from kfed.device.rows import Rows

ALIKE = 2.0**-18
"""Rows are alike if no value differs by more than this share of the largest of its column, judged by a few; 4e-6."""

MEMBERS_AT_ONCE = 2**12


def have_enough_rows(rows: Rows, centers: Array, labels: Array, asked: Array, least: int) -> npt.NDArray[np.bool_]:
    """Tell which of the `asked` clusters hold at least `least` different rows, (n_devices, n_clusters)."""
    n_clusters = centers.shape[1]
    some = _first(rows, min(rows.n_points, 2 * least * n_clusters + 8))
    tolerances = ALIKE * np.maximum(np.abs(some[:, ::4]).max(axis=1), np.abs(centers).max(axis=1))
    is_there = rows.weights > 0
    few = slice(some.shape[1])
    enough = _told_by_sums(some, labels[:, few], is_there[:, few], tolerances, n_clusters, least)
    if isinstance(rows, DenseRows):
        left = np.flatnonzero((asked & ~enough).any(axis=1))
        points = rows.points[left]
        enough[left] |= _told_by_sums(points, labels[left], is_there[left], tolerances[left], n_clusters, least)
    for device, cluster in np.argwhere(asked & ~enough):
        members = np.flatnonzero((labels[device] == cluster) & is_there[device])
        own = rows.select(slice(device, device + 1))
        enough[device, cluster] = _are_many(own, members, tolerances[device], least)
    return np.asarray(enough & asked)


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
    sums = np.matmul(points, scaled.astype(points.dtype)[:, :, None])[:, :, 0]
    clusters = np.arange(n_clusters, dtype=labels.dtype)
    nothing = sums.dtype.type(-np.inf)
    own = np.where((labels[:, None] == clusters[:, None]) & is_there[:, None], sums[:, None], nothing)
    apart = sums.dtype.type(factors.sum())
    for _ in range(least - 1):
        own = np.where(own < own.max(axis=2, keepdims=True) - apart, own, nothing)
    return np.asarray(own.max(axis=2) > nothing)


def _are_many(rows: Rows, members: Array, tolerances: Array, least: int) -> bool:
    """Whether the members of one cluster are at least so many different rows."""
    found: list[Array] = []
    for block in pool.blocks(len(members), MEMBERS_AT_ONCE):
        left = rows.take(members[None, block])[0]
        for known in found:
            left = _unlike(left, known, tolerances)
        while len(left) and len(found) < least:
            found.append(left[0])
            left = _unlike(left, left[0], tolerances)
    return len(found) >= least


def _unlike(rows: Array, row: Array, tolerances: Array) -> Array:
    return np.asarray(rows[(np.abs(rows - row) > tolerances).any(axis=1)])


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
    return np.asarray((n_ids >= least) & ((least == 1) | (2 * heaviest <= total * (1 + 1e-6))))
