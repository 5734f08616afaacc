"""Pictures of an aggregation: its device centers in two dimensions, and how far apart they were picked."""

from __future__ import annotations

import colorsys
import os
from typing import TYPE_CHECKING

import numpy as np

from kfed._base.array import Array
from kfed._base.figures import axes_for, saved
from kfed.server.k.plot import plot_comparison

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from kfed.server.aggregation import Aggregation
    from kfed.server.k.choice import KChoice

MARKERS = "osD^vPX"
"""Shapes that take turns when there are more clusters than colours that the eye keeps apart."""

_CURVE, _DROP = "#2f6690", "#d1603d"
_FEWEST_PICKS = 30
_MANY = 10
_MOST_NAMES = 40
_LARGEST, _SMALLEST = 220.0, 12.0  # areas of dots, in points squared
_RING = 19.0  # width of the ring around a number, in points


def plot_centers(aggregation: Aggregation, path: str | os.PathLike[str] | None = None, ax: Axes | None = None) -> Axes:
    """Draw the device centers of an aggregation, and the global centers with their numbers.

    More than two features are projected on the two main directions of the device centers, weighted by count.

    Parameters
    ----------
    aggregation : Aggregation
        What to draw.
    path, ax
        Where to save and where to draw, as in `kfed.Certificate.plot`.
    """
    ax = axes_for(ax, path, 8.0, 6.5)
    view = _View(aggregation)
    batch = aggregation.messages.rescaled  # a center without a known cell in a column is at the mean of all there
    places, sizes = view.of(batch.centers, batch.owners), dot_areas(batch.counts)
    drawn = np.argsort(-sizes)  # small dots over large ones
    colors = cluster_colors(aggregation.n_clusters)
    for shape in range(len(MARKERS)):
        rows = drawn[_shapes(aggregation)[drawn] == shape]
        ax.scatter(
            places[rows, 0],
            places[rows, 1],
            s=sizes[rows],
            c=colors[aggregation.center_labels[rows]],
            marker=MARKERS[shape],
            alpha=0.55,
            linewidths=0.4,
            edgecolors="white",
        )
    _mark_clusters(ax, view.of_clusters(aggregation), colors)
    _label_axes(ax, view, aggregation)
    return saved(ax, path)


def plot_k_choice(
    choice: KChoice, n_clusters: int | None = None, path: str | os.PathLike[str] | None = None, ax: Axes | None = None
) -> Axes:
    """Draw what a number of clusters was found by; parameters are those of `plot_traversal`."""
    if choice.comparison is None:
        return plot_traversal(choice, n_clusters, path, ax)
    return plot_comparison(choice.comparison, path, ax, title=choice.finding, asked=n_clusters)


def plot_traversal(
    choice: KChoice, n_clusters: int | None = None, path: str | os.PathLike[str] | None = None, ax: Axes | None = None
) -> Axes:
    """Draw the farthest-first distances of device centers, and where they drop.

    Parameters
    ----------
    choice : KChoice
        What `kfed.choose_n_clusters` found.
    n_clusters : int, optional
        A number of clusters that was asked for, to be marked too.
    path, ax
        As in `plot_centers`.

    Returns
    -------
    matplotlib Axes
    """
    ax = axes_for(ax, path, 8.0, 4.4)
    k, asked = choice.n_clusters, n_clusters or choice.n_clusters
    n_shown = min(len(choice.distances), max(_FEWEST_PICKS, 2 * max(k, asked)))
    picks, distances = np.arange(2, n_shown + 2), choice.distances[:n_shown]
    ax.plot(picks, distances, marker="o", markersize=4, linewidth=1.4, color=_CURVE)
    if 2 <= k < n_shown + 1:
        high, low = choice.distances[k - 2 : k]
        ax.plot([k, k + 1], [high, low], color=_DROP, linewidth=3, marker="o", markersize=6)
        clear = "clear" if choice.is_reliable else "not clear enough"
        text = f"after pick {k} it drops {choice.ratios[k - 2]:.3g} times: {clear}"
        ax.annotate(text, (k + 0.5, (high + low) / 2), (14, 8), textcoords="offset points", color=_DROP)
    if asked != k:
        ax.axvline(asked + 0.5, color="0.4", linestyle="--", linewidth=1.2)
        place = (asked + 0.5, 0.97)
        across = ax.get_xaxis_transform()
        ax.annotate(
            f"{asked} were asked for",
            place,
            (4, 0),
            xycoords=across,
            textcoords="offset points",
            va="top",
            color="0.4",
            fontsize="small",
            rotation=90,
        )
    ax.set_ylim(bottom=0)
    ax.locator_params(axis="x", integer=True)
    ax.set_xlabel("pick")
    ax.set_ylabel("distance to the picks before it")
    ax.set_title(f"farthest-first traversal: {choice.finding}", loc="left")
    ax.spines[["top", "right"]].set_visible(False)
    return saved(ax, path)


def cluster_colors(n_clusters: int) -> Array:
    """Give each cluster a colour, (n_clusters, 3): ten that are easy to tell apart, else as many hues."""
    if n_clusters <= _MANY:
        from matplotlib import colormaps

        return np.array(colormaps["tab10"].colors[:n_clusters])  # type: ignore[attr-defined]
    golden = 0.618033988749895
    return np.array(
        [colorsys.hls_to_rgb((0.6 + i * golden) % 1, (0.42, 0.58, 0.34)[i % 3], 0.62) for i in range(n_clusters)]
    )


