"""What a coordinator says to a device: that there are no clusters yet, or what the federation takes."""

from __future__ import annotations

from dataclasses import dataclass

from kfed._base.text import plural


@dataclass(frozen=True)
class StillGathering:
    """The message is stored; there are no clusters for this device yet."""

    n_devices: int
    quorum: int | None
    deadline: float | None
    remark: str
    retry_after: float

    @property
    def in_words(self) -> str:
        """The state of the federation as a sentence."""
        joined = f"{plural(self.n_devices, 'device')} joined"
        of_quorum = f" (quorum {self.quorum:,})" if self.quorum else ""
        note = f"; {self.remark}" if self.remark else ""
        return f"{joined}{of_quorum}; the clusters are not ready yet{note}"


@dataclass(frozen=True)
class Terms:
    """What a federation takes: tables with the spread of each column or plain numbers, in one round or two."""

    takes_tables: bool = False
    rounds: int = 1
