"""Ways to spread the rows of a table over devices: functions of a seed that use every row at most once."""

from __future__ import annotations

from typing import Any

import numpy as np

from kfed._base import checks
from kfed._base.array import Array
from kfed.datasets.skew import dirichlet, feature_shift, quantity_skew
from kfed.datasets.split import Partition, counted, partition_of, shares
from kfed.errors import InvalidInputError

__all__ = [
    "EXPONENT",
    "Partition",
    "dirichlet",
    "feature_shift",
    "iid",
    "natural",
    "power_law",
    "power_weights",
    "quantity_skew",
    "structured",
    "two_classes",
]

EXPONENT = 1.5
"""Of power laws: the size of the i-th largest device goes as i^(-1/EXPONENT)."""


def iid(n_points: int, n_devices: int, seed: int = 0) -> Partition:
    """Spread rows at random, as many on each device.

    Examples
    --------
    >>> iid(10, 3).sizes
    array([4, 3, 3])
    """
    n_points, n_devices = counted(n_points, n_devices)
    shuffled = np.random.default_rng(seed).permutation(n_points)
    return partition_of(n_points, np.array_split(shuffled, n_devices))


def power_law(n_points: int, n_devices: int, seed: int = 0, *, exponent: float = EXPONENT) -> Partition:
    """Spread rows at random, on devices whose sizes follow a power law; each has at least one row.

    Examples
    --------
    >>> power_law(100, 5).sizes
    array([17, 13, 14, 34, 22])
    """
    n_points, n_devices = counted(n_points, n_devices)
    rng = np.random.default_rng(seed)
    sizes = shares(n_points, rng.permutation(power_weights(n_devices, exponent)))
    return partition_of(n_points, np.split(rng.permutation(n_points), np.cumsum(sizes)[:-1]))


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
                f"n_devices must be at most {len(able):,}, the number of owners with {min_points} rows or more; "
                f"got {n_devices:,}"
            )
        able = np.sort(np.random.default_rng(seed).permutation(able)[:n_devices])
    rows = np.split(np.argsort(codes, kind="stable"), np.cumsum(sizes)[:-1])
    return Partition(len(owners), tuple(rows[owner] for owner in able), tuple(str(names[owner]) for owner in able))


def power_weights(n: int, exponent: float = EXPONENT) -> Array:
    """Weights of a power law, the largest first, with sum 1."""
    weights = np.arange(1, n + 1) ** (-1 / checks.positive_number(exponent, "exponent"))
    return np.asarray(weights / weights.sum())


def _deal(classes: Any, n_devices: int, per_device: int, rng: np.random.Generator) -> tuple[Array, Array]:
    """Number the classes, (n_points,), and choose which each device holds, (n_devices, n_classes)."""
    classes = np.asarray(classes)
    names, codes = np.unique(classes, return_inverse=True)
    counted(len(classes), n_devices)
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
        sizes = shares(len(own), weights[holders, code])
        for device, part in zip(holders, np.split(own, np.cumsum(sizes)[:-1]), strict=True):
            rows[device].append(part)
    return partition_of(len(codes), [np.concatenate(parts) for parts in rows])
