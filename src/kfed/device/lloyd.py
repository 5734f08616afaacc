"""Step 4 of Algorithm 1: Lloyd's method on a batch of devices, each until nothing changes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from kfed._base.array import Array
from kfed.device.lloyd_step import comparisons, label_dtype, means, memberships, smallest_of
from kfed.device.rows import Rows


@dataclass(frozen=True)
class Solution:
    """What Algorithm 1 returns for each device of a batch."""

    labels: Array  # U: (n_devices, n_points)
    centers: Array  # Theta: (n_devices, n_clusters, n_features)
    n_iterations: Array  # (n_devices,)
    settled: Array  # (n_devices,), whether Lloyd ended because nothing changed
    excess: Array | None = None  # (n_devices, n_points), as of `Rows.squared_residuals`; NaN where not settled


def batch_lloyd(rows: Rows, centers: Array, max_iterations: int) -> Solution:
    """Assign every point to the nearest center and average, until nothing changes.

    Devices that have converged are dropped from the batch once they make up a third of it.
    """
    n_clusters = centers.shape[1]
    # When the labels of a device repeat, so do its centers: the smallest comparisons of that step are with the final
    # centers. They are kept as its excess, since |x - c|^2 = |x - c_0|^2 + excess then needs one product, not k.
    excess = np.empty(rows.weights.shape, rows.dtype)
    done = Solution(
        labels=np.empty(rows.weights.shape, label_dtype(n_clusters)),
        centers=np.empty_like(centers),
        n_iterations=np.zeros(rows.n_devices, np.intp),
        settled=np.ones(rows.n_devices, bool),
        excess=excess,
    )
    active = np.arange(rows.n_devices)
    labels = np.full_like(done.labels, -1)
    for _ in range(max_iterations):
        assigned, smallest = smallest_of(comparisons(rows, centers))
        members = memberships(assigned, rows.weights, n_clusters)
        sizes = members.sum(axis=2)
        if (sizes == 0).any() and reseat_empty(rows, centers, assigned, n_clusters):
            members = memberships(assigned, rows.weights, n_clusters)
            sizes = members.sum(axis=2)
        changed = (assigned != labels).any(axis=1)
        done.n_iterations[active] += changed
        if 3 * np.count_nonzero(changed) <= 2 * len(active):
            done.labels[active], done.centers[active], excess[active] = assigned, centers, smallest
            active, rows, smallest = active[changed], rows.select(changed), smallest[changed]
            assigned, members, sizes, centers = (of[changed] for of in (assigned, members, sizes, centers))
        labels = assigned
        if len(active) == 0:
            break
        centers = means(rows.total(members), sizes, centers)
    done.labels[active], done.centers[active], excess[active] = labels, centers, smallest
    done.settled[done.n_iterations == max_iterations] = False
    excess[~done.settled] = np.nan
    return done


def reseat_empty(rows: Rows, centers: Array, labels: Array, n_clusters: int) -> bool:
    """Give each empty cluster the point that is farthest from its own center, in `labels`; return whether any was.

    A point that equals its center up to rounding is not moved: there are fewer distinct points than clusters then.
    """
    weighted = rows.weights > 0
    distances = np.where(weighted, rows.squared_residuals(centers, labels), 0)
    rounding = (16 * np.finfo(rows.dtype).eps) ** 2 * np.einsum("bkd,bkd->bk", centers, centers).max(axis=1)
    reseated = False
    for device in range(rows.n_devices):
        sizes = np.bincount(labels[device][weighted[device]], minlength=n_clusters)
        for cluster in np.flatnonzero(sizes == 0):
            point = distances[device].argmax()
            if distances[device, point] > rounding[device] and sizes[labels[device, point]] > 1:
                sizes[labels[device, point]] -= 1
                labels[device, point] = cluster
                reseated = True
            distances[device, point] = 0
    return reseated
