"""What methods communicate, in the same units for all of them; and the points of all devices in one table."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from kfed._base import checks


@dataclass(frozen=True)
class Sent:
    """Rounds, and messages and bytes in both directions together.

    A message is bytes as they go over the wire. A round is one message from every device, and what it is answered.

    Examples
    --------
    >>> Sent.round([b"up", b"and"], [b"down"]) + Sent.round([b"up"], [])
    Sent(n_rounds=2, n_messages=4, n_bytes=11)
    """

    n_rounds: int = 0
    n_messages: int = 0
    n_bytes: int = 0

    @classmethod
    def round(cls, up: Iterable[bytes], down: Iterable[bytes]) -> Sent:
        """Count one round of messages to the server and from it."""
        sizes = [len(message) for messages in (up, down) for message in messages]
        return cls(1, len(sizes), sum(sizes))

    def __add__(self, other: Sent) -> Sent:
        return Sent(self.n_rounds + other.n_rounds, self.n_messages + other.n_messages, self.n_bytes + other.n_bytes)


def pool(devices: Sequence[Any]) -> Any:
    """Give the points of all devices in a row: an array, or a sparse matrix if they are."""
    from scipy import sparse

    return sparse.vstack(list(devices), "csr") if checks.is_sparse(devices[0]) else np.concatenate(list(devices))
