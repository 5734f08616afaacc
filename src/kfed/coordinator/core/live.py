"""`Live`: a federation as it is now, which is what requests see."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from kfed.coordinator.core.clusters import Clusters
from kfed.coordinator.federation import Federation


@dataclass
class Live:
    """A federation as it is now. It is changed on the event loop only."""

    federation: Federation
    clusters: Clusters | None = None
    version: int = 0
    remark: str = ""
    """Why the last attempt to aggregate failed."""
    last_change: str = "created"
    changed_at: float = 0.0
    retry_from: int = 0
    """Number of devices from which on a failed aggregation is tried again without a request."""
    is_busy: bool = False
    """Whether work on it is under way that nobody asked for."""
    is_unsettled: bool = False
    """Whether a device may have gone whose centers are still in the clusters."""

    @property
    def state(self) -> Literal["gathering", "aggregated"]:
        """Whether there are clusters."""
        return "gathering" if self.clusters is None else "aggregated"

    def publish(self, clusters: Clusters | None, version: int, remark: str = "") -> None:
        """Answer devices from these clusters from now on."""
        self.clusters, self.version, self.remark = clusters, version, remark
