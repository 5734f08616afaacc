"""What a method sends, counted in messages' own units: bytes down to devices, bytes up from them, and rounds."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Communication:
    """Bytes that crossed the network; parameters count at their own precision, without headers.

    Examples
    --------
    >>> Communication(rounds=1, bytes_down=80, bytes_up=20) + Communication(rounds=2, bytes_down=100, bytes_up=100)
    Communication(rounds=3, bytes_down=180, bytes_up=120)
    """

    rounds: int = 0
    bytes_down: int = 0
    bytes_up: int = 0

    @property
    def bytes_total(self) -> int:
        """Bytes in both directions."""
        return self.bytes_down + self.bytes_up

    def __add__(self, other: Communication) -> Communication:
        return Communication(
            self.rounds + other.rounds, self.bytes_down + other.bytes_down, self.bytes_up + other.bytes_up
        )
