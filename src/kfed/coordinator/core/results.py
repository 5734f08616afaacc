"""An `Aggregation` again, from the clusters of a federation and the messages that they were made of."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from kfed.coordinator.core.clusters import Clusters
from kfed.coordinator.federation import Federation
from kfed.coordinator.problems import DamagedMessagesError
from kfed.coordinator.store import SecondMessage
from kfed.errors import MessageError
from kfed.server import Aggregation, AggregationSettings, aggregate_refined, as_aggregated, rule_for
from kfed.wire import DeviceMessage, FeatureSchema, MessageBatch, clusters_fingerprint, second_message


def first_aggregation(federation: Federation, clusters: Clusters, batch: MessageBatch) -> Aggregation:
    """What the server found in the first round, under the numbers that clusters have."""
    if batch.schema.names is None and federation.schema.names is not None and not federation.by_column:
        batch = replace(batch, schema=FeatureSchema(batch.n_features, federation.schema.names))
    return as_aggregated(
        batch,
        clusters.center_labels.astype(np.int64),
        clusters.cluster_centers,
        rule=clusters.rule or rule_for(batch, federation.rule),
        traversal=clusters.traversal,
        k_choice=clusters.how_many.k_choice,
        settings=AggregationSettings(min_devices=federation.min_devices),
    )


def refined_aggregation(first: Aggregation, second: list[SecondMessage]) -> Aggregation:
    """Refine the first aggregation by second messages, as if each device had been shown all of its centers."""
    fingerprint = clusters_fingerprint(first.cluster_centers)
    return aggregate_refined(first, (_about(message, fingerprint) for message in _read(second)))


def _read(second: list[SecondMessage]) -> list[DeviceMessage]:
    messages, damaged = [], []
    for one in second:
        try:
            messages.append(DeviceMessage.from_bytes(one.message))
        except MessageError:
            damaged.append(one.device_id)
    if damaged:
        raise DamagedMessagesError.of(damaged)
    return messages


def _about(message: DeviceMessage, fingerprint: str) -> DeviceMessage:
    assert message.details is not None
    assert message.details.cluster_ids is not None
    return second_message(message, message.details.cluster_ids, fingerprint)
