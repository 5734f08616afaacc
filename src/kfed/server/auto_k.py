"""``n_clusters="auto"``: the number of global clusters, k, read off the farthest-first distances of device centers.

Under the paper's separation every center is near one of the first k picks, and the picks are far from each other: the
distances drop right after the k-th. Messages also say how far apart the centers of one cluster can be, and k is the
number of centers that are farther apart. The cost of all points, which follows from messages exactly, is a third
opinion. A number is relied upon only if two of them, and a few other signs, agree. Beyond the paper, which takes k as
given.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from kfed._base import geometry
from kfed._base.array import Array, frozen
from kfed._base.averages import means_by_label
from kfed._base.notebook import InNotebook
from kfed.errors import InvalidInputError, NoReliableKError, TooFewCentersError
from kfed.server import trust
from kfed.server.center_spread import CenterSpread, chance_factor, directional_deviation
from kfed.server.cost_curve import calinski_harabasz
from kfed.server.told_apart import APART, Groups, doubt_about_one, doubts_about_groups
from kfed.server.traversal import Traversal, farthest_first
from kfed.wire import MessageBatch

CLEAR_RATIO = 1.5
"""Distances must drop at least this many times after the k-th pick."""

CLEAR_RATIO_LONE = 2.0
"""The same, if a cluster would rest on one device alone."""

CLEAR_RATIO_NEAR = 2.0
"""The same, if clusters are near each other and only the cost has the same opinion."""

CLEAR_RATIO_UNSEEN = 4.0
"""The same, if messages lack the sums of squares that a second opinion is formed from."""

MAX_CANDIDATES = 512
"""The largest k that is looked for; a larger one has to be given."""

_FACTS: dict[str, type | tuple[type, ...]] = {
    "n_clusters": int,
    "is_reliable": bool,
    "agreement": (bool, type(None)),
    "n_strays": int,
    "n_mixtures": int,
    "reason": str,
}


@dataclass(frozen=True, eq=False)
class KChoice(InNotebook):
    """A number of clusters, and how clearly the device centers show it. Made by `choose_n_clusters` and `aggregate`.

    Attributes
    ----------
    n_clusters : int
        The best guess of k.
    is_reliable : bool
        Whether it is more than a guess.
    agreement : bool or None
        Whether a second rule gives the same number: the centers that lie farther apart than those of one cluster, or
        the maximum of the Calinski-Harabasz index. None if the messages lack what these ask for.
    distances : array of shape (n_candidates,)
        Farthest-first distances: how far the 2nd, 3rd, ... pick was from those before it.
    ratios : array of shape (n_candidates - 1,)
        For k = 2, 3, ...: how many times the distance drops after the k-th pick.
    n_strays, n_mixtures : int
        Centers that were set aside: those of few points, and those of several clusters in one.
    reason : str
        Evidence for the number, or doubts about it.
    """

    n_clusters: int
    is_reliable: bool
    agreement: bool | None
    distances: Array
    ratios: Array
    n_strays: int
    n_mixtures: int
    reason: str

    def __post_init__(self) -> None:
        for array in (self.distances, self.ratios):
            array.flags.writeable = False

    @property
    def candidates(self) -> list[tuple[int, float]]:
        """The numbers of clusters after which distances drop most, and how many times, the clearest first."""
        best = np.argsort(-self.ratios, kind="stable")[:3]
        return [(int(k) + 2, float(self.ratios[k])) for k in best]

    def reliable_n_clusters(self) -> int:
        """The number that was found. Raises `NoReliableKError` if it is only a guess."""
        if not self.is_reliable:
            seen = ", ".join(f"{k} ({ratio:.2f} times)" for k, ratio in self.candidates) or "none"
            raise NoReliableKError(
                f"n_clusters='auto' found {self}; candidates, and how many times distances drop after each: {seen}; "
                "give n_clusters as a number"
            )
        return self.n_clusters

    def tensors(self) -> dict[str, Array]:
        """Give the arrays, by the names they have in a file."""
        return {"k_choice_distances": self.distances, "k_choice_ratios": self.ratios}

    def facts(self) -> dict[str, Any]:
        """Give all but the arrays."""
        return {name: getattr(self, name) for name in _FACTS}

    @classmethod
    def restored(cls, facts: dict[str, Any], tensors: dict[str, Array], n_clusters: int) -> KChoice:
        """Make what `facts` and `tensors` tell of, if it is sound and about this many clusters."""
        distances, ratios = (frozen(tensors[f"k_choice_{name}"]) for name in ("distances", "ratios"))
        is_sound = (
            facts.keys() == _FACTS.keys()
            and all(isinstance(facts[name], kinds) for name, kinds in _FACTS.items())
            and facts["n_clusters"] == n_clusters
            and all(array.ndim == 1 and array.dtype == np.float64 for array in (distances, ratios))
        )
        if not is_sound:
            raise InvalidInputError("its record of how n_clusters was found does not fit the rest")
        return cls(distances=distances, ratios=ratios, **facts)

    def __str__(self) -> str:
        found = f"{self.n_clusters} clusters" if self.is_reliable else "no reliable number of clusters"
        return f"{found}: {self.reason}"


def choose_k(batch: MessageBatch, n_jobs: int | None = None) -> KChoice:
    """Choose k from what devices sent."""
    if len(batch.centers) == 0:
        raise TooFewCentersError(
            f"n_clusters='auto' needs device centers; {len(batch.device_ids)} devices sent none: wait for more devices"
        )
    spread = CenterSpread.of(batch)
    is_stray = trust.strays(batch.centers, batch.counts, batch.owners, n_jobs)
    rows = np.flatnonzero(~is_stray)
    is_mixture = np.zeros(len(is_stray), bool)
    if spread.is_known:
        is_mixture[rows] = trust.mixtures(batch.centers[rows], batch.counts[rows], spread.take(rows), n_jobs)
    evidence = _Evidence(batch, spread, np.flatnonzero(~is_stray & ~is_mixture), is_mixture, n_jobs)
    doubts = list(evidence.doubts())
    return KChoice(
        n_clusters=evidence.n_clusters,
        is_reliable=not doubts,
        agreement=evidence.n_clusters in (evidence.second, evidence.by_cost) if spread.is_known else None,
        distances=evidence.traversal.distances,
        ratios=evidence.ratios,
        n_strays=int(is_stray.sum()),
        n_mixtures=int(is_mixture.sum()),
        reason="; ".join([*(doubts or [evidence.support()]), *_remarks(spread, is_stray, is_mixture)]),
    )


class _Evidence:
    """What the trusted centers, `rows` of a batch, say of k."""

    def __init__(
        self, batch: MessageBatch, spread: CenterSpread, rows: Array, is_mixture: Array, n_jobs: int | None
    ) -> None:
        self.batch, self.centers, self.counts, self.owners = (
            batch,
            *(column[rows] for column in (batch.centers, batch.counts, batch.owners)),
        )
        self.spread, self.whole_spread = spread.take(rows), spread
        self.n_jobs = n_jobs
        self.is_pure = is_pure = ~np.isin(np.arange(len(batch.device_ids)), batch.owners[is_mixture])
        variance = float(np.median(self.spread.variances))
        devices = is_pure if is_pure[self.owners].any() else np.ones_like(is_pure)
        # along any direction it is at most the root of the total; devices that mixed clusters up measure more
        self.deviation = min(directional_deviation(batch, variance, devices), float(np.sqrt(variance)))
        self.n_dimensions = min(batch.n_features, max(1.0, variance / max(self.deviation**2, 1e-300)))

        self.traversal = _traverse(self.centers, self.counts, n_jobs)
        distances = self.traversal.distances
        self.ratios = distances[:-1] / np.maximum(distances[1:], max(self.spread.rounding, 1e-300))
        self.chance = self._chance()  # (n_candidates,)
        self.is_one = bool((distances <= self.chance).all())
        self.second = 1 + int(np.count_nonzero(distances > np.hypot(self.chance, APART * self.deviation)))
        self.by_cost = self._by_cost()
        self.n_clusters = self._best()

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
        picks = self.traversal.picks
        apart = geometry.squared_distances(self.centers[picks], self.centers[picks])
        nearest = np.where(np.tri(len(picks), k=-1, dtype=bool), apart, np.inf)[1:].argmin(axis=1)
        errors = self.spread.errors[picks[1:]] + self.spread.errors[picks[nearest]]
        squared = chance_factor(len(self.centers), self.n_dimensions) * errors
        return np.asarray(np.sqrt(squared + self.spread.rounding**2))

    def support(self) -> str:
        """The evidence for the number."""
        if self.is_one:
            return "no two centers lie farther apart than chance puts centers of one cluster"
        signs = []
        if self.drop >= CLEAR_RATIO:
            signs.append(f"farthest-first distances drop {self.drop:.1f} times after pick {self.n_clusters}")
        if self.spread.is_known and self.second == self.n_clusters:
            signs.append("as many centers lie farther apart than those of one cluster")
        if self.by_cost == self.n_clusters:
            signs.append("the Calinski-Harabasz index of all points is largest there")
        return ", and ".join(signs)

    def doubts(self) -> Iterator[str]:
        """Reasons not to rely on the number."""
        if self.is_one:
            doubt = doubt_about_one(self.batch, self.whole_spread, self.deviation)
            if doubt:
                yield doubt
            return
        if len(self.ratios) == 0:
            yield f"{len(self.centers)} centers are too few to tell several clusters from one"
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
                f"{self.second} centers lie farther apart than those of one cluster, the Calinski-Harabasz index is "
                f"largest at {self.by_cost}, and distances drop most after pick {by_drop}"
            )
        if self.drop < clear and not (self.second == self.by_cost == self.n_clusters):
            yield f"farthest-first distances do not drop clearly there ({clear:g} times from one to the next)"

    def _doubts_about_groups(self) -> Iterator[str]:
        """Look at the clusters that the first picks would make."""
        seeds = self.centers[self.traversal.picks[: self.n_clusters]]
        labels = geometry.nearest(self.centers, seeds, self.n_jobs)
        means = means_by_label(self.centers, labels, seeds, self.counts, self.n_jobs)
        moves = np.linalg.norm((self.centers - means[labels]).astype(np.float64), axis=1)
        shift = np.average(moves**2 - self.spread.errors, weights=self.counts)  # of centers about their cluster's mean
        groups = Groups(means, labels, self.owners, self.is_pure)
        deviation = float(np.sqrt(self.deviation**2 + max(0.0, float(shift))))
        may_be_near = self.by_cost == self.n_clusters and (self.drop >= CLEAR_RATIO_NEAR or self.second == self.by_cost)
        yield from doubts_about_groups(groups, self.centers, self.spread.variances, deviation, may_be_near)
        pairs = np.unique(np.stack([labels, self.owners]), axis=1)
        is_lone = np.bincount(pairs[0]) == 1
        is_narrow = np.bincount(labels[~self._are_wide()], minlength=self.n_clusters) > 0
        if (is_lone & ~is_narrow).any():
            yield "a cluster would rest on one device, whose points there spread as if of several clusters"
        elif is_lone.any() and self.drop < CLEAR_RATIO_LONE:
            yield f"a cluster would rest on one device, but distances drop less than {CLEAR_RATIO_LONE:g} times"

    def _are_wide(self) -> Array:
        """Tell whose points spread much wider than the median does."""
        variances = self.spread.variances
        median = np.median(variances)
        return np.asarray(variances > median + 5 * max(np.median(np.abs(variances - median)), 0.01 * median))


def _traverse(centers: Array, counts: Array, n_jobs: int | None) -> Traversal:
    """Farthest-first from the center of most points, one pick beyond the largest candidate."""
    n_picks = min(len(centers) // 2, MAX_CANDIDATES) + 1
    return farthest_first(centers, n_picks, [int(counts.argmax())], n_jobs)


def _remarks(spread: CenterSpread, is_stray: Array, is_mixture: Array) -> Iterator[str]:
    for mask, what in ((is_stray, "of few points"), (is_mixture, "of several clusters in one")):
        if mask.any():
            yield f"{mask.sum()} of {len(mask)} centers, {what}, were set aside"
    if not spread.is_known:
        yield "the messages lack sums of squares, so that centers of several clusters in one could not be set aside"
