"""Which device centers stand for a cluster: not the strays of a few points, nor the mixtures of several clusters.

A stray is an outlier that a device sent as a cluster of its own. That leaves the device one local cluster fewer than it
has groups, so two groups share a center: a mixture. Its center lies between the two, and the variance of its points is
larger by what the distance between them explains.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from kfed._base import geometry, pool
from kfed._base.array import Array
from kfed.server.center_spread import CenterSpread, chance_factor
from kfed.server.support import median
from kfed.server.traversal import farthest_first
from kfed.wire import MessageBatch

LEAST_COUNT, LEAST_SHARE = 2.0, 0.1
"""A center of fewer points than this, or than this share of the median count, is tiny."""

COMPANY = 3
"""Devices that must have found a tiny cluster in the same place for it to be no accident."""

MAX_LANDMARKS = 512
"""Centers, chosen far from each other, that stand for all in questions of where a center lies among them."""

LEAST_EXPLAINED, MOST_EXPLAINED = 0.5, 2.0
"""The extra variance of a mixture, over what its place between two centers explains, is about 1."""

BLOCK_ELEMENTS = 2**18


class Trusted(NamedTuple):
    """Which device centers stand for a cluster."""

    rows: Array  # of those that do, ascending
    is_stray: Array  # (n_device_centers,)
    is_mixture: Array  # (n_device_centers,)


def trusted(batch: MessageBatch, weights: Array, spread: CenterSpread, n_jobs: int | None) -> Trusted:
    """Tell strays and mixtures from centers that stand for a cluster; `weights` are the counts, or bounds on them."""
    is_stray = strays(batch.centers, weights, batch.owners, n_jobs)
    rows = np.flatnonzero(~is_stray)
    is_mixture = np.zeros(len(is_stray), bool)
    if spread.is_known:
        is_mixture[rows] = mixtures(batch.centers[rows], weights[rows], spread.take(rows), n_jobs)
    return Trusted(np.flatnonzero(~is_stray & ~is_mixture), is_stray, is_mixture)


def strays(centers: Array, counts: Array, owners: Array, n_jobs: int | None = None) -> Array:
    """Find centers of few points that no one else found, as a mask of shape (n_device_centers,).

    A tiny center is no stray if tiny centers of at least three devices (its own among them) lie within half of its
    distance to the nearest center that is not tiny, or to the nearest landmark among those if they are many.

    Parameters
    ----------
    centers : array of shape (n_device_centers, n_features)
    counts : array of shape (n_device_centers,)
    owners : array of shape (n_device_centers,)
        The device of each center.
    """
    is_tiny = counts < max(LEAST_COUNT, LEAST_SHARE * median(counts, owners))
    if not is_tiny.any() or is_tiny.all():
        return np.zeros(len(centers), bool)
    tiny, others = centers[is_tiny], centers[~is_tiny]
    landmarks = others[_landmarks(others, counts[~is_tiny], n_jobs)]
    is_stray = is_tiny.copy()
    is_stray[is_tiny] = [
        len(np.unique(owners[is_tiny][near])) < COMPANY
        for block in _blocks(len(tiny), max(len(tiny), len(landmarks)))
        for near in _distances(tiny[block], tiny) <= _distances(tiny[block], landmarks).min(axis=1, keepdims=True) / 2
    ]
    return is_stray


def _landmarks(centers: Array, counts: Array, n_jobs: int | None) -> Array:
    """Choose rows of centers far from each other, beginning with that of most points."""
    n_landmarks = min(len(centers), MAX_LANDMARKS)
    return farthest_first(centers, n_landmarks, [int(counts.argmax())], n_jobs).picks


def mixtures(centers: Array, counts: Array, spread: CenterSpread, n_jobs: int | None = None) -> Array:
    """Find centers that are means of several clusters, as a mask of shape (n_device_centers,).

    A center is one if there are two others, a and b, such that it sees them at a right angle or more, farther away than
    chance puts it, and the total variance of its points exceeds theirs by about the product of its distances to them:
    that is the variance of a mixture of two clusters, if its mean lies between their means.

    Parameters
    ----------
    centers : array of shape (n_device_centers, n_features)
    counts : array of shape (n_device_centers,)
    spread : CenterSpread
        Of these centers.
    """
    landmarks = _landmarks(centers, counts, n_jobs)
    between = _distances(centers[landmarks], centers[landmarks])
    chance = chance_factor(len(centers), centers.shape[1])
    could_be = _Candidates(centers[landmarks], spread.take(landmarks), chance)

    def found_in(block: slice) -> Array:
        rows = block.start + np.flatnonzero(could_be(centers[block], spread.variances[block], spread.errors[block]))
        distances = _distances(centers[rows], centers[landmarks])  # (n_rows, n_landmarks)
        errors = chance * (spread.errors[rows, None] + spread.errors[landmarks]) + spread.rounding**2
        with np.errstate(over="ignore", invalid="ignore"):  # of variances beyond reason
            is_mixture = _lie_between(distances, between, errors, spread.variances[rows], spread.variances[landmarks])
        return np.asarray(rows[is_mixture])

    found = np.zeros(len(centers), bool)
    blocks = _blocks(len(centers), len(landmarks))
    found[np.concatenate(list(pool.map_in_order(found_in, blocks, n_jobs)))] = True
    return found


class _Candidates:
    """Tells quickly which centers could be mixtures: few are, and only those are looked at closely.

    A mixture needs a landmark at a distance beyond chance whose square is at most the difference of the variances over
    `LEAST_EXPLAINED`. Both are asked in single precision, with `SLACK` for its rounding, which only lets more through.
    """

    SLACK = 1e-3

    def __init__(self, landmarks: Array, spread: CenterSpread, chance: float) -> None:
        self._origin = geometry.middle(landmarks).astype(np.float64)
        self._landmarks = (landmarks - self._origin).astype(np.float32)  # (n_landmarks, n_features)
        self._norms = np.einsum("lf,lf->l", self._landmarks, self._landmarks)
        self._variances, self._chance = spread.variances.astype(np.float32), chance
        self._least_error = float(spread.errors.min())

    def __call__(self, centers: Array, variances: Array, errors: Array) -> Array:
        """Whether each of these centers could be a mixture, (n_centers,)."""
        moved = (centers - self._origin).astype(np.float32)
        norms = np.einsum("nf,nf->n", moved, moved)
        with np.errstate(over="ignore", invalid="ignore"):
            squares = moved @ self._landmarks.T  # (n_centers, n_landmarks)
            squares *= -2
            squares += self._norms
            squares += norms[:, None]
            slack = self.SLACK * (norms + self._norms.max())
            least = (self._chance * (errors + self._least_error) - slack).astype(np.float32)
            is_apart = squares > least[:, None]
            squares *= LEAST_EXPLAINED
            squares += self._variances
            most = (variances * (1 + self.SLACK) + slack).astype(np.float32)
            is_apart &= ~(squares > most[:, None])
        return np.asarray(is_apart.any(axis=1))


def _lie_between(distances: Array, between: Array, errors: Array, variances: Array, of_landmarks: Array) -> Array:
    """Tell which rows are mixtures of the nearest landmark that can be a part of them, and of another; (n_rows,)."""
    squares = distances**2
    is_apart = squares > errors
    can_be_part = is_apart & (variances[:, None] - of_landmarks >= LEAST_EXPLAINED * squares)
    first = np.where(can_be_part, distances, np.inf).argmin(axis=1)  # a; all landmarks are tried as b
    to_first = np.take_along_axis(distances, first[:, None], axis=1)
    parts = (distances * of_landmarks[first, None] + to_first * of_landmarks) / np.maximum(distances + to_first, 1e-300)
    extra = variances[:, None] - parts
    is_second = (
        is_apart
        & (distances >= to_first)
        & (squares + to_first**2 <= between[first] ** 2 + errors)
        & (extra >= LEAST_EXPLAINED * distances * to_first)
        & (extra <= MOST_EXPLAINED * squares)
    )
    return np.asarray(can_be_part.any(axis=1) & is_second.any(axis=1))


def _distances(points: Array, others: Array) -> Array:
    """Measure distances by matrix product, (n_points, n_others); its rounding does not matter here."""
    origin = geometry.middle(others).astype(np.float64)
    left, right = points - origin, others - origin
    with pool.one_blas_thread():
        squares = -2 * left @ right.T
    squares += np.einsum("nf,nf->n", left, left)[:, None] + np.einsum("nf,nf->n", right, right)
    return np.asarray(np.sqrt(np.maximum(squares, 0, out=squares), out=squares))


def _blocks(n_rows: int, n_columns: int) -> list[slice]:
    return pool.blocks(n_rows, max(1, BLOCK_ELEMENTS // max(1, n_columns)))
