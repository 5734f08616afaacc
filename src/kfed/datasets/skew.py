"""The skews that reviewers ask for: of labels, of sizes and of features, each with one number for how strong it is."""

from __future__ import annotations

from typing import Any

import numpy as np

from kfed._base import checks
from kfed._base.array import Array
from kfed.datasets.split import Partition, counted, partition_of, shares
from kfed.errors import InvalidInputError


def dirichlet(classes: Any, n_devices: int, alpha: float, seed: int = 0) -> Partition:
    """Label skew: the rows of each class are spread over devices by shares drawn from a Dirichlet distribution.

    Parameters
    ----------
    classes, n_devices, seed
        As in `structured`.
    alpha : float
        The concentration: near 0, each class is on one device; the larger, the more devices are alike.

    Notes
    -----
    A device that would be empty gets one row of the largest device, so that all of them take part.

    References
    ----------
    Hsu, Qi and Brown, "Measuring the effects of non-identical data distribution for federated visual classification",
    2019; as spread by class in Yurochkin et al., "Bayesian nonparametric federated learning of neural networks", 2019.

    Examples
    --------
    >>> classes = np.repeat([0, 1, 2, 3], 100)
    >>> few, many = (dirichlet(classes, 8, alpha) for alpha in (0.05, 100.0))
    >>> [max(len(np.unique(classes[own])) for own in split.rows) for split in (few, many)]
    [2, 4]
    """
    codes = np.unique(np.asarray(classes), return_inverse=True)[1].ravel()
    n_points, n_devices = counted(len(codes), n_devices)
    checks.positive_number(alpha, "alpha")
    rng = np.random.default_rng(seed)
    owners = np.empty(n_points, np.intp)
    for code in range(codes.max() + 1):
        own = rng.permutation(np.flatnonzero(codes == code))
        edges = np.rint(np.cumsum(rng.dirichlet(np.full(n_devices, float(alpha)))) * len(own)).astype(int)
        owners[own] = np.minimum(np.searchsorted(edges, np.arange(len(own)), side="right"), n_devices - 1)
    return _split_by_owner(owners, n_devices, rng)


def quantity_skew(n_points: int, n_devices: int, alpha: float, seed: int = 0) -> Partition:
    """Size skew: rows are spread at random, on devices whose shares are drawn from a Dirichlet distribution.

    Parameters
    ----------
    n_points, n_devices : int
    alpha : float
        The concentration: near 0, one device has nearly all rows; the larger, the more equal they are.
    seed : int

    Examples
    --------
    >>> quantity_skew(100, 5, alpha=0.5).sizes, quantity_skew(100, 5, alpha=1000.0).sizes
    (array([21,  1, 46, 18, 14]), array([20, 20, 20, 21, 19]))
    """
    n_points, n_devices = counted(n_points, n_devices)
    rng = np.random.default_rng(seed)
    weights = rng.dirichlet(np.full(n_devices, checks.positive_number(alpha, "alpha")))
    sizes = shares(n_points, np.maximum(weights, 1e-300))
    return partition_of(n_points, np.split(rng.permutation(n_points), np.cumsum(sizes)[:-1]))


def feature_shift(points: Any, n_devices: int, strength: float, seed: int = 0) -> Partition:
    """Feature skew: devices have rows of different places, as many on each; no class is looked at.

    Rows are ordered by where they lie along a random direction, with noise, and cut into equal parts.

    Parameters
    ----------
    points : array of shape (n_points, n_features)
    n_devices : int
    strength : float
        From 0, where rows are spread at random, to 1, where each device has a slice of the data.
    seed : int

    Examples
    --------
    >>> points = np.random.default_rng(0).normal(size=(400, 3))
    >>> def spread_of_means(split):
    ...     return float(np.linalg.norm(np.std([own.mean(axis=0) for own in split.of(points)], axis=0)))
    >>> [round(spread_of_means(feature_shift(points, 8, strength)), 1) for strength in (0.0, 0.5, 1.0)]
    [0.2, 0.7, 1.0]
    """
    table = checks.finite_table(points)
    n_points, n_devices = counted(table.shape[0], n_devices)
    if not 0 <= strength <= 1:
        raise InvalidInputError(f"strength must be from 0 to 1; got {strength}")
    rng = np.random.default_rng(seed)
    along = np.asarray(table @ rng.normal(size=table.shape[1])).ravel()
    ranks = np.argsort(np.argsort(along, kind="stable"), kind="stable") / n_points
    order = np.argsort(strength * ranks + (1 - strength) * rng.random(n_points), kind="stable")
    return partition_of(n_points, np.array_split(order, n_devices))


def _split_by_owner(owners: Array, n_devices: int, rng: np.random.Generator) -> Partition:
    """Make a partition of the owner of each row; a device without rows gets one of the largest device."""
    sizes = np.bincount(owners, minlength=n_devices)
    for device in np.flatnonzero(sizes == 0):
        owners[rng.choice(np.flatnonzero(owners == sizes.argmax()))] = device
        sizes = np.bincount(owners, minlength=n_devices)
    return partition_of(len(owners), [np.flatnonzero(owners == device) for device in range(n_devices)])
