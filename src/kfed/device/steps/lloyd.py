"""Step 4 of Algorithm 1: Lloyd's method on a batch of devices, each until nothing changes."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from kfed._base.array import Array
from kfed.device.rows.rows import Rows
from kfed.device.steps.lloyd_step import comparisons, label_dtype, means, memberships, smallest_of

LONGEST_ROUND = 8
"""Steps in which a device that stopped by itself at no fixed point may come back to where it was."""


@dataclass(frozen=True)
class Solution:
    """What Algorithm 1 returns for each device of a batch."""

    labels: Array  # U: (n_devices, n_points)
    centers: Array  # Theta: (n_devices, n_clusters, n_features)
    n_iterations: Array  # (n_devices,)
    settled: Array  # (n_devices,), whether Lloyd ended because nothing changed
    excess: Array | None = None  # (n_devices, n_points), as of `Rows.squared_residuals`; NaN where not settled
    goes_round: Array | None = None  # (n_devices,), whether rounding alone kept it from settling


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
        assigned, smallest, members, sizes = _assigned(rows, centers)
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
    if len(active) == 0:
        return done
    goes_round = np.zeros_like(done.settled)
    goes_round[active] = [
        _goes_round(rows.select(slice(z, z + 1)), centers[z : z + 1], labels[z : z + 1]) for z in range(len(active))
    ]
    return replace(done, goes_round=goes_round)


def _assigned(rows: Rows, centers: Array) -> tuple[Array, Array, Array, Array]:
    """The nearest center of each point, the comparison with it, and the members and sizes of clusters, none empty."""
    n_clusters = centers.shape[1]
    assigned, smallest = smallest_of(comparisons(rows, centers))
    members = memberships(assigned, rows.weights, n_clusters)
    sizes = members.sum(axis=2)
    if (sizes == 0).any() and reseat_empty(rows, centers, assigned, n_clusters):
        members = memberships(assigned, rows.weights, n_clusters)
        sizes = members.sum(axis=2)
    return assigned, smallest, members, sizes


def _goes_round(rows: Rows, centers: Array, labels: Array) -> bool:
    """Whether one device comes back to the same labels. Every step lowers the cost, so only rounding is left then."""
    for step in range(LONGEST_ROUND):
        assigned, _, members, sizes = _assigned(rows, centers)
        if np.array_equal(assigned, labels):
            return step > 0
        centers = means(rows.total(members), sizes, centers)
    return False


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
