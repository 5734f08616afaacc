"""`answer`: the one place that decides whether a device was aggregated, is late, or sends something else than before.

An answer is given to a message, not to a name:

- no device of this id was aggregated: the device is *late*, and each of its centers gets the nearest cluster;
- this very message was aggregated: its centers get the clusters that they are in;
- another message was aggregated under this id: that is refused. Only people know which of the two is meant. Who
  wants the new one to count takes the old one out first (`Aggregation.without`); then the device is late.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Protocol

import numpy as np

from kfed._base.array import Array
from kfed.errors import DuplicateDeviceError, InvalidInputError
from kfed.wire import CommonScale, DeviceMessage, FeatureSchema, Identity, nearest_clusters


class Clustered(Protocol):
    """What it takes to answer devices."""

    @property
    def schema(self) -> FeatureSchema:
        """The features of all devices."""

    @property
    def cluster_centers(self) -> Array:
        """Means of the global clusters, (n_clusters, n_features)."""

    @property
    def scale(self) -> CommonScale | None:
        """The scale on which distances are measured, where centers are in the units of tables."""

    def labels_of(self, device_id: str) -> Array | None:
        """Global clusters of the centers that a device sent, in their order; None if it was not aggregated."""

    def has(self, message: DeviceMessage) -> bool:
        """Whether the device of this id was aggregated with this very message."""


def answer(clustered: Clustered, message: DeviceMessage) -> Identity:
    """Answer a device by its message."""
    return identity_of(clustered, message.device_id, clusters_for(clustered, message))


def clusters_for(clustered: Clustered, message: DeviceMessage) -> Array:
    """The global cluster of each center of a message, (n_local_clusters,)."""
    labels = clustered.labels_of(message.device_id)
    if labels is None:
        return _nearest(clustered, message)
    if not clustered.has(message):
        raise DuplicateDeviceError(
            f"device {message.device_id!r} was aggregated with another message than this one; send the message that "
            "was aggregated, or take the device out first"
        )
    return labels


def assign(clustered: Clustered, message: DeviceMessage) -> Identity:
    """Answer a late device: the nearest mean mu(tau_r) for each of its centers, in k' k distances."""
    return identity_of(clustered, message.device_id, _nearest(clustered, message))


def _nearest(clustered: Clustered, message: DeviceMessage) -> Array:
    clustered.schema.check_same(message.schema, "the aggregation", repr(message.device_id))
    clusters = (clustered.cluster_centers, clustered.schema, clustered.scale)
    return nearest_clusters(message.known_centers, message.schema, *clusters)


def identity_of(clustered: Clustered, device_id: str, cluster_ids: Array) -> Identity:
    """The answer to a device whose centers are in these clusters."""
    schema = clustered.schema if clustered.schema.columns is not None else None
    return Identity(device_id, cluster_ids, clustered.cluster_centers, schema, clustered.scale)


def relayed(answer: Identity, device_id: str, own: Array, sent: Array, n_features: int) -> Identity:
    """The answer to a device whose centers are in clusters `own`, from a parent server's answer to clusters `sent`."""
    if len(answer) != len(sent) or answer.n_features != n_features:
        raise InvalidInputError(
            f"answer must name the {len(sent)} clusters of {n_features} features that were sent; got {len(answer)} "
            f"clusters of {answer.n_features} features, the answer to another message"
        )
    return replace(answer, device_id=device_id, cluster_ids=answer.cluster_ids[np.searchsorted(sent, own)])
