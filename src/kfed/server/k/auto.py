"""``n_clusters="auto"``: the number of global clusters, k, read off the farthest-first distances of device centers.

Under the paper's separation every center is near one of the first k picks, and the picks are far from each other: the
distances drop right after the k-th. Messages also say how far apart the centers of one cluster can be, and k is the
number of centers that are farther apart. The cost of all points, which follows from messages exactly, is a third
opinion. A number is relied upon only if two of them, and a few other signs, agree. Beyond the paper, which takes k as
given.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import cached_property

import numpy as np

from kfed._base import geometry
from kfed._base.array import Array
from kfed._base.averages import means_by_label
from kfed._base.text import plural, verb
from kfed.server.center_spread import CenterSpread, chance_factor, directional_deviation
from kfed.server.k import trust
from kfed.server.k.choice import KChoice
from kfed.server.k.cost_curve import calinski_harabasz
from kfed.server.k.told_apart import APART, CenterGroups, doubt_about_one, doubts_about_groups
from kfed.server.rules import support
from kfed.wire import MessageBatch

CLEAR_RATIO = 1.5
"""Distances must drop at least this many times after the k-th pick."""

CLEAR_RATIO_LONE = 2.0
"""The same, if a cluster would rest on one device alone."""

CLEAR_RATIO_NEAR = 2.0
"""The same, if clusters are near each other and only the cost has the same opinion."""

CLEAR_RATIO_UNSEEN = 4.0
"""The same, if messages lack the sums of squares that a second opinion is formed from."""

LACKING = "the centers that were set aside from one device have enough points for a cluster"
"""A doubt about any number, however it was found."""

MAX_CANDIDATES = trust.MAX_LANDMARKS
"""The largest k that is looked for; a larger one has to be given."""


def choose_k(batch: MessageBatch, n_jobs: int | None = None, min_devices: int | None = None) -> KChoice:
    """Choose k from what devices sent, such that every cluster rests on `min_devices` devices.

    Where fewer devices would make a cluster, their centers are set aside, and k is chosen from the others. Unless the
    caller asked for so many devices, the number is not relied upon if such centers could be a cluster by their points.
    """
    support.check_any_center(batch)
    asked = min_devices or support.usual_min_devices(batch)
    found = support.supported(batch, asked, lambda part: _Evidence(part, asked, n_jobs)) if asked > 1 else None
    if found is None:
        evidence = _Evidence(batch, 1, n_jobs)
        is_refused = (min_devices or 1) > 1
        doubts = [f"no cluster would rest on {min_devices} devices"] if is_refused else list(evidence.doubts())
        return _choice(evidence, len(batch.centers), doubts)
    evidence, rows = found
    may_lack = min_devices is None and support.may_lack_a_cluster(batch, rows, evidence.center_labels)
    doubts = [*evidence.doubts(), *([LACKING] if may_lack else [])]
    remarks = [support.set_aside_notice(batch, rows, asked).text] if len(rows) < len(batch.centers) else []
    return replace(_choice(evidence, len(batch.centers), doubts, *remarks), may_lack_a_cluster=may_lack)


def _choice(evidence: _Evidence, n_centers: int, doubts: list[str], *remarks: str) -> KChoice:
    """Weigh the evidence."""
    is_known, trusted = evidence.spread.is_known, evidence.trusted
    return KChoice(
        n_clusters=evidence.n_clusters,
        is_reliable=not doubts,
        agreement=evidence.n_clusters in (evidence.second, evidence.by_cost) if is_known else None,
        distances=evidence.distances,
        ratios=evidence.ratios,
        n_strays=int(trusted.is_stray.sum()),
        n_mixtures=int(trusted.is_mixture.sum()),
        reason="; ".join([*(doubts or [evidence.support()]), *_remarks(is_known, trusted, n_centers), *remarks]),
    )


class _Evidence:
    """What device centers say of k; fewer than `min_devices` devices cannot outweigh the others."""

    def __init__(self, batch: MessageBatch, min_devices: int, n_jobs: int | None) -> None:
        self.batch, self.n_jobs = batch, n_jobs
        weights = support.bounded_counts(batch) if min_devices > 1 else batch.counts
        self.whole_spread = CenterSpread.of(batch)
        self.trusted = trust.trusted(batch, weights, self.whole_spread, n_jobs)
        rows = self.trusted.rows
        self.centers, self.owners, self.counts = (
            support.take(column, rows) for column in (batch.centers, batch.owners, weights)
        )
        self.spread = self.whole_spread.take(rows)
        variance = support.median(self.spread.variances, self.owners)
        if min_devices > 1:
            self.spread = self.spread.at_most(support.most_claimed(self.spread.variances, self.owners, min_devices))
        self.is_pure = is_pure = ~np.isin(np.arange(len(batch.device_ids)), batch.owners[self.trusted.is_mixture])
        devices = is_pure if is_pure[self.owners].any() else np.ones_like(is_pure)
        # along any direction it is at most the root of the total; devices that mixed clusters up measure more
        self.deviation = min(directional_deviation(batch, variance, devices), float(np.sqrt(variance)))
        self.n_dimensions = min(batch.n_features, max(1.0, variance / max(self.deviation**2, 1e-300)))

        n_candidates = min(len(rows) // 2, MAX_CANDIDATES)
        self.picks = self.trusted.traversal.picks[: n_candidates + 1]  # one beyond the largest candidate
        self.distances = distances = self.trusted.traversal.distances[:n_candidates]
        self.ratios = distances[:-1] / np.maximum(distances[1:], max(self.spread.rounding, 1e-300))
        self.chance = self._chance()  # (n_candidates,)
        self.is_one = bool((distances <= self.chance).all())
        self.second = 1 + int(np.count_nonzero(distances > np.hypot(self.chance, APART * self.deviation)))
        self.by_cost = self._by_cost()
        self.n_clusters = self._best()

    @cached_property
    def labels(self) -> Array:
        """The cluster of each trusted center, by the nearest of the first picks."""
        return geometry.nearest(self.centers, self.centers[self.picks[: self.n_clusters]], self.n_jobs)

    @property
    def center_labels(self) -> Array:
        """The cluster of each center, -1 for those that are not trusted, (n_device_centers,)."""
        labels = np.full(len(self.batch.centers), -1)
        labels[self.trusted.rows] = self.labels
        return labels

    @property
    def drop(self) -> float:
        """How many times distances drop after the pick that is the number of clusters."""
        return float(self.ratios[self.n_clusters - 2])

    def _best(self) -> int:
        """Give the number that two of the rules name, or that of the least cost if no two agree."""
        if self.is_one or len(self.ratios) == 0:
            return 1
        names_a_drop = self.spread.is_known and 2 <= self.second < len(self.ratios) + 2
        is_too_few = self.second < (self.by_cost or 0) == self._after_pick()  # far groups of clusters outshine these
        if names_a_drop and not is_too_few and self.ratios[self.second - 2] >= CLEAR_RATIO:
            return self.second
        return self.by_cost or self._after_pick()

    def _after_pick(self) -> int:
        """Give the number of picks after which distances drop most."""
        return int(self.ratios.argmax()) + 2

    def _by_cost(self) -> int | None:
        """Give the number of the largest Calinski-Harabasz index, if messages say what it asks for."""
        if self.is_one or len(self.ratios) == 0 or not self.spread.is_known:
            return None
        index = calinski_harabasz(self.centers, self.counts, self.spread.sums_of_squares(self.counts))
        return 2 + int(index[: len(self.ratios)].argmax())

    def _chance(self) -> Array:
        """How far each pick and the nearest pick before it would be by chance, if of one cluster."""
        picks = self.picks
        apart = geometry.squared_distances(self.centers[picks], self.centers[picks])
        nearest = np.where(np.tri(len(picks), k=-1, dtype=bool), apart, np.inf)[1:].argmin(axis=1)
        errors = self.spread.errors[picks[1:]] + self.spread.errors[picks[nearest]]
        squared = chance_factor(len(self.centers), self.n_dimensions) * errors
        return np.asarray(np.sqrt(squared + self.spread.rounding**2))

    def support(self) -> str:
        """The evidence for the number."""
        if self.is_one:
            return "no two centers are farther apart than centers of one cluster can be by chance"
        signs = []
        if self.drop >= CLEAR_RATIO:
            signs.append(
                f"gaps between farthest-first picks fall by a factor of {self.drop:.1f} after pick {self.n_clusters}"
            )
        if self.spread.is_known and self.second == self.n_clusters:
            signs.append("that many centers are too far apart to share a cluster")
        if self.by_cost == self.n_clusters:
            signs.append("the Calinski-Harabasz index is highest at that number")
        return "; ".join(signs)

    def doubts(self) -> Iterator[str]:
        """Reasons not to rely on the number."""
        if self.is_one:
            doubt = doubt_about_one(self.batch, self.whole_spread, self.deviation)
            if doubt:
                yield doubt
            return
        if len(self.ratios) == 0:
            n_centers = len(self.centers)
            are = verb(n_centers, "is", "are")
            yield f"{plural(n_centers, 'center')} {are} too few to tell several clusters from one"
            return
        yield from self._doubts_about_rules()
        if self.spread.is_known:
            yield from self._doubts_about_groups()

    def _doubts_about_rules(self) -> Iterator[str]:
        """Look at the three rules: two of them must agree, if messages say what they ask for."""
        clear = CLEAR_RATIO if self.spread.is_known else CLEAR_RATIO_UNSEEN
        by_drop = self._after_pick()
        if self.spread.is_known and len({self.second, self.by_cost, by_drop}) == 3 and self.second != self.n_clusters:
            yield (
                f"{self.second} by the distances between centers, but {self.by_cost} by the Calinski-Harabasz index "
                f"and, by the largest drop of distances, {by_drop}"
            )
        if self.drop < clear and not (self.second == self.by_cost == self.n_clusters):
            yield f"gaps between farthest-first picks do not fall clearly there (by a factor of {clear:g} or more)"
        if (self.by_cost or 0) > self.n_clusters:
            yield f"the Calinski-Harabasz index of all points is largest at {self.by_cost}"

    def _doubts_about_groups(self) -> Iterator[str]:
        """Look at the clusters that the first picks would make."""
        seeds, labels = self.centers[self.picks[: self.n_clusters]], self.labels
        means = means_by_label(self.centers, labels, seeds, self.counts, self.n_jobs)
        moves = geometry.squares_to_own(self.centers, means, labels)  # of centers about their cluster's mean
        shift = np.average(moves - self.spread.errors, weights=self.counts)
        groups = CenterGroups(means, labels, self.owners, self.is_pure)
        deviation = float(np.sqrt(self.deviation**2 + max(0.0, float(shift))))
        may_be_near = self.by_cost == self.n_clusters and (self.drop >= CLEAR_RATIO_NEAR or self.second == self.by_cost)
        yield from doubts_about_groups(groups, self.centers, self.spread.variances, deviation, may_be_near)
        is_lone = support.devices_in(labels, self.owners, self.n_clusters) == 1
        is_narrow = np.bincount(labels[~self._are_wide()], minlength=self.n_clusters) > 0
        if (is_lone & ~is_narrow).any():
            yield "one cluster would come from one device, and its points look like several clusters"
        elif is_lone.any() and self.drop < CLEAR_RATIO_LONE:
            yield f"one cluster would come from one device, but distances drop less than {CLEAR_RATIO_LONE:g} times"

    def _are_wide(self) -> Array:
        """Tell whose points spread much wider than the median does."""
        variances = self.spread.variances
        median = support.median(variances, self.owners)
        usual = support.median(np.abs(variances - median), self.owners)
        return np.asarray(variances > median + 5 * max(usual, 0.01 * median))


def _remarks(is_known: bool, trusted: trust.Trusted, n_centers: int) -> Iterator[str]:
    for mask, what in ((trusted.is_stray, "of few points"), (trusted.is_mixture, "of several clusters in one")):
        if mask.any():
            n_aside = int(mask.sum())
            yield f"{n_aside} of {plural(n_centers, 'center')}, {what}, {verb(n_aside, 'was', 'were')} set aside"
    if not is_known:
        yield "the messages lack sums of squares, so that centers of several clusters in one could not be set aside"
