"""Columns that seem to be in another unit on one device: judged by mean and spread, beside those of other devices."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from kfed._base.array import Array

# A column is in another unit if one of four tests holds. Mean and spread are compared with the median of other devices;
# a factor counts in both directions. The first three ask for a gap between the ranges as well.

FOREIGN = 4.0
"""1. Mean or spread differs by a factor of at least this."""

FOREIGN_BOTH, ALIKE = 1.8, 1.2
"""2. Mean and spread each differ by a factor of at least the first (pounds are 2.2 kilograms), and the larger of the
two factors is at most the second times the smaller."""

FAR_APART = 5.0
"""3. The gap is wider than this many times the larger spread (degrees of Fahrenheit and of Celsius)."""

UNLIKELY, ALIKE_IN_LOGS = 3.3, 0.4
"""4. With or without a gap, since ranges of skewed columns always overlap: log mean and log spread both differ from the
median by more than the first times the difference that is expected, and by more than log `FOREIGN_BOTH`; and the two
differences are no farther from each other than the second times the larger one."""

USUAL, N_USUAL = 0.25, 2
"""The difference that is expected: the standard deviation of these logarithms between devices. It is estimated together
with a prior of the first that weighs as much as the second in devices."""

OF_OTHER_COLUMNS, MOST_APART = 0.5, 1.5
"""The expected variance also grows by the mean of (first * distance)^2 over the other columns of the device, where a
distance is that of its mean from the median, in spreads, and counts at most as the second. A device whose rows are of
another kind differs in many columns; one with another unit, in one."""

OF_SPREAD = 0.25
"""A mean near 0 says nothing about a unit: its size is taken as sqrt(mean^2 + (this * spread)^2)."""

LOW, HIGH, MEAN, SPREAD, CELLS = range(5)
"""What is known of a column of a device: about where it begins and ends, mean, spread, and how many cells."""


def foreign_names(own: Mapping[str, Array], others: Sequence[Mapping[str, Array]]) -> list[str]:
    """The columns of a device, by name, that seem to be in another unit than those of other devices.

    Examples
    --------
    >>> kilograms = {"weight": np.array([40.0, 120.0, 80.0, 15.0, 150.0])}
    >>> pounds = {"weight": kilograms["weight"] * [2.2, 2.2, 2.2, 2.2, 1.0]}
    >>> foreign_names(pounds, [kilograms] * 4), foreign_names(kilograms, [kilograms] * 4)
    (['weight'], [])
    """
    names = [name for name in own if any(name in device for device in others)]
    if not names:
        return []
    unknown = np.full(CELLS + 1, np.nan)
    theirs = np.array([[device.get(name, unknown) for name in names] for device in others])
    is_foreign = are_foreign(np.array([own[name] for name in names]), theirs)
    return [name for name, found in zip(names, is_foreign.tolist(), strict=True) if found]


def are_foreign(own: Array, theirs: Array) -> Array:
    """Which columns of a device, (n_columns, 5), are in another unit than those of others, (n_others, n_columns, 5).

    Each column has the numbers `LOW` to `CELLS`; those of others may be missing (NaN), but at one of them at least.
    """
    usual = np.nanmedian(np.abs(theirs[..., :CELLS]), axis=0)
    return _lie_apart(own, theirs, usual) | _are_multiples(own, theirs, usual)


def _lie_apart(own: Array, theirs: Array, usual: Array) -> Array:
    """Ranges do not overlap, and mean and spread differ, or the gap is wide."""
    highest, lowest = np.fmax.reduce(theirs[..., HIGH]), np.fmin.reduce(theirs[..., LOW])
    gap = np.maximum(own[:, LOW] - highest, lowest - own[:, HIGH])
    both = [MEAN, SPREAD]
    logs = np.log(np.maximum(np.abs(own[:, both]), 1e-300)) - np.log(np.maximum(usual[:, both], 1e-300))
    sizes = np.abs(logs)
    is_factor = (sizes.min(axis=1) >= np.log(FOREIGN_BOTH)) & (np.ptp(logs, axis=1) <= np.log(ALIKE))
    is_far = gap > FAR_APART * np.fmax(own[:, SPREAD], usual[:, SPREAD])
    return np.asarray((gap > 0) & ((sizes >= np.log(FOREIGN)).any(axis=1) | is_factor | is_far))


def _are_multiples(own: Array, theirs: Array, usual: Array) -> Array:
    """Mean and spread are larger, or smaller, by one factor, which is unlikely between devices with the same unit."""
    logs = _logs(theirs)
    middle = np.nanmedian(logs, axis=0)
    off = _logs(own) - middle
    n_others = np.count_nonzero(~np.isnan(theirs[..., MEAN]), axis=0)[:, None]
    between = (np.nansum((logs - middle) ** 2, axis=0) + N_USUAL * USUAL**2) / (n_others - 1 + N_USUAL)
    with np.errstate(over="ignore"):  # infinite, where the mean is 0
        error = np.maximum(0.7, own[:, SPREAD] / np.maximum(np.abs(own[:, MEAN]), 1e-300)) ** 2 / own[:, CELLS]
    expected = np.sqrt(between + (error + OF_OTHER_COLUMNS**2 * _other_columns(own, theirs, usual))[:, None])
    sizes = np.abs(off)
    is_factor = (off.prod(axis=1) > 0) & (np.ptp(off, axis=1) <= ALIKE_IN_LOGS * sizes.max(axis=1))
    is_unlikely = (sizes > np.maximum(np.log(FOREIGN_BOTH), UNLIKELY * expected)).all(axis=1)
    are_known = (own[:, SPREAD] > 0) & (usual[:, SPREAD] > 0)  # a constant column is in no unit
    return np.asarray(is_factor & is_unlikely & are_known)


def _logs(columns: Array) -> Array:
    """Logarithms of mean and spread."""
    mean, spread = columns[..., MEAN], columns[..., SPREAD]
    return np.asarray(np.log(np.maximum(np.stack([np.hypot(mean, OF_SPREAD * spread), spread], axis=-1), 1e-300)))


def _other_columns(own: Array, theirs: Array, usual: Array) -> Array:
    """For each column, how far all others of this device lie from those of others: mean squares, in spreads."""
    apart = np.abs(own[:, MEAN] - np.nanmedian(theirs[..., MEAN], axis=0))
    with np.errstate(over="ignore"):  # infinite, where most are 0
        squares = np.fmin(apart / np.maximum(usual[:, SPREAD], 1e-300), MOST_APART) ** 2
    return np.asarray((squares.sum() - squares) / max(1, len(squares) - 1))
