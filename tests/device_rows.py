"""Rows of one device, in the forms that Algorithm 1 takes."""

import numpy as np

from kfed._base import seeding
from kfed.device.rows.dense import DenseRows


def rows_of(points, weights=None):
    points = np.asarray(points, dtype=float)
    return DenseRows(points[None], np.ones((1, len(points))) if weights is None else np.asarray([weights], float))


def lifted(coordinates):
    """Coordinates (n_points, k) of one device, as `project` gives them."""
    coordinates = np.asarray(coordinates, dtype=float)
    stack = np.empty((1, coordinates.shape[1] + 2, len(coordinates)))
    stack[0, :-2] = coordinates.T
    return seeding.lift(stack)
