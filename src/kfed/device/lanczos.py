"""The norm of points minus their centers by Lanczos steps from a few random starts, on a batch of devices."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from kfed._base.array import Array
from kfed.device.residuals import N_STARTS, Residuals

CHANCE = 1e-3
"""A device's bound is below the norm with at most this probability, whatever its points are."""

FIRST_CHECK, CHECK_EVERY, MAX_STEPS = 9, 2, 201
"""Bounds are computed after so many steps. Noise takes about ten."""

MANY_FEATURES, STEPS_OF_MANY = 256, 3
"""With more features than this, noise takes so many more."""

CHEAP_STEPS = 7

_BISECTIONS = 9
_REFINEMENTS = {4: 12, 8: 32}
"""By the bytes of a number: the bound is as precise as the points, whatever the order of their sums."""


def lanczos_bound(residuals: Residuals, keys: npt.NDArray[np.uint64], tightness: float) -> Array:
    """Bound the norm of the residuals of each device from above, at most `tightness` times too high, (n_devices,).

    Where no bound is that tight after all steps, it is infinite.
    """
    starts = residuals.start(keys)
    recurrence = _Recurrence(starts)
    first = FIRST_CHECK + (STEPS_OF_MANY if starts.shape[2] > MANY_FEATURES else 0)
    if residuals.has_moments:  # steps are cheap, and more of them give a tighter bound
        first += CHEAP_STEPS
    found, left = np.full(len(keys), np.inf), np.arange(len(keys))
    for step in range(1, MAX_STEPS + 1):
        recurrence.advance(residuals)
        if step < first or (step - first) % CHECK_EVERY:
            continue
        upper, holds = recurrence.bound(tightness)
        # Each device keeps its first bound, so that it does not depend on the others of the batch.
        is_open = np.isinf(found[left])
        found[left] = np.where(is_open & holds, upper, found[left])
        is_open &= ~holds
        if not is_open.any():
            break
        if 4 * np.count_nonzero(is_open) < len(left):
            left, residuals, recurrence = left[is_open], residuals.select(is_open), recurrence.select(is_open)
    return found


class _Recurrence:
    """Lanczos' recurrence for G = R^T R, from each R^T u; a run that has exhausted its space stands still.

    Numbers are by device and start, (n_devices, N_STARTS).
    """

    def __init__(self, starts: Array) -> None:
        self._lengths = _lengths(starts)
        self._is_alive = self._lengths > 0
        self._previous = np.zeros_like(starts)
        self._vectors = starts * _inverse(self._lengths, self._is_alive)
        self._diagonal: list[Array] = []
        self._beside: list[Array] = []  # of the tridiagonal matrix; its last entry is outside
        self._largest = np.zeros_like(self._lengths)  # of the diagonal

    def select(self, devices: Array) -> _Recurrence:
        """Go on with these devices only."""
        some = object.__new__(_Recurrence)
        some._diagonal, some._beside = ([of[devices] for of in each] for each in (self._diagonal, self._beside))
        for name in ("_lengths", "_is_alive", "_previous", "_vectors", "_largest"):
            setattr(some, name, getattr(self, name)[devices])
        return some

    def advance(self, residuals: Residuals) -> None:
        """Take one step."""
        product = residuals.times(self._vectors)
        diagonal = np.einsum("bsd,bsd->bs", self._vectors, product)
        product -= diagonal[:, :, None] * self._vectors
        if self._beside:
            product -= self._beside[-1][:, :, None] * self._previous
        beside = _lengths(product)
        # Below this, what is left is rounding: the space is exhausted, and holds the largest eigenvalue.
        np.maximum(self._largest, diagonal, out=self._largest)
        rounding = 8 * np.finfo(product.dtype).eps * self._largest
        goes_on = self._is_alive & (beside > rounding)
        self._diagonal.append(diagonal)
        self._beside.append(np.where(self._is_alive, np.maximum(beside, rounding), 0))
        self._is_alive, self._previous = goes_on, self._vectors
        self._vectors = product
        self._vectors *= _inverse(beside, goes_on)

    def bound(self, tightness: float) -> tuple[Array, Array]:
        """Upper bounds of the norm of R that are tight, and for which devices they hold already, (n_devices,) each.

        The upper bound is that of Hochstenbach ("Probabilistic upper bounds for the matrix two-norm", J. Sci. Comput.
        2013). After m steps the next vector is p(G) v, where v is the unit vector along R^T u, and p(x) is the
        determinant of x - T over the product of all beta, with T the tridiagonal matrix. Its length is 1, and at least
        that of its part along the first singular vector: 1 >= p(s^2) s |g| / |R^T u|, with s the norm and g the part of
        u along the first left singular vector. As p increases above the eigenvalues of T, s^2 is below every x above
        these with p(x) sqrt(x) >= |R^T u| / d, if |g| >= d. For u uniform in a cube of side 1, the density of g is at
        most sqrt(2) (Ball, "Cube slicing in R^n", Proc. AMS 1986), so |g| < d has a chance of at most 2 sqrt(2) d. With
        several u, drawn independently, the largest of their bounds fails only if |g| < d for all of them.
        """
        matrices = _Tridiagonal(self._diagonal, self._beside)
        least = CHANCE ** (1 / N_STARTS) / 3  # and not 2 sqrt(2): draws are rounded
        targets = self._lengths / least

        def holds(x: Array) -> Array:
            return np.asarray((matrices.growth(x) * np.sqrt(x)[:, None] >= targets).all(axis=1))

        low = matrices.below_largest()  # and so below the square of the norm
        high = low * tightness**2
        is_tight = holds(high)
        for _ in range(_REFINEMENTS[self._lengths.dtype.itemsize]):
            middle = np.sqrt(low * high)
            is_bound = holds(middle)
            low, high = np.where(is_bound, low, middle), np.where(is_bound, middle, high)
        return np.sqrt(high), is_tight


