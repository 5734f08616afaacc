"""Pictures of separation: how many pairs of clusters have which c_rs (the appendix's figure)."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from kfed import _conditions, plots

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from kfed.certificate import Certificate
    from kfed.separation import SeparationChoice, SeparationReport

Array = npt.NDArray[Any]
Path = str | os.PathLike[str]

ACTIVE, INACTIVE = "#d1603d", "#2f6690"
"""Colours that differ in lightness, too."""

N_BINS = 60
"""Bars across the whole axis."""

LOG_RANGE = 20.0
"""If the largest number on the axis is more than so many times the smallest, the axis is logarithmic."""


def plot_ratios(report: SeparationReport, path: Path | None, ax: Axes | None) -> Axes:
    """Draw a histogram of c_rs, inactive pairs on active ones, and how large it must be for either."""
    ax = _axes(ax, path)
    lengths = 2 * np.sqrt(report.size_imbalance) * _conditions.sums_of_pairs(report.active_scales)
    needed = _conditions.over(report.required_separations, lengths)
    _draw_pairs(ax, report.separation_ratios, needed, report.active_pairs)
    _label(ax, f"{report.n_clusters} clusters: {report.verdict.partition(':')[0]}", "pairs of clusters")
    return _saved(ax, path)


def plot_bounds(certificate: Certificate, path: Path | None, ax: Axes | None) -> Axes:
    """Draw the same of the lower bounds of c_rs that messages give."""
    ax = _axes(ax, path)
    needed = _conditions.over(certificate.separation_ratios.upper, certificate.attained.upper)
    _draw_pairs(ax, certificate.separation_ratios.lower, needed, certificate.active_pairs)
    verdict = certificate.verdict.partition(":")[0]
    _label(ax, f"{certificate.n_clusters} clusters: {verdict}", "pairs of clusters", "lower bound of the ")
    return _saved(ax, path)


def _draw_pairs(ax: Axes, ratios: Array, needed: Array, active_pairs: Array) -> None:
    is_active = np.zeros(ratios.shape, bool)
    is_active[tuple(active_pairs.T)] = True
    exists = np.triu(~np.isnan(ratios), 1)
    both = [("active", exists & is_active, ACTIVE), ("inactive", exists & ~is_active, INACTIVE)]
    kinds = [(name, ratios[pairs], needed[pairs], color) for name, pairs, color in both if pairs.any()]
    drawn = [_drawable(own) for _, own, _, _ in kinds]
    if kinds:
        edges = _bins(ax, np.concatenate([*drawn, *(_drawable(least) for _, _, least, _ in kinds)]))
        labels = [f"{len(own):,} {name} pairs{_left_out(own)}" for name, own, _, _ in kinds]
        colors = [color for *_, color in kinds]
        ax.hist(drawn, edges.tolist(), stacked=True, color=colors, label=labels, edgecolor="white", linewidth=0.5)
        ax.legend(loc="lower right", bbox_to_anchor=(1, 1), ncols=2, frameon=False, borderaxespad=0.2)
        ax.locator_params(axis="y", integer=True)
    for name, _, least, color in kinds:
        _mark_needed(ax, name, _drawable(least), color)


def plot_choice(choice: SeparationChoice, path: Path | None, ax: Axes | None) -> Axes:
    """Draw for each k the share of pairs with c_rs above x, and the threshold at which the shares are compared."""
    ax = _axes(ax, path)
    from matplotlib import colormaps

    drawn = [_drawable(ratios) for ratios in choice.separation_ratios.values()]
    _bins(ax, np.concatenate([*drawn, [choice.threshold]]))
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
    _label(ax, "separation of the candidates", "share of pairs with a larger one")
    return _saved(ax, path)


def _axes(ax: Axes | None, path: Path | None) -> Axes:
    if path is not None:
        plots.check_format(path)
    if ax is not None:
        return ax
    figure = plots.new_figure(8.0, 4.6) if path is not None else plots._pyplot_figure(8.0, 4.6)
    return figure.add_subplot()


def _saved(ax: Axes, path: Path | None) -> Axes:
    if path is not None:
        plots.save_figure(ax.figure, path)  # type: ignore[arg-type]
    return ax


def _drawable(ratios: Array) -> Array:
    return np.asarray(ratios[np.isfinite(ratios) & (ratios > 0)])


def _left_out(ratios: Array) -> str:
    n_left_out = len(ratios) - len(_drawable(ratios))
    return f" ({n_left_out:,} with none or infinite)" if n_left_out else ""


def _bins(ax: Axes, shown: Array) -> Array:
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


def _label(ax: Axes, title: str, height: str, about: str = "") -> None:
    ax.set_title(title, loc="left")
    ax.set_xlabel(
        f"{about} " * bool(about)
        + r"separation ratio  $c_{rs} = \|\mu_r - \mu_s\| \;/\; 2\sqrt{m_0}\,(\Delta_r + \Delta_s)$"
    )
    ax.set_ylabel(height)
    ax.spines[["top", "right"]].set_visible(False)
