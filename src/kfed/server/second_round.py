"""`aggregate_refined`: a second message moves the centers of the global clusters to the means of their rows.

Devices that send none count as they did before. A second message is about one clustering, and names it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import numpy as np

from kfed._base.array import Array
from kfed.errors import InvalidInputError
from kfed.server.aggregation import Aggregation
from kfed.server.rules.grouping import Grouping
from kfed.server.rules.support import bounded_counts, devices_in
from kfed.wire import DeviceMessage, MessageBatch, clusters_fingerprint


def aggregate_refined(aggregation: Aggregation, messages: Iterable[DeviceMessage]) -> Aggregation:
    """Move the centers of clusters to the means that devices found for them, in a second round.

    Parameters
    ----------
    aggregation : Aggregation
        The clusters of the first round.
    messages : iterable of DeviceMessage
        Second messages, from `refine_device`, in any order. A device that is absent counts as in the first round; one
        that came late may send one, too. The same message twice counts once.

    Returns
    -------
    Aggregation
        The same clusters under the same numbers, with ``rounds`` 2. A cluster that fewer than `min_devices` devices
        have rows of keeps its center, and so does one without rows.

    Raises
    ------
    InvalidInputError
        If a message is a first one, or is about other clusters.
    DuplicateDeviceError
        If a device sent two different second messages.

    Examples
    --------
    >>> from kfed.wire import second_message
    >>> first = kfed.aggregate([kfed.DeviceMessage("a", [[0.0], [4.0], [9.0]], [5, 5, 5])], 2)
    >>> means = kfed.DeviceMessage("a", [[3.0], [9.5]], [10, 5])
    >>> order = first.cluster_centers[:, 0].argsort()
    >>> sent = second_message(means, order, clusters_fingerprint(first.cluster_centers))
    >>> aggregate_refined(first, [sent]).cluster_centers[order].tolist()
    [[3.0], [9.5]]
    """
    fingerprint = clusters_fingerprint(aggregation.cluster_centers)
    second = MessageBatch.of(_checked(message, fingerprint, aggregation) for message in messages)
    known = aggregation.messages
    absent = [device_id for device_id in known.device_ids if device_id not in second]
    batch = MessageBatch.of([*map(second.message, second.device_ids), *map(known.message, absent)])
    labels = np.concatenate([_labels(batch.message(device_id), aggregation) for device_id in batch.device_ids])
    set_aside = _set_aside(batch, aggregation, absent)
    before = _on_scale(aggregation, batch)
    centers = _moved(batch, labels, set_aside, before, aggregation.settings.min_devices or 1)
    grouping = Grouping(before, aggregation.grouping.traversal, labels, centers, set_aside)
    asked = replace(aggregation.settings, rounds=2)
    return replace(aggregation, messages=batch, grouping=grouping, settings=asked)


def as_aggregated(
    batch: MessageBatch, center_labels: Array, cluster_centers: Array, *, rule: str, **about: Any
) -> Aggregation:
    """An aggregation whose clusters are known already, in the units that devices sent.

    `about` holds further fields of `Aggregation`, and may hold the `traversal` of its grouping.
    """
    centers = cluster_centers if batch.scale is None else batch.scale.apply(cluster_centers)
    traversal = about.pop("traversal", np.empty(0))
    return Aggregation(batch, rule, Grouping(centers, traversal, center_labels, centers), **about)


def _checked(message: DeviceMessage, fingerprint: str, aggregation: Aggregation) -> DeviceMessage:
    details = message.details
    if details is None or details.cluster_ids is None:
        raise InvalidInputError(
            f"the message of {message.device_id!r} is a first message; a second one is made with `kfed refine`"
        )
    if details.refines != fingerprint:
        raise InvalidInputError(
            f"the second message of {message.device_id!r} is about other clusters; run `kfed refine` again with this "
            "clusters file"
        )
    if (details.cluster_ids >= aggregation.n_clusters).any():
        raise InvalidInputError(
            f"the second message of {message.device_id!r} must name clusters 0 to {aggregation.n_clusters - 1}"
        )
    return message


def _labels(message: DeviceMessage, aggregation: Aggregation) -> Array:
    """Global cluster of each center of a second message, or of the first one of a device that sent no other."""
    if message.details is not None and message.details.cluster_ids is not None:
        return message.details.cluster_ids.astype(np.int64)
    return aggregation.identity(message.device_id).cluster_ids


def _set_aside(batch: MessageBatch, aggregation: Aggregation, absent: list[str]) -> Array:
    """Rows of centers that chose no cluster in the first round, of devices that said nothing since."""
    known = aggregation.messages
    is_set_aside = np.zeros(len(known.centers), bool)
    is_set_aside[aggregation.grouping.set_aside] = True
    rows = [
        batch.rows_of(device_id).start + np.flatnonzero(is_set_aside[known.rows_of(device_id)]) for device_id in absent
    ]
    return np.concatenate([*rows, np.empty(0, np.int64)]).astype(np.int64)


def _on_scale(aggregation: Aggregation, batch: MessageBatch) -> Array:
    """The centers of the first round, with the features and on the scale of the second."""
    centers = batch.schema.align(aggregation.cluster_centers, aggregation.schema)
    return centers if batch.scale is None else batch.scale.apply(centers)


def _moved(batch: MessageBatch, labels: Array, set_aside: Array, before: Array, min_devices: int) -> Array:
    """Means of the rows of each cluster, over the cells that were observed; a center of too few devices stays."""
    on_scale = batch.rescaled
    weights = bounded_counts(on_scale) if min_devices > 1 else on_scale.counts.astype(np.float64)
    weights[set_aside] = 0
    share = weights / on_scale.counts
    observed = np.broadcast_to(on_scale.counts[:, None], on_scale.centers.shape)
    if on_scale.details is not None:
        observed = on_scale.details.observed
    cells, sums = np.zeros((2, *before.shape))
    np.add.at(cells, labels, share[:, None] * observed)
    np.add.at(sums, labels, share[:, None] * observed * on_scale.centers)
    there = weights > 0
    n_devices = devices_in(labels[there], on_scale.owners[there], len(before))
    moves = (cells > 0) & (n_devices >= min_devices)[:, None]
    return np.asarray(np.divide(sums, cells, out=before.astype(np.float64), where=moves))
