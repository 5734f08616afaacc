"""Warnings of `KFed.fit` on one table without groups, which may have been lost on the way to it."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

from kfed.errors import AggregationWarning


def warn_of_lost_groups(y: Any, settings: Sequence[str]) -> None:
    """Warn if a second argument was given, which is `y`, or `settings` that only devices use."""
    if y is not None:
        warnings.warn(
            "y is ignored, and all rows are on one device; if it holds the device of each row, pass it as groups=",
            AggregationWarning,
            stacklevel=3,
        )
    if settings:
        warnings.warn(
            f"{' and '.join(settings)} had no effect: without groups, all rows are on one device. Cross-validation "
            "and searches pass groups on only with sklearn.set_config(enable_metadata_routing=True) and "
            "KFed(...).set_fit_request(groups=True)",
            AggregationWarning,
            stacklevel=3,
        )
