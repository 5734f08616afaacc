"""Notices about a table as Python warnings; the command line prints them instead."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Collection, Iterable

from kfed.errors import TableWarning
from kfed.wire import Notice

INFORMATIVE = ("missing cells", "rare level", "empty", "title", "sheets")
"""Codes of notices that say how a table was read, and of no mistake."""

OF_DEVICE = ("dominant column", "not converged")
"""Codes of what `kfed.cluster_device` warns of itself."""


def warn_of_table(notices: Iterable[Notice], but: Collection[str] = ()) -> None:
    """Warn of each notice once, at the line that called into `kfed.site`; `but` has codes to leave out."""
    told = [notice for notice in dict.fromkeys(notices) if notice.code not in (*INFORMATIVE, *but)]
    level = _level_outside() if told else 0
    for notice in told:
        warnings.warn(TableWarning(notice.text, notice.code), stacklevel=level)


def _level_outside() -> int:
    """How many calls above `warn_of_table` the caller of this package is, as `stacklevel` counts."""
    frame, level = inspect.currentframe(), 0
    while frame is not None and frame.f_globals.get("__name__", "").startswith(__package__):
        frame, level = frame.f_back, level + 1
    return level
