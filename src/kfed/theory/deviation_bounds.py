"""Bounds on norm(A - C), the spectral deviation of all points, from what each device says about its own.

Let R_z be the points of device z minus their local centers, and delta_s the local center s of n_s points minus
the mean of its global cluster. A local center is the mean of its points, so the cross terms vanish, and
norm(A - C)^2 is the largest eigenvalue of

    P + B,    P = sum_z R_z^T R_z,    B = sum_s n_s delta_s delta_s^T.

The server knows B; and of each R_z^T R_z it knows the largest eigenvalue (the spectral deviation, squared) and
the trace (the sum of squares). So norm(A - C)^2 is

    at most   sum_z norm(R_z)^2 + norm(B)
    at least  norm(R_z)^2 for every z,
              trace(P + B) / d, the mean of all eigenvalues, and
              norm(B) + sum_z max(0, trace(R_z^T R_z) - (d - 1) norm(R_z)^2),

the last since no direction has more than norm(R_z)^2 of the trace, so the first one of B has at least what the
d - 1 orthogonal to it can't hold.

A device with more than `EXACT_FEATURES` features sends an upper estimate of norm(R_z), at most `DEVIATION_MARGIN` above
it, so what is at least norm(R_z)^2 is taken lower by that. Devices round, too. Each length that a device reports may be
off by `ROUNDING` units in the last place of the root of the sum of squares of all its points,
and the interval is widened by that. Where a device rounded its centers to send fewer bytes, by e_s at most, B is off by
sum_s n_s e_s e_s^T and cross terms: its root moves by at most the root of sum_s n_s norm(e_s)^2.

Where all devices sent their scatter, norm(A - C) follows from it (`exact_deviation`), and rounding alone is left.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import numpy as np

from kfed._base import pool
from kfed._base.array import Array
from kfed.theory.conditions import Bounds
from kfed.theory.means import cluster_means
from kfed.theory.scatter import exact_deviation
from kfed.wire import MessageBatch

ROUNDING = 512
"""Measured: 2 for small devices, 14 for a million dense points, 75 for 300,000 sparse ones."""

LARGEST_SINGLE_COUNT = 2**24
"""A device that counts further sends double precision, though it may have computed in single."""

DEVIATION_MARGIN = 0.04
"""How far above norm(R_z), relative to it, the spectral deviation may be that a device sends."""

EXACT_FEATURES = 32
"""With at most so many features devices send norm(R_z) itself."""

WIDE = 2048
"""If both sides of a matrix are longer than this, its norm is iterated for."""

TOLERANCE = 1e-4
"""Relative error of the square of a norm that was iterated for; most often it is far less."""

LARGEST_LENGTH = 1e150
"""A length whose square would not be finite says nothing."""

SERVER_ROUNDING = 1e-9
"""Relative error of all sums here, with room to spare."""

_BLOCK_ELEMENTS = 2**20


@dataclass(frozen=True)
class Bounded:
    """What the server knows about the clustering of all points that a grouping of device centers induces."""

    deviation: Bounds
    means: Array  # mu_r: (n_clusters, n_features), NaN for a cluster without points
    mean_errors: Array  # (n_clusters,), how far rounding moved them at most
    spreads: Spreads


def bound_deviation(batch: MessageBatch, labels: Array, n_clusters: int) -> Bounded:
    """Bound norm(A - C) for the clustering that puts device center s in cluster ``labels[s]``."""
    n_features = batch.n_features
    means = cluster_means(batch.centers, labels, batch.counts, n_clusters)
    spreads = Spreads.of(batch)
    shifts = _Shifts(batch, labels, means)
    slack = float(np.sqrt(spreads.rounding.sum()))
    norm = shifts.norm()
    upper = spreads.most.sum() + (norm.upper + slack) ** 2
    lower = max(
        spreads.least.max(),
        (spreads.total.sum() + max(0.0, shifts.root_of_trace() - slack) ** 2) / n_features,
        spreads.least_along_any(n_features).sum() + max(0.0, norm.lower - slack) ** 2,
    )
    deviation = Bounds(float(np.sqrt(lower)) * (1 - SERVER_ROUNDING), float(np.sqrt(upper)) * (1 + SERVER_ROUNDING))
    exact = exact_deviation(batch, labels, means)
    if exact is not None:
        off = slack + SERVER_ROUNDING * exact
        deviation = Bounds(max(exact - off, 0.0), exact + off)
        unsaid = np.zeros(batch.n_devices, bool)
        spreads = replace(spreads, is_silent=unsaid, is_loose=unsaid)
    sizes = np.bincount(labels, batch.counts, minlength=n_clusters)
    return Bounded(deviation, means, slack / np.sqrt(np.where(sizes > 0, sizes, np.nan)), spreads)


@dataclass(frozen=True)
class Spreads:
    """How far the points of each device spread around its own centers, widened for rounding, (n_devices,) each."""

    least: Array  # norm(R_z)^2 is at least this
    most: Array  # and at most this; infinite if the device does not say
    total: Array  # the trace of R_z^T R_z is at least this
    rounding: Array  # squared Frobenius norm of what is off at most
    is_impossible: Array  # said what can't be true
    is_silent: Array  # said that, or nothing that bounds its norm from above
    is_loose: Array  # said its sums of squares alone

    @classmethod
    def of(cls, batch: MessageBatch) -> Spreads:
        """Read the messages; a value that cannot be true is treated as missing."""
        n_devices, widest = len(batch.device_ids), np.sqrt(batch.n_features)
        has_sent = np.bincount(batch.owners, minlength=n_devices) > 0
        norm = _squarable(np.where(has_sent, batch.spectral_deviations, 0.0))
        root = _squarable(np.sqrt(np.bincount(batch.owners, batch.sums_of_squares, minlength=n_devices)))
        moments = np.bincount(batch.owners, _moments(batch), minlength=n_devices)
        spread = np.nan_to_num(np.fmin(root, widest * norm))  # of all its points, as far as it is said
        off = ROUNDING * _precisions(batch) * np.hypot(np.sqrt(moments), spread)
        impossible = (norm - off > root + off) | (root - off > widest * (norm + off))
        norm, root = (np.where(impossible, np.nan, said) for said in (norm, root))
        most = np.fmin(norm, root)
        margin = DEVIATION_MARGIN if batch.n_features > EXACT_FEATURES else 0.0
        return cls(
            least=np.maximum(np.nan_to_num(norm) / (1 + margin) - off, 0) ** 2,
            most=np.where(np.isnan(most), np.inf, most + off) ** 2,
            total=np.maximum(np.nan_to_num(root) - off, 0) ** 2,
            rounding=(off + _coarseness(batch)) ** 2,
            is_impossible=impossible,
            is_silent=np.isnan(most),
            is_loose=np.isnan(norm) & ~np.isnan(root),
        )

    def least_along_any(self, n_features: int) -> Array:
        """Lower bound on the part of the trace along any one direction, (n_devices,)."""
        elsewhere = (n_features - 1) * np.where(self.is_silent, 0, self.most)
        return np.asarray(np.maximum(self.total - elsewhere, 0))


class _Shifts:
    """The rows sqrt(n_s) delta_s, whose products make B: the device centers around the means of their clusters."""

    def __init__(self, batch: MessageBatch, labels: Array, means: Array) -> None:
        self._centers, self._counts = batch.centers, batch.counts
        self._labels, self._means = labels, means

    def norm(self) -> Bounds:
        """Give the root of norm(B)."""
        n_centers, n_features = self._centers.shape
        if n_features <= WIDE:
            largest = np.linalg.eigvalsh(sum(part.T @ part for part in self._by_rows()))[-1]
        elif n_centers <= WIDE:
            largest = np.linalg.eigvalsh(sum(part @ part.T for part in self._by_columns()))[-1]
        else:
            largest = largest_eigenvalue(self._times, n_features)
            return Bounds(np.sqrt(largest), np.sqrt(largest * (1 + TOLERANCE)))
        return Bounds(*2 * [np.sqrt(max(0.0, largest))])

    def root_of_trace(self) -> float:
        """Give the root of trace(B)."""
        return float(np.sqrt(sum(np.einsum("sf,sf->", part, part) for part in self._by_rows())))

    def _by_rows(self) -> Iterator[Array]:
        for rows in _row_blocks(self._centers):
            yield self._part(rows, slice(None))

    def _by_columns(self) -> Iterator[Array]:
        n_centers, n_features = self._centers.shape
        for columns in pool.blocks(n_features, max(1, _BLOCK_ELEMENTS // n_centers)):
            yield self._part(slice(None), columns)

    def _part(self, rows: slice, columns: slice) -> Array:
        shifts = self._centers[rows, columns].astype(np.float64) - self._means[:, columns][self._labels[rows]]
        return np.asarray(shifts * np.sqrt(self._counts[rows])[:, None])

    def _times(self, vector: Array) -> Array:
        """B times a vector; no delta_s is formed."""
        means = np.nan_to_num(self._means)
        along_means, product = means @ vector, np.zeros(len(vector))
        for rows in _row_blocks(self._centers):
            centers, labels = self._centers[rows].astype(np.float64), self._labels[rows]
            along = self._counts[rows] * (centers @ vector - along_means[labels])
            product += along @ centers - np.bincount(labels, along, minlength=len(means)) @ means
        return product


def largest_eigenvalue(times: Callable[[Array], Array], size: int) -> float:
    """Find the largest eigenvalue of a positive semidefinite matrix from its products with vectors (Lanczos)."""
    from scipy.sparse.linalg import LinearOperator, eigsh

    start = np.random.default_rng(0).standard_normal(size)
    if not times(start).any():
        return 0.0
    operator = LinearOperator((size, size), matvec=lambda vector: times(vector.ravel()), dtype=np.float64)
    found = eigsh(operator, k=1, which="LA", tol=TOLERANCE, v0=start, return_eigenvectors=False)
    return max(0.0, float(found[0]))


def _row_blocks(centers: Array) -> list[slice]:
    return pool.blocks(len(centers), max(1, _BLOCK_ELEMENTS // centers.shape[1]))


def _squarable(lengths: Array) -> Array:
    return np.where(lengths <= LARGEST_LENGTH, lengths, np.nan)


def _moments(batch: MessageBatch) -> Array:
    """n_s times the squared length of each center, (n_device_centers,)."""
    squares = np.empty(len(batch.centers))
    for block in _row_blocks(batch.centers):
        centers = batch.centers[block].astype(np.float64)
        squares[block] = np.einsum("sf,sf->s", centers, centers)
    return squares * batch.counts


def _precisions(batch: MessageBatch) -> Array:
    """Find the unit roundoff of what each device computed with, (n_devices,)."""
    most = np.zeros(len(batch.device_ids))
    np.maximum.at(most, batch.owners, batch.counts)
    is_double = batch.is_double & (most <= LARGEST_SINGLE_COUNT)
    return np.where(is_double, np.finfo(np.float64).eps, np.finfo(np.float32).eps) / 2


def _coarseness(batch: MessageBatch) -> Array:
    """Root of the sum of n_s times the squared length of what rounding may have added to center s, (n_devices,)."""
    rounding = None if batch.details is None else batch.details.rounding
    if rounding is None:
        return np.zeros(batch.n_devices)
    off = batch.counts * np.square(rounding).sum(axis=1)
    return np.sqrt(np.bincount(batch.owners, off, minlength=batch.n_devices))
