"""Errors of scikit-learn's checks that show cells or give advice for other models, said again in words of kfed."""

from __future__ import annotations

from typing import Any

from kfed._base import checks
from kfed._base.not_numbers import WHAT_TO_DO, column_fault
from kfed.errors import InvalidInputError

_SHOWN = ("Complex data not supported", "Expected 2D array")


def refuse_without_cells(X: Any, error: Exception) -> None:
    """Raise an error of kfed in place of `error`, if that shows cells of `X` or does not say where they are."""
    words = str(error)
    if words.startswith("Input X contains") or "NAType" in words:
        _refuse_gaps(X)
    if words.startswith(_SHOWN):  # the cells stand between the first and the last line
        lines = words.strip().splitlines()
        advice = f": {lines[-1]}" if lines[-1].startswith("Reshape") else ""
        raise InvalidInputError(lines[0].removesuffix(" instead:") + advice) from None
    if fault := column_fault(X):
        raise InvalidInputError(f"X must be numbers; {fault}: {WHAT_TO_DO}") from None
    if "could not convert" in words:
        raise InvalidInputError("X must be numbers, with equally many in each row") from None


def _refuse_gaps(X: Any) -> None:
    """Say where cells are missing or infinite, and what takes tables with missing ones."""
    try:
        checks.finite_table(X, "X")
    except InvalidInputError as error:
        advice = "; `kfed device` and kfed.site.cluster_file take tables with missing cells" * ("NaN" in str(error))
        raise InvalidInputError(f"{error}{advice}") from None
