"""One round of k-FED on a simulated network, with the arguments of the other methods here."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kfed.errors import DuplicateDeviceError
from kfed.server import OwnRule
from kfed.simulate import Round

OneRound = Round
"""The result of `one_round`, and what was sent for it."""


def one_round(
    devices: Sequence[Any],
    n_clusters: int,
    n_local_clusters: int | Sequence[int],
    device_ids: Sequence[str],
    seed: int,
    *,
    rule: str | OwnRule = "paper",
) -> Round:
    """Run Algorithm 1 on every device and Algorithm 2 on what they send, and induce the labels.

    Examples
    --------
    >>> from kfed.datasets import mixture
    >>> drawn = mixture(16, 4, separation=20, points_per_cluster=50)
    >>> done = one_round(drawn.points, 4, 2, drawn.device_ids, seed=0)
    >>> done.sent.rounds, done.sent.messages, len(done.labels)
    (1, 20, 200)
    """
    named = dict(zip(device_ids, devices, strict=True))
    if len(named) < len(device_ids):
        raise DuplicateDeviceError("device_ids must be distinct; give each device a name of its own")
    return Round.run(named, n_clusters, n_local_clusters, rule=rule, random_state=seed)
