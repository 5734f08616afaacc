"""Ways to spread the rows of a table over devices: functions of a seed that use every row at most once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from kfed._base import checks
from kfed._base.array import Array
from kfed.errors import InvalidInputError

EXPONENT = 1.5
"""Of power laws: the size of the i-th largest device goes as i^(-1/EXPONENT)."""


@dataclass(frozen=True, eq=False)
class Partition:
    """Which rows each device has. Made by the functions of this file, and checked however it was made.

    Attributes
    ----------
    n_points : int
        Rows of the table that was split.
    rows : tuple of arrays of int
        The rows of each device, in ascending order.
    device_ids : tuple of str
        A name for each device.
    """

    n_points: int
    rows: tuple[Array, ...] = field(repr=False)
    device_ids: tuple[str, ...] = field(repr=False)

    def __post_init__(self) -> None:
        empty = [name for name, own in zip(self.device_ids, self.rows, strict=True) if len(own) == 0]
        if empty or not self.rows:
            got = f"{empty[0]!r} has none" if empty else "got no devices"
            raise InvalidInputError(f"every device must have rows; {got}; use fewer devices or more rows")
        used = np.bincount(np.concatenate(self.rows), minlength=self.n_points)
        if len(used) > self.n_points or used.max() > 1:
            raise InvalidInputError(f"every row must be one of {self.n_points:,}, on at most one device")

    @property
    def n_devices(self) -> int:
        """Devices, Z."""
        return len(self.rows)

    @property
    def unused(self) -> Array:
        """Rows that no device has."""
        return np.setdiff1d(np.arange(self.n_points), np.concatenate(self.rows))

    @property
    def sizes(self) -> Array:
        """Rows of each device, (n_devices,)."""
        return np.array([len(own) for own in self.rows])

    def of(self, points: Any) -> list[Any]:
        """Give each device its rows of a table: one array or sparse matrix a device."""
        if points.shape[0] != self.n_points:
            raise InvalidInputError(f"points must have {self.n_points:,} rows; got {points.shape[0]:,}")
        return [points[own] for own in self.rows]

    def devices(self, points: Any) -> dict[str, Any]:
        """Give each device its rows of a table, by its name."""
        return dict(zip(self.device_ids, self.of(points), strict=True))

    def gather(self, values: Sequence[Array]) -> Array:
        """Put values of each device's rows back in the order of the table; only if every row is used."""
        if len(self.unused):
            raise InvalidInputError(f"every row must be on a device; {len(self.unused):,} are on none")
        order = np.argsort(np.concatenate(self.rows))
        return np.asarray(np.concatenate(list(values))[order])


def iid(n_points: int, n_devices: int, seed: int = 0) -> Partition:
    """Spread rows at random, as many on each device.

    Examples
    --------
    >>> iid(10, 3).sizes
    array([4, 3, 3])
    """
    n_points, n_devices = _counts(n_points, n_devices)
    shuffled = np.random.default_rng(seed).permutation(n_points)
    return _partition(n_points, np.array_split(shuffled, n_devices))


def power_law(n_points: int, n_devices: int, seed: int = 0, *, exponent: float = EXPONENT) -> Partition:
    """Spread rows at random, on devices whose sizes follow a power law; each has at least one row.

    Examples
    --------
    >>> power_law(100, 5).sizes
    array([17, 13, 14, 34, 22])
    """
    n_points, n_devices = _counts(n_points, n_devices)
    rng = np.random.default_rng(seed)
    sizes = _shares(n_points, rng.permutation(power_weights(n_devices, exponent)))
    return _partition(n_points, np.split(rng.permutation(n_points), np.cumsum(sizes)[:-1]))


def structured(classes: Any, n_devices: int, max_local_clusters: int, seed: int = 0) -> Partition:
    """Give each device rows of a random k' of the k classes; all classes are on as many devices, give or take one.

    Parameters
    ----------
    classes : array of shape (n_points,)
        Class or target cluster of each row.
    n_devices : int
        Z.
    max_local_clusters : int
        k', at most the number of classes.
    seed : int

    Examples
    --------
    >>> split = structured(np.repeat([0, 1, 2, 3], 10), n_devices=6, max_local_clusters=2)
    >>> [len(np.unique(own // 10)) for own in split.rows], len(split.unused)
    ([2, 2, 2, 2, 2, 2], 0)
    """
    rng = np.random.default_rng(seed)
    codes, held = _deal(classes, n_devices, max_local_clusters, rng)
    return _by_class(codes, held.astype(float), rng)


def two_classes(
    classes: Any, n_devices: int, seed: int = 0, *, classes_per_device: int = 2, exponent: float = EXPONENT
) -> Partition:
    """Give each device rows of two classes, with sizes by a power law: over devices, and over the classes of a device.

    Examples
    --------
    >>> split = two_classes(np.repeat(np.arange(10), 60), n_devices=20)
    >>> split.sizes.sum(), {len(np.unique(own // 60)) for own in split.rows}
    (np.int64(600), {2})
    """
    rng = np.random.default_rng(seed)
    codes, held = _deal(classes, n_devices, classes_per_device, rng)
    weights = held * rng.permutation(power_weights(n_devices, exponent))[:, None]
    for own in weights:
        own[own > 0] *= rng.permutation(power_weights(classes_per_device, exponent))
    return _by_class(codes, weights, rng)


