"""When k-FED is proved to be right: the conditions that the proofs of the main theorem use, and which of them hold.

The quantities are those of section 3 of the paper, from sizes, distances and one norm. `kfed.separation` measures the
norm on the data; a certificate has an interval for it, from messages alone. Whatever is about pairs of clusters is a
symmetric array of shape (n_clusters, n_clusters), NaN where there is no pair: on the diagonal, and where a cluster has
no points.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from kfed._base import text
from kfed._base.array import Array
from kfed.theory import words
from kfed.theory.presence import Presence

LEAST_RATIO = 100.0
"""c: "any c >= 100 is sufficient for our arguments", says the paper, and its lemma on local centers takes it."""

INACTIVE_FACTOR = 10.0
"""What the proofs ask of every pair, in place of c."""


class Bounds(NamedTuple):
    """An interval, of a number or of an array, entry by entry."""

    lower: Any
    upper: Any


# The scales, and the distances that are asked for ----------------------------------------------------------------


def active_scales(deviation: float, presence: Presence) -> Array:
    """Delta_r = k' norm(A - C) / sqrt(n_r), (n_clusters,)."""
    return presence.max_local_clusters * deviation * _inverse_roots(presence.cluster_sizes)


def inactive_scale(deviation: float, presence: Presence) -> float:
    """Give lambda = sqrt(k') norm(A - C) / sqrt(n_min), with n_min the smallest device or cluster."""
    return float(np.sqrt(presence.max_local_clusters / presence.smallest_size) * deviation)


def separation_ratios(distances: Array, deviation: float, presence: Presence) -> Array:
    """c_rs, the distance of two means over 2 sqrt(m0) (Delta_r + Delta_s)."""
    return over(distances, device_separations(deviation, presence, 1.0))


def device_separations(deviation: float, presence: Presence, required_ratio: float) -> Array:
    """2 c sqrt(m0) (Delta_r + Delta_s), the distance at which a device that has both clusters tells them apart."""
    scales = sums_of_pairs(active_scales(deviation, presence))
    return np.asarray(2 * required_ratio * np.sqrt(presence.size_imbalance) * scales)


def server_separations(deviation: float, presence: Presence) -> Array:
    """10 sqrt(m0) lambda, the distance at which the server tells the device centers of two clusters apart."""
    least = INACTIVE_FACTOR * np.sqrt(presence.size_imbalance) * inactive_scale(deviation, presence)
    return np.where(np.isnan(sums_of_pairs(_inverse_roots(presence.cluster_sizes))), np.nan, least)


def required_separations(deviation: float, presence: Presence, required_ratio: float = LEAST_RATIO) -> Array:
    """Find the distance that the proofs require: the server's for every pair, also the device's for active ones."""
    on_server = server_separations(deviation, presence)
    on_device = device_separations(deviation, presence, required_ratio)
    return np.where(presence.is_active, np.maximum(on_device, on_server), on_server)


def corollary_separations(deviation: float, presence: Presence, required_ratio: float = LEAST_RATIO) -> Array:
    """Find the distance that the corollary asks of a pair, if k' <= sqrt(k).

    f sqrt(m0) norm(A - C) (1 / sqrt(n_r) + 1 / sqrt(n_s)), where f is 2 c sqrt(k) for an active pair and 10 k^(1/4)
    for an inactive one.
    """
    n_clusters = presence.n_clusters
    factors = np.where(presence.is_active, 2 * required_ratio * n_clusters**0.5, INACTIVE_FACTOR * n_clusters**0.25)
    return np.asarray(factors * np.sqrt(presence.size_imbalance) * proximity_gaps(deviation, presence.cluster_sizes))


def centralized_separations(deviation: float, sizes: Array, required_ratio: float = LEAST_RATIO) -> Array:
    """Find the distance that clustering all points in one place asks of every pair (lemma:awasthi).

    c sqrt(k) norm(A - C) (1 / sqrt(n_r) + 1 / sqrt(n_s)).
    """
    return np.asarray(required_ratio * len(sizes) ** 0.5 * proximity_gaps(deviation, sizes))


def proximity_gaps(deviation: float, sizes: Array) -> Array:
    """(1 / sqrt(n_r) + 1 / sqrt(n_s)) norm(A - C): how much nearer a point must be to its own mean."""
    return sums_of_pairs(deviation * _inverse_roots(sizes))


# The conditions --------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Condition:
    """A condition that the proofs of the main theorem use, and whether a clustering meets it.

    Attributes
    ----------
    name : str
        What must hold.
    source : str
        Where the paper uses it; lemmas by their labels in its LaTeX source.
    is_met : bool or None
        None if it is not known.
    reason : str
        Why it is not met or not known; empty if it is met.
    """

    name: str
    source: str
    is_met: bool | None
    reason: str = ""


