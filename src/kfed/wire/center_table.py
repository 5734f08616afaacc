"""The table of a message: a row for each center, with its count, its sum of squares and the spectral deviation."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from kfed._base import checks
from kfed._base.array import Array
from kfed.errors import InvalidInputError

MAX_COUNT = 2**53
MAX_VALUE = checks.MAX_VALUE
SMALLEST_SINGLE, LARGEST_SINGLE = 1e-37, 1e37
N_STATISTICS = 3


def tabulated(centers: Any, counts: Any, sums_of_squares: Any, spectral_deviation: Any) -> Array:
    """The arguments as one table: in single precision if the centers are and nothing is lost by it."""
    centers = checks.as_array(centers, "centers")
    if centers.ndim != 2 or centers.shape[1] < 1 or centers.dtype.kind not in "fiu":
        raise InvalidInputError(
            "centers must be numbers with two axes (local clusters, features); "
            f"got shape {centers.shape} and dtype {centers.dtype}"
        )
    n_centers, n_features = centers.shape
    table = np.full((n_centers, n_features + N_STATISTICS), np.nan)
    table[:, :-N_STATISTICS] = centers
    table[:, -3] = _statistic(counts, n_centers, "counts")
    if sums_of_squares is not None:
        table[:, -2] = _statistic(sums_of_squares, n_centers, "sums_of_squares")
    if spectral_deviation is not None:
        table[:, -1] = _statistic([spectral_deviation], 1, "spectral_deviation")
    return table.astype(np.float32) if centers.dtype == np.float32 and fits_single(table) else table


def _statistic(values: Any, length: int, name: str) -> Array:
    """One number for each center; not NaN, which marks a missing value in the table."""
    array = checks.as_array(values, name, np.float64)
    if array.shape != (length,):
        raise InvalidInputError(f"{name} must have one value for each of {length} centers; got shape {array.shape}")
    if np.isnan(array).any():
        raise InvalidInputError(f"{name} must be finite and not negative")
    return array


def fits_single(table: Array) -> bool:
    """Whether single precision holds every count exactly and no value overflows."""
    counts = table[:, -3]
    in_range = counts.max(initial=0) <= 2**24 and counts.min(initial=1) >= SMALLEST_SINGLE
    return bool(in_range and np.nanmax(np.abs(table), initial=0) <= LARGEST_SINGLE)


def check_table(table: Array) -> None:
    """Raise unless a table, wherever it came from, is one that a device may send."""
    if not float(np.vdot(table, table)) <= MAX_VALUE:  # else no center is larger, as most often
        _check_centers(table[:, :-N_STATISTICS])
    counts, sums_of_squares, deviations = table[:, -N_STATISTICS:].T.tolist()
    if not all(0 < count <= MAX_COUNT for count in counts):
        raise InvalidInputError("counts must be greater than zero and at most 2^53")
    _check_statistic(sums_of_squares, "sums_of_squares")
    _check_statistic(deviations, "spectral_deviation")
    if deviations and not math.isnan(deviations[0]) and deviations.count(deviations[0]) != len(deviations):
        raise InvalidInputError("spectral_deviation must be the same in every row")


def _check_centers(centers: Array) -> None:
    if not (float(centers.max(initial=0)) <= MAX_VALUE and float(centers.min(initial=0)) >= -MAX_VALUE):
        raise InvalidInputError(f"centers must be finite and at most {MAX_VALUE:g} in size")


def _check_statistic(numbers: list[float], name: str) -> None:
    """Raise unless the numbers are all missing, or all finite and not negative."""
    if not all(0 <= number < math.inf for number in numbers) and not all(map(math.isnan, numbers)):
        raise InvalidInputError(f"{name} must be finite and not negative")
