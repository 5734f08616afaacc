"""Which device centers stand for a cluster: not the strays of a few points, nor the mixtures of several clusters.

A stray is an outlier that a device sent as a cluster of its own. That leaves the device one local cluster fewer than it
has groups, so two groups share a center: a mixture. Its center lies between the two, and the variance of its points is
larger by what the distance between them explains.
"""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple

import numpy as np

from kfed._base import geometry, pool
from kfed._base.array import Array
from kfed.server.center_spread import CenterSpread, chance_factor
from kfed.server.rules.support import median, take
from kfed.server.rules.traversal import Traversal, farthest_first
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

SLACK = 1e-3
"""What single precision may be wrong by, as a share."""


class Trusted(NamedTuple):
    """Which device centers stand for a cluster."""

    rows: Array  # of those that do, ascending
    is_stray: Array  # (n_device_centers,)
    is_mixture: Array  # (n_device_centers,)
    traversal: Traversal  # of the trusted centers, from that of most points


def trusted(batch: MessageBatch, weights: Array, spread: CenterSpread, n_jobs: int | None) -> Trusted:
    """Tell strays and mixtures from centers that stand for a cluster; `weights` are the counts, or bounds on them."""
    is_stray = strays(batch.centers, weights, batch.owners, n_jobs)
    rows = np.flatnonzero(~is_stray)
    is_mixture = np.zeros(len(is_stray), bool)
    centers, counts = take(batch.centers, rows), take(weights, rows)
    traversal = _traverse(centers, counts, n_jobs)
    if spread.is_known:
        is_mixture[rows] = mixtures(centers, spread.take(rows), traversal, n_jobs)
    if is_mixture.any():
        rows = np.flatnonzero(~is_stray & ~is_mixture)
        traversal = _traverse(batch.centers[rows], weights[rows], n_jobs)
    return Trusted(rows, is_stray, is_mixture, traversal)


def _traverse(centers: Array, counts: Array, n_jobs: int | None) -> Traversal:
    """Farthest-first from the center of most points."""
    return farthest_first(centers, min(len(centers), MAX_LANDMARKS + 1), [int(counts.argmax())], n_jobs)


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
    landmarks = others[_traverse(others, counts[~is_tiny], n_jobs).picks]
    is_stray = is_tiny.copy()
    is_stray[is_tiny] = [
        len(np.unique(owners[is_tiny][near])) < COMPANY
        for block in _blocks(len(tiny), max(len(tiny), len(landmarks)))
        for near in _distances(tiny[block], tiny) <= _distances(tiny[block], landmarks).min(axis=1, keepdims=True) / 2
    ]
    return is_stray


def mixtures(centers: Array, spread: CenterSpread, traversal: Traversal, n_jobs: int | None = None) -> Array:
    """Find centers that are means of several clusters, as a mask of shape (n_device_centers,).

    A center is one if there are two others, a and b, such that it sees them at a right angle or more, farther away than
    chance puts it, and the total variance of its points exceeds theirs by about the product of its distances to them:
    that is the variance of a mixture of two clusters, if its mean lies between their means.

    Parameters
    ----------
    centers : array of shape (n_device_centers, n_features)
    spread : CenterSpread
        Of these centers.
    traversal : Traversal
        Of these centers: its picks are the landmarks.
    """
    landmarks = traversal.picks
    between = _distances(centers[landmarks], centers[landmarks])
    chance = chance_factor(len(centers), centers.shape[1])

    def found_in(near: _Neighbourhood) -> Array:
        rows = near.candidates(centers, spread, chance)
        distances = _distances(centers[rows], centers[landmarks])  # (n_rows, n_landmarks)
        errors = chance * (spread.errors[rows, None] + spread.errors[landmarks]) + spread.rounding**2
        with np.errstate(over="ignore", invalid="ignore"):  # of variances beyond reason
            is_mixture = _lie_between(distances, between, errors, spread.variances[rows], spread.variances[landmarks])
        return np.asarray(rows[is_mixture])

    found = np.zeros(len(centers), bool)
    parts = _near_landmarks(traversal, between, spread.variances)
    found[np.concatenate(list(pool.map_in_order(found_in, parts, n_jobs)))] = True
    return found


class _Neighbourhood(NamedTuple):
    """Centers near one landmark, and all landmarks that could be a part of them if they were mixtures."""

    landmark: int  # row of the centers
    rows: Array  # of the centers near it
    parts: Array  # rows of landmarks

    def candidates(self, centers: Array, spread: CenterSpread, chance: float) -> Array:
        """Rows that could be mixtures: few are, and only those are looked at closely.

        A mixture needs a landmark at a distance beyond chance whose square is at most the difference of the variances
        over `LEAST_EXPLAINED`. Both are asked in single precision, with `SLACK` for its rounding, which only lets more
        through. Coordinates are relative to the landmark nearby, so that there is little to round.
        """
        origin, rows = centers[self.landmark].astype(np.float64), self.rows
        with np.errstate(over="ignore", invalid="ignore"):
            moved, parts = ((centers[own] - origin).astype(np.float32) for own in (rows, self.parts))
            norms, of_parts = (np.einsum("nf,nf->n", own, own) / 2 for own in (moved, parts))
            slack = SLACK * (norms + of_parts.max(initial=0))
            least = chance * (spread.errors[rows] + spread.errors[self.parts].min(initial=np.inf))
            with pool.one_blas_thread():
                halves = moved @ parts.T  # (n_rows, n_parts): half of |x|^2 + |l|^2 - |x - l|^2
            halves -= of_parts
            is_apart = halves < (norms - least / 2 + slack).astype(np.float32)[:, None]
            halves -= spread.variances[self.parts].astype(np.float32) / (2 * LEAST_EXPLAINED)
            most = spread.variances[rows] * (1 + SLACK) / (2 * LEAST_EXPLAINED)
            is_apart &= ~(halves < (norms - most - slack).astype(np.float32)[:, None])
        return np.asarray(rows[is_apart.any(axis=1)])


def _near_landmarks(traversal: Traversal, between: Array, variances: Array) -> list[_Neighbourhood]:
    """Put every center to a landmark nearby, in blocks that are little work each.

    A center x at distance u of landmark p can only have a landmark l as a part if LEAST_EXPLAINED |x - l|^2 is at most
    its variance: then |p - l| <= u + |x - l| is bounded, too.
    """
    landmarks, near = traversal.picks, traversal.near
    order = np.argsort(near.labels, kind="stable")
    edges = np.searchsorted(near.labels[order], np.arange(len(landmarks) + 1))
    least = variances[landmarks].min()
    with np.errstate(over="ignore"):
        reach = np.sqrt(near.upper) + np.sqrt(np.maximum(variances - least, 0) * (1 + SLACK) / LEAST_EXPLAINED)
    found = []
    for landmark, (first, last) in enumerate(pairwise(edges.tolist())):
        own = order[first:last]
        parts = landmarks[between[landmark] <= reach[own].max(initial=0) * (1 + SLACK)]
        blocks = _blocks(len(own), len(parts))
        found += [_Neighbourhood(int(landmarks[landmark]), own[block], parts) for block in blocks]
    return found


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
