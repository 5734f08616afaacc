"""Pictures of a separation report, and of the separation of several candidates for k."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from kfed import _conditions
from kfed._pair_plot import Path, axes, bins, draw_pairs, drawable, label_axes, saved

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from kfed.separation import SeparationChoice, SeparationReport

Array = npt.NDArray[Any]


def plot_ratios(report: SeparationReport, path: Path | None, ax: Axes | None) -> Axes:
    """Draw a histogram of c_rs, inactive pairs on active ones, and how large it must be for either."""
    ax = axes(ax, path)
    lengths = 2 * np.sqrt(report.size_imbalance) * _conditions.sums_of_pairs(report.active_scales)
    needed = _conditions.over(report.required_separations, lengths)
    draw_pairs(ax, report.separation_ratios, needed, report.active_pairs)
    label_axes(ax, f"{report.n_clusters} clusters: {report.verdict.partition(':')[0]}", "pairs of clusters")
    return saved(ax, path)


def plot_choice(choice: SeparationChoice, path: Path | None, ax: Axes | None) -> Axes:
    """Draw for each k the share of pairs with c_rs above x, and the threshold at which the shares are compared."""
    ax = axes(ax, path)
    from matplotlib import colormaps

    drawn = [drawable(ratios) for ratios in choice.separation_ratios.values()]
    bins(ax, np.concatenate([*drawn, [choice.threshold]]))
    colors = colormaps["viridis"](np.linspace(0, 0.85, len(drawn)))
    for (k, ratios), color in zip(choice.separation_ratios.items(), colors, strict=True):
        chosen = k == choice.n_clusters
        ordered = np.sort(ratios[np.isfinite(ratios)])
        shares = np.linspace(1, 0, len(ratios) + 1)[: len(ordered) + 1]
        label = f"k = {k}: {choice.shares[k]:.0%}{', chosen' if chosen else ''}"
        steps = [ax.get_xlim()[0], *ordered, ax.get_xlim()[1]]
        ax.stairs(shares, steps, baseline=None, color=color, label=label, linewidth=2.8 if chosen else 1.4)
    ax.axvline(choice.threshold, color="0.3", linestyle="--", linewidth=1)
    ax.set_ylim(0, 1.04)
    ax.legend(loc="lower left", frameon=False, title=f"pairs with $c_{{rs}}$ > {choice.threshold:g}")
    label_axes(ax, "separation of the candidates", "share of pairs with a larger one")
    return saved(ax, path)
