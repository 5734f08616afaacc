"""Second messages: means and counts of the global clusters on one device, once these are known."""

from __future__ import annotations

import hashlib
from dataclasses import replace

import numpy as np

from kfed._base.array import Array
from kfed.wire.details import N_DIGITS, Details
from kfed.wire.message import DeviceMessage


def clusters_fingerprint(cluster_centers: Array) -> str:
    """Digits that tell which global clusters a second message is about: the same for equal centers, and no others."""
    centers = np.ascontiguousarray(cluster_centers, np.float64)
    return hashlib.blake2b(centers.tobytes() + str(centers.shape).encode(), digest_size=N_DIGITS // 2).hexdigest()


def second_message(message: DeviceMessage, cluster_ids: Array, refines: str) -> DeviceMessage:
    """The message with the global cluster of each center, and the fingerprint of these clusters.

    Examples
    --------
    >>> sent = second_message(kfed.DeviceMessage("a", [[0.0], [5.0]], [9, 8]), np.array([3, 0]), "0" * 32)
    >>> DeviceMessage.from_bytes(sent.to_bytes()).details.cluster_ids
    array([3, 0])
    """
    details = replace(message.details or Details(), cluster_ids=cluster_ids, refines=refines)
    return DeviceMessage.from_table(message.device_id, message.table, message.schema, details)
