"""What is said of numbers of clusters, in the same words on a terminal, a page, a picture and in a report."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from kfed._base import text
from kfed._base.array import Array
from kfed._base.report import Block, Conclusion, Notes, TextTable
from kfed.server.k.standards import (
    ABOVE_ONE_CLOUD,
    MOST_HELD,
    STABLE,
    SURE,
    above_one_cloud,
    are_clearer,
    comes_back,
    have_centers,
    place_of,
    rises_at_the_end,
)
from kfed.server.view.quality import LEAST_KNOWN

if TYPE_CHECKING:
    from kfed.server.k.comparison import KComparison

HEADINGS = ("k", "cost", "expl.", "silh.", "cloud", "C-H", "stability", "weakest")
"""Short enough for a table on a terminal of 80 columns; `ComparisonWords.notes` says what they mean."""


def finding(n_clusters: int, *, stands_out: bool, is_reliable: bool) -> str:
    """How sure a number of clusters is, in the same words wherever it is said.

    Examples
    --------
    >>> finding(15, stands_out=True, is_reliable=True), finding(15, stands_out=True, is_reliable=False)
    ('15 clusters', '15 clusters stand out, but not reliably')
    >>> finding(2, stands_out=False, is_reliable=False)
    'no number of clusters stands out (2 at best)'
    """
    clusters = text.plural(n_clusters, "cluster")
    if is_reliable:
        return clusters
    if stands_out:  # two at least: one cluster has no silhouette
        return f"{clusters} stand out, but not reliably"
    return f"no number of clusters stands out ({n_clusters:,} at best)"


def ranges(values: Array) -> str:
    """Runs of numbers, as words.

    Examples
    --------
    >>> ranges(np.array([2, 3, 4, 17, 18])), ranges(np.array([2])), ranges(np.array([2, 4, 8, 16]))
    ('2 to 4 and 17 to 18', '2', '2, 4, 8 and 16')
    """
    runs = np.split(values, np.flatnonzero(np.diff(values) > 1) + 1)
    words = [f"{run[0]} to {run[-1]}" if len(run) > 1 else f"{run[0]}" for run in runs]
    return " and ".join([*([", ".join(words[:-1])] if len(words) > 1 else []), words[-1]])


@dataclass(frozen=True)
class ComparisonWords:
    """What is said of a comparison: the recommendation, the table and the notes."""

    found: KComparison

    @property
    def finding(self) -> str:
        """The number and how sure it is, without the reason."""
        found = self.found
        return finding(found.best, stands_out=found.recommended is not None, is_reliable=found.is_sure)

    @property
    def reason(self) -> str:
        """Why this k is recommended, or why none is."""
        found = self.found
        if found.recommended is None:
            return _why_none(found)
        at = place_of(found.recommended, found)
        return (
            f"stable when devices are resampled (agreement {found.stability[at, 0]:.2f}, weakest cluster "
            f"{found.weakest[at]:.2f}), and clearer than one group without any clusters inside (silhouette "
            f"{found.silhouettes[at]:.2f} against {found.silhouettes_of_one_cloud[at]:.2f})"
        )

    @property
    def doubt(self) -> str:
        """Why the number that stands out is not reliable; nothing if it is, or if none stands out."""
        found = self.found
        if found.recommended is None or comes_back(found.recommended, found):
            return found.doubt
        at = place_of(found.recommended, found)
        agreement, weakest = float(found.stability[at, 0]), float(found.weakest[at])
        lower, which = (weakest, "weakest cluster") if weakest < agreement else (agreement, "agreement")
        below = f"{which} {_beside(lower, SURE)}"
        return "; ".join(filter(None, [f"{below}, reliable from {SURE:g}", found.doubt]))

    @property
    def taken_by(self) -> str:
        """By what `best` was taken."""
        best, compared, may_be = self.found.best, ranges(self.found.n_clusters), have_centers(self.found)
        if self.found.recommended is not None:
            return f"k = {best} stands out among {compared}"
        if not (are_clearer(self.found) & may_be).any():
            return f"k = {best} is the smallest of {compared}, and no other is clearer than by chance"
        of_those = "" if may_be.all() else " with two centers for each cluster"
        is_known = np.isfinite(self.found.agreements).any()
        and_stability = " and by stability, also of the weakest cluster" if is_known else ""
        by_silhouette = "by how far the silhouette is above that of one cloud"
        among = f"{ranges(self.found.n_clusters[may_be])}{of_those}"
        return f"k = {best} is the best of {among} {by_silhouette}{and_stability}"

    def blocks(self) -> Iterator[Block]:
        """Describe the comparison: the recommendation, the table and notes."""
        yield self.conclusion()
        yield self.table()
        yield Notes(tuple(self.notes()))

    def conclusion(self) -> Conclusion:
        """The recommendation and its reason."""
        reasons = "; ".join(filter(None, [self.doubt, self.reason, self.taken_by]))
        return Conclusion(f"{self.finding}: {reasons}", True if self.found.is_sure else None)

    def table(self) -> TextTable:
        """A row for each k."""
        return TextTable("", HEADINGS, tuple(_table_rows(self.found)), n_words=1)

    def notes(self) -> Iterator[str]:
        """What to know when reading the table."""
        found = self.found
        if found.share_known < 1:
            silent = f"the spread is not known for {1 - found.share_known:.0%} of the rows"
            consequence = (
                "they are taken to spread as the others"
                if found.share_known >= LEAST_KNOWN
                else "costs, explained variance and silhouettes are those of the device centers"
            )
            yield f"{silent}; {consequence}"
        elif found.inexact:
            yield f"costs and explained variance are approximate: {found.inexact}"
        few = found.n_clusters[2 * found.n_clusters > found.n_device_centers]
        if len(few):
            centers = text.plural(found.n_device_centers, "center")
            yield f"{centers} say little from k = {few[0]} on: a cluster of a single center is always stable"
        last = int(found.n_clusters[-1])
        larger_have_centers = 2 * (last + 1) <= found.n_device_centers
        if rises_at_the_end(found) and larger_have_centers:
            yield f"the silhouette still rises at k = {last}, the largest that was compared; compare larger ones, too"
        resamplings = text.plural(found.agreements.shape[1], "resampling")
        yield (
            "expl.: share of the variance that the clusters explain; silh.: silhouette; cloud: the silhouette expected "
            "with no clusters; C-H: Calinski-Harabasz index"
        )
        yield (
            f"stability: agreement (adjusted Rand index) with {resamplings} of the devices, with its 90 % range in "
            "brackets; weakest: stability of the least stable cluster"
        )


def _why_none(found: KComparison) -> str:
    if not np.isfinite(found.agreements).any():
        return "all centers are from one device, so stability across devices is unknown"
    if found.largest_share > MOST_HELD:
        return f"one device has {found.largest_share:.0%} of the rows, so resampling the others says little"
    may_be = have_centers(found)
    if not are_clearer(found)[may_be].any():
        return (
            "no k is clearly better than one group without any clusters inside: the silhouette is at most "
            f"{_beside(max(above_one_cloud(found)[may_be].max(), 0), ABOVE_ONE_CLOUD, 3)} higher, and "
            f"{ABOVE_ONE_CLOUD:g} would be clear"
        )
    at = place_of(found.best, found)
    return (
        "every k that is clearer than a single group is unstable when devices are resampled; the best is "
        f"k = {found.best} (agreement {_beside(found.stability[at, 0], STABLE)}, weakest cluster "
        f"{_beside(found.weakest[at], STABLE)}; {STABLE:g} needed)"
    )


def _beside(value: float, limit: float, digits: int = 2) -> str:
    """A number in as many digits as show that it is below a limit, if it is.

    Examples
    --------
    >>> _beside(0.7996, 0.8), _beside(0.74, 0.8), _beside(0.8, 0.8)
    ('0.7996', '0.74', '0.80')
    """
    while value < limit <= float(f"{value:.{digits}f}") and digits < 17:
        digits += 1
    return f"{value:.{digits}f}"


def _table_rows(found: KComparison) -> Iterator[tuple[str, ...]]:
    """A row of cells for each k; the one that stands out has a star."""
    for at, k in enumerate(found.n_clusters.tolist()):
        mean, low, high = found.stability[at]
        yield (
            f"{k} *" if k == found.recommended else str(k),
            _short(found.costs[at]),
            f"{found.explained[at]:.1%}",
            f"{found.silhouettes[at]:.3f}",
            f"{found.silhouettes_of_one_cloud[at]:.3f}",
            _short(found.calinski_harabasz[at]),
            "" if np.isnan(mean) else f"{mean:.2f} ({low:.2f}-{high:.2f})",
            "" if np.isnan(found.weakest[at]) else f"{found.weakest[at]:.2f}",
        )


def _short(value: float) -> str:
    """A number in at most eight characters."""
    return f"{value:,.0f}" if 1_000 <= value < 1e6 else f"{value:.4g}"
