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

from kfed._base.array import Array
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
