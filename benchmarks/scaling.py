"""Time against n, d, k and Z over three decades, beside scikit-learn and faiss: where it grows faster than the work.

Every contestant has one thread, and kfed is called as users call it, with the spectral deviation.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import log
from pathlib import Path
from time import process_time
from typing import TYPE_CHECKING, Any

import numpy as np

import kfed
from benchmarks.devices import alone, faiss_loop, mixture
from kfed._base import figures
from kfed._base.array import Array
from kfed._base.progress import progress_bar

if TYPE_CHECKING:
    from matplotlib.axes import Axes

PATIENCE = 6.0
"""Seconds: a contestant that takes longer is not asked for the next size."""

SHORT = 0.3
"""A run that takes fewer seconds is repeated, and the fastest counts."""

COLOURS = {"kfed": "#1b6ca8", "scikit-learn": "#d98032", "faiss": "#5a9e4b"}


@dataclass(frozen=True)
class Shape:
    """So many devices, each with so many points of so many features in so many clusters."""

    n_devices: int = 1
    n_points: int = 10_000
    n_features: int = 16
    n_clusters: int = 8

    def devices(self) -> list[Array]:
        """Mixtures of Gaussians of this shape."""
        rng = np.random.default_rng(0)
        return [mixture(rng, self.n_points, self.n_features, self.n_clusters) for _ in range(self.n_devices)]


@dataclass(frozen=True)
class Axis:
    """A size that varies, and the shapes of its panel."""

    name: str
    title: str
    sizes: Sequence[int]
    shape: Callable[[int], Shape]


@dataclass(frozen=True)
class Curve:
    """Seconds of one contestant by size; fewer than there are sizes if it ran out of patience."""

    contestant: str
    axis: Axis
    seconds: Sequence[float]

    @property
    def growth(self) -> float:
        """The power of the size by which time grows over the last decade; NaN if there is none."""
        sizes = self.axis.sizes[: len(self.seconds)]
        before = [i for i, size in enumerate(sizes) if 9 * size <= sizes[-1]]
        if not before:
            return float("nan")
        return log(self.seconds[-1] / self.seconds[before[-1]]) / log(sizes[-1] / sizes[before[-1]])

    def facts(self) -> dict[str, Any]:
        """The curve for a program."""
        sizes = list(self.axis.sizes[: len(self.seconds)])
        return {"contestant": self.contestant, "axis": self.axis.name, "sizes": sizes, "seconds": list(self.seconds)}


def axes(quick: bool) -> list[Axis]:
    """The four panels; `quick` leaves out the last decade."""

    def up_to(largest: int, smallest: int) -> list[int]:
        n_sizes = 5 if quick else 7
        return [round(smallest * (largest / smallest) ** (i / 6)) for i in range(n_sizes)]

    return [
        Axis("n", "points of a device (d=16, k=8)", up_to(1_000_000, 1_000), lambda n: Shape(n_points=n)),
        Axis("d", "features (n=2,000, k=8)", up_to(4_000, 4), lambda d: Shape(n_points=2_000, n_features=d)),
        Axis("k", "clusters of a device (n=30,000, d=8)", up_to(2_000, 2), lambda k: Shape(1, 30_000, 8, k)),
        Axis("Z", "devices (n=100, d=16, k=4)", up_to(10_000, 10), lambda z: Shape(z, 100, 16, 4)),
    ]


def measure(quick: bool = False, progress: bool | None = None) -> list[Curve]:
    """Time every contestant on every panel."""
    panels = axes(quick)
    seconds: dict[tuple[str, str], list[float]] = {}
    with progress_bar("measuring", sum(len(axis.sizes) for axis in panels), progress) as advance:
        for axis in panels:
            tired: set[str] = set()
            for size in axis.sizes:
                for name, run in _contestants(axis.shape(size)).items():
                    if name not in tired:
                        seconds.setdefault((axis.name, name), []).append(_fastest(run))
                        tired |= {name} if seconds[axis.name, name][-1] > PATIENCE else set()
                advance(1)
    by_name = {axis.name: axis for axis in panels}
    return [Curve(name, by_name[axis], own) for (axis, name), own in seconds.items()]


def _contestants(shape: Shape) -> dict[str, Callable[[], object]]:
    from sklearn.cluster import KMeans

    devices, n_clusters = shape.devices(), shape.n_clusters

    def ours() -> Any:
        if len(devices) == 1:
            return kfed.cluster_device(devices[0], n_clusters, random_state=0, n_jobs=1)
        return kfed.cluster_fleet(devices, n_clusters, random_state=0, n_jobs=1, progress=False)

    def theirs() -> Any:
        return [KMeans(n_clusters, n_init=1, random_state=0).fit(points) for points in devices]

    faiss = faiss_loop(devices, n_clusters)
    found = {"kfed": alone(ours), "scikit-learn": alone(theirs)}
    return found if faiss is None else found | {"faiss": faiss}


def _fastest(run: Callable[[], object]) -> float:
    first = _cpu_seconds(run)
    return first if first > SHORT else min(first, _cpu_seconds(run), _cpu_seconds(run))


def _cpu_seconds(run: Callable[[], object]) -> float:
    """CPU time, which with one thread is the time that it takes on a machine without other work."""
    start = process_time()
    run()
    return process_time() - start


def save_picture(curves: Sequence[Curve], path: Path) -> None:
    """Draw a panel for each size, with both scales logarithmic, so that time as a power of the size is a line."""
    figure = figures.new_figure(11, 7.4)
    panels = {curve.axis.name: curve.axis for curve in curves}
    for ax, axis in zip(figure.subplots(2, 2).flat, panels.values(), strict=False):
        _draw(ax, axis, [curve for curve in curves if curve.axis.name == axis.name])
    figure.suptitle("CPU time of one thread; beside each name, how it grows over the last decade", fontsize=12)
    figures.save_figure(figure, path)


def _draw(ax: Axes, axis: Axis, curves: Sequence[Curve]) -> None:
    sizes = np.array(axis.sizes, float)
    below = min(curve.seconds[-1] for curve in curves if len(curve.seconds) == len(sizes)) / 3
    last_decade = sizes[-1] / np.array([10.0, 1.0])
    ax.plot(last_decade, below * last_decade / sizes[-1], "--", color="0.6", linewidth=1, label="in proportion")
    for curve in curves:
        label = f"{curve.contestant}: ${axis.name}^{{{curve.growth:.2f}}}$"
        colour = COLOURS[curve.contestant]
        ax.plot(sizes[: len(curve.seconds)], curve.seconds, marker="o", markersize=4, color=colour, label=label)
    ax.set(xscale="log", yscale="log", xlabel=axis.title, ylabel="CPU seconds")
    ax.grid(visible=True, color="0.92")
    ax.set_axisbelow(True)
    ax.spines[["top", "right"]].set_visible(False)
    ax.legend(frameon=False, fontsize=9, loc="upper left")
