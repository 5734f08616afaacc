"""`NoisyRows`: the rows of a private device, which answer one kind of question, with noise, within a budget.

Everything that a private message depends on is an answer of `release`. Adding or removing a row moves one row of that
answer by a vector of norm at most `mu` times the standard deviation of its noise. That must hold to the bit, so it does
not rest on floating point:

- rows lie on a grid so coarse that their squared distances to centers are whole numbers below 2^53: exact in double
  precision in any order of summation, so that the label of a row does not depend on other rows;
- what a row adds is a vector of whole numbers, cut towards zero, and these are added as whole numbers.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from kfed._base.accounting import composed
from kfed._base.array import Array
from kfed.device.private.discrete_gaussian import SIGMA_BITS, discrete_gaussian
from kfed.errors import InvalidInputError

ROW_BITS = 24
"""Bits of a radius on the grid of rows: sums of products of coordinates, in any order, stay below 2^(2 * 24 + 3)."""

BLOCK_ELEMENTS = 2**21
SHRINK = 1 - 2.0**-20
"""Rounding in scaling a row to its bound, and in the account, is far below this."""


@dataclass(frozen=True)
class Release:
    """Noisy counts and means, cluster by cluster, and the standard deviation of the noise in them.

    Attributes
    ----------
    counts : array of shape (n_centers,)
    sums : array of shape (n_centers, n_features)
        Of the rows minus the origin of their cluster, each shortened to the radius of the cluster.
    count_noise : float
    sum_noise : array of shape (n_centers,)
        For each value of a sum.
    """

    counts: Array
    sums: Array
    count_noise: float
    sum_noise: Array


class NoisyRows:
    """Rows of one device behind a budget of Gaussian differential privacy.

    Parameters
    ----------
    points : array of shape (n_points, n_features)
    radius : float
        Longer rows are shortened to it.
    mu : float
        The budget; `release` refuses to pass it.
    """

    def __init__(self, points: Array, radius: float, mu: float) -> None:
        self.n_features = points.shape[1]
        self.radius, self.mu = radius, mu
        self._spent: list[float] = []
        self._step = radius / 2.0**ROW_BITS
        self._rows = np.trunc(_shortened(points.astype(np.float64), np.array(radius)) / self._step)
        if len(points) * mu * 2.0**SIGMA_BITS >= 2.0**62:
            raise InvalidInputError(f"a private device can have at most {2.0 ** (62 - SIGMA_BITS) / mu:,.0f} rows")

    def release(self, centers: Array, mu: float, count_share: float, radii: Array | None = None) -> Release:
        """Counts and sums of the rows nearest to each center, both with noise.

        Parameters
        ----------
        centers : array of shape (n_centers, n_features)
            They must not depend on the rows but through earlier releases.
        mu : float
            What this release costs.
        count_share : float
            The part of the square of `mu` that counts get; the rest is for sums.
        radii : array of shape (n_centers,), optional
            Sums are of differences to the centers, shortened to these radii; by default of the rows themselves.
        """
        if composed([*self._spent, mu]) > self.mu * (1 + 1e-9):
            raise InvalidInputError("this release would exceed the privacy budget")
        self._spent.append(mu)
        grid = np.rint(centers / self._step)
        origins = np.zeros_like(grid) if radii is None else grid
        bounds = np.full(len(grid), self.radius) if radii is None else radii
        count_unit = int(mu * math.sqrt(count_share) * SHRINK * 2.0**SIGMA_BITS)
        sum_units = mu * math.sqrt(1 - count_share) * SHRINK * 2.0**SIGMA_BITS / bounds  # for one unit of length
        totals = np.zeros((len(grid), self.n_features + 1), np.int64)
        for rows in self._blocks(len(grid)):
            labels = _nearest(rows, grid)
            vectors = _shortened((rows - origins[labels]) * self._step, bounds[labels])
            _add_by_label(totals, labels, np.trunc(vectors * sum_units[labels, None]).astype(np.int64), count_unit)
        noisy = totals + discrete_gaussian(totals.shape)
        sigma = 2.0**SIGMA_BITS
        return Release(
            noisy[:, -1] / count_unit, noisy[:, :-1] / sum_units[:, None], sigma / count_unit, sigma / sum_units
        )

    def nearest(self, centers: Array) -> Array:
        """The nearest center of every row, (n_points,); exact, so it must stay on the device."""
        grid = np.rint(centers / self._step)
        return np.concatenate([_nearest(rows, grid) for rows in self._blocks(len(grid))])

    def _blocks(self, n_centers: int) -> Iterator[Array]:
        size = max(1, BLOCK_ELEMENTS // (n_centers + self.n_features))
        return (self._rows[first : first + size] for first in range(0, max(1, len(self._rows)), size))


def _shortened(vectors: Array, bounds: Array) -> Array:
    """Vectors with those shortened that are longer than their bound."""
    with np.errstate(over="ignore"):
        lengths = np.sqrt(np.einsum("nf,nf->n", vectors, vectors))
    return np.asarray(vectors * np.minimum(1.0, SHRINK * bounds / np.maximum(lengths, 1e-300))[:, None])


def _nearest(rows: Array, centers: Array) -> Array:
    scores = np.einsum("kf,kf->k", centers, centers) - 2 * (rows @ centers.T)
    return np.asarray(scores.argmin(axis=1))


def _add_by_label(totals: Array, labels: Array, vectors: Array, count_unit: int) -> None:
    """Add to each cluster the vectors of its rows, and `count_unit` for each of them."""
    order = np.argsort(labels, kind="stable")
    present, firsts, counts = np.unique(labels[order], return_index=True, return_counts=True)
    if len(present):
        totals[present, :-1] += np.add.reduceat(vectors[order], firsts, axis=0)
        totals[present, -1] += count_unit * counts
