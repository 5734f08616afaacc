"""`KComparison`: what `compare_k` found, as a table, a picture and one recommendation."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

import numpy as np

from kfed._base import text
from kfed._base.array import Array, readonly_fields
from kfed._base.notebook import InNotebook, data_frame
from kfed._base.report import Block
from kfed.server.k.standards import (
    ABOVE_ONE_CLOUD,
    STABLE,
    above_one_cloud,
    are_clear_and_stable,
    are_clearer,
    comes_back,
    coming_back,
    have_centers,
    standing_out,
)
from kfed.server.k.words import ComparisonWords

if TYPE_CHECKING:
    import pandas
    from matplotlib.axes import Axes

AS_CLEAR, AS_STABLE = 0.01, 0.005
"""A silhouette that is less than this below another's is about as clear, and clusters come back about as well."""

MUCH_MORE = 1.2
"""Times the Calinski-Harabasz index of another k, from which on it explains much more."""


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
    doubt : str
        What speaks against the recommended k, beside its stability; empty if nothing does.

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
    doubt: str = ""

    def __post_init__(self) -> None:
        readonly_fields(self)

    @property
    def stability(self) -> Array:
        """Mean agreement with resamplings, and the interval that holds nine in ten of them: (n_values, 3)."""
        return np.array([_mean_and_range(row) for row in self.agreements])

    @property
    def recommended(self) -> int | None:
        """The clearest k whose clusters are stable and clearer than one cloud; None if there is none.

        Of values that are about as clear, the one whose clusters come back best. But silhouettes are means over all
        rows, so that clusters of few rows may be merged for a little, and a few groups of clusters may be clearer than
        these: a larger k that stands out and explains much more by Calinski and Harabasz is taken instead, or one that
        explains more, and whose clusters come back as well.
        """
        stand_out = standing_out(self)
        return self._clearest(stand_out) if stand_out.any() else None

    def _clearest(self, stand_out: Array) -> int:
        back, index = coming_back(self), self.calinski_harabasz
        above = np.where(stand_out, above_one_cloud(self), -np.inf)
        are_clear = above >= above.max() - AS_CLEAR
        are_stable = are_clear & (back >= back[are_clear].max() - AS_STABLE)
        at = int(np.where(are_stable, above, -np.inf).argmax())
        explains_more = (index > index[at]) & (back >= back[at] - AS_STABLE) | (index >= MUCH_MORE * index[at])
        is_finer = stand_out & (self.n_clusters > self.n_clusters[at]) & explains_more
        return int(self.n_clusters[np.where(is_finer, index, -np.inf).argmax() if is_finer.any() else at])

    @property
    def is_sure(self) -> bool:
        """Whether a k stands out whose clusters come back nearly always, and no other way to count is against it."""
        return self.recommended is not None and comes_back(self.recommended, self) and not self.doubt

    @property
    def best(self) -> int:
        """The recommended k, or if no k stands out, the one that comes nearest to it.

        If one device has nearly all rows, so that the resamplings say little, it is the one that would stand out
        otherwise. If no k is clearer than a single group, this is the smallest, which claims least. A k with fewer than
        two device centers for each cluster is not taken.
        """
        if (would_stand_out := are_clear_and_stable(self)).any():
            return self._clearest(would_stand_out)
        may_be = have_centers(self)
        if not (are_clearer(self) & may_be).any():
            return int(self.n_clusters[0])
        apart = above_one_cloud(self) / ABOVE_ONE_CLOUD
        found = np.where(may_be, np.fmin(apart, coming_back(self) / STABLE), -np.inf)
        return int(self.n_clusters[np.nan_to_num(found, nan=-np.inf).argmax()])

    @property
    def reason(self) -> str:
        """Why this k is recommended, or why none is."""
        return ComparisonWords(self).reason

    def __str__(self) -> str:
        return text.render(ComparisonWords(self).blocks())

    def _shown(self) -> Iterable[Block]:
        return ComparisonWords(self).blocks()

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
        from kfed.server.k.plot import plot_comparison

        return plot_comparison(self, path, ax)


def _mean_and_range(agreements: Array) -> tuple[float, float, float]:
    """The mean of those that are known, and the interval that holds nine in ten of them."""
    known = agreements[np.isfinite(agreements)]
    if len(known) == 0:
        return (float("nan"),) * 3
    low, high = np.quantile(known, [0.05, 0.95])
    return float(known.mean()), float(low), float(high)
