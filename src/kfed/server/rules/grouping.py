"""`Grouping`: what a rule of the server answers."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from kfed._base.array import Array, Length


@dataclass(frozen=True)
class Grouping:
    """Global clusters, and the device centers that are in each."""

    initial_centers: Array  # M: (n_clusters, n_features)
    traversal: Array  # farthest-first distances, (n_clusters - n_start,)
    center_labels: Array  # tau: (n_device_centers,)
    cluster_centers: Array  # mu(tau): (n_clusters, n_features)
    set_aside: Array = field(default_factory=lambda: np.empty(0, np.int64))
    """Rows of the centers that chose no cluster, since too few devices have one there; ascending."""
    strays: Array = field(default_factory=lambda: np.empty(0, np.int64))
    """Rows of other centers that are in no mean, since a rule took them for strays; ascending."""

    n_clusters = Length("cluster_centers", 0, "Number of global clusters, k.")

    def renumbered(self, new_ids: Array) -> Grouping:
        """The same where cluster r is called ``new_ids[r]``."""
        order = np.argsort(new_ids)
        return Grouping(
            self.initial_centers[order],
            self.traversal.copy(),
            new_ids[self.center_labels],
            self.cluster_centers[order],
            self.set_aside.copy(),
            self.strays.copy(),
        )
