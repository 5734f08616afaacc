"""How precise device centers are: what messages say of the distance that chance alone puts between two of them.

A center is the mean of `count` points whose squared distances to it add up to `sum_of_squares`. So its squared standard
error is their total variance over the count, and two centers of one cluster lie about the root of the sum of their
errors apart, in any dimension.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import log, sqrt

import numpy as np

from kfed._base.array import Array
from kfed.wire import MessageBatch

ROUNDING = 16.0
"""Epsilons of their dtype, of the largest norm, within which two centers are the same."""


@dataclass(frozen=True)
class CenterSpread:
    """Spread of the points behind device centers, and of the centers themselves.

    Attributes
    ----------
    is_known : bool
        Whether any message holds sums of squares. If not, all variances and errors are zero.
    variances : array of shape (n_device_centers,)
        Total variance, over all features, of the points behind each center; the median of the others where not said.
    errors : array of shape (n_device_centers,)
        Squared standard error of each center.
    rounding : float
        Centers at most this far apart coincide.
    """

    is_known: bool
    variances: Array
    errors: Array
    rounding: float

    @classmethod
    def of(cls, batch: MessageBatch) -> CenterSpread:
        """Measure the centers of a batch."""
        centers, counts = batch.centers, batch.counts
        with np.errstate(over="ignore"):  # of sums of squares that are allowed, but beyond reason
            variances = batch.sums_of_squares / np.maximum(counts - 1, counts / 2)
            known = ~np.isnan(variances)
            variances = np.where(known, variances, np.median(variances[known]) if known.any() else 0.0)
            errors = variances / counts
            if batch.details is not None:
                errors = errors + batch.n_features * batch.details.noise[:, 0] ** 2  # of private messages
        precision = np.finfo(np.float64 if batch.is_double.all() else np.float32).eps
        largest = np.sqrt(np.einsum("nf,nf->n", centers, centers, dtype=np.float64).max(initial=0))
        return cls(bool(known.any()), variances, errors, float(ROUNDING * precision * largest))

    def sums_of_squares(self, counts: Array) -> Array:
        """Sums of squares about the centers, of this many points each; those that were not said are estimated."""
        return np.asarray(self.variances * np.maximum(counts - 1, counts / 2))

    def take(self, rows: Array) -> CenterSpread:
        """Keep only these centers."""
        if len(rows) == len(self.variances):
            return self
        return CenterSpread(self.is_known, self.variances[rows], self.errors[rows], self.rounding)

    def at_most(self, variance: float) -> CenterSpread:
        """Reduce larger variances to this one, and the errors with them."""
        shrink = np.minimum(1, variance / np.maximum(self.variances, 1e-300))
        return CenterSpread(self.is_known, self.variances * shrink, self.errors * shrink, self.rounding)


def directional_deviation(batch: MessageBatch, variance: float, devices: Array) -> float:
    """Estimate the standard deviation of the points of one cluster along their widest direction.

    The norm of n rows of noise is about sqrt(n) times the deviation along the widest direction, plus the root of the
    total variance. So that root is taken off what each of the `devices` measured, and the median is taken of what is
    left. The answer is no less than the variance per feature says, and just that if no device measured its norm.

    Parameters
    ----------
    batch : MessageBatch
    variance : float
        Total variance of a cluster.
    devices : array of bool, shape (n_devices,)
        The devices that are asked.
    """
    n_points = np.bincount(batch.owners, weights=batch.counts, minlength=len(batch.device_ids))
    asked = devices & (n_points > 0) & ~np.isnan(batch.spectral_deviations)
    least = sqrt(variance / batch.n_features)
    if not asked.any():
        return least
    norms = batch.spectral_deviations[asked]
    return max(least, float(np.median((norms - sqrt(variance)) / np.sqrt(n_points[asked]))))


def chance_factor(n_centers: int, n_features: float) -> float:
    """How many times its mean the largest squared distance of two centers of one cluster can be by chance.

    For Gaussian noise it is a chi-squared variable with `n_features` degrees of freedom, and this bounds its tail
    (Laurent and Massart, "Adaptive estimation of a quadratic functional by model selection", Ann. Stat. 2000, lemma 1).

    Examples
    --------
    >>> round(chance_factor(100, n_features=1), 1), round(chance_factor(100, n_features=1000), 1)
    (21.7, 1.2)
    """
    tail = log(n_centers) + 3  # one pair in twenty times as many
    return 1 + 2 * sqrt(tail / n_features) + 2 * tail / n_features
