"""The first column of a table that holds text or dates: it is named, and no cell of it is shown."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date, timedelta
from typing import Any

import numpy as np

from kfed._base.array import Array

WHAT_TO_DO = (
    "leave it out, encode it as numbers, or cluster the table with `kfed device` (in Python: kfed.site.cluster_file)"
)


def column_fault(points: Any) -> str | None:
    """Which column holds what cannot be a number, and what that is; None if there is none.

    Examples
    --------
    >>> column_fault([[1.0, "Ada"], [2.0, "3"]])
    'column 1 (counted from 0) holds text'
    """
    return next((f"{name} holds {kind}" for name, cells in _columns(points) if (kind := _kind(cells))), None)


def _columns(points: Any) -> Iterator[tuple[str, Array]]:
    names = getattr(points, "columns", None)
    if names is not None and hasattr(points, "to_numpy"):
        for name in names:
            yield f"column {name!r}", points[name].to_numpy()
        return
    try:
        cells = np.asarray(points, None if hasattr(points, "dtype") else object)
    except (TypeError, ValueError):
        return
    if cells.ndim == 2:
        yield from ((f"column {place} (counted from 0)", own) for place, own in enumerate(cells.T))


def _kind(cells: Array) -> str | None:
    """Text or dates, if there are such cells; text that says a number is one."""
    if cells.dtype.kind in "fiubc":
        return None
    if cells.dtype.kind in "Mm":
        return "dates" if cells.dtype.kind == "M" else "durations"
    return next((kind for cell in cells.flat if (kind := _kind_of_cell(cell))), None)


def _kind_of_cell(cell: Any) -> str | None:
    if isinstance(cell, date | np.datetime64):
        return "dates"
    if isinstance(cell, timedelta | np.timedelta64):
        return "durations"
    if not isinstance(cell, str | bytes):
        return None
    try:
        float(cell)
    except ValueError:
        return "text"
    return None
