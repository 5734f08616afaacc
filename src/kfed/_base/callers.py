"""Where a warning points: at the line of the user's code that called into this package."""

from __future__ import annotations

import inspect

_INSIDE = ("kfed", "sklearn")
"""scikit-learn wraps `fit` of estimators, so its frames are between theirs and the user's."""


def level_outside() -> int:
    """The `stacklevel` of the nearest caller outside the package, for `warnings.warn` in the function that asks."""
    frame, level = inspect.currentframe(), 0
    while frame is not None and frame.f_globals.get("__name__", "").partition(".")[0] in _INSIDE:
        frame, level = frame.f_back, level + 1
    return level
