"""`separation_report`: the conditions of the paper's main theorem, measured on data with a target clustering.

Definitions and theorem are those of section 3: active and inactive pairs, the scales Delta_r and lambda, m0, k',
and the proximity condition. `choose_by_separation` is the appendix's rule for choosing k by them.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from kfed._base import checks, pool, text
from kfed._base.array import Array, frozen
from kfed.errors import InvalidInputError
from kfed.separation.labelled import Labelled
from kfed.theory import (
    Presence,
    active_scales,
    caveats,
    corollary_separations,
    inactive_scale,
    over,
    pairs_too_near,
    required_separations,
    separation_ratios,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

PAIRS_HEADER = ("pairs", "number", "least c_rs", "median", "largest", "meet the theorem", "meet the corollary")


def separation_report(
    points: Any,
    target_labels: Any,
    groups: Any = None,
    *,
    n_clusters: int | None = None,
    required_ratio: float = 100.0,
    n_jobs: int | None = None,
) -> SeparationReport:
    """Measure on data whether the paper's main theorem covers a clustering of it.

    Parameters
    ----------
    points : array, sparse matrix or data frame of shape (n_points, n_features), or a list of them, one a device
        A. Sparse rows stay sparse.
    target_labels : array of shape (n_points,), or a list of arrays, one a device
        The target clustering T: the cluster of each point, as numbers or words.
    groups : array of shape (n_points,), optional
        The device of each row of one table; by default it is all one device.
    n_clusters : int, optional
        Says that the clusters are 0, 1, ..., n_clusters - 1 and each must have points; by default they are the labels
        that occur.
    required_ratio : float
        c of the main theorem, in whose proof 100 is large enough.
    n_jobs : int, optional
        Number of threads, by default one per core. It does not change the answer.

    Returns
    -------
    SeparationReport

    See Also
    --------
    kfed.Aggregation.certificate : The same from messages alone, as an interval.

    References
    ----------
    Dennis, Li and Smith, "Heterogeneity for the Win: One-Shot Federated Clustering", ICML 2021, section 3.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> means = 1000 * np.eye(4)  # four clusters, two on each device
    >>> labels = np.repeat([0, 1, 2, 3], 50)
    >>> report = separation_report(means[labels] + rng.normal(size=(200, 4)), labels, groups=labels // 2)
    >>> report.verdict
    'guaranteed for every point'
    >>> report.active_pairs.tolist(), report.size_imbalance, report.max_local_clusters
    ([[0, 1], [2, 3]], 1.0, 2)
    >>> bool((report.separation_ratios[tuple(report.active_pairs.T)] > 50).all())
    True
    """
    required_ratio = checks.positive_number(required_ratio, "required_ratio")
    data = Labelled.of(points, target_labels, groups, n_clusters)
    with pool.one_blas_thread():
        problem = data.problem(n_jobs)
        presence = Presence.of(data.devices, data.labels, n_clusters=problem.n_clusters)
        fails_locally = np.zeros(len(data.labels), bool)
        for own, local in data.local_problems(n_jobs):
            if local.n_clusters > 1:
                fails_locally[own] = local.fails_proximity()
        norm, apart = problem.spectral_deviation, problem.distances
        required = required_separations(norm, presence, required_ratio)
        return SeparationReport(
            required_ratio=required_ratio,
            notes=tuple(caveats(presence, over(apart, required))),
            clusters=data.clusters,
            device_ids=data.device_ids,
            spectral_deviation=norm,
            cluster_sizes=frozen(problem.sizes),
            smallest_device=int(presence.smallest_device),
            size_imbalance=presence.size_imbalance,
            max_local_clusters=presence.max_local_clusters,
            active_scales=frozen(active_scales(norm, presence)),
            inactive_scale=inactive_scale(norm, presence),
            active_pairs=frozen(presence.active_pairs),
            inactive_pairs=frozen(presence.inactive_pairs),
            distances=frozen(apart),
            separation_ratios=frozen(separation_ratios(apart, norm, presence)),
            required_separations=frozen(required),
            corollary_separations=frozen(corollary_separations(norm, presence, required_ratio)),
            fails_globally=frozen(data.as_given(problem.fails_proximity())),
            fails_locally=frozen(data.as_given(fails_locally)),
            local_failures=frozen(np.add.reduceat(fails_locally, data.ends[:-1], dtype=np.int64)),
        )


@dataclass(frozen=True, eq=False)
class SeparationReport:
    """The quantities of the paper's section 3 on data with a target clustering. Made by `separation_report`.

    An array of pairs has shape (n_clusters, n_clusters) and is NaN on the diagonal; clusters are numbered as in
    `clusters`. The conditions are sufficient, not necessary: what is not guaranteed may well be right.

    Attributes
    ----------
    required_ratio : float
        c of the main theorem.
    notes : tuple of str
        What else to know before relying on the verdict.
    clusters : tuple
        The distinct target labels, sorted.
    device_ids : tuple of str
        The devices: ``str`` of each group, sorted, or of the position in a list.
    spectral_deviation : float
        norm(A - C): C has the mean of its cluster in the place of each point.
    cluster_sizes : array of int, shape (n_clusters,)
        n_r.
    smallest_device : int
        n_min, the points of the smallest device.
    size_imbalance : float
        m0: every device that has points of a cluster has at least one part in m0 of them.
    max_local_clusters : int
        k', the most clusters on a device.
    active_scales : array of shape (n_clusters,)
        Delta_r = k' norm(A - C) / sqrt(n_r).
    inactive_scale : float
        lambda = sqrt(k') norm(A - C) / sqrt(n_min).
    active_pairs, inactive_pairs : arrays of int, shape (n_pairs, 2)
        Pairs of clusters that some device has both of, or none has; the lower number first.
    distances : array of pairs
        Distances of the means.
    separation_ratios : array of pairs
        c_rs, the distance over 2 sqrt(m0) (Delta_r + Delta_s). Infinite if the deviation is zero.
    required_separations : array of pairs
        The distance that the main theorem asks: c sqrt(m0) (Delta_r + Delta_s) of an active pair, 10 sqrt(m0) lambda of
        an inactive one.
    corollary_separations : array of pairs
        The distance that the corollary asks, which applies if k' <= sqrt(k).
    fails_globally, fails_locally : arrays of bool, shape (n_points,)
        Points that fail the proximity condition in the clustering of all points, or in that of their own device
        with its own means, sizes and norm; in the order in which the points were given.
    local_failures : array of int, shape (n_devices,)
        How many points of each device fail locally.
    """

    required_ratio: float
    notes: tuple[str, ...] = field(repr=False)
    clusters: tuple[Any, ...] = field(repr=False)
    device_ids: tuple[str, ...] = field(repr=False)
    spectral_deviation: float
    cluster_sizes: Array = field(repr=False)
    smallest_device: int
    size_imbalance: float
    max_local_clusters: int
    active_scales: Array = field(repr=False)
    inactive_scale: float
    active_pairs: Array = field(repr=False)
    inactive_pairs: Array = field(repr=False)
    distances: Array = field(repr=False)
    separation_ratios: Array = field(repr=False)
    required_separations: Array = field(repr=False)
    corollary_separations: Array = field(repr=False)
    fails_globally: Array = field(repr=False)
    fails_locally: Array = field(repr=False)
    local_failures: Array = field(repr=False)

    @property
    def n_clusters(self) -> int:
        """Number of clusters, k."""
        return len(self.clusters)

    @property
    def is_heterogeneous(self) -> bool:
        """Whether k' <= sqrt(k)."""
        return self.max_local_clusters**2 <= self.n_clusters

    @property
    def attained(self) -> Array:
        """Distances over the distances that the main theorem asks, (n_clusters, n_clusters); it asks for 1."""
        return over(self.distances, self.required_separations)

    @property
    def corollary_attained(self) -> Array:
        """Distances over the distances that the corollary asks; NaN if it does not apply."""
        shares = over(self.distances, self.corollary_separations)
        return shares if self.is_heterogeneous else np.full_like(shares, np.nan)

    @property
    def is_guaranteed(self) -> bool:
        """Whether all pairs are as far apart as the main theorem asks."""
        return not (self.attained < 1).any()

    @property
    def verdict(self) -> str:
        """The conclusion in words: "guaranteed ..." and for which points, or "not guaranteed: ..." and why."""
        if not self.is_guaranteed:
            return f"not guaranteed: {pairs_too_near(self.attained, self.clusters)}"
        if self.fails_locally.any() and self.n_clusters > 1:
            return "guaranteed for all but O(1/c^2) of the points"
        return "guaranteed for every point"

    def to_dict(self) -> dict[str, Any]:
        """Give everything in types that JSON knows: how many points fail, and None for what is not finite."""
        facts = {"verdict": self.verdict, "is_guaranteed": self.is_guaranteed, **vars(self)}
        facts |= {"is_heterogeneous": self.is_heterogeneous, "attained": self.attained}
        facts |= {name: np.count_nonzero(facts[name]) for name in ("fails_globally", "fails_locally")}
        return {name: text.plain(value) for name, value in facts.items()}

    def __str__(self) -> str:
        pairs = ["", *text.table(self.pair_table())] if self.n_clusters > 1 else []
        notes = ["", *(f"note: {note}" for note in self.notes)] if self.notes else []
        return "\n".join([self.verdict, "", *text.facts(self.facts()), *pairs, *notes])

    def facts(self) -> list[tuple[str, str]]:
        """Give the numbers that are about all clusters, each with its name."""
        kind = "heterogeneous" if self.is_heterogeneous else "not heterogeneous"
        return [
            ("points", f"{len(self.fails_locally):,}"),
            ("devices", f"{len(self.device_ids):,}, the smallest with {self.smallest_device:,} points"),
            ("clusters, k", str(self.n_clusters)),
            ("most on one device, k'", f"{self.max_local_clusters}: {kind} (sqrt(k) is {self.n_clusters**0.5:.3g})"),
            ("size imbalance, m0", f"{self.size_imbalance:.4g}"),
            ("spectral deviation, norm(A - C)", f"{self.spectral_deviation:.4g}"),
            ("active scales, Delta_r", f"{self.active_scales.min():.4g} to {self.active_scales.max():.4g}"),
            ("inactive scale, lambda", f"{self.inactive_scale:.4g}"),
            ("required ratio, c", f"{self.required_ratio:g}"),
            ("points that fail proximity", _share(self.fails_globally)),
            ("... in their device's own problem", _share(self.fails_locally)),
        ]

    def pair_table(self) -> list[tuple[str, ...]]:
        """Give a heading, and a row for the active and for the inactive pairs of clusters."""
        return [PAIRS_HEADER, *self._pair_rows()]

    def _pair_rows(self) -> Iterator[tuple[str, ...]]:
        for name, pairs in [("active", self.active_pairs), ("inactive", self.inactive_pairs)]:
            if len(pairs):
                every = self.separation_ratios, self.attained, self.corollary_attained
                ratios, met, met_corollary = (values[tuple(pairs.T)] for values in every)
                yield (
                    name,
                    f"{len(pairs):,}",
                    *(f"{number:.3g}" for number in (ratios.min(), np.median(ratios), ratios.max())),
                    f"{np.count_nonzero(met >= 1):,}",
                    f"{np.count_nonzero(met_corollary >= 1):,}" if self.is_heterogeneous else "does not apply",
                )

    def plot(self, path: str | os.PathLike[str] | None = None, ax: Axes | None = None) -> Axes:
        """Draw how many pairs of clusters have which c_rs, active and inactive ones apart (the appendix's figure).

        Parameters
        ----------
        path : path, optional
            Where to save the picture (.png, .svg or .pdf), whole or not at all.
        ax : matplotlib Axes, optional
            Where to draw; by default on a new figure.

        Returns
        -------
        matplotlib Axes
        """
        from kfed.separation import plot

        return plot.plot_ratios(self, path, ax)


def _share(failing: Array) -> str:
    n_failing = np.count_nonzero(failing)
    return f"{n_failing:,} of {len(failing):,} ({n_failing / len(failing):.2%})"


def choose_by_separation(
    points: Any,
    candidates: Mapping[int, Any] | Sequence[Any],
    groups: Any = None,
    *,
    threshold: float = 0.5,
    n_jobs: int | None = None,
) -> SeparationChoice:
    """Choose among clusterings with different k the one whose clusters are best separated (the appendix's rule).

    It is the k with the largest share of pairs of clusters whose c_rs is above a threshold; the larger of two that tie.

    Parameters
    ----------
    points, groups
        As in `separation_report`.
    candidates : mapping from k to labels, or sequence of labels
        Clusterings of all points, such as those that k-means gives for several k; each as `target_labels` in
        `separation_report`, with at least two clusters.
    threshold : float
        c_0; the paper takes 0.5.
    n_jobs : int, optional
        Number of threads, by default one per core. It does not change the answer.

    Returns
    -------
    SeparationChoice

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> truth = np.repeat([0, 1, 2], 40)
    >>> points = 50 * np.eye(3)[truth] + rng.normal(size=(120, 3))
    >>> halves = 2 * truth + np.tile([0, 1], 60)  # each cluster cut in two at random
    >>> choice = choose_by_separation(points, {2: truth > 0, 3: truth, 6: halves})
    >>> choice.n_clusters
    3
    >>> print(choice)
    k = 3
    <BLANKLINE>
    k  pairs  share of c_rs > 0.5
    2      1                 0.0%
    3      3               100.0%
    6     15                80.0%
    """
    threshold = checks.positive_number(threshold, "threshold")
    found: dict[int, Array] = {}
    for labels in candidates.values() if isinstance(candidates, Mapping) else candidates:
        data = Labelled.of(points, labels, groups)
        n_clusters = len(data.clusters)
        if n_clusters < 2 or n_clusters in found:
            raise InvalidInputError(
                "each candidate must have a number of clusters of its own, at least 2, "
                f"and one has {n_clusters}{' as another has' if n_clusters > 1 else ''}"
            )
        with pool.one_blas_thread():
            problem, presence = data.problem(n_jobs), Presence.of(data.devices, data.labels, n_clusters=n_clusters)
            ratios = separation_ratios(problem.distances, problem.spectral_deviation, presence)
        found[n_clusters] = frozen(ratios[np.triu_indices(n_clusters, 1)])
    if not found:
        raise InvalidInputError("there must be at least one candidate, and there is none")
    return SeparationChoice(threshold, dict(sorted(found.items())))


@dataclass(frozen=True, eq=False)
class SeparationChoice:
    """The k that separation favours. Made by `choose_by_separation`.

    Attributes
    ----------
    threshold : float
        c_0.
    separation_ratios : dict from int to array of shape (n_pairs,)
        For each k, c_rs of all pairs of clusters.
    """

    threshold: float
    separation_ratios: dict[int, Array] = field(repr=False)

    @property
    def shares(self) -> dict[int, float]:
        """For each k, the share of pairs of clusters whose c_rs is above the threshold."""
        return {k: float(np.mean(ratios > self.threshold)) for k, ratios in self.separation_ratios.items()}

    @property
    def n_clusters(self) -> int | None:
        """The k with the largest share; None if no pair is above the threshold at any k."""
        share, k = max((share, k) for k, share in self.shares.items())
        return k if share > 0 else None

    def __str__(self) -> str:
        rows = [(str(k), f"{len(self.separation_ratios[k]):,}", f"{share:.1%}") for k, share in self.shares.items()]
        header = ("k", "pairs", f"share of c_rs > {self.threshold:g}")
        verdict = f"k = {self.n_clusters}" if self.n_clusters else f"no k: no pair has c_rs above {self.threshold:g}"
        return "\n".join([verdict, "", *text.table([header, *rows])])

    def plot(self, path: str | os.PathLike[str] | None = None, ax: Axes | None = None) -> Axes:
        """Draw for each k which share of pairs has c_rs above any number (the appendix's figure).

        Parameters
        ----------
        path : path, optional
            Where to save the picture (.png, .svg or .pdf), whole or not at all.
        ax : matplotlib Axes, optional
            Where to draw; by default on a new figure.

        Returns
        -------
        matplotlib Axes
        """
        from kfed.separation import plot

        return plot.plot_choice(self, path, ax)
