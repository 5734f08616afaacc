"""`KComparison`: what `compare_k` found, as a table, a picture and one recommendation."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

import numpy as np

from kfed._base import text
from kfed._base.array import Array, readonly_fields
from kfed._base.notebook import InNotebook, data_frame
from kfed._base.report import Block, Conclusion, Notes, TextTable
from kfed.server.k_words import finding, mean_and_range, ranges, table_rows
from kfed.server.quality import LEAST_KNOWN

if TYPE_CHECKING:
    import pandas
    from matplotlib.axes import Axes

STABLE = 0.8
"""Least mean Jaccard similarity of the weakest cluster, and least mean agreement."""

ABOVE_ONE_CLOUD = 0.09
"""Least silhouette above that of one cloud. Uniform squares and stretched Gaussians have up to 0.06, the nine public
sets that it was measured on 0.11 and more at their number of clusters."""

SURE = 0.9
"""The same, from which on a number that stands out is called reliable. On six public sets of known numbers those of 0.8
to 0.9 were off by one now and then."""

AS_CLEAR, AS_STABLE = 0.01, 0.005
"""A silhouette that is less than this below another's is about as clear, and clusters come back about as well."""

MUCH_MORE = 1.2
"""Times the Calinski-Harabasz index of another k, from which on it explains much more."""

MOST_HELD = 0.9
"""If one device has a larger share of the rows, what happens without others tells nothing."""

HEADINGS = ("k", "cost", "expl.", "silh.", "cloud", "C-H", "stability", "weakest")
"""Short enough for a table on a terminal of 80 columns; `KComparison.notes` says what they mean."""


