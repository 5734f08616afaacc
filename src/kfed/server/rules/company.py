"""Farthest-first traversal among centers that have company: how ``rule="paper"`` looks for `min_devices`.

Beyond the paper. Algorithm 2 adds the center with the largest distance d_M to M, so whoever sends the farthest center
chooses a cluster. Here every center is taken back by a multiple of its distance to the nearest centers of other
devices: with r(x) the radius about x that holds centers of `min_devices` devices, the next pick is that of the largest
d_M(x) - 4 r(x).

Why a pick is then close to an honest center: let x be a pick at distance D from M, and y an honest center at distance
r(x) of it, in a cluster of radius R that enough devices have. Then d_M(y) >= D - r(x), so y counts at least
D - r(x) - 8 R, and x was preferred to it only if 3 r(x) <= 8 R. Clusters farther apart than a few R are all found.
"""

from __future__ import annotations

import numpy as np

from kfed._base import geometry, pool
from kfed._base.array import Array
from kfed._base.averages import means_by_label
from kfed.server.rules.grouping import Grouping
from kfed.wire import MessageBatch

TAKEN_BACK = 4.0

MAX_CENTERS = 2**14
"""Of more centers than this, all distances would take too long."""

BLOCK_ELEMENTS = 2**21


def group_with_company(batch: MessageBatch, n_clusters: int, min_devices: int, n_jobs: int | None) -> Grouping:
    """Algorithm 2 with this traversal; in the mean of a cluster every device has one vote, and a stray center none."""
    centers, reach = batch.centers, radii(batch, min_devices)
    picks, distances = _traverse(centers, n_clusters, TAKEN_BACK * reach)
    initial_centers = centers[picks]
    labels = geometry.nearest(centers, initial_centers, n_jobs)
    is_stray = reach > _gaps(initial_centers)[labels] / 2
    votes = np.zeros(len(centers))
    votes[~is_stray] = _votes(labels[~is_stray], batch.owners[~is_stray])
    means = means_by_label(centers, labels, initial_centers, votes, n_jobs)
    return Grouping(initial_centers, distances, labels, means, strays=np.flatnonzero(is_stray))


def radii(batch: MessageBatch, n_devices: int) -> Array:
    """Distance of each center within which so many devices, its own among them, have a center, (n_device_centers,).

    Examples
    --------
    >>> sent = [kfed.DeviceMessage(name, [[at]], [5]) for name, at in {"a": 0.0, "b": 1.0, "c": 9.0}.items()]
    >>> radii(MessageBatch.of(sent), 2).tolist(), radii(MessageBatch.of(sent), 3).tolist()
    ([1.0, 1.0, 8.0], [9.0, 8.0, 9.0])
    """
    devices, starts, owners = np.unique(batch.owners, return_index=True, return_inverse=True)
    if n_devices > len(devices):
        return np.full(len(owners), np.inf)
    found = np.empty(len(owners))
    for block in pool.blocks(len(owners), max(1, BLOCK_ELEMENTS // len(owners))):
        squares = np.minimum.reduceat(geometry.squared_distances(batch.centers[block], batch.centers), starts, axis=1)
        squares[np.arange(len(squares)), owners[block]] = 0
        found[block] = np.partition(squares, n_devices - 1, axis=1)[:, n_devices - 1]
    return np.sqrt(found)


def _traverse(centers: Array, n_picks: int, taken_back: Array) -> tuple[Array, Array]:
    """Grow M from the center with the closest company: the picks, and how far from M each was."""
    picks = [int(taken_back.argmin())]
    nearest, distances = np.full(len(centers), np.inf), []
    while len(picks) < n_picks:
        squares = geometry.squared_distances(centers, centers[picks[-1:]])[:, 0]
        nearest = np.minimum(nearest, np.sqrt(squares))
        nearest[picks[-1]] = -np.inf  # never picked again
        picks.append(int((nearest - taken_back).argmax()))
        distances.append(nearest[picks[-1]])
    return np.array(picks), np.array(distances)


def _gaps(picks: Array) -> Array:
    """Distance of each pick to the nearest other one, (n_picks,); infinite where there is no other.

    A center that is lonelier than half of that is in no cluster: those of one cluster have company much nearer by.
    """
    found = np.empty(len(picks))
    for block in pool.blocks(len(picks), max(1, BLOCK_ELEMENTS // len(picks))):
        squares = geometry.squared_distances(picks[block], picks)
        squares[np.arange(len(squares)), np.arange(len(picks))[block]] = np.inf
        found[block] = squares.min(axis=1)
    return np.sqrt(found)


def _votes(labels: Array, owners: Array) -> Array:
    """Weights of the centers, such that those of one device in one cluster have one vote together."""
    pairs = labels.astype(np.int64) * (int(owners.max(initial=0)) + 1) + owners
    _, inverse, sizes = np.unique(pairs, return_inverse=True, return_counts=True)
    return np.asarray(1 / sizes[inverse])
