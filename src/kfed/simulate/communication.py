"""`Communication`: what a method sends, in the same units for all methods."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True)
class Communication:
    """Rounds, and the messages and bytes that crossed the network in them.

    A message counts as encoded for the wire; parameters of a model count at their own precision, without headers. A
    round is one message from each device that takes part, and the answers.

    Attributes
    ----------
    rounds : int
    bytes_down, bytes_up : int
        Bytes from the server to devices, and from devices to the server.
    messages : int
        Messages in both directions.

    Examples
    --------
    >>> Communication.of_round(up=[b"up", b"and"], down=[b"down"]) + Communication.of_round(up=[b"up"], down=[])
    Communication(rounds=2, bytes_down=4, bytes_up=7, messages=4)
    """

    rounds: int = 0
    bytes_down: int = 0
    bytes_up: int = 0
    messages: int = 0

    @classmethod
    def of_round(cls, up: Iterable[bytes], down: Iterable[bytes]) -> Communication:
        """Count one round of messages to the server and from it."""
        sizes_up, sizes_down = [len(message) for message in up], [len(message) for message in down]
        return cls(1, sum(sizes_down), sum(sizes_up), len(sizes_down) + len(sizes_up))

    @property
    def bytes_total(self) -> int:
        """Bytes in both directions."""
        return self.bytes_down + self.bytes_up

    def __add__(self, other: Communication) -> Communication:
        return Communication(
            self.rounds + other.rounds,
            self.bytes_down + other.bytes_down,
            self.bytes_up + other.bytes_up,
            self.messages + other.messages,
        )