@dataclass(frozen=True, eq=False)
class KComparison(InNotebook):
    """Numbers of clusters side by side. Made by `compare_k`.

    Attributes
    ----------
    n_clusters : array of int, shape (n_values,)
        The values of k that were compared.
    costs : array of shape (n_values,)
        k-means cost, exact for the rows if every row keeps its local cluster and `inexact` is empty; that of the
        device centers alone if `share_known` is below a half. Cells that are missing have no part in it.
    explained : array of shape (n_values,)
        Share of the variance of all rows that lies between clusters.
    silhouettes, silhouettes_of_one_cloud : arrays of shape (n_values,)
        Simplified silhouettes, and what they would be without any clusters.
    calinski_harabasz : array of shape (n_values,)
    agreements : array of shape (n_values, n_resamplings)
        Adjusted Rand index with each resampling of the devices; NaN where that had too few centers.
    weakest : array of shape (n_values,)
        Mean Jaccard similarity to the best match in each resampling, of the cluster where it is least.
    n_devices, n_device_centers : int
    rule : str
        The rule that grouped the device centers.
    share_known : float
        Share of the rows whose devices said how far they spread about their centers.
    largest_share : float
        Share of the rows that the device with most of them has.
    inexact : str
        Why costs and explained variance are not exactly those of the rows; empty if they are.

    Examples
    --------
    >>> places = [[0.0, 0.0], [9.0, 0.0], [0.0, 9.0]]
    >>> pairs = [[places[i % 3], places[(i + 1) % 3]] for i in range(12)]
    >>> sent = [kfed.DeviceMessage(f"{i}", pair, [50, 50], [60.0, 60.0]) for i, pair in enumerate(pairs)]
    >>> kfed.compare_k(sent, [2, 3, 4], n_resamplings=5).best
    3
    """

    n_clusters: Array
    costs: Array
    explained: Array
    silhouettes: Array
    silhouettes_of_one_cloud: Array
    calinski_harabasz: Array
    agreements: Array
    weakest: Array
    n_devices: int
    n_device_centers: int
    rule: str
    share_known: float
    largest_share: float = 0.0
    inexact: str = ""

    def __post_init__(self) -> None:
        readonly_fields(self)

    @property
    def stability(self) -> Array:
        """Mean agreement with resamplings, and the interval that holds nine in ten of them: (n_values, 3)."""
        return np.array([mean_and_range(row) for row in self.agreements])

    @property
    def recommended(self) -> int | None:
        """The clearest k whose clusters are stable and clearer than one cloud; None if there is none.

        Of values that are about as clear, the one whose clusters come back best. But silhouettes are means over all
        rows, so that clusters of few rows may be merged for a little, and a few groups of clusters may be clearer than
        these: a larger k that stands out and explains much more by Calinski and Harabasz is taken instead, or one that
        explains more, and whose clusters come back as well.
        """
        stand_out, back, index = self._stand_out(), self._coming_back, self.calinski_harabasz
        if not stand_out.any():
            return None
        above = np.where(stand_out, self._above_one_cloud, -np.inf)
        are_clear = above >= above.max() - AS_CLEAR
        are_stable = are_clear & (back >= back[are_clear].max() - AS_STABLE)
        at = int(np.where(are_stable, above, -np.inf).argmax())
        explains_more = (index > index[at]) & (back >= back[at] - AS_STABLE) | (index >= MUCH_MORE * index[at])
        is_finer = stand_out & (self.n_clusters > self.n_clusters[at]) & explains_more
        return int(self.n_clusters[np.where(is_finer, index, -np.inf).argmax() if is_finer.any() else at])

    @property
    def is_sure(self) -> bool:
        """Whether a k stands out whose clusters come back nearly always."""
        return self.recommended is not None and bool(self._coming_back[self._at(self.recommended)] >= SURE)

    def _at(self, k: int) -> int:
        return int(np.flatnonzero(self.n_clusters == k)[0])

    @property
    def best(self) -> int:
        """The recommended k, or if no k stands out, the one that comes nearest to it.

        Where clusters could be slices of one cloud at every k, none is nearer than another but by chance: then it is
        the smallest, which claims least.
        """
        if self.recommended is not None:
            return self.recommended
        if not self._are_apart().any():
            return int(self.n_clusters[0])
        apart = self._above_one_cloud / ABOVE_ONE_CLOUD
        found = np.fmin(apart, self._coming_back / STABLE)
        return int(self.n_clusters[np.nan_to_num(found, nan=-np.inf).argmax()])

    @property
    def reason(self) -> str:
        """Why this k is recommended, or why none is."""
        if self.recommended is None:
            return self._why_none()
        at = self._at(self.recommended)
        return (
            f"stable when devices are resampled (agreement {self.stability[at, 0]:.2f}, weakest cluster "
            f"{self.weakest[at]:.2f}), and clearer than one cloud without clusters (silhouette "
            f"{self.silhouettes[at]:.2f} against {self.silhouettes_of_one_cloud[at]:.2f})"
        )

    @property
    def doubt(self) -> str:
        """Why the number that stands out is not certain; nothing if it is, or if none stands out."""
        if self.recommended is None or self.is_sure:
            return ""
        at = self._at(self.recommended)
        agreement, weakest = float(self.stability[at, 0]), float(self.weakest[at])
        below = f"weakest cluster {weakest:.2f}" if weakest < agreement else f"agreement {agreement:.2f}"
        return f"{below} is below {SURE:g}"

    def _stand_out(self) -> Array:
        are_stable = (self.stability[:, 0] >= STABLE) & (self.weakest >= STABLE)
        are_groups = (self.n_clusters > 1) & (self.n_clusters < self.n_device_centers)
        are_groups &= self.largest_share <= MOST_HELD
        return np.asarray(are_stable & self._are_apart() & are_groups)

    def _are_apart(self) -> Array:
        return np.asarray(self._above_one_cloud >= ABOVE_ONE_CLOUD)

    @property
    def _above_one_cloud(self) -> Array:
        return np.asarray(self.silhouettes - self.silhouettes_of_one_cloud)

    @property
    def _coming_back(self) -> Array:
        """How well clusters come back in resamplings: all of them, and the weakest."""
        return np.asarray(np.fmin(self.weakest, self.stability[:, 0]))

    def _why_none(self) -> str:
        if not np.isfinite(self.agreements).any():
            return "all centers are from one device, so stability across devices is unknown"
        if self.largest_share > MOST_HELD:
            return f"one device has {self.largest_share:.0%} of the rows, so resampling the others says little"
        at = self._at(self.best)
        if not self._are_apart().any():
            return (
                "no k is clearly better than one cloud without clusters: the silhouette is at most "
                f"{max(self._above_one_cloud.max(), 0):.3f} higher, and {ABOVE_ONE_CLOUD:g} would be clear"
            )
        return (
            "no k that is clearer than one cloud has stable clusters when devices are resampled; best is "
            f"k = {self.best} (agreement {self.stability[at, 0]:.2f}, weakest cluster {self.weakest[at]:.2f}; "
            f"{STABLE:g} would be stable)"
        )

    @property
    def taken_by(self) -> str:
        """By what `best` was taken."""
        compared = ranges(self.n_clusters)
        if self.recommended is not None:
            return f"k = {self.best} stands out among {compared}"
        if not self._are_apart().any():
            return f"k = {self.best} is the smallest of {compared}, and others are clearer by chance alone"
        return f"k = {self.best} is the best of {compared} by silhouette and stability"

    @property
    def finding(self) -> str:
        """The number and how sure it is, without the reason."""
        return finding(self.best, stands_out=self.recommended is not None, is_reliable=self.is_sure)

    @property
    def rises_at_the_end(self) -> bool:
        """Whether the silhouette is the largest at the largest k that was compared."""
        return len(self.n_clusters) > 2 and int(self.silhouettes.argmax()) == len(self.n_clusters) - 1

    def conclusion(self) -> Conclusion:
        """The recommendation and its reason."""
        reasons = "; ".join(filter(None, [self.doubt, self.reason, self.taken_by]))
        return Conclusion(f"{self.finding}: {reasons}", True if self.is_sure else None)

    def table(self) -> TextTable:
        """A row for each k."""
        return TextTable("", HEADINGS, tuple(table_rows(self)), n_words=1)

    def notes(self) -> Iterator[str]:
        """What to know when reading the table."""
        if self.share_known < 1:
            silent = f"devices did not say how far {1 - self.share_known:.0%} of the rows spread"
            consequence = (
                "they are taken to spread as the others"
                if self.share_known >= LEAST_KNOWN
                else "costs, explained variance and silhouettes are those of the device centers"
            )
            yield f"{silent}; {consequence}"
        elif self.inexact:
            yield f"costs and explained variance are approximate: {self.inexact}"
        few = self.n_clusters[2 * self.n_clusters > self.n_device_centers]
        if len(few):
            centers = text.plural(self.n_device_centers, "center")
            yield f"{centers} say little from k = {few[0]} on: a cluster of a single center is always stable"
        last = int(self.n_clusters[-1])
        if self.rises_at_the_end:
            yield f"the silhouette still rises at k = {last}, the largest that was compared; compare larger ones, too"
        resamplings = text.plural(self.agreements.shape[1], "resampling")
        yield (
            "expl. is the share of the variance that clusters explain, silh. the silhouette, cloud the silhouette of "
            "one cloud without clusters, C-H the Calinski-Harabasz index"
        )
        yield (
            f"stability is the agreement (adjusted Rand index) with {resamplings} of the devices, with the range of "
            "nine in ten of them; weakest is that of the least stable cluster"
        )

    def blocks(self) -> Iterator[Block]:
        """Describe the comparison: the recommendation, the table and notes."""
        yield self.conclusion()
        yield self.table()
        yield Notes(tuple(self.notes()))

    def __str__(self) -> str:
        return text.render(self.blocks())

    def _shown(self) -> Iterable[Block]:
        return self.blocks()

    def to_frame(self) -> pandas.DataFrame:
        """A data frame with a row for each k; needs pandas."""
        names = ("n_clusters", "costs", "explained", "silhouettes", "silhouettes_of_one_cloud", "calinski_harabasz")
        columns = {name: getattr(self, name) for name in (*names, "weakest")}
        stability = dict(zip(("stability", "stability_low", "stability_high"), self.stability.T, strict=True))
        return data_frame({**columns, **stability}, "n_clusters")

    def to_dict(self) -> dict[str, Any]:
        """Convert to JSON types; a number that is not known becomes None."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        found: dict[str, Any] = text.plain(
            {"recommended": self.recommended, "best": self.best, "reason": self.reason, **values}
            | {"stability": self.stability}
        )
        return found

    def plot(self, path: str | os.PathLike[str] | None = None, ax: Axes | None = None) -> Axes:
        """Draw stability and silhouettes over k; `path` and `ax` are as in `kfed.Certificate.plot`."""
        from kfed.server.k_plot import plot_comparison

        return plot_comparison(self, path, ax)
