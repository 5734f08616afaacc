"""Pictures of an aggregation: device centers in two dimensions, coloured by global cluster, size by count."""

from __future__ import annotations

import colorsys
import io
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from kfed import _files
from kfed.errors import InvalidInputError, MissingExtraError
from kfed.server import Aggregation

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Array = npt.NDArray[Any]

FORMATS = ("png", "svg", "pdf")
MARKERS = "osD^vPX"
"""Shapes that take turns when there are more clusters than colours that the eye keeps apart."""

_MANY = 10
_LARGEST, _SMALLEST = 220.0, 12.0  # areas of dots, in points squared


def plot_centers(
    aggregation: Aggregation, path: str | os.PathLike[str] | None = None, ax: Axes | None = None
) -> Axes:
    """Draw the device centers of an aggregation, and the global centers with their numbers.

    More than two features are projected on the two main directions of the device centers, weighted by their counts.

    Parameters
    ----------
    aggregation : Aggregation
        What to draw.
    path : path, optional
        Where to save the picture (.png, .svg or .pdf), whole or not at all.
    ax : matplotlib Axes, optional
        Where to draw; by default on a new figure.

    Returns
    -------
    matplotlib Axes
    """
    if ax is None:
        figure = new_figure(8.0, 6.5) if path is not None else _pyplot_figure(8.0, 6.5)
        ax = figure.add_subplot()
    view = _View(aggregation)
    places, sizes = view.of(aggregation.device_centers, aggregation.center_owners), dot_areas(aggregation.center_counts)
    drawn = np.argsort(-sizes)  # small dots over large ones
    colors = cluster_colors(aggregation.n_clusters)
    for shape in range(len(MARKERS)):
        rows = drawn[_shapes(aggregation)[drawn] == shape]
        ax.scatter(
            *places[rows].T,
            s=sizes[rows],
            c=colors[aggregation.center_labels[rows]],
            marker=MARKERS[shape],
            alpha=0.55,
            linewidths=0.4,
            edgecolors="white",
        )
    _mark_clusters(ax, view.of_clusters(aggregation), colors)
    _label_axes(ax, view, aggregation)
    if path is not None:
        save_figure(ax.figure, path)  # type: ignore[arg-type]
    return ax


def cluster_colors(n_clusters: int) -> Array:
    """A colour for each cluster, (n_clusters, 3): ten that are easy to tell apart, else hues far from neighbours'."""
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
    crowd = min(1.0, 20.0 / np.sqrt(len(counts)))
    return np.maximum(_LARGEST * crowd * counts / counts.max(), _SMALLEST * crowd)


def new_figure(width: float, height: float) -> Figure:
    """A figure for a file, in inches: no window, no global state."""
    require_matplotlib()
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), layout="constrained")


def save_figure(figure: Figure, path: str | os.PathLike[str]) -> None:
    """Write a figure, whole or not at all."""
    kind = check_format(path)
    picture = io.BytesIO()
    figure.savefig(picture, format=kind, dpi=150)
    _files.write(path, picture.getvalue())


def check_format(path: str | os.PathLike[str]) -> str:
    """The format that a picture's name asks for, if it is one that we write."""
    kind = Path(path).suffix.lower().removeprefix(".")
    if kind not in FORMATS:
        raise InvalidInputError(f"{path}: a picture must end in .png, .svg or .pdf")
    return kind


def require_matplotlib() -> None:
    """Raise `MissingExtraError` unless pictures can be drawn."""
    try:
        import matplotlib  # noqa: F401
    except ImportError as error:
        raise MissingExtraError("pictures need matplotlib: pip install 'kfed[plots]'") from error


class _View:
    """Where a point stands in the picture."""

    def __init__(self, aggregation: Aggregation) -> None:
        centers = aggregation.device_centers.astype(np.float64)  # (n_device_centers, n_features)
        self.n_features = centers.shape[1]
        self.origin, self.axes = np.zeros(self.n_features), np.eye(self.n_features, 2)
        if self.n_features > 2:
            weights = aggregation.center_counts / aggregation.center_counts.sum()
            self.origin = weights @ centers
            spread = (centers - self.origin) * np.sqrt(weights)[:, None]
            variances, directions = np.linalg.eigh(spread.T @ spread)
            self.axes = directions[:, [-1, -2]] * np.where(directions[:, [-1, -2]].sum(axis=0) < 0, -1, 1)
            self.shares = variances[[-1, -2]] / max(variances.sum(), np.finfo(float).tiny)

    def of(self, centers: Array, owners: Array) -> Array:
        """Places of device centers, (n_centers, 2); one feature alone leaves the height to the device."""
        places: Array = (centers - self.origin) @ self.axes
        if self.n_features == 1:
            places[:, 1] = owners
        return places

    def of_clusters(self, aggregation: Aggregation) -> Array:
        """Places of the global centers, (n_clusters, 2)."""
        return self.of(aggregation.cluster_centers, np.full(aggregation.n_clusters, aggregation.n_devices))


def _shapes(aggregation: Aggregation) -> Array:
    """Which marker each device center gets."""
    return aggregation.center_labels % len(MARKERS) * (aggregation.n_clusters > _MANY)


def _mark_clusters(ax: Axes, places: Array, colors: Array) -> None:
    """A numbered ring at each global center."""
    for cluster, (x, y) in enumerate(places):
        ax.annotate(
            str(cluster),
            (x, y),
            ha="center",
            va="center",
            fontsize=9,
            fontweight="bold",
            color=colors[cluster] * 0.7,
            bbox={"boxstyle": "circle,pad=0.25", "facecolor": "white", "edgecolor": colors[cluster], "linewidth": 1.8},
            zorder=3,
        )


def _label_axes(ax: Axes, view: _View, aggregation: Aggregation) -> None:
    names = aggregation.feature_names or [f"feature {position}" for position in range(view.n_features)]
    if view.n_features > 2:
        names = [f"main direction {i + 1} ({share:.0%} of the variance)" for i, share in enumerate(view.shares)]
    ax.set_xlabel(names[0])
    ax.set_ylabel(names[1] if view.n_features > 1 else "device")
    ax.set_title(
        f"{len(aggregation.device_centers):,} centers of {aggregation.n_devices:,} devices "
        f"in {aggregation.n_clusters} clusters",
        loc="left",
    )
    ax.spines[["top", "right"]].set_visible(False)
    ax.margins(0.08)


def _pyplot_figure(width: float, height: float) -> Figure:
    require_matplotlib()
    from matplotlib import pyplot

    return pyplot.figure(figsize=(width, height), layout="constrained")
