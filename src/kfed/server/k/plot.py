"""The picture of a comparison of k: how stable the clusters are, and how far above one cloud."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from kfed._base.figures import axes_for, saved
from kfed.server.k.words import ComparisonWords

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from kfed.server.k.comparison import KComparison

_STABILITY, _SILHOUETTE, _CHOSEN = "#2f6690", "#d1603d", "#3a7d44"


def plot_comparison(
    found: KComparison,
    path: str | os.PathLike[str] | None = None,
    ax: Axes | None = None,
    *,
    title: str | None = None,
    asked: int | None = None,
) -> Axes:
    """Draw stability, the weakest cluster, and silhouettes over k; `asked` is marked if it is another number."""
    ax = axes_for(ax, path, 8.0, 4.4)
    values, stability = found.n_clusters, found.stability
    ax.fill_between(values, stability[:, 1], stability[:, 2], color=_STABILITY, alpha=0.15, linewidth=0)
    ax.plot(values, stability[:, 0], "o-", color=_STABILITY, markersize=4, label="stability, nine in ten in the band")
    ax.plot(values, found.weakest, "o:", color=_STABILITY, markersize=3, label="weakest cluster")
    ax.plot(values, found.silhouettes, "s-", color=_SILHOUETTE, markersize=4, label="silhouette")
    ax.plot(values, found.silhouettes_of_one_cloud, "--", color=_SILHOUETTE, label="silhouette of one cloud")
    if found.recommended is not None:
        ax.axvline(found.recommended, color=_CHOSEN, linewidth=6, alpha=0.2)
    if asked is not None and asked != found.best:
        ax.axvline(asked, color="0.4", linestyle="--", linewidth=1.2, label=f"{asked} were asked for")
    ax.set_ylim(min(0.0, float(found.silhouettes.min()) - 0.05), 1.05)
    ax.locator_params(axis="x", integer=True)
    ax.set_xlabel("number of clusters, k")
    ax.set_title(title or ComparisonWords(found).finding, loc="left")
    ax.legend(fontsize="small", loc="upper center", bbox_to_anchor=(0.5, -0.16), ncols=2, frameon=False)
    ax.spines[["top", "right"]].set_visible(False)
    return saved(ax, path)
