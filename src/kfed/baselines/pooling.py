"""The points of all devices in one table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from kfed._base import checks
from kfed._base.array import Array
from kfed.simulate import Communication


def pool(devices: Sequence[Any]) -> Any:
    """Stack the points of all devices: an array, or a sparse matrix if they are sparse."""
    from scipy import sparse

    return sparse.vstack(list(devices), "csr") if checks.is_sparse(devices[0]) else np.concatenate(list(devices))


@dataclass(frozen=True, eq=False)
class PooledClusters:
    """Clusters of the points of all devices.

    Attributes
    ----------
    centers : array of shape (n_clusters, n_features)
    labels : array of int, shape (n_points,)
        Labels of the points of all devices, one device after the other.
    """

    centers: Array = field(repr=False)
    labels: Array = field(repr=False)


@dataclass(frozen=True, eq=False)
class CountedClusters(PooledClusters):
    """Clusters of the points of all devices, and what was sent for them.

    Examples
    --------
    >>> from kfed.simulate import Communication
    >>> found = CountedClusters(np.array([[0.0], [9.0]]), np.array([0, 0, 1]), Communication(rounds=1))
    >>> found.sent.rounds
    1
    """

    sent: Communication
