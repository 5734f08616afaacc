"""How good clusters are, for the people who use them: how far apart, how much they explain, how stable, what to do."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from kfed._base import text
from kfed._base.array import Array
from kfed._base.report import Conclusion, TextTable
from kfed.errors import InvalidInputError
from kfed.server import (
    Aggregation,
    KChoice,
    Optimality,
    RowMoments,
    Without,
    gaps_between,
    misfits,
    nearest_pair,
    without_each,
)

APART, OVERLAPPING = 4.0, 2.9
"""Standard deviations between two clusters from which hardly any row is in doubt, and below which many are.

They are measured on rows that were cut in the middle, so that even the halves of one Gaussian are 2.65 apart:
2 sqrt(2 / pi) over sqrt(1 - 2 / pi). Two Gaussians have two peaks if their means are more than 2 standard deviations
apart, and their rows are then 2.9 apart; at 4, 2 % of the rows lie beyond the middle."""

KEPT = 0.9
"""Share of the rows that should keep their cluster without any one device."""

MISFIT, WORSE = 1.5, 1.2
"""Times as far from its clusters as the median device, from which a device fits badly, and from which it is listed."""

MOST_NAMED = 10


@dataclass(frozen=True, eq=False)
class Assessment:
    """How good the clusters of an aggregation are, from messages alone.

    Attributes
    ----------
    gaps : array of shape (n_clusters, n_clusters)
        How far apart clusters are, in standard deviations; NaN where that is not known.
    explained : float
        Share of the variance that lies between clusters.
    has_squares : bool
        Whether that is the variance of the rows; otherwise of the device centers.
    without : tuple of Without
        What is left of the clusters without each device; empty if that is not known.
    misfits : array of shape (n_devices,)
        How far from its clusters each device is, over the median device.
    optimality : Optimality or None
        How far the cost can be from the best possible, if devices sent their scatter.
    about : str
        A word to say before `explained` if it is not exact.
    choice : KChoice or None
        The number of clusters that the messages show, if it was looked for.
    """

    aggregation: Aggregation
    gaps: Array
    explained: float
    has_squares: bool
    without: tuple[Without, ...]
    misfits: Array
    optimality: Optimality | None = None
    about: str = ""
    choice: KChoice | None = None

    @classmethod
    def of(cls, aggregation: Aggregation, choice: KChoice | None = None) -> Assessment:
        """Measure an aggregation; `choice` is the number that its messages show, if it was not looked for then."""
        moments = RowMoments.of(aggregation.messages)
        return cls(
            aggregation,
            gaps_between(aggregation),
            moments.quality(aggregation.center_labels, aggregation.n_clusters).explained,
            moments.has_squares,
            () if aggregation.settings.rounds > 1 else tuple(without_each(aggregation)),
            misfits(aggregation),
            optimality_if_known(aggregation),
            moments.about,
            choice or aggregation.k_choice,
        )

    @property
    def worst_without(self) -> Without | None:
        """The device that clusters depend on most; None if that is not known."""
        return min(self.without, key=lambda one: one.share_kept, default=None)

    @property
    def is_unstable(self) -> bool:
        """Whether many rows change their cluster without a single device."""
        worst = self.worst_without
        return worst is not None and worst.share_kept < KEPT

    @property
    def has_too_few_centers(self) -> bool:
        """Whether there are so few device centers that clusters and their number cannot be told from chance.

        Second messages have one center for each cluster, and move what was found in the first: they are never too few.
        """
        found = self.aggregation
        return found.settings.rounds == 1 and len(found.messages.centers) < 2 * found.n_clusters + 1

    @property
    def nearest(self) -> tuple[int, int, float] | None:
        """The two clusters that are least apart, and by how many standard deviations; None if that is not known."""
        pair = nearest_pair(self.gaps)
        return None if pair is None else (*pair, float(self.gaps[pair]))

    @property
    def none_stands_out(self) -> bool:
        """Whether numbers of clusters were judged, and none stands out; one device alone cannot tell."""
        choice = self.choice
        if choice is None or choice.stands_out or self.aggregation.n_clusters == 1:
            return False
        return choice.comparison is None or bool(np.isfinite(choice.comparison.agreements).any())

    @property
    def nearness(self) -> str:
        """That the nearest clusters are as near as parts of one group; nothing if they are not."""
        if self.nearest is None or self.nearest[2] >= OVERLAPPING:
            return ""
        return f"{_apart(*self.nearest)}; cutting a single group in two gives about 2.65, so they may be one"

    @property
    def instability(self) -> str:
        """What changes without the device that clusters depend on most; empty unless many rows change cluster."""
        worst = self.worst_without
        if worst is None or not self.is_unstable or self.has_too_few_centers or self.aggregation.n_clusters == 1:
            return ""
        kept = f"{1 - worst.share_kept:.0%} of the rows of others change their cluster"
        return f"unstable: without {worst.device_id!r}, {kept}"

    def conclusion(self) -> Conclusion:
        """The answer in one sentence, and what it means."""
        if self.aggregation.n_clusters == 1:
            return Conclusion("one cluster: all rows are in it", None)
        if self.has_too_few_centers:
            centers = text.plural(len(self.aggregation.messages.centers), "center")
            k = text.plural(self.aggregation.n_clusters, "cluster")
            return Conclusion(f"too few centers to tell: {centers} for {k}", None, tuple(self._explains()))
        meaning = (*self._explains(), *self._stability())
        if self.instability:
            apart = [] if self.nearest is None else [text.sentence(f"the nearest {_apart(*self.nearest)}")]
            return Conclusion(self.instability, False, (*apart, *meaning))
        if self.nearest is None:
            known = "stable; separation is not" if self.without else "neither stability nor separation is"
            return Conclusion(f"{known} known", None, meaning)
        return Conclusion(*self._by_distance(*self.nearest), meaning)

    def _by_distance(self, first: int, second: int, gap: float) -> tuple[str, bool | None]:
        """The answer for clusters that are not known to be unstable, and whether it is good news."""
        apart = self.nearness or f"the nearest {_apart(first, second, gap)}"
        if self.none_stands_out and gap < APART:
            return f"no number of clusters stands out: {apart}", False
        if gap < OVERLAPPING:
            return f"overlapping: {apart}", False
        but = "no number of clusters stands out" if self.none_stands_out else "stability is not known"
        answer = "clear" if gap >= APART else "distinguishable"
        is_sure = bool(self.without) and not self.none_stands_out
        said = f"{answer if is_sure else f'{answer}, but {but}'}: {'even ' if gap >= APART else ''}{apart}"
        return said, True if is_sure and gap >= APART else None

    def _explains(self) -> Iterator[str]:
        of_what = "the rows" if self.has_squares else "the device centers"
        yield f"The clustering explains {self.about}{self.explained:.0%} of the variance of {of_what}."
        if self.optimality is not None:
            yield text.sentence(self.optimality.conclusion().text)

    def _stability(self) -> Iterator[str]:
        worst = self.worst_without
        if worst is not None:
            share = f"at least {worst.share_kept:.0%}" if worst.share_kept < 0.995 else "practically all"
            mean = f", {np.mean([one.share_kept for one in self.without]):.0%} on average" if self.is_unstable else ""
            yield f"Without any one device, {share} of the rows of the others keep their cluster{mean}."
        elif self.aggregation.settings.rounds > 1:
            yield (
                "Whether the clusters are stable is not known from second messages, which have one center for each "
                "cluster: diagnose the first clusters to see it."
            )
        elif self.aggregation.messages.n_devices == 1 and (self.choice is None or self.choice.stands_out):
            yield "All centers are from one device, so it is not known whether other devices show the same clusters."

    def advice(self) -> Iterator[str]:
        """What to do, the most pressing first."""
        near, was_compared = self.nearest, self.aggregation.k_choice is not None
        is_cut = self.none_stands_out and (near is None or near[2] < APART)
        if self.has_too_few_centers:
            yield "let devices look for more local clusters, or wait for more devices; then judge again"
        if self.is_unstable:
            pivotal = [one.device_id for one in self.without if one.share_kept < KEPT]
            named = text.listed(list(map(repr, pivotal)))
            if not was_compared:
                look = f", and look at {named}" if 3 * len(pivotal) < len(self.without) else ""
                yield f"compare numbers of clusters (kfed aggregate -k 2-12){look}"
            elif len(pivotal) < len(self.without):
                yield f"the clusters depend on {named}: look at the rows there, or wait for more devices"
            else:
                yield "the clusters depend on which devices are there: wait for more devices, or ask for fewer clusters"
        elif near is not None and near[2] < OVERLAPPING and not is_cut:
            fewer = "ask for fewer clusters" if self.aggregation.n_clusters > 2 else "they may be one group"
            compare = "" if was_compared else ", or compare numbers (kfed aggregate -k 2-12)"
            yield f"rows between clusters {near[0]} and {near[1]} could be in either; {fewer}{compare}"
        if was_compared and is_cut:
            yield (
                "the data show no distinct groups; this is one of many possible divisions. Use it only if any division "
                "will do, give the number that you need (-k N), or add columns that could tell groups apart"
            )
        bad = self._bad_devices()
        if bad:
            verb = "fits" if len(bad) == 1 else "fit"
            yield f"{text.listed(list(map(repr, bad)))} {verb} badly: look at the units and the rows there"
        if not self.has_squares:
            yield "some devices sent no sums of squares, so distances in standard deviations are not known"

    def _bad_devices(self) -> list[str]:
        known = np.nan_to_num(self.misfits)
        order = np.argsort(-known, kind="stable")
        return [self.aggregation.messages.device_ids[z] for z in order if known[z] >= MISFIT]

    def tables(self) -> Iterator[TextTable]:
        """Pairs of clusters that are nearest, devices that fit worse than others, and those that clusters depend on."""
        rows = self._pair_rows()
        if rows:
            title = "Nearest clusters, by how far their rows spread along the line between them"
            yield TextTable(title, ("clusters", "standard deviations apart"), rows)
        known = dict(zip(self.aggregation.messages.device_ids, np.nan_to_num(self.misfits), strict=True))
        worse = self._device_rows({name: -far for name, far in known.items() if far >= WORSE})
        if worse:
            heads = ("device", "rows", "distance over the median device")
            yield TextTable("Devices that fit worst", heads, tuple((*row, f"{known[row[0]]:.2f}") for row in worse))
        kept = {one.device_id: one.share_kept for one in self.without if one.share_kept < 0.995}
        pivotal = [] if self.has_too_few_centers else self._device_rows(kept)
        if pivotal:
            heads = ("device", "rows", "rows of others kept without it")
            rows = tuple((*row, f"{kept[row[0]]:.1%}") for row in pivotal)
            yield TextTable("Devices that the clusters depend on", heads, rows)

    def _pair_rows(self) -> tuple[tuple[str, ...], ...]:
        firsts, seconds = np.nonzero(np.triu(np.isfinite(self.gaps), 1))
        order = np.argsort(self.gaps[firsts, seconds], kind="stable")[:MOST_NAMED]
        return tuple((f"{firsts[i]} and {seconds[i]}", f"{self.gaps[firsts[i], seconds[i]]:.2f}") for i in order)

    def _device_rows(self, order: dict[str, float]) -> list[tuple[str, str]]:
        """Names and rows of some devices, those with the lowest numbers first."""
        batch = self.aggregation.messages
        rows = dict(zip(batch.device_ids, np.bincount(batch.owners, batch.counts, batch.n_devices), strict=True))
        return [(name, f"{rows[name]:,.0f}") for name in sorted(order, key=lambda one: order[one])][:MOST_NAMED]

    def to_dict(self) -> dict[str, Any]:
        """Convert to JSON types."""
        found: dict[str, Any] = text.plain(
            {
                "conclusion": self.conclusion().text,
                "advice": list(self.advice()),
                "explained": self.explained,
                "most_over_best_cost": None if self.optimality is None else self.optimality.ratio,
                "gaps": self.gaps,
                "without": [one._asdict() for one in self.without],
                "misfits": dict(zip(self.aggregation.messages.device_ids, self.misfits.tolist(), strict=True)),
            }
        )
        return found


def optimality_if_known(aggregation: Aggregation) -> Optimality | None:
    """How far the cost can be from the best possible one; None if devices did not send enough to tell."""
    try:
        return aggregation.optimality()
    except InvalidInputError:
        return None


def _apart(first: int, second: int, gap: float) -> str:
    return f"clusters {first} and {second} are {gap:.1f} standard deviations apart"
