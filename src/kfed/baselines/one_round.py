"""One round of k-FED on a simulated network, over real bytes: the labels it induces, and what was sent."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from kfed._base.array import Array
from kfed.baselines.sent import Sent
from kfed.device import cluster_fleet
from kfed.server import Aggregation, aggregate
from kfed.wire import DeviceMessage


@dataclass(frozen=True, eq=False)
class OneRound:
    """What one round of k-FED gave and cost.

    Attributes
    ----------
    device_labels : tuple of arrays of int
        The induced clustering, device by device.
    aggregation : Aggregation
    sent : Sent
        One message up and one down for each device.
    """

    device_labels: tuple[Array, ...] = field(repr=False)
    aggregation: Aggregation = field(repr=False)
    sent: Sent

    @property
    def labels(self) -> Array:
        """The labels of all devices' points in a row, (n_points,)."""
        return np.concatenate(self.device_labels)


def one_round(
    devices: Sequence[Any],
    n_clusters: int,
    n_local_clusters: int | Sequence[int],
    device_ids: Sequence[str],
    seed: int,
    *,
    rule: str = "paper",
) -> OneRound:
    """Run Algorithm 1 on every device and Algorithm 2 on what they send, and induce the labels.

    Examples
    --------
    >>> from kfed.datasets import mixture
    >>> drawn = mixture(16, 4, separation=20, points_per_cluster=50)
    >>> done = one_round(drawn.points, 4, 2, drawn.device_ids, seed=0)
    >>> done.sent.n_rounds, done.sent.n_messages, len(done.labels)
    (1, 20, 200)
    """
    fleet = cluster_fleet(
        devices, n_local_clusters, device_ids=device_ids, random_state=seed, measure_deviation=False, progress=False
    )
    up = [local.to_message(name).to_bytes() for local, name in zip(fleet, device_ids, strict=True)]
    result = aggregate(map(DeviceMessage.from_bytes, up), n_clusters, rule=rule)
    answers = [result.identity(name) for name in device_ids]
    labels = tuple(local.induced_labels(answer) for local, answer in zip(fleet, answers, strict=True))
    return OneRound(labels, result, Sent.round(up, (answer.to_bytes() for answer in answers)))