@dataclass(frozen=True)
class Measured:
    """What is known of a clustering: exact values if from points, bounds if from messages."""

    presence: Presence
    distances: Bounds  # of the means, arrays of pairs
    deviation: Bounds  # norm(A - C)
    required_ratio: float  # c
    names: Sequence[object]  # of the clusters
    split: str = ""  # which devices sent several centers of one cluster
    missing: tuple[str, ...] = ()  # why the bounds are infinitely wide
    about: str = ""  # what to write before a share that is an upper bound

    def shares(self, lengths: Bounds) -> Bounds:
        """Distances over lengths that grow with the deviation."""
        return Bounds(over(self.distances.lower, lengths.upper), over(self.distances.upper, lengths.lower))

    @property
    def ratios(self) -> Bounds:
        """c_rs of each pair."""
        return self.shares(self._lengths(1.0)[0])

    @property
    def attained(self) -> Bounds:
        """Distances over those that the proofs ask for: at least 1 is enough."""
        return self.shares(
            Bounds(*(required_separations(norm, self.presence, self.required_ratio) for norm in self.deviation))
        )

    def conditions(self) -> tuple[Condition, ...]:
        """Check every condition that the proofs use. One cluster has none."""
        if self.presence.n_clusters == 1:
            return ()
        active = self.presence.is_active
        on_device, on_server = map(self.shares, self._lengths(self.required_ratio))
        stated = Bounds(*(np.where(active, *both) for both in zip(on_device, on_server, strict=True)))
        worst = np.where(stated.upper < 1, self.attained.upper, stated.upper)  # of a pair that is too near for both
        too_near = words.pairs_too_near(worst, self.names, self.about)
        start = Bounds(*(np.where(active, share, np.nan) for share in on_server))
        unnamed = np.where(on_device.upper >= 1, start.upper, np.nan)
        on_server_only = words.pairs_too_near_on_server(unnamed, self.names, self.about, self.presence.smallest_size)
        return (
            self._large_constant(),
            self._no_cluster_is_empty(),
            Condition("each device has one center for each of its clusters", _CENTER_INIT, not self.split, self.split),
            self._far_enough(ACTIVE, _CENTERSEP, stated, active, too_near),
            self._far_enough(INACTIVE, _MISSCLASS, stated, ~active, too_near),
            self._far_enough(START, _CENTER_INIT, start, active, on_server_only or too_near),
        )

    def _lengths(self, required_ratio: float) -> tuple[Bounds, Bounds]:
        """The distances asked for by devices and by the server."""
        presence, norms = self.presence, self.deviation
        return (
            Bounds(*(device_separations(norm, presence, required_ratio) for norm in norms)),
            Bounds(*(server_separations(norm, presence) for norm in norms)),
        )

    def _large_constant(self) -> Condition:
        is_large = self.required_ratio >= LEAST_RATIO
        reason = "" if is_large else f"the proofs need c of at least {LEAST_RATIO:g}; got {self.required_ratio:g}"
        return Condition(f"c is at least {LEAST_RATIO:g}", "lemma:awasthi, lemma:localbound", is_large or None, reason)

    def _no_cluster_is_empty(self) -> Condition:
        empty = np.flatnonzero(self.presence.cluster_sizes == 0)
        many = "" if len(empty) == 1 else "s"
        reason = f"no points in cluster{many} {text.listed(list(map(str, empty)))}; use a smaller n_clusters"
        return Condition("every cluster has points", _CENTER_INIT, len(empty) == 0, reason * (len(empty) > 0))

    def _far_enough(self, name: str, source: str, shares: Bounds, pairs: Array, too_near: str) -> Condition:
        if (shares.upper[pairs] < 1).any():
            return Condition(name, source, False, too_near)
        is_open = (shares.lower[pairs] < 1).any()
        return Condition(name, source, None, self._left_open()) if is_open else Condition(name, source, True)

    def _left_open(self) -> str:
        lower = self.attained.lower
        n_open, n_pairs = (np.count_nonzero(np.triu(chosen, 1)) for chosen in (lower < 1, lower >= 0))
        doubt = (
            f"messages leave open whether distances are large enough for {n_open:,} of {n_pairs:,} pairs of clusters"
        )
        return "; ".join(self.missing) or doubt


ACTIVE = "clusters that share a device: 2c sqrt(m0) (Delta_r + Delta_s) apart"
INACTIVE = "clusters that share no device: 10 sqrt(m0) lambda apart"
START = "clusters that share a device: 10 sqrt(m0) lambda apart, too"

_CENTERSEP = "definition of active separation, lemma:centersep2"
_MISSCLASS = "main theorem, lemma:missclass_lb"
_CENTER_INIT = "lemma:center_init"


def verdict_of(conditions: Sequence[Condition]) -> tuple[str, bool | None]:
    """Give the verdict in words, and as a value.

    Examples
    --------
    >>> verdict_of([Condition("every cluster has points", "", True)])
    ('guaranteed', True)
    >>> verdict_of([Condition("c is at least 100", "", None, "the proofs need c of at least 100; got 7")])
    ('unknown: the proofs need c of at least 100; got 7', None)
    """
    for is_met, word in ((False, "not guaranteed"), (None, "unknown")):
        reasons = dict.fromkeys(condition.reason for condition in conditions if condition.is_met is is_met)
        if reasons:
            return f"{word}: {'; '.join(reasons)}", is_met
    return "guaranteed", True


# Arithmetic of pairs ---------------------------------------------------------------------------------------------


def sums_of_pairs(values: Array) -> Array:
    """``values[r] + values[s]``, NaN on the diagonal."""
    sums = values[:, None] + values
    np.fill_diagonal(sums, np.nan)
    return np.asarray(sums)


def over(distances: Array, lengths: Array) -> Array:
    """Distances as multiples of lengths. Two means at one place are zero apart, even where the length is zero too."""
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        ratios = np.where(distances > 0, distances / lengths, 0.0)
    ratios[np.isnan(lengths)] = np.nan
    return ratios


def _inverse_roots(sizes: Array) -> Array:
    return 1 / np.sqrt(np.where(sizes > 0, sizes, np.nan))
