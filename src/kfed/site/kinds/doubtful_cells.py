"""Numbers in a column that may be something else: codes for missing cells, dates, mistakes in typing."""

from __future__ import annotations

import re
from collections.abc import Callable

import numpy as np

from kfed._base.array import Array
from kfed._base.dates import compact_day_in, date_of

FEWEST_CELLS = 20
"""Fewer cells do not tell what is usual in a column."""

FAR = 50
"""A cell that may be a mistake lies farther from the middle than so many times the range of their middle half."""

FAR_IN_LOGARITHMS = 5
"""Where no cell is negative, the same must hold of logarithms, with this factor: lognormal columns have none such."""

ALONE = 10
"""It also lies farther than so many times the farthest of the other cells."""

FEW = 0.01
"""At most this share of a column are such cells; more of them are no mistakes."""

FEWEST_VALUES = 10
"""Different values that a column must have for a cell to be far from them."""

YEARS = 5 * 365
"""Days from the middle of a column from which on an end of a year is no ordinary date."""

_ENDS_OF_YEARS = ("01-01", "12-30", "12-31")

_ARE_NINES = re.compile(r"-?99+")


def n_nines(numbers: Array) -> int:
    """Cells at 99, -999 and the like, if no other cell is half as far from the middle."""
    return _n_alone(numbers, lambda end: _ARE_NINES.fullmatch(f"{end:.17g}") is not None)


def n_stand_ins(days: Array) -> int:
    """Cells at 9999-12-31, 1900-01-01 and the like, years from the middle, if no other cell is half as far from it.

    Examples
    --------
    >>> admitted = np.arange(19_000.0, 19_040.0)
    >>> n_stand_ins(np.append(admitted, 2932896)), n_stand_ins(np.append(admitted, 18993))
    (1, 0)
    """
    middle = float(np.nanmedian(days))
    return _n_alone(days, lambda end: abs(end - middle) >= YEARS and (date_of(end) or "")[5:] in _ENDS_OF_YEARS)


def _n_alone(numbers: Array, is_code: Callable[[float], bool]) -> int:
    """Cells at an end of the column that is a code, if no other cell is half as far from the middle."""
    ends = [float(end) for end in (np.fmax.reduce(numbers), np.fmin.reduce(numbers))]  # which ignore missing cells
    for end in filter(is_code, ends):
        known = numbers[~np.isnan(numbers)]
        rest = known[known != end]
        middle = float(np.median(rest)) if len(rest) else end
        is_far = len(rest) > len(known) / 2 and np.abs(rest - middle).max() < abs(end - middle) / 2
        if is_far and len(known) >= FEWEST_CELLS:
            return len(known) - len(rest)
    return 0


def far_rows(numbers: Array) -> list[int]:
    """Rows of the cells that lie extremely far from all others, as a number does that was mistyped.

    Examples
    --------
    >>> heights = np.arange(150.0, 190.0)
    >>> far_rows(np.append(heights, 17500.0)), far_rows(np.append(heights, 250.0)), far_rows(np.zeros(40))
    ([40], [], [])
    """
    rows = np.flatnonzero(~np.isnan(numbers))
    known = numbers[rows].astype(np.float64)
    if len(known) < FEWEST_CELLS:
        return []
    low, middle, high = np.percentile(known, (25, 50, 75))
    distances = np.abs(known - middle)
    n_few = max(1, int(FEW * len(known)))
    if not distances.max() > FAR * (high - low) > 0:
        return []
    order = np.argsort(distances)
    last = distances[order[-n_few - 1 :]]  # the farthest ones, and one that is not
    gaps = np.flatnonzero((last[1:] > ALONE * last[:-1]) & (last[1:] > FAR * (high - low)))
    if not len(gaps):
        return []
    far = order[len(order) - n_few + gaps[0] :]
    others = np.delete(known, far)
    is_certain = others.min() < 0 or _is_far_in_logarithms(known[far], others[others > 0])
    return sorted(rows[far].tolist()) if is_certain and len(np.unique(others)) >= FEWEST_VALUES else []


def _is_far_in_logarithms(far: Array, others: Array) -> bool:
    """Whether cells lie far above others, which are positive, also for a skewed column; negative ones lie far below."""
    low, middle, high = np.percentile(np.log(others), (25, 50, 75)) if len(others) else (0.0, 0.0, 0.0)
    is_high = far > np.exp(middle + FAR_IN_LOGARITHMS * (high - low))
    return bool(high > low and (is_high | (far < 0)).all())


def are_compact_dates(numbers: Array) -> bool:
    """Whether a column of numbers holds nothing but dates such as 20260131, and at least three of them.

    Examples
    --------
    >>> are_compact_dates(np.array([20260131, 19991231, np.nan, 20200229.0]))
    True
    """
    known = numbers[~np.isnan(numbers)]
    if not len(known) or not ((known >= 19_000_101) & (known <= 20_991_231) & (known == np.rint(known))).all():
        return False
    distinct = np.unique(known).astype(np.int64).tolist()
    return len(distinct) >= 3 and not np.isnan([compact_day_in(str(number)) for number in distinct]).any()