def dot_areas(counts: Array) -> Array:
    """Area of each dot, in proportion to its count; the smallest can still be seen."""
    if len(counts) == 0:
        return np.empty(0)
    crowd = min(4.0, 20.0 / np.sqrt(len(counts)))
    return np.asarray(np.maximum(_LARGEST * crowd * counts / counts.max(), _SMALLEST * crowd))


class _View:
    """Where a point stands in the picture."""

    def __init__(self, aggregation: Aggregation) -> None:
        self.n_features = aggregation.messages.n_features
        self.scale = aggregation.scale if self.n_features <= 2 else None  # two axes show units; directions mix them
        self.origin, self.axes = np.zeros(self.n_features), np.eye(self.n_features, 2)
        if self.n_features > 2:
            centers = aggregation.messages.rescaled.centers.astype(np.float64)  # (n_device_centers, n_features)
            weights = aggregation.messages.counts / aggregation.messages.counts.sum()
            self.origin = weights @ centers
            spread = (centers - self.origin) * np.sqrt(weights)[:, None]
            variances, directions = np.linalg.eigh(spread.T @ spread)
            self.axes = directions[:, [-1, -2]] * np.where(directions[:, [-1, -2]].sum(axis=0) < 0, -1, 1)
            self.shares = variances[[-1, -2]] / max(variances.sum(), np.finfo(float).tiny)

    def of(self, centers: Array, owners: Array) -> Array:
        """Places of centers on the common scale, (n_centers, 2); one feature alone leaves the height to the device."""
        shown = centers if self.scale is None else self.scale.undo(centers)
        places: Array = (shown - self.origin) @ self.axes
        if self.n_features == 1:
            places[:, 1] = owners
        return places

    def of_clusters(self, aggregation: Aggregation) -> Array:
        """Places of the global centers, (n_clusters, 2)."""
        heights = np.full(aggregation.n_clusters, aggregation.messages.n_devices)
        return self.of(aggregation.grouping.cluster_centers, heights)


def _shapes(aggregation: Aggregation) -> Array:
    """Which marker each device center gets."""
    return aggregation.center_labels % len(MARKERS) * (aggregation.n_clusters > _MANY)


def _mark_clusters(ax: Axes, places: Array, colors: Array) -> None:
    """Put a cross at each global center, and its number in a ring: on the cross, or beside it in a crowd."""
    ax.scatter(places[:, 0], places[:, 1], marker="x", s=24, c=colors * 0.7, zorder=3)
    ax.margins(0.08)
    pixels = ax.transData.transform(places)  # (n_clusters, 2)
    offsets = (_apart(pixels, _RING * ax.figure.dpi / 72) - pixels) * 72 / ax.figure.dpi
    for cluster, place in enumerate(places):
        ax.annotate(
            str(cluster),
            place,
            offsets[cluster],
            textcoords="offset points",
            ha="center",
            va="center",
            fontsize=9,
            fontweight="bold",
            color=colors[cluster] * 0.7,
            bbox={
                "boxstyle": "circle,pad=0.25",
                "facecolor": "white",
                "edgecolor": colors[cluster],
                "linewidth": 1.8,
            },
            arrowprops={"arrowstyle": "-", "color": colors[cluster] * 0.7, "shrinkA": 0, "shrinkB": 0},
            zorder=4,
        )


def _apart(places: Array, distance: float) -> Array:
    """Places pushed aside, pair by pair, until no two are nearer than `distance`, or a while has passed."""
    moved = places + 1e-3 * np.arange(places.size).reshape(places.shape) ** 1.5  # no two are the same
    for _ in range(200):
        gaps = moved[:, None] - moved[None]  # (n, n, 2)
        lengths = np.hypot(gaps[..., 0], gaps[..., 1]) + np.eye(len(moved)) * distance
        missing = np.maximum(distance - lengths, 0)
        if not missing.any():
            break
        moved = moved + (gaps * (missing / lengths)[..., None]).sum(axis=1) * 0.3
    return np.asarray(moved)


def _label_axes(ax: Axes, view: _View, aggregation: Aggregation) -> None:
    names = aggregation.schema.names or [f"feature {position}" for position in range(view.n_features)]
    if view.n_features > 2:
        names = [f"main direction {i + 1} ({share:.0%} of the variance)" for i, share in enumerate(view.shares)]
    ax.set_xlabel(_plain(names[0]))
    ax.set_ylabel(_plain(names[1]) if view.n_features > 1 else "device")
    ax.set_title(
        f"{len(aggregation.messages.centers):,} centers of {aggregation.messages.n_devices:,} devices "
        f"in {aggregation.n_clusters} clusters",
        loc="left",
    )
    ax.set_title(
        "dots: device centers, area by count; rings: global clusters",
        loc="right",
        fontsize="small",
        color="0.4",
    )
    ax.spines[["top", "right"]].set_visible(False)
    if view.n_features == 1:
        if aggregation.messages.n_devices > _MOST_NAMES:
            ax.set_yticks([])
        else:
            ax.set_yticks(range(aggregation.messages.n_devices), list(map(_plain, aggregation.messages.device_ids)))


def _plain(name: str) -> str:
    """Keep a name as it is: a dollar sign starts no formula."""
    return name.replace("$", r"\$")
