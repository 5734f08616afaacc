"""Small clusters that borrow: a cluster too small to be sent takes in the nearest rows of clusters that can spare them.

What is sent of it is then the mean of enough rows, near to where its own are, instead of nothing. The rows that were
lent keep their labels; only the message counts them elsewhere.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from kfed._base.array import Array
from kfed.device.rows.rows import Rows
from kfed.device.steps.lloyd import Solution
from kfed.device.steps.lloyd_step import means, sums_by_label


def with_borrowed(rows: Rows, solution: Solution, least: int) -> Solution:
    """The clusters as they are sent: those of fewer than `least` rows borrow others until they have that many."""
    n_clusters = solution.centers.shape[1]
    labels, centers, settled = solution.labels.copy(), solution.centers.copy(), solution.settled.copy()
    for device in range(rows.n_devices):
        is_there = rows.weights[device] > 0
        sizes = np.bincount(labels[device, is_there], minlength=n_clusters)
        small = np.flatnonzero((sizes > 0) & (sizes < least))
        own = rows.select(slice(device, device + 1))
        for cluster in small[np.argsort(-sizes[small], kind="stable")]:
            _borrow(own, solution.centers[device, cluster], int(cluster), labels[device], sizes, least)
        if len(small):
            sums = sums_by_label(own, labels[device : device + 1], own.weights, n_clusters)
            centers[device] = means(*sums, centers[device : device + 1])[0]
            settled[device] = False
    return replace(solution, labels=labels, centers=centers, settled=settled, excess=None)


def _borrow(rows: Rows, center: Array, cluster: int, labels: Array, sizes: Array, least: int) -> None:
    """Let a cluster of one device take in rows, the nearest first, until it has enough; in `labels` and `sizes`."""
    distances = rows.squared_residuals(center[None, None], np.zeros((1, len(labels)), labels.dtype))[0]
    for row in np.argsort(np.where(rows.weights[0] > 0, distances, np.inf), kind="stable"):
        if sizes[cluster] >= least or rows.weights[0, row] == 0:
            return
        if labels[row] != cluster and sizes[labels[row]] > least:
            sizes[labels[row]] -= 1
            sizes[cluster] += 1
            labels[row] = cluster
