"""Make and save Matplotlib figures without global state; callers draw on them."""

from __future__ import annotations

import io
import os
from pathlib import Path
from typing import TYPE_CHECKING

from kfed._base import files
from kfed.errors import InvalidInputError, MissingExtraError

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

FORMATS = ("png", "svg", "pdf")
DPI = 150
"""Pixels per inch of a picture in PNG."""


def axes_for(ax: Axes | None, path: str | os.PathLike[str] | None, width: float, height: float) -> Axes:
    """Return `ax`, or axes on a new figure, which has no window if it will be saved at `path`."""
    if path is not None:
        check_format(path)
    if ax is not None:
        return ax
    figure = _pyplot_figure(width, height) if path is None else new_figure(width, height)
    return figure.add_subplot()


def saved(ax: Axes, path: str | os.PathLike[str] | None) -> Axes:
    """Save the figure of `ax` at `path`, if one is given, and return `ax`."""
    if path is not None:
        save_figure(ax.figure, path)  # type: ignore[arg-type]
    return ax


def new_figure(width: float, height: float) -> Figure:
    """Make a figure for a file, in inches: no window, no global state."""
    require_matplotlib()
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), layout="constrained")


def save_figure(figure: Figure, path: str | os.PathLike[str]) -> None:
    """Write a figure to a file, which is replaced as a whole."""
    kind = check_format(path)
    picture = io.BytesIO()
    figure.savefig(picture, format=kind, dpi=DPI)
    files.write(path, picture.getvalue())


def check_format(path: str | os.PathLike[str]) -> str:
    """Return the format of a picture by its file name, or raise unless it can be written."""
    kind = Path(path).suffix.lower().removeprefix(".")
    if kind not in FORMATS:
        raise InvalidInputError(f"{path}: the file name of a picture must end in .png, .svg or .pdf")
    return kind


def require_matplotlib() -> None:
    """Raise `MissingExtraError` unless Matplotlib is installed."""
    try:
        import matplotlib  # noqa: F401
    except ImportError as error:
        raise MissingExtraError("pictures need matplotlib: pip install 'kfed[plots]'") from error


def _pyplot_figure(width: float, height: float) -> Figure:
    require_matplotlib()
    from matplotlib import pyplot

    return pyplot.figure(figsize=(width, height), layout="constrained")
