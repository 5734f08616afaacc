"""What the pictures of the experiments share: plain axes, a line with its spread, and a legend."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Runs = Sequence[Sequence[float]]


def spread(ax: Axes, places: Sequence[float], runs: Runs, label: str, color: str, **style: Any) -> None:
    """Draw the mean of the runs at each place, and a band from the least to the largest."""
    ax.plot(places, [np.mean(own) for own in runs], label=label, color=color, **{"marker": "o", **style})
    low, high = [min(own) for own in runs], [max(own) for own in runs]
    ax.fill_between(places, low, high, color=color, alpha=0.15, linewidth=0)


def plain_log(ax: Axes) -> None:
    """A logarithmic axis upwards, with ticks as plain numbers: 1, 2 and 5 times a power of ten, or even steps."""
    from matplotlib.ticker import LogLocator, MaxNLocator, NullFormatter

    ax.set_yscale("log")
    low, high = ax.get_ylim()
    ax.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)) if high / low > 5 else MaxNLocator(6))
    ax.yaxis.set_major_formatter(lambda value, _: f"{value:,g}")
    ax.yaxis.set_minor_formatter(NullFormatter())


def finish(ax: Axes, title: str, across: str, up: str) -> None:
    """Name the axes, and take away what says nothing."""
    ax.set_title(title, loc="left", fontsize="medium")
    ax.set(xlabel=across, ylabel=up)
    ax.grid(axis="y", alpha=0.3)
    ax.spines[["top", "right"]].set_visible(False)


def legend_below(figure: Figure, **style: Any) -> None:
    """Explain the lines of all axes below them, each label once."""
    by_label = {
        label: handle for ax in figure.axes for handle, label in zip(*ax.get_legend_handles_labels(), strict=True)
    }
    figure.legend(by_label.values(), by_label, loc="outside lower center", frameon=False, **style)


def plus_minus(values: Sequence[float], digits: int = 2) -> str:
    """Mean and standard deviation over runs; of a single run there is none.

    Examples
    --------
    >>> plus_minus([1.0, 3.0]), plus_minus([1.0]), plus_minus([-0.001])
    ('2.00 ± 1.41', '1.00 (one run)', '0.00 (one run)')
    """
    mean = signless(f"{np.mean(values):.{digits}f}")
    return f"{mean} (one run)" if len(values) == 1 else f"{mean} ± {np.std(values, ddof=1):.{digits}f}"


def from_to(values: Sequence[float], digits: int = 2) -> str:
    """The least and the largest of values; one number where rounding makes them the same.

    Examples
    --------
    >>> from_to([1.046, 1.05], 3), from_to([1.0, 1.0004])
    ('1.046 to 1.050', '1.00')
    """
    least, largest = (f"{bound:.{digits}f}" for bound in (min(values), max(values)))
    return least if least == largest else f"{least} to {largest}"


def signless(number: str) -> str:
    """A number as it is, but a zero without a sign.

    Examples
    --------
    >>> signless("-0.00"), signless("-0.01"), signless("+0.00")
    ('0.00', '-0.01', '0.00')
    """
    return number if float(number) else number.lstrip("+-")


def deviation(values: Sequence[float]) -> float:
    """Standard deviation over runs, as `plus_minus` gives it; 0 of a single run.

    Examples
    --------
    >>> deviation([1.0, 3.0]) == 2**0.5, deviation([1.0])
    (True, 0.0)
    """
    return float(np.std(values, ddof=1)) if len(values) > 1 else 0.0


def select(results: Sequence[Any], **axes: Any) -> list[Any]:
    """Results of runs whose axes have these values."""
    return [result for result in results if all(result.axes[name] == value for name, value in axes.items())]


def values_of(results: Sequence[Any], axis: str) -> list[Any]:
    """The distinct values of an axis, in order of appearance."""
    return list(dict.fromkeys(result.axes[axis] for result in results))
