"""Centers rounded to a grid of 256 or 65,536 values, to be sent in one or two bytes each."""

from __future__ import annotations

import numpy as np

from kfed._base.array import Array
from kfed.errors import InvalidInputError

CODES = {8: np.uint8, 16: np.uint16}


def on_grid(centers: Array, bits: int, by_column: bool) -> tuple[Array, Array]:
    """Codes of the centers, and the grid: lowest value and step of each column, or of each center.

    A value that is NaN is taken to be at the mean of its column. A grid by column suits columns of different units; one
    by center costs less where there are more columns.
    """
    is_known = ~np.isnan(centers).all(axis=0)
    means = np.nanmean(np.where(is_known, centers, 0), axis=0) if len(centers) else np.zeros(centers.shape[1])
    centers = np.where(np.isnan(centers), means, centers)
    levels = 2**bits - 1
    if centers.size == 0:
        return np.zeros(centers.shape, CODES[bits]), np.ones((2, centers.shape[1]), np.float32)
    low = centers.min(axis=int(not by_column), keepdims=True)
    high = centers.max(axis=int(not by_column), keepdims=True)
    step = np.maximum((high - low) / levels, np.finfo(np.float32).tiny)
    low, step = low.astype(np.float32), np.nextafter(step.astype(np.float32), np.float32(np.inf))
    codes = np.clip(np.rint((centers - low) / step), 0, levels).astype(CODES[bits])
    grid = np.stack([low[0], step[0]]) if by_column else np.stack([low, step])
    return codes, grid


def from_grid(codes: Array, grid: Array) -> Array:
    """The centers that codes stand for, in single precision. Raises if the grid does not fit the codes."""
    shapes = ((2, codes.shape[1]), (2, codes.shape[0], 1))
    if grid.dtype != np.float32 or grid.shape not in shapes or not np.isfinite(grid).all() or not (grid[1] > 0).all():
        raise InvalidInputError("grid must have a lowest value and a step above zero for each column or each center")
    return np.asarray(grid[0] + grid[1] * codes.astype(np.float32), np.float32)


def error_bound(codes: Array, grid: Array) -> Array:
    """How far a value may be from the one that was rounded: half a step, and what single precision loses."""
    levels = np.iinfo(codes.dtype).max
    low, step = grid.astype(np.float64)
    return np.asarray(step / 2 + 2 * np.finfo(np.float32).eps * (np.abs(low) + levels * step))
