"""Means of points by label: the second half of a Lloyd step on the server."""

from __future__ import annotations

import numpy as np

from kfed._base import pool
from kfed._base.array import Array

BLOCK_ELEMENTS = 2**20


def means_by_label(
    points: Array,
    labels: Array,
    otherwise: Array,
    weights: Array | None = None,
    n_jobs: int | None = None,
) -> Array:
    """Mean of the points of each label, summed in float64; a label without points keeps its row of `otherwise`.

    Parameters
    ----------
    points : array of shape (n_points, n_features)
    labels : array of shape (n_points,)
    otherwise : array of shape (n_labels, n_features)
    weights : array of shape (n_points,), optional

    Examples
    --------
    >>> means_by_label(np.array([[0.0], [2.0], [9.0]]), np.array([0, 0, 2]), otherwise=np.array([[7.0], [7.0], [7.0]]))
    array([[1.],
           [7.],
           [9.]])
    """
    from scipy.sparse import csc_array

    weights = np.ones(len(points)) if weights is None else weights

    def sums(block: slice) -> Array:
        ends = np.arange(block.stop - block.start + 1)
        memberships = csc_array((weights[block], labels[block], ends), shape=(len(otherwise), len(ends) - 1))
        return np.asarray(memberships @ points[block].astype(np.float64))

    blocks = pool.blocks(len(points), max(64, BLOCK_ELEMENTS // points.shape[1]))
    total: Array = sum(pool.map_in_order(sums, blocks, n_jobs), start=np.zeros(otherwise.shape))
    sizes = np.bincount(labels, weights=weights, minlength=len(otherwise))[:, np.newaxis]
    means = np.divide(total, sizes, out=otherwise.astype(np.float64), where=sizes > 0)
    return means.astype(points.dtype)
