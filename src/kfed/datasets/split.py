"""`Partition`: which rows of a table each device has, and what all ways to split a table have in common."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from kfed._base import checks
from kfed._base.array import Array
from kfed._base.text import verb
from kfed.errors import InvalidInputError


@dataclass(frozen=True, eq=False)
class Partition:
    """Which rows each device has. Made by the functions of `kfed.datasets.partition`, and checked however it was made.

    Attributes
    ----------
    n_points : int
        Rows of the table that was split.
    rows : tuple of arrays of int
        The rows of each device, in ascending order.
    device_ids : tuple of str
        A name for each device.

    Examples
    --------
    >>> split = Partition(5, (np.array([0, 3]), np.array([1, 4])), ("ann", "bob"))
    >>> split.sizes, split.unused
    (array([2, 2]), array([2]))
    >>> split.devices(10 * np.arange(5)[:, None])["bob"].ravel()
    array([10, 40])
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
            n_unused = len(self.unused)
            raise InvalidInputError(
                f"every row must be on a device; {n_unused:,} {verb(n_unused, 'is', 'are')} on none"
            )
        order = np.argsort(np.concatenate(self.rows))
        return np.asarray(np.concatenate(list(values))[order])


def counted(n_points: int, n_devices: int) -> tuple[int, int]:
    """Raise unless there is a row for each device."""
    checks.positive_integer(n_points, "n_points")
    if checks.positive_integer(n_devices, "n_devices") > n_points:
        raise InvalidInputError(f"n_devices must be at most {n_points:,}, the number of rows; got {n_devices:,}")
    return int(n_points), int(n_devices)


def shares(n_points: int, weights: Array) -> Array:
    """Whole numbers with sum `n_points`, at least one each, the rest in proportion to weights."""
    exact = (n_points - len(weights)) * weights / weights.sum()
    sizes = np.floor(exact).astype(np.int64)
    most_wronged = np.argsort(sizes - exact, kind="stable")[: n_points - len(weights) - sizes.sum()]
    sizes[most_wronged] += 1
    return np.asarray(sizes + 1)


def partition_of(n_points: int, rows: Sequence[Array]) -> Partition:
    """Name the devices by their position, and sort the rows of each."""
    width = len(str(max(len(rows) - 1, 0)))
    names = tuple(f"device-{device:0{width}d}" for device in range(len(rows)))
    return Partition(n_points, tuple(np.sort(own) for own in rows), names)
