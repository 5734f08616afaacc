"""Means of points by label: the second half of a Lloyd step on the server."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from kfed import _pool

Array = npt.NDArray[Any]

BLOCK_ELEMENTS = 2**18


def means_by_label(
    points: Array,
    labels: Array,
    otherwise: Array,
    weights: Array | None = None,
    n_jobs: int | None = None,
) -> Array:
    """Mean of the points of each label, summed in float64; a label that no point has keeps its place in `otherwise`.

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

    def of_block(block: slice) -> tuple[Array, Array]:
        order = np.argsort(labels[block], kind="stable")
        present, starts = np.unique(labels[block][order], return_index=True)
        ordered = points[block][order].astype(np.float64)
        if weights is not None:
            ordered *= weights[block][order, np.newaxis]
        return present, np.add.reduceat(ordered, starts, axis=0)

    sums = np.zeros(otherwise.shape)
    blocks = _pool.blocks(len(points), max(64, BLOCK_ELEMENTS // points.shape[1]))
    for present, partial in _pool.map_in_order(of_block, blocks, n_jobs):
        sums[present] += partial
    sizes = np.bincount(labels, weights=weights, minlength=len(otherwise))[:, np.newaxis]
    means = np.divide(sums, sizes, out=otherwise.astype(np.float64), where=sizes > 0)
    return means.astype(points.dtype)