def natural(owners: Any, seed: int = 0, *, min_points: int = 1, n_devices: int | None = None) -> Partition:
    """Make a device of each owner, such as a writer or a role, that has at least `min_points` rows.

    Parameters
    ----------
    owners : array of shape (n_points,)
        Whose each row is.
    seed : int
        Which owners are taken, if not all are.
    min_points : int
        The fewest rows of a device; rows of other owners are unused.
    n_devices : int, optional
        Take this many owners at random; by default all.

    Examples
    --------
    >>> natural(np.array(["ann", "bob", "ann", "eve"]), min_points=2).device_ids
    ('ann',)
    """
    owners = np.asarray(owners)
    names, codes, sizes = np.unique(owners, return_inverse=True, return_counts=True)
    able = np.flatnonzero(sizes >= checks.positive_integer(min_points, "min_points"))
    if n_devices is not None:
        if checks.positive_integer(n_devices, "n_devices") > len(able):
            raise InvalidInputError(
                f"n_devices must be at most {len(able):,}, the owners with {min_points} rows or more, "
                f"and is {n_devices:,}"
            )
        able = np.sort(np.random.default_rng(seed).permutation(able)[:n_devices])
    rows = np.split(np.argsort(codes, kind="stable"), np.cumsum(sizes)[:-1])
    return Partition(len(owners), tuple(rows[owner] for owner in able), tuple(str(names[owner]) for owner in able))


def power_weights(n: int, exponent: float = EXPONENT) -> Array:
    """Weights of a power law, the largest first, with sum 1."""
    weights = np.arange(1, n + 1) ** (-1 / checks.positive_number(exponent, "exponent"))
    return np.asarray(weights / weights.sum())


def _counts(n_points: int, n_devices: int) -> tuple[int, int]:
    checks.positive_integer(n_points, "n_points")
    if checks.positive_integer(n_devices, "n_devices") > n_points:
        raise InvalidInputError(f"n_devices must be at most {n_points:,}, the number of rows; got {n_devices:,}")
    return int(n_points), int(n_devices)


def _deal(classes: Any, n_devices: int, per_device: int, rng: np.random.Generator) -> tuple[Array, Array]:
    """Number the classes, (n_points,), and choose which each device holds, (n_devices, n_classes)."""
    classes = np.asarray(classes)
    names, codes = np.unique(classes, return_inverse=True)
    _counts(len(classes), n_devices)
    if checks.positive_integer(per_device, "max_local_clusters") > len(names):
        raise InvalidInputError(
            f"max_local_clusters (k') must be at most {len(names)}, the number of clusters (k); got {per_device}"
        )
    if n_devices * per_device < len(names):
        raise InvalidInputError(
            f"{n_devices} devices with {per_device} of {len(names)} clusters each would leave clusters on no device; "
            f"use at least {-(-len(names) // per_device)} devices"
        )
    held = np.zeros((n_devices, len(names)), bool)
    for own in held:
        fewest_holders_first = np.lexsort((rng.random(len(names)), held.sum(axis=0)))
        own[fewest_holders_first[:per_device]] = True
    return codes, held


def _by_class(codes: Array, weights: Array, rng: np.random.Generator) -> Partition:
    """Share out the rows of each class by `weights` (n_devices, n_classes), at least one to each holder."""
    n_devices, n_classes = weights.shape
    rows: list[list[Array]] = [[] for _ in range(n_devices)]
    for code in range(n_classes):
        own, holders = rng.permutation(np.flatnonzero(codes == code)), np.flatnonzero(weights[:, code])
        if len(own) < len(holders):
            raise InvalidInputError(
                f"a cluster of {len(own):,} rows cannot be on {len(holders):,} devices; "
                "use fewer devices, or fewer clusters on each"
            )
        sizes = _shares(len(own), weights[holders, code])
        for device, part in zip(holders, np.split(own, np.cumsum(sizes)[:-1]), strict=True):
            rows[device].append(part)
    return _partition(len(codes), [np.concatenate(parts) for parts in rows])


def _shares(n_points: int, weights: Array) -> Array:
    """Whole numbers with sum `n_points`, at least one each, the rest in proportion to weights."""
    exact = (n_points - len(weights)) * weights / weights.sum()
    sizes = np.floor(exact).astype(np.int64)
    most_wronged = np.argsort(sizes - exact, kind="stable")[: n_points - len(weights) - sizes.sum()]
    sizes[most_wronged] += 1
    return np.asarray(sizes + 1)


def _partition(n_points: int, rows: Sequence[Array]) -> Partition:
    width = len(str(max(len(rows) - 1, 0)))
    names = tuple(f"device-{device:0{width}d}" for device in range(len(rows)))
    return Partition(n_points, tuple(np.sort(own) for own in rows), names)
