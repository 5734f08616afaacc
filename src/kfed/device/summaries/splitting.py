"""Clusters of a summary that have points for two are split, until the floor allows no more centers.

Merging small clusters makes others large: of a device with a few rows of each rare group, one center might stand for
nearly all rows. A cluster with at least twice as many points as the floor asks can always be split in two without a
larger sum of squares, so the best groups all have fewer (Domingo-Ferrer and Mateo-Sanz, IEEE TKDE 14, 2002, on
microaggregation). Beyond the paper.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from kfed._base.array import Array
from kfed.device.rows.rows import Rows
from kfed.device.steps.lloyd import Solution
from kfed.device.steps.lloyd_step import means, sums_by_label

N_STEPS = 4
"""Steps of the power method towards the direction in which a cluster is widest."""

ROUNDING = 1e-6
"""Points that differ by no more than this share of their size are equal."""

MOST_CELLS = 2**24
"""A cluster of more cells is not split."""


def split(rows: Rows, solution: Solution) -> Solution:
    """Split clusters of at least twice as many points as a center has on average, while there are empty clusters."""
    n_clusters = solution.centers.shape[1]
    labels, is_split = solution.labels.copy(), np.zeros(rows.n_devices, bool)
    for device, weights in enumerate(rows.weights):
        sizes = np.bincount(labels[device][weights > 0], minlength=n_clusters)
        if (sizes == 0).any() and sizes.max() >= 2 * (sizes.sum() // n_clusters) > 0:
            _split_device(rows.select(slice(device, device + 1)), labels[device], sizes)
            is_split[device] = True
    if not is_split.any():
        return solution
    sums = sums_by_label(rows, labels, rows.weights, n_clusters)
    settled = solution.settled & ~is_split
    return replace(solution, labels=labels, centers=means(*sums, solution.centers), settled=settled, excess=None)


def _split_device(rows: Rows, labels: Array, sizes: Array) -> None:
    """Change the labels of one device; `sizes` are numbers of points."""
    least, weights, empty = int(sizes.sum()) // len(sizes), rows.weights[0], np.flatnonzero(sizes == 0).tolist()
    while empty:
        largest = int(sizes.argmax())
        if sizes[largest] < 2 * least or sizes[largest] * rows.n_features > MOST_CELLS:
            break
        members = np.flatnonzero((labels == largest) & (weights > 0))
        part = _wide_part(rows.take(members[None])[0].astype(np.float64), weights[members], least)
        if len(part) == 0:
            sizes[largest] = 0  # it is not looked at again
            continue
        new = empty.pop()
        labels[members[part]] = new
        sizes[largest], sizes[new] = len(members) - len(part), len(part)


def _wide_part(points: Array, weights: Array, least: int) -> Array:
    """The points on one side of the best cut across the direction in which they are widest, `least` on either side.

    None, if all points are equal up to rounding.

    Examples
    --------
    >>> _wide_part(np.array([[9.0], [0.0], [8.0], [1.0], [2.0], [3.0]]), np.ones(6), 2)
    array([1, 3, 4, 5])
    """
    weights = weights.astype(np.float64)
    residuals = points - weights @ points / weights.sum()
    widest = np.abs(residuals).max()
    if widest <= ROUNDING * np.abs(points).max():
        return np.empty(0, np.intp)
    residuals /= widest  # so that no square overflows
    order = np.argsort(residuals @ _widest(residuals, weights), kind="stable")
    before = np.cumsum(weights[order])[least - 1 : -least]  # the weight before each cut
    sums = np.cumsum(residuals[order] * weights[order, None], axis=0)[least - 1 : -least]
    saved = np.einsum("ij,ij->i", sums, sums) * (1 / before + 1 / (weights.sum() - before))
    return np.asarray(order[: least + int(saved.argmax())])


def _widest(residuals: Array, weights: Array) -> Array:
    """The first principal direction, by the power method from the farthest point."""
    direction = np.asarray(residuals[np.einsum("ij,ij->i", residuals, residuals).argmax()])
    for _ in range(N_STEPS):
        along = residuals @ (direction / np.linalg.norm(direction))
        direction = np.asarray((weights * along) @ residuals)
    return direction
