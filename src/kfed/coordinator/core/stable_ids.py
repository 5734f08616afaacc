"""`stable_ids`: clusters that are made anew keep the ids that people know them by."""

from __future__ import annotations

import numpy as np

from kfed._base import geometry
from kfed._base.array import Array


def stable_ids(old_centers: Array, new_centers: Array) -> Array:
    """Ids for new clusters: each keeps the id of the old cluster that it matches.

    Old and new centers are matched so that the sum of squared distances is smallest. Clusters without a match get the
    ids that are left. Where there are fewer clusters than before, an id beyond the last one cannot be kept.

    Examples
    --------
    >>> stable_ids(np.array([[0.0], [5.0], [9.0]]), np.array([[9.1], [0.2], [5.0]])).tolist()
    [2, 0, 1]
    >>> stable_ids(np.array([[0.0], [5.0]]), np.array([[5.0], [70.0], [0.0]])).tolist()
    [1, 2, 0]
    """
    from scipy.optimize import linear_sum_assignment

    n_clusters = len(new_centers)
    old, new = linear_sum_assignment(geometry.squared_distances(old_centers, new_centers))
    ids = np.full(n_clusters, -1)
    kept = old < n_clusters
    ids[new[kept]] = old[kept]
    ids[ids < 0] = np.setdiff1d(np.arange(n_clusters), ids)
    return ids
