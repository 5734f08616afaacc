"""The warning that clustering stopped before it converged: one for a device or a fleet, unless the caller tells it."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Sequence
from contextlib import AbstractContextManager
from contextvars import ContextVar

from kfed._base.callers import level_outside
from kfed._base.context import true_within
from kfed._base.text import plural
from kfed.device.clustering import LocalClustering
from kfed.errors import DeviceWarning

_CALLER_TELLS: ContextVar[bool] = ContextVar("caller_tells", default=False)


def caller_tells_convergence() -> AbstractContextManager[None]:
    """Do not warn within: the caller does so in other words. Unlike a filter of warnings, it is safe in threads."""
    return true_within(_CALLER_TELLS)


def warn_unless_converged(found: Sequence[LocalClustering], max_iterations: int) -> None:
    """Warn of devices that stopped at `max_iterations`.

    Summaries need not converge: their centers are means of the points behind them all the same.
    """
    n_unsettled = sum(not own.converged and not own.is_summary for own in found)
    if n_unsettled and not _CALLER_TELLS.get():
        who = "this device" if len(found) == 1 else f"{n_unsettled:,} of {plural(len(found), 'device')}"
        words = f"{who} stopped at max_iterations={max_iterations} before converging: increase max_iterations"
        warnings.warn(_kind_of_warning()(words, "not converged"), stacklevel=level_outside())


def _kind_of_warning() -> type[DeviceWarning]:
    """scikit-learn's warning, too, but only if it is imported already, as it is for all who filter by its class."""
    if "sklearn" not in sys.modules:
        return DeviceWarning
    from kfed.device.not_converged import NotConvergedWarning

    return NotConvergedWarning
