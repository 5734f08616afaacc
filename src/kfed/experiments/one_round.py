"""One round of k-FED on a simulated network, over real bytes: the labels it induces, and what was sent."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from kfed.fleet import cluster_fleet
from kfed.message import DeviceMessage
from kfed.server import Aggregation, aggregate

Array = npt.NDArray[Any]


@dataclass(frozen=True, eq=False)
class Round:
    """What one round gave and cost.

    Attributes
    ----------
    labels : tuple of arrays of int
        The induced clustering, device by device.
    aggregation : Aggregation
    n_messages : int
        Messages in both directions: one up and one down for each device.
    bytes_up, bytes_down : int
        What all devices sent, and what they were answered.
    """

    labels: tuple[Array, ...] = field(repr=False)
    aggregation: Aggregation = field(repr=False)
    n_messages: int
    bytes_up: int
    bytes_down: int

    @property
    def n_bytes(self) -> int:
        """Bytes in both directions."""
        return self.bytes_up + self.bytes_down

    @property
    def all_labels(self) -> Array:
        """The labels of all devices' points in a row."""
        return np.concatenate(self.labels)


def one_round(
    devices: Sequence[Any],
    n_clusters: int,
    n_local_clusters: int | Sequence[int],
    device_ids: Sequence[str],
    seed: int,
    *,
    rule: str = "paper",
) -> Round:
    """Run Algorithms 1 and 2 on the points of each device, and induce the labels.

    Examples
    --------
    >>> from kfed.datasets import mixture
    >>> drawn = mixture(16, 4, separation=20, points_per_cluster=50)
    >>> done = one_round(drawn.points, 4, 2, drawn.device_ids, seed=0)
    >>> done.n_messages, len(done.all_labels)
    (20, 200)
    """
    fleet = cluster_fleet(
        devices, n_local_clusters, device_ids=device_ids, random_state=seed, measure_deviation=False, progress=False
    )
    sent = [local.to_message(name).to_bytes() for local, name in zip(fleet, device_ids, strict=True)]
    result = aggregate(map(DeviceMessage.from_bytes, sent), n_clusters, rule=rule)
    answers = [result.identity(name) for name in device_ids]
    return Round(
        labels=tuple(local.induced_labels(answer) for local, answer in zip(fleet, answers, strict=True)),
        aggregation=result,
        n_messages=2 * len(sent),
        bytes_up=sum(map(len, sent)),
        bytes_down=sum(len(answer.to_bytes()) for answer in answers),
    )
