"""What a number of clusters must show in a comparison to stand out: stable clusters, clearer than one cloud."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from kfed._base.array import Array

if TYPE_CHECKING:
    from kfed.server.k.comparison import KComparison

STABLE = 0.8
"""Least mean Jaccard similarity of the weakest cluster, and least mean agreement."""

ABOVE_ONE_CLOUD = 0.09
"""Least silhouette above that of one cloud. Uniform squares and stretched Gaussians have up to 0.06, the nine public
sets that it was measured on 0.11 and more at their number of clusters."""

SURE = 0.9
"""Least stability, measured as for `STABLE`, of a number that stands out and is called reliable. On six public sets
whose number of clusters is known, numbers with a stability of 0.8 to 0.9 were off by one now and then."""

MOST_HELD = 0.9
"""If one device has a larger share of the rows, what happens without others tells nothing."""


def standing_out(found: KComparison) -> Array:
    """Whether each k stands out, as a mask; none if one device has nearly all rows: resamplings say little then."""
    return are_clear_and_stable(found) & (found.largest_share <= MOST_HELD)


def are_clear_and_stable(found: KComparison) -> Array:
    """Whether the clusters of each k are stable and clearer than one cloud, as a mask."""
    are_stable = (found.stability[:, 0] >= STABLE) & (found.weakest >= STABLE)
    are_groups = (found.n_clusters > 1) & (found.n_clusters < found.n_device_centers)
    return np.asarray(are_stable & are_clearer(found) & are_groups)


def are_clearer(found: KComparison) -> Array:
    """Whether the clusters of each k are clearer than slices of one cloud, as a mask."""
    return np.asarray(above_one_cloud(found) >= ABOVE_ONE_CLOUD)


def have_centers(found: KComparison) -> Array:
    """Whether there are two device centers for each cluster of each k, as a mask; all are if no k has so many.

    A cluster of a single center has no spread between centers, so that silhouettes rise to 1 as k nears their number.
    """
    enough = np.asarray(2 * found.n_clusters <= found.n_device_centers)
    return enough if enough.any() else np.ones(len(enough), bool)


def above_one_cloud(found: KComparison) -> Array:
    """How far the silhouette of each k is above that of one cloud."""
    return np.asarray(found.silhouettes - found.silhouettes_of_one_cloud)


def coming_back(found: KComparison) -> Array:
    """How well the clusters of each k come back in resamplings: all of them, and the weakest."""
    return np.asarray(np.fmin(found.weakest, found.stability[:, 0]))


def comes_back(k: int, found: KComparison) -> bool:
    """Whether the clusters of a k come back nearly always."""
    return bool(coming_back(found)[place_of(k, found)] >= SURE)


def place_of(k: int, found: KComparison) -> int:
    """Where a k stands among those that were compared."""
    return int(np.flatnonzero(found.n_clusters == k)[0])


def rises_at_the_end(found: KComparison) -> bool:
    """Whether the silhouette is the largest at the largest k that was compared."""
    return len(found.n_clusters) > 2 and int(found.silhouettes.argmax()) == len(found.n_clusters) - 1
