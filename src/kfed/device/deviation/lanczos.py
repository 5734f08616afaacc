"""The norm of points minus their centers by Lanczos steps from a few random starts, on a batch of devices."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from kfed._base.array import Array
from kfed.device.deviation.residuals import N_STARTS, Residuals

CHANCE = 1e-3
"""A device's bound is below the norm with at most this probability, whatever its points are."""

FIRST_CHECK, CHECK_EVERY, MAX_STEPS = 9, 2, 201
"""Bounds are computed after so many steps. Noise takes about nine."""

MANY_FEATURES, STEPS_OF_MANY = 256, 2
"""With more features than this, noise takes so many more."""

CHEAP_STEPS = 4
"""With second moments, so many more are taken, which take little time and make the bound tighter."""

_SECTIONS, _ROUNDS = 5, 4
"""The search for a bound ends within 0.1 % of the least that holds."""


def lanczos_bound(residuals: Residuals, keys: npt.NDArray[np.uint64], tightness: float) -> Array:
    """Bound the norm of the residuals of each device from above, at most `tightness` times too high, (n_devices,).

    Where no bound is that tight after all steps, it is infinite.
    """
    starts = residuals.start(keys)
    recurrence = _Recurrence(starts)
    first = FIRST_CHECK + (STEPS_OF_MANY if starts.shape[2] > MANY_FEATURES else 0)
    if residuals.has_moments:
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
        if 4 * np.count_nonzero(is_open) <= len(left):
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
        # Below this, what is left is rounding: the space is exhausted. G maps it into itself, so it holds an
        # eigenvector of every eigenvalue whose eigenspace the start has a part in. That is so of the largest, too, with
        # probability 1, as u is random.
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
        least = CHANCE ** (1 / N_STARTS) / 3  # and not 2 sqrt(2): draws are rounded (`residuals`)
        targets = self._lengths.T.astype(np.float64) / least
        low, high = matrices.around_largest()
        high *= tightness**2  # any bound above this is not tight
        sections = np.arange(1, _SECTIONS + 1)[:, None]
        for _ in range(_ROUNDS):
            width = (high - low) / _SECTIONS
            x = low + width * sections
            is_bound = (matrices.growth(x) * np.sqrt(x)[:, None] >= targets).all(axis=1)
            first = np.where(is_bound.any(axis=0), is_bound.argmax(axis=0), _SECTIONS - 1)
            low = low + width * first
            high = low + width
        is_near = (matrices.growth(high[None] / tightness**2)[0] == 0).any(axis=0)  # to an eigenvalue of T
        is_zero = ~self._lengths.any(axis=1)
        return np.sqrt(high), is_bound.any(axis=0) & (is_near | is_zero)


class _Tridiagonal:
    """The matrices T of all devices and starts, in double precision; devices, of which there are most, come last."""

    def __init__(self, diagonal: list[Array], beside: list[Array]) -> None:
        self._diagonal = np.array([of.T for of in diagonal], np.float64)  # (n_steps, N_STARTS, n_devices)
        self._beside = np.array([of.T for of in beside], np.float64)
        # A step that was not taken counts as (x - 0) / largest, about 1.
        largest = np.maximum(self._diagonal.max(axis=0), np.finfo(np.float64).tiny)
        self._inverse = 1 / np.where(self._beside > 0, self._beside, largest)
        self._ratios = self._beside[:-1] * self._inverse[1:]

    def around_largest(self) -> tuple[Array, Array]:
        """Less and more than the largest eigenvalue of each device's matrices, (n_devices,) each."""
        above, below, beside = self._diagonal[:-1], self._diagonal[1:], self._beside[:-1]
        # T has no lower largest eigenvalue than any two rows and columns of it, and none above the discs of Gershgorin.
        pairs = (above + below) / 2 + np.sqrt(((above - below) / 2) ** 2 + beside**2)
        discs = self._diagonal.copy()
        discs[:-1] += beside
        discs[1:] += beside
        low = np.maximum(pairs.max(axis=(0, 1)), np.finfo(np.float64).tiny)
        return low, np.maximum(discs.max(axis=(0, 1)), low)

    def growth(self, x: Array) -> Array:
        """p(x) of each matrix for x (n_values, n_devices), or 0 if x is not above its eigenvalues.

        Its factors are the pivots of x - T by elimination, each over its beta. The product of all pivots is the
        determinant, and all of them are positive just if x is above all eigenvalues (Sylvester).
        """
        factors = x[:, None] - self._diagonal[:, None]
        factors *= self._inverse[:, None]
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            for step, ratios in enumerate(self._ratios):
                factors[step + 1] -= ratios / factors[step]
            return np.asarray(np.where((factors > 0).all(axis=0), factors.prod(axis=0), 0))


def _lengths(vectors: Array) -> Array:
    return np.asarray(np.sqrt(np.einsum("bsd,bsd->bs", vectors, vectors)))


def _inverse(lengths: Array, where: Array) -> Array:
    """1 / lengths, or 0, (n_devices, N_STARTS, 1)."""
    return np.divide(1, lengths, out=np.zeros_like(lengths), where=where)[:, :, None]
