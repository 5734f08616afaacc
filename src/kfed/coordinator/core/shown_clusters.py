"""`ShownClusters`: clusters as devices see them."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from kfed._base.array import Array
from kfed.coordinator.core.clusters import Clusters, labels_if_ready
from kfed.wire import DeviceMessage, Identity, shares_of


@dataclass(frozen=True, eq=False)
class ShownClusters:
    """Clusters, of which devices see the centers that rest on at least `min_devices` devices.

    A device is told the clusters of its own centers in any case: the nearest of all, shown or not.
    """

    clusters: Clusters
    min_devices: int

    @cached_property
    def cluster_centers(self) -> Array:
        """The centers, (n_clusters, n_features); NaN where one is not shown."""
        is_shown = self.clusters.devices_in_cluster >= self.min_devices
        centers = self.clusters.cluster_centers
        return centers if is_shown.all() else np.where(is_shown[:, None], centers, np.nan)

    @cached_property
    def cluster_shares(self) -> Array | None:
        """The share that each cluster has of the rows of all that are shown."""
        return shares_of(self.clusters.cluster_sizes, self.cluster_centers)

    @cached_property
    def centers_as_json(self) -> str:
        """The same in JSON, encoded once for all answers; null where a center is not shown."""
        return f"[{', '.join(map(_row_as_json, self.cluster_centers.tolist()))}]"

    def answer_if_ready(self, message: DeviceMessage) -> Identity | None:
        """The answer to a device, or None if it should ask again; see `labels_if_ready`."""
        cluster_ids = labels_if_ready(self.clusters, message)
        if cluster_ids is None:
            return None
        scale, columns = self.clusters.scale, self.clusters.columns
        return Identity(message.device_id, cluster_ids, self.cluster_centers, columns, scale, self.cluster_shares)


def _row_as_json(row: list[float]) -> str:
    return "null" if math.isnan(row[0]) else f"[{', '.join(map(repr, row))}]"
