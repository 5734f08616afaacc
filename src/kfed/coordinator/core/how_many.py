"""`HowMany`: how the number of clusters came about: it was found, given, or asked for afterwards."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from kfed._base.array import Array
from kfed.server import KChoice


@dataclass(frozen=True, eq=False)
class HowMany:
    """Who or what chose the number of clusters.

    Attributes
    ----------
    reason : str
        How it was chosen, if it was not given.
    k_choice : KChoice or None
        How it was found, if it was not given.
    asked : int or None
        The number that somebody asked for, if it is not that of the federation.
    found_before : (int, str) or None
        The number that was found before somebody asked for another, and how.
    """

    reason: str = ""
    k_choice: KChoice | None = None
    asked: int | None = None
    found_before: tuple[int, str] | None = None

    @classmethod
    def of(cls, choice: KChoice | None) -> HowMany:
        """A number that this choice found; None if it was given."""
        return cls(str(choice or ""), choice)

    @property
    def found(self) -> str:
        """How it was found, as devices are told: without what may name others of them."""
        return "" if self.k_choice is None else self.k_choice.told

    def parts(self) -> tuple[dict[str, Array], dict[str, Any]]:
        """The arrays and the facts that `restored` makes the same of."""
        facts: dict[str, Any] = {"reason": self.reason}
        facts |= {name: value for name in ("asked", "found_before") if (value := getattr(self, name)) is not None}
        if self.k_choice is None:
            return {}, facts
        return self.k_choice.tensors(), facts | self.k_choice.file_facts()

    @classmethod
    def restored(cls, tensors: dict[str, Array], facts: Mapping[str, Any], n_clusters: int) -> HowMany:
        """What `parts` gave; files of older versions have less."""
        before = facts.get("found_before")
        found_before = None if before is None else (int(before[0]), str(before[1]))
        return cls(facts["reason"], KChoice.restored(facts, tensors, n_clusters), facts.get("asked"), found_before)
