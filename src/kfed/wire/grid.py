"""Centers rounded to a grid of 16, 256 or 65,536 values, to be sent in half a byte, one byte or two each.

With 4 bits a step is coarse, and rounding to the nearest value would move dark pixels, say, the same way on all
devices. So a value is rounded up as often as it is nearer to the value above, by a draw that depends on the device:
then errors average out over devices. Columns in which every center is zero take no room, and stay zero.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from kfed._base import random
from kfed._base.array import Array
from kfed.errors import InvalidInputError
from kfed.wire.center_table import N_STATISTICS

CODES = {4: np.uint8, 8: np.uint8, 16: np.uint16}
HALF_BYTE = 4

LEAST_KEPT = 4
"""With 4 bits, one in so many columns is sent even if all are zero: no small message stands for a large table."""


MOST_LOST = 0.1
"""Rounding by center may add at most this share of how far the centers of a device lie apart, squared."""


class OnGrid(NamedTuple):
    """Centers on a grid."""

    codes: Array  # (n_local_clusters, n_features)
    grid: Array  # (2, n_features) or (2, n_local_clusters, 1): lowest value and step, in single precision
    kept: Array | None = None  # (n_features,) with 4 bits, whether a center is not zero there

    @property
    def centers(self) -> Array:
        """What the codes stand for, in single precision."""
        low, step = self.grid
        values = np.asarray(low + step * self.codes.astype(np.float32), np.float32)
        return values if self.kept is None else np.where(self.kept, values, np.float32(0))

    @property
    def error_bound(self) -> Array:
        """How far a value may be from the one that was rounded: half a step, or one, and what single precision loses.

        Its shape is that of the centers, or can be broadcast to it.
        """
        levels = np.iinfo(self.codes.dtype).max if self.kept is None else 2**HALF_BYTE - 1
        low, step = self.grid.astype(np.float64)
        off = step / (2 if self.kept is None else 1) + 2 * np.finfo(np.float32).eps * (np.abs(low) + levels * step)
        return np.asarray(off if self.kept is None else np.where(self.kept, off, 0.0))

    def check(self, statistics: Array) -> None:
        """Raise unless these are codes of centers with these statistics, and the grid fits them."""
        codes, grid = self.codes, self.grid
        if statistics.shape[1] != N_STATISTICS or codes.ndim != 2 or len(codes) != len(statistics):
            raise InvalidInputError("codes must have a row for each center, beside its statistics")
        if codes.dtype not in CODES.values():
            raise InvalidInputError(f"codes must be whole numbers of one or two bytes; got {codes.dtype}")
        shapes = ((2, codes.shape[1]), (2, codes.shape[0], 1))
        if grid.dtype != np.float32 or grid.shape not in shapes or not np.isfinite(grid).all() or (grid[1] <= 0).any():
            raise InvalidInputError(
                "grid must have a lowest value and a step above zero for each column or each center"
            )


def on_grid(centers: Array, bits: int, by_column: bool, device_id: str) -> OnGrid:
    """Round centers to a grid by column, which suits columns of different units, or by center, which costs less.

    A value that is NaN is taken to be at the mean of its column.
    """
    is_known = ~np.isnan(centers).all(axis=0)
    means = np.nanmean(np.where(is_known, centers, 0), axis=0) if len(centers) else np.zeros(centers.shape[1])
    centers = np.where(np.isnan(centers), means, centers)
    kept = _kept(centers) if bits == HALF_BYTE else None
    levels = 2**bits - 1
    if centers.size == 0:
        return OnGrid(np.zeros(centers.shape, CODES[bits]), np.ones((2, centers.shape[1]), np.float32), kept)
    low = centers.min(axis=int(not by_column), keepdims=True)
    high = centers.max(axis=int(not by_column), keepdims=True)
    step = np.maximum((high - low) / levels, np.finfo(np.float32).tiny)
    low, step = low.astype(np.float32), np.nextafter(step.astype(np.float32), np.float32(np.inf))
    steps = (centers - low) / step
    rounded = np.rint(steps) if kept is None else np.floor(steps + _draws(device_id, centers.shape))
    codes = np.clip(rounded, 0, levels).astype(CODES[bits])
    return OnGrid(codes, np.stack([low[0], step[0]]) if by_column else np.stack([low, step]), kept)


def is_lost_by_center(centers: Array, bits: int) -> bool:
    """Whether one grid for each center is too coarse to tell the centers apart, as where one column lies far away.

    The square of what rounding adds to a value is a twelfth of that of a step on average, and twice that with 4 bits.

    Examples
    --------
    >>> centers = np.array([[0.0, 3.0, 1.0], [2.0, 0.0, 3.0]])
    >>> is_lost_by_center(centers, 8), is_lost_by_center(centers + [0, 0, 2024], 8)
    (False, True)
    """
    if len(centers) < 2 or np.isnan(centers).any():
        return False
    steps = np.ptp(centers, axis=1) / (2**bits - 1)
    return float(np.mean(steps**2)) / (6 if bits == HALF_BYTE else 12) > MOST_LOST * float(centers.var(axis=0).mean())


def _kept(centers: Array) -> Array:
    """Which columns are sent with 4 bits, (n_features,)."""
    n_features = centers.shape[1]
    kept: Array = np.asarray(centers.any(axis=0))
    kept[np.flatnonzero(~kept)[: max(0, -(-n_features // LEAST_KEPT) - int(kept.sum()))]] = True
    return kept


def _draws(device_id: str, shape: tuple[int, ...]) -> Array:
    """Numbers in [0, 1) that are always the same for a device, so that it sends the same message again."""
    return np.asarray(random.uniforms(random.device_keys(0, [device_id]), int(np.prod(shape)))[0].reshape(shape))


def packed(codes: Array, kept: Array) -> tuple[Array, Array]:
    """Codes of the columns that are kept, two to a byte with the first in the high half; and a bit for each column."""
    own = codes[:, kept]
    pairs = np.pad(own, ((0, 0), (0, own.shape[1] % 2)))
    return pairs[:, ::2] << HALF_BYTE | pairs[:, 1::2], np.packbits(kept)


def unpacked(pairs: Array, columns: Array, n_features: int) -> tuple[Array, Array]:
    """The codes and which columns are kept, as `packed` was given them. Raises if the two do not fit each other."""
    if columns.dtype != np.uint8 or columns.shape != (-(-n_features // 8),):
        raise InvalidInputError(f"columns must have a bit for each of {n_features} features")
    kept = np.unpackbits(columns, count=n_features).astype(bool)
    n_kept = int(kept.sum())
    if n_kept * LEAST_KEPT < n_features:
        raise InvalidInputError(f"columns must keep at least one in {LEAST_KEPT} of {n_features}; got {n_kept}")
    if pairs.dtype != np.uint8 or pairs.ndim != 2 or pairs.shape[1] != -(-n_kept // 2):
        raise InvalidInputError(f"packed must have half a byte for each center and each of {n_kept} columns")
    codes = np.zeros((len(pairs), n_features), np.uint8)
    codes[:, kept] = np.stack([pairs >> HALF_BYTE, pairs & 15], axis=2).reshape(len(pairs), -1)[:, :n_kept]
    if not all(np.array_equal(*both) for both in zip(packed(codes, kept), (pairs, columns), strict=True)):
        raise InvalidInputError("packed and columns must be zero beyond their last values")
    return codes, kept
