"""`separation_report`: the conditions of the paper's main theorem, measured on data with a target clustering.

Definitions and theorem are those of section 3: active and inactive pairs, the scales Delta_r and lambda, m0, k',
and the proximity condition.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from kfed._base import checks, pool, text
from kfed._base.array import Array, frozen
from kfed._base.report import TextTable
from kfed.separation.judgement import SeparationJudgement
from kfed.separation.labelled import Labelled
from kfed.theory import (
    Bounds,
    Measured,
    Presence,
    active_scales,
    caveats,
    corollary_separations,
    inactive_scale,
    kinds_of_pairs,
    over,
    required_separations,
    sums_of_pairs,
)

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
    points : array, sparse matrix or data frame of shape (n_points, n_features), or a list of them, one for each device
        A. A sparse matrix is never made dense.
    target_labels : array of shape (n_points,), or a list of arrays, one for each device
        The target clustering T: the cluster of each point, as a number or a string.
    groups : array of shape (n_points,), optional
        The device of each row of one table. By default all rows are on one device.
    n_clusters : int, optional
        If given, the clusters are 0, 1, ..., n_clusters - 1, and each must have points. By default the clusters are
        the labels that occur.
    required_ratio : float
        c of the main theorem. Below 100 nothing is proved.
    n_jobs : int, optional
        Number of threads, by default one per core. It does not change the result.

    Returns
    -------
    SeparationReport

    See Also
    --------
    kfed.Aggregation.certificate : Bounds on the same quantities, from messages alone.

    References
    ----------
    Dennis, Li and Smith, "Heterogeneity for the Win: One-Shot Federated Clustering", ICML 2021, section 3.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> means = 2000 * np.eye(4)  # four clusters, two on each device
    >>> labels = np.repeat([0, 1, 2, 3], 50)
    >>> report = separation_report(means[labels] + rng.normal(size=(200, 4)), labels, groups=labels // 2)
    >>> report.verdict
    'guaranteed for every point'
    >>> report.active_pairs.tolist(), report.size_imbalance, report.max_local_clusters
    ([[0, 1], [2, 3]], 1.0, 2)
    >>> bool((report.separation_ratios[tuple(report.active_pairs.T)] > 100).all())
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
        measured = Measured(presence, Bounds(apart, apart), Bounds(norm, norm), required_ratio, data.clusters)
        return SeparationReport(
            required_ratio=required_ratio,
            conditions=measured.conditions(),
            notes=tuple(caveats(presence)),
            clusters=data.clusters,
            device_ids=data.device_ids,
            spectral_deviation=norm,
            cluster_sizes=frozen(problem.sizes),
            smallest_device=int(presence.smallest_device),
            smallest_size=int(presence.smallest_size),
            size_imbalance=presence.size_imbalance,
            max_local_clusters=presence.max_local_clusters,
            active_scales=frozen(active_scales(norm, presence)),
            inactive_scale=inactive_scale(norm, presence),
            active_pairs=frozen(presence.active_pairs),
            inactive_pairs=frozen(presence.inactive_pairs),
            distances=frozen(apart),
            separation_ratios=frozen(measured.ratios.lower),
            required_separations=frozen(required_separations(norm, presence, required_ratio)),
            corollary_separations=frozen(corollary_separations(norm, presence, required_ratio)),
            fails_globally=frozen(data.as_given(problem.fails_proximity())),
            fails_locally=frozen(data.as_given(fails_locally)),
            local_failures=frozen(np.add.reduceat(fails_locally, data.ends[:-1], dtype=np.int64)),
        )


@dataclass(frozen=True, eq=False, kw_only=True)
class SeparationReport(SeparationJudgement):
    """The quantities of the paper's section 3 on data with a target clustering. Made by `separation_report`.

    An array of pairs has shape (n_clusters, n_clusters) and is NaN on the diagonal; clusters are numbered as in
    `clusters`. The conditions are sufficient, not necessary: a clustering that is not guaranteed may
    still be right.

    Attributes
    ----------
    required_ratio : float
        c of the main theorem.
    conditions : tuple of Condition
        Every condition that the proofs use: its name, where the paper uses it, and whether it is met.
    notes : tuple of str
        Caveats of the verdict.
    clusters : tuple
        The distinct target labels, sorted.
    device_ids : tuple of str
        The devices: ``str`` of each group, sorted, or of the position in a list.
    spectral_deviation : float
        norm(A - C): C has the mean of its cluster in the place of each point.
    cluster_sizes : array of int, shape (n_clusters,)
        n_r.
    smallest_device : int
        Points of the smallest device.
    smallest_size : int
        n_min, the points of the smallest device or cluster, whichever has fewer.
    size_imbalance : float
        m0: every device that has points of a cluster has at least one part in m0 of them.
    max_local_clusters : int
        k', the most clusters on a device.
    active_scales : array of shape (n_clusters,)
        Delta_r = k' norm(A - C) / sqrt(n_r).
    inactive_scale : float
        lambda = sqrt(k') norm(A - C) / sqrt(n_min), with n_min the `smallest_size`.
    active_pairs, inactive_pairs : arrays of int, shape (n_pairs, 2)
        Pairs of clusters that share a device, and pairs that do not; the lower number first.
    distances : array of pairs
        Distances of the means.
    separation_ratios : array of pairs
        c_rs, the distance over 2 sqrt(m0) (Delta_r + Delta_s). Infinite if the deviation is zero.
    required_separations : array of pairs
        The distance that the proofs of the main theorem require: 10 sqrt(m0) lambda for every pair, and for an active
        pair 2c sqrt(m0) (Delta_r + Delta_s), too.
    corollary_separations : array of pairs
        The distance that the corollary requires, with 2c as in the proofs. It applies if k' <= sqrt(k).
    fails_globally, fails_locally : arrays of bool, shape (n_points,)
        Points that fail the proximity condition in the clustering of all points, or in that of their own device
        with its own means, sizes and norm; in the order of the input.
    local_failures : array of int, shape (n_devices,)
        How many points of each device fail locally.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> devices = [np.concatenate([rng.normal(99 * g, size=(40, 2)) for g in own]) for own in ((0, 1), (1, 2), (2, 0))]
    >>> labels = [np.repeat(own, 40) for own in ((0, 1), (1, 2), (2, 0))]
    >>> kfed.separation_report(devices, labels).n_clusters
    3
    """

    smallest_size: int
    clusters: tuple[Any, ...] = field(repr=False)
    device_ids: tuple[str, ...] = field(repr=False)
    spectral_deviation: float
    smallest_device: int
    active_scales: Array = field(repr=False)
    inactive_scale: float
    inactive_pairs: Array = field(repr=False)
    separation_ratios: Array = field(repr=False)
    corollary_separations: Array = field(repr=False)
    fails_globally: Array = field(repr=False)
    fails_locally: Array = field(repr=False)
    local_failures: Array = field(repr=False)

    @property
    def corollary_attained(self) -> Array:
        """Distances over the distances that the corollary requires; NaN if it does not apply."""
        shares = over(self.distances, self.corollary_separations)
        return shares if self.is_heterogeneous else np.full_like(shares, np.nan)

    def guarantee(self) -> str:
        """What holds if every condition is met, and for which points."""
        if self.fails_locally.any() and self.n_clusters > 1:
            return "guaranteed for all but O(1/c^2) of the points"
        return "guaranteed for every point"

    def to_dict(self) -> dict[str, Any]:
        """Convert to JSON types. Points that fail are counted; a number that is not finite becomes None."""
        facts = {"verdict": self.verdict, "is_guaranteed": self.is_guaranteed, **self._values()}
        facts |= {"is_heterogeneous": self.is_heterogeneous, "attained": self.attained}
        facts |= {name: np.count_nonzero(facts[name]) for name in ("fails_globally", "fails_locally")}
        result: dict[str, Any] = text.plain(facts)
        return result

    def facts(self) -> list[tuple[str, str]]:
        """List the numbers that are about all clusters, each with its name."""
        n_least = self.smallest_device
        return [
            ("points", f"{len(self.fails_locally):,}"),
            ("devices", f"{len(self.device_ids):,}, the smallest with {n_least:,} point{'s' * (n_least != 1)}"),
            *self._facts_of_theorem(f"{self.spectral_deviation:.4g}", f"{self.inactive_scale:.4g}"),
            ("active scales, Delta_r", f"{self.active_scales.min():.4g} to {self.active_scales.max():.4g}"),
            ("points that fail proximity", _share(self.fails_globally)),
            ("... in their device's own problem", _share(self.fails_locally)),
        ]

    def pair_table(self) -> TextTable:
        """Tabulate the active and the inactive pairs of clusters, a row each."""
        kinds = kinds_of_pairs(self.attained, self.active_pairs)
        return TextTable("", PAIRS_HEADER, tuple(self._pair_row(*kind) for kind in kinds))

    def ratios_to_draw(self) -> tuple[Array, Array, str]:
        """c_rs of each pair, and the c_rs that the proofs require of it."""
        lengths = 2 * np.sqrt(self.size_imbalance) * sums_of_pairs(self.active_scales)
        return self.separation_ratios, over(self.required_separations, lengths), "separation ratio"

    def _pair_row(self, name: str, pairs: Array) -> tuple[str, ...]:
        every = self.separation_ratios, self.attained, self.corollary_attained
        ratios, met, met_corollary = (values[pairs] for values in every)
        return (
            name,
            f"{len(ratios):,}",
            *(f"{number:.3g}" for number in (ratios.min(), np.median(ratios), ratios.max())),
            f"{np.count_nonzero(met >= 1):,}",
            f"{np.count_nonzero(met_corollary >= 1):,}" if self.is_heterogeneous else "does not apply",
        )


def _share(failing: Array) -> str:
    n_failing = np.count_nonzero(failing)
    return f"{n_failing:,} of {len(failing):,} ({n_failing / len(failing):.2%})"
