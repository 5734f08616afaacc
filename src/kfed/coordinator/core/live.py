"""`Live`: a federation as it is now, which is what requests see."""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from typing import Literal

from kfed.coordinator.core.clusters import Clusters
from kfed.coordinator.core.shown_clusters import ShownClusters
from kfed.coordinator.federation import Federation
from kfed.coordinator.problems import ProblemError
from kfed.coordinator.store import Damaged
from kfed.errors import InvalidInputError
from kfed.wire import FeatureSchema, Notice

log = logging.getLogger("kfed.coordinator")


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

    damage: str = ""
    """Why this federation cannot be served; the others are."""
    can_be_mended: bool = False
    """Whether aggregating anew would mend it."""
    late_notices: dict[str, tuple[Notice, ...]] = field(default_factory=dict)
    """What to look at in devices that came late, by their ids."""
    _shown: ShownClusters | None = None

    @property
    def state(self) -> Literal["gathering", "aggregated", "damaged"]:
        """Whether there are clusters, or why there will be none."""
        if self.damage:
            return "damaged"
        return "gathering" if self.clusters is None else "aggregated"

    @property
    def shown(self) -> ShownClusters | None:
        """The clusters as devices see them, if there are any."""
        if self._shown is None or self._shown.clusters is not self.clusters:
            few = self.federation.min_devices_shown
            self._shown = None if self.clusters is None else ShownClusters(self.clusters, few)
        return self._shown

    @property
    def notices(self) -> tuple[Notice, ...]:
        """What to look at before relying on the clusters, and in devices that came late."""
        if self.clusters is None:
            return ()
        return (*self.clusters.notices, *(notice for own in self.late_notices.values() for notice in own))

    def check(self, *, mends: bool = False) -> None:
        """Raise if this federation is damaged, unless what is to be done may mend it."""
        if self.damage and not (mends and self.can_be_mended):
            raise ProblemError(
                503, f"federation {self.federation.name!r} is damaged: {self.damage}", {"Retry-After": "60"}
            )

    def publish(self, clusters: Clusters | None, version: int, remark: str = "") -> None:
        """Answer devices from these clusters from now on."""
        self.clusters, self.version, self.remark = clusters, version, remark
        late = self.late_notices if clusters is not None else {}
        self.late_notices = {one: said for one, said in late.items() if clusters is not None and one not in clusters}
        self.damage, self.can_be_mended = "", False

    def disable(self, damage: str, *, can_be_mended: bool = False) -> None:
        """Serve it no longer, and say why."""
        log.error("federation %s is damaged and disabled: %s", self.federation.name, damage)
        self.clusters, self.damage, self.remark, self.can_be_mended = None, damage, damage, can_be_mended


def unreadable(damaged: Damaged) -> Live:
    """Stands for a federation whose terms cannot be read."""
    try:
        terms = _terms(damaged.id, damaged.name)
    except InvalidInputError:  # its name, too
        terms = _terms(damaged.id, f"damaged-{damaged.id}")
    live = Live(terms)
    live.disable(f"{damaged.reason}; restore a backup, or delete it")
    return live


def _terms(number: int, name: str) -> Federation:
    return Federation(number, name, FeatureSchema(1), "auto", "paper", b"", 0.0, closed=True)
