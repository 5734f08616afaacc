"""What a device learned as one short point: its update, scaled to length one and projected at random.

The projection is public: it depends on the seed alone, so points of all devices can be compared. Each parameter is
added to one of `SKETCH_SIZE` numbers, with a random sign; products of two updates are kept up to about
1 / sqrt(SKETCH_SIZE) of their lengths (feature hashing; Weinberger et al., 2009), and no matrix is needed. Nothing here
needs PyTorch.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from kfed._base import checks
from kfed._base.array import Array
from kfed.device import MIN_CLUSTER_SIZE, LocalClustering, SentClusters
from kfed.errors import InvalidInputError

SKETCH_SIZE = 256


def update_point(before: Iterable[Any], after: Iterable[Any], *, seed: int = 0) -> Array:
    """Turn the update of one device into its point, to be clustered as the one center of its message.

    Parameters
    ----------
    before, after : iterables of arrays
        Parameters of the model that the device was sent, and of the one that it trained, in the same order.
    seed : int
        Names the projection: the same for all devices.

    Returns
    -------
    array of shape (SKETCH_SIZE,)
        Of length one; zero if nothing was learned.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> start, direction = [np.zeros((40, 9))], rng.normal(size=(40, 9))
    >>> one, other = (update_point(start, [size * direction]) for size in (1.0, 5.0))
    >>> np.allclose(one, other)  # how far a device went does not matter
    True
    """
    pairs = [(np.asarray(old), np.asarray(new)) for old, new in zip(before, after, strict=True)]
    if not pairs or any(old.shape != new.shape for old, new in pairs):
        raise InvalidInputError("before and after must hold the parameters of one model, with the same shapes")
    update = np.concatenate([(new.astype(np.float64) - old).ravel() for old, new in pairs])
    return np.asarray(sketched(update[None], seed)[0])


def described_by(point: Any, n_points: int, *, min_cluster_size: int = MIN_CLUSTER_SIZE) -> LocalClustering:
    """Describe a device by one point: one local cluster with all its rows, and the point as its center.

    A device with fewer rows than `min_cluster_size` sends nothing, and picks the nearest group from the answer itself.

    Parameters
    ----------
    point : array of shape (n_features,)
        Such as an `update_point`, or a histogram of labels.
    n_points : int
        Rows of the device.

    Examples
    --------
    >>> described_by([0.6, 0.8], 40).to_message("phone-7").counts
    array([40])
    >>> described_by([0.6, 0.8], 2).to_message("phone-8").n_local_clusters
    0
    """
    n_points = checks.positive_integer(n_points, "n_points")
    centers, counts = checks.finite_table(np.atleast_2d(np.asarray(point)), "point"), np.array([n_points])
    return LocalClustering(
        labels=np.zeros(n_points, np.int64),
        centers=centers,
        counts=counts,
        sums_of_squares=np.zeros(1),
        withheld=np.array([n_points < min_cluster_size]),
        spectral_deviation=None,
        n_iterations=0,
        sent=SentClusters(centers, counts, np.array([np.nan])),  # how rows spread about such a point is not defined
    )


def sketched(updates: Array, seed: int) -> Array:
    """Points of many updates, (n_updates, n_parameters) to (n_updates, SKETCH_SIZE), each of length one or zero."""
    rng = np.random.default_rng([seed, SKETCH_SIZE])
    places = rng.integers(SKETCH_SIZE, size=updates.shape[1])
    signs = rng.choice([-1.0, 1.0], size=updates.shape[1])
    return unit(np.stack([np.bincount(places, signs * own, minlength=SKETCH_SIZE) for own in unit(updates)]))


def unit(rows: Array) -> Array:
    """Rows scaled to length one; rows of zeros stay."""
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    return np.asarray(np.divide(rows, lengths, out=np.zeros_like(rows), where=lengths > 0))
