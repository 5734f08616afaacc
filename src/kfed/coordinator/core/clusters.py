"""What a federation serves its devices from once it is aggregated: no device's centers, but the label of each."""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from kfed._base import files, geometry
from kfed._base.array import Array
from kfed.server import Aggregation
from kfed.wire import DeviceMessage, Identity

VERSION = 1


@dataclass(frozen=True, eq=False)
class Clusters:
    """The global clusters of a federation.

    Attributes
    ----------
    version : int
        Counts the clusterings of this federation.
    made_at : float
        When, in seconds since 1970.
    last_sequence : int
        Devices that arrived up to this one were aggregated; those after it are late.
    device_ids : tuple of str
        The devices that were aggregated, sorted.
    starts : array of shape (n_devices + 1,)
        Where in `center_labels` the labels of each device begin.
    center_labels : array of shape (n_device_centers,)
        Global cluster of each device center.
    cluster_centers : array of shape (n_clusters, n_features)
    cluster_sizes : array of shape (n_clusters,)
        Points behind each cluster.
    traversal : array
        Farthest-first distances.
    reason : str
        How the number of clusters was found, if it was to be.
    """

    version: int
    made_at: float
    last_sequence: int
    device_ids: tuple[str, ...]
    starts: Array
    center_labels: Array
    cluster_centers: Array
    cluster_sizes: Array
    traversal: Array
    reason: str = ""

    @classmethod
    def of(
        cls, aggregation: Aggregation, previous: Clusters | None, last_sequence: int, version: int, made_at: float
    ) -> Clusters:
        """Take what is needed of an aggregation, under the ids that its clusters had before."""
        if previous is not None:
            new_ids = stable_ids(previous.cluster_centers, aggregation.cluster_centers)
            aggregation = aggregation.renumbered(new_ids)
        edges = np.arange(aggregation.messages.n_devices + 1)
        return cls(
            version=version,
            made_at=made_at,
            last_sequence=last_sequence,
            device_ids=aggregation.messages.device_ids,
            starts=np.searchsorted(aggregation.messages.owners, edges),
            center_labels=aggregation.center_labels.astype(np.int32),
            cluster_centers=aggregation.cluster_centers,
            cluster_sizes=aggregation.cluster_sizes,
            traversal=aggregation.traversal,
            reason=str(aggregation.k_choice or ""),
        )

    @property
    def n_clusters(self) -> int:
        """Number of global clusters, k."""
        return int(self.cluster_centers.shape[0])

    @cached_property
    def centers_as_json(self) -> str:
        """The centers for every answer in JSON; written once."""
        rows = (", ".join(map(repr, row)) for row in self.cluster_centers.tolist())
        return "[" + ", ".join(f"[{row}]" for row in rows) + "]"

    def labels_of(self, message: DeviceMessage, sequence: int) -> Array:
        """Global cluster of each center of a device: as aggregated, or the nearest if it came late."""
        position = bisect_left(self.device_ids, message.device_id)
        known = position < len(self.device_ids) and self.device_ids[position] == message.device_id
        if known and sequence <= self.last_sequence:
            return np.asarray(self.center_labels[self.starts[position] : self.starts[position + 1]])
        return np.asarray(geometry.squared_distances(message.centers, self.cluster_centers).argmin(axis=1))

    def identity(self, message: DeviceMessage, sequence: int) -> Identity:
        """The answer to a device."""
        return Identity(message.device_id, self.labels_of(message, sequence), self.cluster_centers)

    def to_bytes(self) -> bytes:
        """Everything, as safetensors."""
        names = ("starts", "center_labels", "cluster_centers", "cluster_sizes", "traversal")
        facts = {
            "kind": "clusters of a federation",
            "version": VERSION,
            "clustering": self.version,
            "made_at": self.made_at,
            "last_sequence": self.last_sequence,
            "reason": self.reason,
        }
        ids = np.frombuffer("\n".join(self.device_ids).encode(), np.uint8)  # no id holds a line break
        return files.encode({**{name: getattr(self, name) for name in names}, "device_ids": ids}, facts)

    @classmethod
    def from_bytes(cls, payload: bytes) -> Clusters:
        """What `to_bytes` gave."""
        tensors, facts = files.decode(payload)
        files.check_kind(facts, "clusters of a federation", VERSION)
        ids = tensors.pop("device_ids").tobytes().decode()
        about: dict[str, Any] = {name: facts[name] for name in ("made_at", "last_sequence", "reason")}
        return cls(version=facts["clustering"], device_ids=tuple(ids.split("\n")), **about | tensors)


def stable_ids(old_centers: Array, new_centers: Array) -> Array:
    """Ids for new clusters such that each keeps the id of the old cluster that it is nearest to, on the whole.

    The old and new centers are matched so that their squared distances sum to the least. Clusters without a match get
    the ids that are left. Where there are fewer clusters than before, an id beyond the last one cannot be kept.

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