class _Tridiagonal:
    """The matrices T of all devices and starts, in double precision."""

    def __init__(self, diagonal: list[Array], beside: list[Array]) -> None:
        self._diagonal = np.stack(diagonal).astype(np.float64)  # (n_steps, n_devices, N_STARTS)
        self._beside = np.stack(beside).astype(np.float64)
        self._squares = self._beside**2
        # A step that was not taken counts as (x - 0) / largest, about 1.
        largest = np.maximum(self._diagonal.max(axis=0), np.finfo(np.float64).tiny)
        self._inverse = 1 / np.where(self._beside > 0, self._beside, largest)

    def below_largest(self) -> Array:
        """A little less than the largest eigenvalue of each device's matrices, (n_devices,)."""
        discs = self._diagonal.copy()  # no eigenvalue is above the largest of these (Gershgorin)
        discs[:-1] += self._beside[:-1]
        discs[1:] += self._beside[:-1]
        low = np.maximum(self._diagonal.max(axis=(0, 2)), np.finfo(np.float64).tiny)
        high = np.maximum(discs.max(axis=(0, 2)), low)
        for _ in range(_BISECTIONS):
            middle = np.sqrt(low * high)
            is_above = np.minimum.reduce(list(self._pivots(middle))).min(axis=1) > 0
            low, high = np.where(is_above, low, middle), np.where(is_above, middle, high)
        return np.asarray(low)

    def growth(self, x: Array) -> Array:
        """p(x) of each matrix for x (n_devices,), or 0 if x is not above its eigenvalues, (n_devices, N_STARTS)."""
        growth = is_above = np.ones((), bool)
        with np.errstate(over="ignore", invalid="ignore"):
            for pivots, inverse in zip(self._pivots(x), self._inverse, strict=True):
                growth = growth * pivots * inverse
                is_above = is_above & (pivots > 0)
        return np.asarray(np.where(is_above, growth, 0))

    def _pivots(self, x: Array) -> Iterator[Array]:
        """Pivots of x - T by elimination: all are positive just if x is above all eigenvalues (Sylvester).

        Their product is the determinant.
        """
        pivots: Array | None = None
        with np.errstate(divide="ignore", invalid="ignore"):
            for shifts, squares in zip(x[:, None] - self._diagonal, [0, *self._squares[:-1]], strict=True):
                pivots = shifts if pivots is None else shifts - squares / pivots
                yield pivots


def _lengths(vectors: Array) -> Array:
    return np.asarray(np.sqrt(np.einsum("bsd,bsd->bs", vectors, vectors)))


def _inverse(lengths: Array, where: Array) -> Array:
    """1 / lengths, or 0, (n_devices, N_STARTS, 1)."""
    return np.divide(1, lengths, out=np.zeros_like(lengths), where=where)[:, :, None]
