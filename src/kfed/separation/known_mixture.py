"""`mixture_report`: the theorem on mixtures of Gaussians, for a mixture that is known before any point is drawn.

The theorem of section 4.1 asks active pairs of means to be c sqrt(k m0) sigma_max / sqrt(w_min) polylog(d / w_min)
apart, and inactive ones c sqrt(m0) k^(1/4) sigma_max / sqrt(w_min) polylog(d / w_min). The constants here are those
with which its proof ends in the corollary's conditions: 4c for active pairs, with its c, and 20 for inactive ones.
The corollary has no n_min; the main theorem asks for 10 sqrt(m0) lambda, and the smallest device counts in it. What a
device holds of its components is at least one part in m0, so that is asked of every pair as well (decision 0016).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from kfed._base import checks, text
from kfed._base.array import Array, frozen
from kfed._base.report import TextTable
from kfed.errors import InvalidInputError
from kfed.separation.judgement import SeparationJudgement
from kfed.theory import (
    INACTIVE_FACTOR,
    LEAST_RATIO,
    Condition,
    Presence,
    distances_of,
    kinds_of_pairs,
    over,
    pairs_too_near,
)

THEOREM = "theorem on mixtures of Gaussians"
NOTES = (
    "with high probability, and for a number of points that is a polynomial of d / w_min, which is left open",
    "polylog(d / w_min) is left open as well; for Gaussian noise norm(A - C) is at most "
    "sigma_max (sqrt(n) + sqrt(d) + t) with probability 1 - exp(-t^2 / 2), so that no logarithm is needed where n >> d",
)


def mixture_report(
    means: Any,
    held: Sequence[Any],
    *,
    sigma_max: float = 1.0,
    weights: Any = None,
    size_imbalance: float | None = None,
    required_ratio: float = LEAST_RATIO,
    polylog: float = 1.0,
) -> MixtureReport:
    """Judge by the paper's theorem on mixtures whether k-FED will find the components of a known mixture.

    Parameters
    ----------
    means : array of shape (n_clusters, n_features)
        mu_r of the components.
    held : sequence of sequences of int
        The components of each device.
    sigma_max : float
        Largest standard deviation of a component in any direction.
    weights : array of shape (n_clusters,), optional
        w_r; by default all are equal.
    size_imbalance : float, optional
        m0: every device that has a component has at least one part in m0 of its points. By default the most devices
        that hold one component, which is the least that is possible.
    required_ratio : float
        c of the main theorem. Below 100 nothing is proved.
    polylog : float
        The factor polylog(d / w_min), which the theorem does not give.

    Returns
    -------
    MixtureReport

    See Also
    --------
    kfed.separation_report : The same for points that are there.

    Examples
    --------
    >>> means, held = 10_000 * np.eye(16), [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9, 10, 11], [12, 13, 14, 15]]
    >>> means[4] = means[0] + 200 * np.eye(16)[4]  # near, but no device holds both
    >>> mixture_report(means, held).verdict
    'guaranteed with high probability'
    >>> means[4] = means[0] + 100 * np.eye(16)[4]
    >>> mixture_report(means, held).verdict[16:]
    '1 of 120 pairs of clusters is nearer than the main theorem requires: 0 and 4 (0.62 of the required distance)'
    """
    centers = checks.finite_table(means, "means").astype(np.float64)
    shares = _weights(weights, len(centers))
    for name, value in {"sigma_max": sigma_max, "required_ratio": required_ratio, "polylog": polylog}.items():
        checks.positive_number(value, name)
    presence = _presence(held, shares)
    m0 = _size_imbalance(size_imbalance, presence)
    required = sigma_max * polylog * _separations(presence, shares, m0, required_ratio)
    distances = distances_of(centers)
    return MixtureReport(
        required_ratio=required_ratio,
        conditions=_conditions(presence, distances, required, required_ratio),
        notes=NOTES,
        distances=frozen(distances),
        active_pairs=frozen(presence.active_pairs),
        cluster_sizes=frozen(shares),
        smallest_size=float(shares.min()),
        size_imbalance=m0,
        max_local_clusters=presence.max_local_clusters,
        sigma_max=float(sigma_max),
        n_features=centers.shape[1],
        required_separations=frozen(required),
    )


def _weights(weights: Any, n_clusters: int) -> Array:
    given = np.ones(n_clusters) if weights is None else np.asarray(weights, np.float64)
    if given.shape != (n_clusters,) or not np.isfinite(given).all() or (given <= 0).any():
        raise InvalidInputError(f"weights must be {n_clusters} positive numbers, one for each component")
    return np.asarray(given / given.sum())


def _presence(held: Sequence[Any], weights: Array) -> Presence:
    """Which components are on which devices, each as large on a device as its weight."""
    must = f"held must name components from 0 to {len(weights) - 1} for each device, such as [[0], [0, 1]]"
    if isinstance(held, str) or not isinstance(held, Iterable):
        raise InvalidInputError(f"{must}; got a {type(held).__name__}")
    own = [_components(components, len(weights), must) for components in held]
    every = np.concatenate(own) if own else np.empty(0, np.int64)
    if len(every) == 0:
        raise InvalidInputError(f"{must}; got none")
    devices = np.repeat(np.arange(len(own)), list(map(len, own)))
    return Presence.of(devices, every, weights[every], n_clusters=len(weights))


def _components(components: Any, n_clusters: int, must: str) -> Array:
    """The components of one device, each once."""
    if isinstance(components, str) or not isinstance(components, Iterable):
        raise InvalidInputError(f"{must}; got a {type(components).__name__} for a device")
    listed = list(components)
    if not all(isinstance(one, (int, np.integer)) and not isinstance(one, bool) for one in listed):
        raise InvalidInputError(f"{must}; got something else than whole numbers")
    if listed and not 0 <= min(listed) <= max(listed) < n_clusters:
        raise InvalidInputError(f"{must}; got {min(listed) if min(listed) < 0 else max(listed)}")
    return np.unique(np.array(listed, np.int64))


def _size_imbalance(given: float | None, presence: Presence) -> float:
    """m0, which is at least the number of devices that share a component: one of them has no more than its part."""
    n_holders = np.bincount(presence.clusters, minlength=presence.n_clusters)
    least = float(n_holders.max())
    if given is None:
        return least
    if checks.positive_number(given, "size_imbalance") < least:
        raise InvalidInputError(
            f"size_imbalance must be at least {least:g}, as component {n_holders.argmax()} is on "
            f"{text.plural(int(least), 'device')}; got {given:g}"
        )
    return float(given)


def _separations(presence: Presence, weights: Array, m0: float, c: float) -> Array:
    """The distance that each pair needs, in sigma_max, as norm(A - C) is about sigma_max sqrt(n)."""
    unit, n_clusters = np.sqrt(m0 / weights.min()), len(weights)
    active, inactive = 4 * c * n_clusters**0.5 * unit, 2 * INACTIVE_FACTOR * n_clusters**0.25 * unit
    least_device = presence.smallest_device / m0  # its share of all points, at least
    on_server = INACTIVE_FACTOR * np.sqrt(m0 * presence.max_local_clusters / least_device)  # 10 sqrt(m0) lambda
    required: Array = np.maximum(np.where(presence.is_active, active, inactive), on_server)
    np.fill_diagonal(required, np.nan)
    return np.asarray(required)


def _conditions(presence: Presence, distances: Array, required: Array, c: float) -> tuple[Condition, ...]:
    shares, active = over(distances, required), presence.is_active
    absent = np.flatnonzero(presence.cluster_sizes == 0)
    nowhere = f"no device has {text.listed(list(map(str, absent)))}" if len(absent) else ""
    diverse = presence.is_heterogeneous
    too_many = "" if diverse else "k' is larger than sqrt(k), for which the theorem says nothing"
    small = "" if c >= LEAST_RATIO else f"the proofs need c of at least {LEAST_RATIO:g}; got {c:g}"
    near = pairs_too_near(shares, range(presence.n_clusters))
    met = {kind: not (shares[pairs] < 1).any() for kind, pairs in (("share a", active), ("share no", ~active))}
    return (
        Condition(f"c is at least {LEAST_RATIO:g}", "lemma:awasthi, lemma:localbound", c >= LEAST_RATIO or None, small),
        Condition("every component is on a device", THEOREM, not len(absent), nowhere),
        Condition("k' is at most sqrt(k)", THEOREM, diverse, too_many),
        *(
            Condition(f"components that {kind} device are far enough apart", THEOREM, is_met, "" if is_met else near)
            for kind, is_met in met.items()
        ),
    )


@dataclass(frozen=True, eq=False, kw_only=True)
class MixtureReport(SeparationJudgement):
    """What the theorem on mixtures says of a known mixture. Made by `mixture_report`.

    Attributes
    ----------
    required_ratio : float
        c of the main theorem.
    conditions : tuple of Condition
        What the theorem asks, and whether it is met.
    notes : tuple of str
        Caveats of the verdict.
    distances : array of shape (n_clusters, n_clusters)
        Distances of the means.
    active_pairs : array of int, shape (n_pairs, 2)
        Pairs of components that share a device.
    cluster_sizes : array of shape (n_clusters,)
        w_r, which add up to 1.
    smallest_size : float
        w_min.
    size_imbalance : float
        m0.
    max_local_clusters : int
        k', the most components on a device.
    sigma_max : float
        Largest standard deviation of a component in any direction.
    n_features : int
        d.
    required_separations : array of shape (n_clusters, n_clusters)
        The distance that the theorem asks of each pair, and the main theorem with the smallest device that m0
        allows, whichever is larger; NaN on the diagonal.
    """

    sigma_max: float
    n_features: int

    def guarantee(self) -> str:
        """What holds if every condition is met."""
        return "guaranteed with high probability"

    def facts(self) -> list[tuple[str, str]]:
        """List the numbers that are about all components, each with its name."""
        return [
            ("components, k", str(self.n_clusters)),
            ("most on one device, k'", str(self.max_local_clusters)),
            ("size imbalance, m0", f"{self.size_imbalance:.4g}"),
            ("largest standard deviation, sigma_max", f"{self.sigma_max:.4g}"),
            ("smallest weight, w_min", f"{self.smallest_size:.4g}"),
            ("features, d", str(self.n_features)),
            ("required ratio, c", f"{self.required_ratio:g}"),
        ]

    def pair_table(self) -> TextTable:
        """Tabulate the active and the inactive pairs of components, a row each."""
        rows = []
        for name, pairs in kinds_of_pairs(self.attained, self.active_pairs):
            least, required = self.distances[pairs].min(), self.required_separations[pairs].max()
            n_met = np.count_nonzero(self.attained[pairs] >= 1)
            rows.append((name, f"{np.count_nonzero(pairs):,}", f"{least:.4g}", f"{required:.4g}", f"{n_met:,}"))
        return TextTable("", ("pairs", "number", "least distance", "required", "far enough"), tuple(rows))

    def ratios_to_draw(self) -> tuple[Array, Array, str]:
        """Distances in sigma_max, and those that the theorem asks for."""
        return self.distances / self.sigma_max, self.required_separations / self.sigma_max, "distance in sigma_max"
