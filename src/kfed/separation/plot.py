"""A picture of the separation of several candidates for k."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import numpy as np

from kfed._base.figures import axes_for, saved
from kfed.theory import bins, drawable, label_axes

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from kfed.separation.choice import SeparationChoice


def plot_choice(choice: SeparationChoice, path: str | os.PathLike[str] | None, ax: Axes | None) -> Axes:
    """Draw for each k the share of pairs with c_rs above x, and the threshold at which the shares are compared."""
    ax = axes_for(ax, path, 8.0, 4.6)
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
