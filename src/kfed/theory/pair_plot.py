"""A histogram of c_rs over pairs of clusters, with the c_rs that is required (the appendix's figure)."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import numpy as np

from kfed._base import figures
from kfed._base.array import Array
from kfed.theory.judgement import kinds_of_pairs

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from kfed.theory.judgement import Judgement

Path = str | os.PathLike[str]

COLORS = {"active": "#d1603d", "inactive": "#2f6690"}
"""Colours that differ in lightness, too."""

N_BINS = 60
"""Bars across the whole axis."""

LOG_RANGE = 20.0
"""If the largest number on the axis is more than so many times the smallest, the axis is logarithmic."""


def plot_pairs(judged: Judgement, path: Path | None, ax: Axes | None) -> Axes:
    """Draw a histogram of c_rs, and the c_rs that the main theorem requires."""
    ax = figures.axes_for(ax, path, 8.0, 4.6)
    ratios, required, name = judged.ratios_to_draw()
    draw_pairs(ax, ratios, required, judged.active_pairs)
    label_axes(ax, f"{judged.n_clusters} clusters: {judged.conclusion().answer}", "pairs of clusters", name)
    return figures.saved(ax, path)


def draw_pairs(ax: Axes, ratios: Array, needed: Array, active_pairs: Array) -> None:
    """Draw a stacked histogram of the ratios of active and inactive pairs, and the ratio that each kind needs."""
    kinds = [(name, ratios[pairs], needed[pairs], COLORS[name]) for name, pairs in kinds_of_pairs(ratios, active_pairs)]
    drawn = [drawable(own) for _, own, _, _ in kinds]
    if kinds:
        edges = bins(ax, np.concatenate([*drawn, *(drawable(least) for _, _, least, _ in kinds)]))
        labels = [f"{len(own):,} {name} pairs{_left_out(own)}" for name, own, _, _ in kinds]
        colors = [color for *_, color in kinds]
        ax.hist(drawn, edges.tolist(), stacked=True, color=colors, label=labels, edgecolor="white", linewidth=0.5)
        ax.legend(loc="lower right", bbox_to_anchor=(1, 1), ncols=2, frameon=False, borderaxespad=0.2)
        ax.locator_params(axis="y", integer=True)
    for name, _, least, color in kinds:
        _mark_needed(ax, name, drawable(least), color)


def drawable(ratios: Array) -> Array:
    """The ratios that have a place on the axis."""
    return np.asarray(ratios[np.isfinite(ratios) & (ratios > 0)])


def _left_out(ratios: Array) -> str:
    n_left_out = len(ratios) - len(drawable(ratios))
    return f" ({n_left_out:,} with none or infinite)" if n_left_out else ""


def bins(ax: Axes, shown: Array) -> Array:
    """Set an axis that suits the numbers shown, and give the edges of bars along it, (n_bins + 1,)."""
    from matplotlib.ticker import LogLocator

    low, high = shown.min(initial=np.inf), shown.max(initial=0.0) or 1.0
    if high <= LOG_RANGE * low:
        ax.set_xlim(0, high * 1.1)
        return np.linspace(0, high * 1.1, N_BINS + 1)
    ax.set_xscale("log")
    ax.xaxis.set_major_locator(LogLocator(subs=(1.0,) if high > 100 * low else (1.0, 2.0, 5.0)))
    ax.xaxis.set_major_formatter(lambda number, _: f"{number:g}")
    ax.xaxis.set_minor_formatter(lambda *_: "")
    margin = (high / low) ** 0.06
    ax.set_xlim(low / margin, high * margin)
    return np.geomspace(low / margin, high * margin, N_BINS + 1)


def _mark_needed(ax: Axes, name: str, needed: Array, color: str) -> None:
    if len(needed) == 0:
        return
    low, high = needed.min(), needed.max()
    if high > 1.01 * low:
        ax.axvspan(low, high, color=color, alpha=0.15, linewidth=0)
    ax.axvline(high, color=color, linestyle="--", linewidth=1.2)
    ax.annotate(
        f"{name} pairs need {_range(low, high)}",
        (high, 0.98),
        (3, 0),
        xycoords=ax.get_xaxis_transform(),
        textcoords="offset points",
        rotation=90,
        ha="left",
        va="top",
        color=color,
        fontsize="small",
    )


def _range(low: float, high: float) -> str:
    texts = f"{low:.3g}", f"{high:.3g}"
    return texts[0] if texts[0] == texts[1] else " to ".join(texts)


def label_axes(ax: Axes, title: str, height: str, ratio: str = "separation ratio") -> None:
    """Set the title and the names of the axes; the horizontal one shows c_rs, or what `ratio` calls it."""
    ax.set_title(title, loc="left")
    ax.set_xlabel(ratio + r"  $c_{rs} = \|\mu_r - \mu_s\| \;/\; 2\sqrt{m_0}\,(\Delta_r + \Delta_s)$")
    ax.set_ylabel(height)
    ax.spines[["top", "right"]].set_visible(False)
