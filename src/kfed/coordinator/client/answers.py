"""What a coordinator says to a device: that there are no clusters yet, or what the federation takes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from kfed._base.text import plural
from kfed.wire import FeatureSchema


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
        return f"{self.so_far}; {self.remark}" if self.remark else self.so_far

    @property
    def so_far(self) -> str:
        """How many devices have joined and what is waited for, without the remark."""
        joined = f"{plural(self.n_devices, 'device')} joined"
        of_quorum = f" (quorum {self.quorum:,})" if self.quorum else ""
        by_hand = self.quorum is None and self.deadline is None
        who = ": the administrator has to make them (kfed federation aggregate NAME)" if by_hand else ""
        return f"{joined}{of_quorum}; the clusters are not ready yet{who}"


@dataclass(frozen=True)
class Terms:
    """What a federation takes: tables with the spread of each column or plain numbers, in one round or two.

    Attributes
    ----------
    schema : FeatureSchema or None
        What every message must use, if the sites agreed on a schema.
    max_epsilon : float or None
        Largest epsilon of a message, if it must be private.
    names : tuple of str or None
        The columns that every message must have, if they are known already; of numbers taken as they are, in order.
    min_devices_shown : int or None
        Devices that must be behind a cluster for its center to be in answers, if the coordinator says so.
    """

    takes_tables: bool = False
    rounds: int = 1
    schema: FeatureSchema | None = None
    max_epsilon: float | None = None
    names: tuple[str, ...] | None = None
    min_devices_shown: int | None = None

    @classmethod
    def restored(cls, said: Mapping[str, Any]) -> Terms:
        """The terms that a coordinator said. Raises `InvalidInputError` if its schema is not valid."""
        agreed = said.get("agreed_schema")
        schema = None if agreed is None else FeatureSchema.restored(agreed)
        names = None if said.get("feature_names") is None else tuple(map(str, said["feature_names"]))
        least = None if said.get("min_devices_shown") is None else int(said["min_devices_shown"])
        rounds = int(said.get("rounds", 1))
        return cls(bool(said.get("by_column")), rounds, schema, said.get("max_epsilon"), names, least)
