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

APART, OVERLAPPING = 4.0, 2.0
"""Standard deviations between two clusters from which hardly any row is in doubt, and below which many are: of two
Gaussians that far apart, 2 % and 16 % of the rows lie beyond the middle."""

KEPT = 0.9
"""Share of the rows that should keep their cluster without any one device."""

MISFIT = 1.5
"""Times as far from its clusters as the median device, from which a device fits badly."""

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
        What is left of the clusters without each device.
    misfits : array of shape (n_devices,)
        How far from its clusters each device is, over the median device.
    optimality : Optimality or None
        How far the cost can be from the best possible, if devices sent their scatter.
    about : str
        A word to say before `explained` if it is not exact.
    """

    aggregation: Aggregation
    gaps: Array
    explained: float
    has_squares: bool
    without: tuple[Without, ...]
    misfits: Array
    optimality: Optimality | None = None
    about: str = ""

    @classmethod
    def of(cls, aggregation: Aggregation) -> Assessment:
        """Measure an aggregation."""
        moments = RowMoments.of(aggregation.messages)
        return cls(
            aggregation,
            gaps_between(aggregation),
            moments.quality(aggregation.center_labels, aggregation.n_clusters).explained,
            moments.has_squares,
            tuple(without_each(aggregation)),
            misfits(aggregation),
            optimality_if_known(aggregation),
            moments.about,
        )

    @property
    def worst_without(self) -> Without | None:
        """The device that clusters depend on most; None if there is only one."""
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
    def instability(self) -> str:
        """What changes without the device that clusters depend on most; empty unless many rows change cluster."""
        worst = self.worst_without
        if worst is None or not self.is_unstable or self.has_too_few_centers or self.aggregation.n_clusters == 1:
            return ""
        kept = f"{1 - worst.share_kept:.0%} of the rows of others change their cluster"
        return f"unstable: without {worst.device_id!r}, {kept}"

    def conclusion(self) -> Conclusion:
        """The answer in one sentence, and what it means."""
        pair = nearest_pair(self.gaps)
        if self.aggregation.n_clusters == 1:
            return Conclusion("one cluster: all rows are in it", None)
        if self.has_too_few_centers:
            centers = text.plural(len(self.aggregation.messages.centers), "center")
            k = text.plural(self.aggregation.n_clusters, "cluster")
            return Conclusion(f"too few centers to tell: {centers} for {k}", None, tuple(self._sentences()))
        if self.instability:
            return Conclusion(self.instability, False, tuple(filter(None, [self._apart(), *self._sentences()])))
        if pair is None:
            return Conclusion("stable, but how far apart is not known", None, tuple(self._sentences()))
        gap = self.gaps[pair]
        apart = f"clusters {pair[0]} and {pair[1]} are {gap:.1f} standard deviations apart"
        if gap < OVERLAPPING:
            return Conclusion(f"overlapping: {apart}", False, tuple(self._sentences()))
        if gap < APART:
            return Conclusion(f"distinguishable: the nearest {apart}", None, tuple(self._sentences()))
        return Conclusion(f"clear: even the nearest {apart}", True, tuple(self._sentences()))

    def _apart(self) -> str:
        """How far apart the nearest clusters are, as a sentence; nothing if that is not known."""
        pair = nearest_pair(self.gaps)
        if pair is None:
            return ""
        return f"The nearest clusters, {pair[0]} and {pair[1]}, are {self.gaps[pair]:.1f} standard deviations apart."

    def _sentences(self) -> Iterator[str]:
        of_what = "the rows" if self.has_squares else "the device centers"
        yield f"Which cluster a row is in explains {self.about}{self.explained:.0%} of the variance of {of_what}."
        worst = self.worst_without
        if worst is not None:
            share = f"at least {worst.share_kept:.0%}" if worst.share_kept < 0.995 else "practically all"
            mean = f", {np.mean([one.share_kept for one in self.without]):.0%} on average" if self.is_unstable else ""
            yield f"Without any one device, {share} of the rows of the others keep their cluster{mean}."
        if self.optimality is not None:
            yield text.sentence(self.optimality.conclusion().text)

    def advice(self) -> Iterator[str]:
        """What to do, the most pressing first."""
        pair, was_compared = nearest_pair(self.gaps), self.aggregation.k_choice is not None
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
        elif pair is not None and self.gaps[pair] < OVERLAPPING:
            compare = "" if was_compared else ", or compare numbers (kfed aggregate -k 2-12)"
            yield f"rows between clusters {pair[0]} and {pair[1]} could be in either; ask for fewer clusters{compare}"
        if self.aggregation.k_choice is not None and self.aggregation.k_choice.certainty == "none stands out":
            yield (
                "the clusters are a way to cut the rows, and not groups that they show: use them only if any cut will "
                "do, give the number that you need (-k N), or add columns that could tell groups apart"
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
        """Pairs of clusters that are nearest, and devices that fit worst or matter most."""
        rows = self._pair_rows()
        if rows:
            title = "Nearest clusters, by how far their rows spread along the line between them"
            yield TextTable(title, ("clusters", "standard deviations apart"), rows)
        devices = self._device_rows()
        if devices:
            heads = ("device", "rows", "distance over the median device", "rows of others kept without it")
            yield TextTable("Devices that fit worst", heads, devices)

    def _pair_rows(self) -> tuple[tuple[str, ...], ...]:
        firsts, seconds = np.nonzero(np.triu(np.isfinite(self.gaps), 1))
        order = np.argsort(self.gaps[firsts, seconds], kind="stable")[:MOST_NAMED]
        return tuple((f"{firsts[i]} and {seconds[i]}", f"{self.gaps[firsts[i], seconds[i]]:.2f}") for i in order)

    def _device_rows(self) -> tuple[tuple[str, ...], ...]:
        batch = self.aggregation.messages
        rows = np.bincount(batch.owners, batch.counts, batch.n_devices)
        kept = {one.device_id: f"{one.share_kept:.1%}" for one in self.without}
        order = [z for z in np.argsort(-np.nan_to_num(self.misfits), kind="stable") if rows[z] > 0][:MOST_NAMED]
        names = [batch.device_ids[z] for z in order]
        return tuple(
            (name, f"{rows[z]:,.0f}", f"{self.misfits[z]:.2f}", kept.get(name, ""))
            for name, z in zip(names, order, strict=True)
        )

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


def warnings_of(aggregation: Aggregation, assessment: Assessment) -> list[str]:
    """The texts of all notices; the one about k says so if stability holds only on average over devices."""
    return [
        on_average(notice.text, aggregation.k_choice, assessment) if notice.code == "unsure k" else notice.text
        for notice in aggregation.notices
    ]


def on_average(said: str, choice: KChoice | None, assessment: Assessment) -> str:
    """Add to a text about k that it holds on average, if k stands out but one device changes the clusters."""
    if choice is None or not (choice.stands_out and assessment.instability):
        return said
    return f"on average over devices that are left out, though, {said}"
