"""What `KFed` says where groups may have been lost: given as `y`, kept by a search, or missing beside settings."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Sequence
from types import FrameType
from typing import Any

from sklearn.base import BaseEstimator

from kfed.errors import AggregationWarning, InvalidInputError

_OWN = ("kfed.estimator", "sklearn.base", "sklearn.utils._set_output", "sklearn.utils._param_validation")
"""Modules between a caller and `fit`, such as `fit_transform`."""

_HOW_TO_PASS_GROUPS = (
    "Cross-validation and searches pass groups on only with sklearn.set_config(enable_metadata_routing=True) and "
    "KFed(...).set_fit_request(groups=True)"
)


def refuse_groups_as_y(y: Any) -> None:
    """Raise if a second argument was given, which is `y`, unless scikit-learn or another estimator passes it on.

    A pipeline or a search gives every part the targets, and a clusterer has to ignore them. Nobody else has a reason
    to give targets to one, but it is easy to forget the name of `groups`.
    """
    if y is not None and not _is_machinery(_caller(sys._getframe(1))):
        raise InvalidInputError(
            "y must be None: clustering has no targets. If it holds the device of each row, pass it by name, as groups="
        )


def warn_of_lost_groups(settings: Sequence[str]) -> None:
    """Warn of `settings` that only devices use, and of cross-validation and searches, which keep groups to themselves.

    The latter do not say whether they have any.
    """
    if settings:
        what = f"{' and '.join(settings)} had no effect: without groups, all rows are on one device"
    elif _is_model_selection(_caller(sys._getframe(1))):
        what = "no groups came with these rows, so that all were fitted as one device (LocalKMeans does so on purpose)"
    else:
        return
    warnings.warn(AggregationWarning(f"{what}. {_HOW_TO_PASS_GROUPS}", "no groups"), stacklevel=3)


def _caller(frame: FrameType | None) -> FrameType | None:
    """The first frame outside of this estimator and its base classes."""
    while frame is not None and _module(frame).startswith(_OWN):
        frame = frame.f_back
    return frame


def _is_model_selection(frame: FrameType | None) -> bool:
    """Whether cross-validation or a search of scikit-learn called, itself or by way of pipelines."""
    while frame is not None and (_is_machinery(frame) or _module(frame).startswith("joblib.")):
        if _module(frame).startswith("sklearn.model_selection."):
            return True
        frame = frame.f_back
    return False


def _is_machinery(frame: FrameType | None) -> bool:
    """Whether a frame is of scikit-learn, or of a method of an estimator, such as a pipeline of another library."""
    if frame is None:
        return False
    return _module(frame).startswith("sklearn.") or isinstance(frame.f_locals.get("self"), BaseEstimator)


def _module(frame: FrameType) -> str:
    return str(frame.f_globals.get("__name__", ""))
