"""`Privacy`: the differential privacy that a device promises for its message, and the clustering that keeps it."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import numpy as np

from kfed._base import checks
from kfed._base.accounting import MAX_EPSILON, mu_of
from kfed._base.array import Array, frozen
from kfed._base.text import plural
from kfed.device.clustering import LocalClustering
from kfed.device.private.facts import PrivateFacts
from kfed.device.private.lloyd import N_STEPS, PrivateCenters, least_points, private_kmeans
from kfed.device.private.noisy_rows import NoisyRows
from kfed.errors import InvalidInputError, PrivacyWarning
from kfed.wire import Promise

MIN_EPSILON = 0.001
MARGIN = 1 - 2.0**-20
"""The noise is a discrete Gaussian with a standard deviation of 2^30 steps. Up to 30 standard deviations, it has the
probabilities of a rounded Gaussian within a factor of exp(2^-54): the margin is enough for millions of numbers."""

CLIPPED_SHARE = 0.5
OWN_SCALE = 1e-4
"""A mean so near 0 and a spread so near 1 in every column are no accident."""


@dataclass(frozen=True, kw_only=True)
class Privacy:
    """(epsilon, delta)-differential privacy for the rows of a device, where neighbours differ by one row more or less.

    Parameters
    ----------
    epsilon : float
        From 0.001 to 100; smaller promises more. Up to 1 is a strong promise.
    delta : float, optional
        Less than 1 over the number of rows; by default a tenth of ``1 / max_points``.
    radius : float
        A public bound: rows farther than this from the origin are moved to this distance. It must not be computed from
        the rows, and neither may the scale of their columns.
    max_points : int
        A public bound on the number of rows of a device, for the default of `delta`.

    Examples
    --------
    >>> privacy = Privacy(epsilon=1.0, radius=3.0)
    >>> privacy.delta, round(privacy.mu, 4)
    (1e-06, 0.2367)
    >>> points = np.random.default_rng(0).normal(size=(2000, 2)) + np.repeat([[-2.0, 0.0], [2.0, 0.0]], 1000, axis=0)
    >>> message = kfed.cluster_device(points, 2, privacy=Privacy(epsilon=1.0, radius=6.0)).to_message("site7")
    >>> message.details.promise.epsilon, message.sums_of_squares
    (1.0, None)
    """

    epsilon: float
    delta: float | None = None
    radius: float
    max_points: int = 100_000

    def __post_init__(self) -> None:
        checks.positive_number(self.epsilon, "epsilon")
        checks.positive_number(self.radius, "radius")
        if not MIN_EPSILON <= self.epsilon <= MAX_EPSILON:
            raise InvalidInputError(f"epsilon must be from {MIN_EPSILON} to {MAX_EPSILON:g}; got {self.epsilon}")
        if self.delta is None:
            object.__setattr__(self, "delta", 0.1 / checks.positive_integer(self.max_points, "max_points"))
        if not 0 < checks.positive_number(self.delta, "delta") < 1:
            raise InvalidInputError(f"delta must be less than 1; got {self.delta}")

    @cached_property
    def mu(self) -> float:
        """The same promise in Gaussian differential privacy, which is what the ledger adds up."""
        return mu_of(self.epsilon * MARGIN, float(self.delta or 0) * MARGIN)

    @property
    def promise(self) -> Promise:
        """What the message says."""
        return Promise(float(self.epsilon), float(self.delta or 0), self.mu, float(self.radius))

    def least_points(self, n_clusters: int, n_features: int) -> int:
        """Rows that it takes for clusters of equal size to be seen through the noise."""
        return least_points(self.mu, n_clusters, n_features)


def cluster_privately(
    points: Any,
    n_clusters: int | Literal["auto"],
    privacy: Privacy,
    seed: int,
    weights: Array | None,
    names: tuple[str, ...] | None,
) -> LocalClustering:
    """Cluster checked points so that the message of the result is private; `seed` decides public choices alone."""
    if not isinstance(privacy, Privacy):
        raise InvalidInputError(f"privacy must be a kfed.Privacy; got a {type(privacy).__name__}")
    if n_clusters == "auto":
        raise InvalidInputError("n_local_clusters must be a number with privacy; finding one looks at the rows")
    if weights is not None:
        raise InvalidInputError("sample_weight must be None with privacy: every row counts once")
    dense = points.toarray() if checks.is_sparse(points) else points
    _look_at(dense, n_clusters, privacy)
    rows = NoisyRows(dense, privacy.radius, privacy.mu)
    found = private_kmeans(rows, n_clusters, seed)
    return _as_clustering(dense, rows, found, privacy, names)


def _as_clustering(
    points: Array, rows: NoisyRows, found: PrivateCenters, privacy: Privacy, names: tuple[str, ...] | None
) -> LocalClustering:
    sent = found.seen
    usable = np.flatnonzero(sent if sent.any() else ~sent)
    labels = usable[rows.nearest(found.centers[usable])].astype(np.int32)
    residuals = points - found.centers[labels]
    squares = np.bincount(labels, np.einsum("nf,nf->n", residuals, residuals), minlength=len(sent))
    return LocalClustering(
        frozen(labels),
        frozen(found.centers.astype(points.dtype)),
        frozen(np.where(sent, np.maximum(1, np.rint(found.counts)), 0).astype(np.int64)),
        frozen(squares.astype(points.dtype)),
        frozen(~sent),
        spectral_deviation=None,
        n_iterations=N_STEPS,
        feature_names=names,
        private=PrivateFacts(frozen(found.noise), privacy.promise),
    )


def _look_at(points: Array, n_clusters: int, privacy: Privacy) -> None:
    """Warn, on the device alone, if a promise would be void or a release useless; nothing was released yet."""
    n_points, n_features = points.shape
    lengths = np.linalg.norm(points, axis=1)
    share = float((lengths > privacy.radius).mean()) if n_points else 0.0
    if share == 1:
        raise InvalidInputError(
            "radius is below the norm of every row, so every row would be clipped; agree on a larger radius"
        )
    if n_points * float(privacy.delta or 0) >= 1:
        raise InvalidInputError(
            f"delta must be less than 1 / {n_points}, one over the number of rows; got {privacy.delta}"
        )
    if share > CLIPPED_SHARE:
        _warn(f"{share:.0%} of the rows are clipped: their norm exceeds the radius; agree on a larger one", "clipped")
    for found in _own_numbers(points, lengths, privacy.radius):
        _warn(f"{found}, which would void the promise; use numbers agreed without these rows", "own-scale")
    needed = privacy.least_points(n_clusters, n_features)
    if n_points < needed:
        _warn(
            f"{plural(n_points, 'row')} cannot support epsilon {privacy.epsilon:g} with "
            f"{plural(n_clusters, 'cluster')} and {plural(n_features, 'column')}; about {needed:,} are needed. More "
            "rows, a larger epsilon, or fewer clusters or columns help",
            "too-few-rows",
        )


def _own_numbers(points: Array, lengths: Array, radius: float) -> Iterator[str]:
    """What should be public, but seems to be computed from these very rows."""
    if len(points) < 2:
        return
    means, spreads = points.mean(axis=0, dtype=np.float64), points.std(axis=0, dtype=np.float64)
    if max(abs(means).max(), abs(spreads - 1).max()) < OWN_SCALE:
        yield "the scale seems to be computed from these rows (every column has mean 0 and spread 1)"
    if np.count_nonzero(abs(lengths / radius - 1) < 1e-12) == 1 and lengths.max() <= radius * (1 + 1e-12):
        yield "radius seems to be computed from these rows (it is the length of the longest one)"


def _warn(text: str, code: str) -> None:
    warnings.warn(PrivacyWarning(text, code), stacklevel=5)
