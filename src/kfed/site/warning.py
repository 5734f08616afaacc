"""Notices about a table as Python warnings; the command line prints them instead."""

from __future__ import annotations

import warnings
from collections.abc import Collection, Iterable

from kfed._base.callers import level_outside
from kfed.errors import TableWarning
from kfed.wire import Notice

INFORMATIVE = ("missing cells", "rare level", "empty", "title", "sheets")
"""Codes of notices that say how a table was read, and of no mistake."""

OF_DEVICE = ("dominant column", "not converged")
"""Codes of what `kfed.cluster_device` warns of itself."""


def warn_of_table(notices: Iterable[Notice], but: Collection[str] = ()) -> None:
    """Warn of each notice once, at the line that called into this package; `but` has codes to leave out."""
    told = [notice for notice in dict.fromkeys(notices) if notice.code not in (*INFORMATIVE, *but)]
    level = level_outside() if told else 0
    for notice in told:
        warnings.warn(TableWarning(notice.text, notice.code), stacklevel=level)
