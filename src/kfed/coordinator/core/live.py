"""`Live`: a federation as it is now, which is what requests see; its clusters as devices see them, `ShownClusters`."""

from __future__ import annotations

import logging
import math
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal

import numpy as np

from kfed._base.array import Array
from kfed._base.text import plural
from kfed.coordinator.core.clusters import Clusters, labels_if_ready
from kfed.coordinator.federation import Federation
from kfed.coordinator.problems import ProblemError
from kfed.coordinator.store import Damaged
from kfed.errors import InvalidInputError
from kfed.wire import DeviceMessage, FeatureSchema, Identity, Notice, shares_of

log = logging.getLogger("kfed.coordinator")

NOT_MADE = "the clusters could not be made; the administrator sees why"


@dataclass(frozen=True, eq=False)
class ShownClusters:
    """Clusters, of which devices see the centers that rest on at least `min_devices` devices.

    A device is told the clusters of its own centers in any case: the nearest of all, shown or not.
    """

    clusters: Clusters
    min_devices: int

    @cached_property
    def cluster_centers(self) -> Array:
        """The centers, (n_clusters, n_features); NaN where one is not shown."""
        is_shown = self.clusters.devices_in_cluster >= self.min_devices
        centers = self.clusters.cluster_centers
        return centers if is_shown.all() else np.where(is_shown[:, None], centers, np.nan)

    @cached_property
    def cluster_shares(self) -> Array | None:
        """The share that each cluster has of the rows of all that are shown."""
        return shares_of(self.clusters.cluster_sizes, self.cluster_centers)

    @cached_property
    def centers_as_json(self) -> str:
        """The same in JSON, encoded once for all answers; null where a center is not shown."""
        return f"[{', '.join(map(_row_as_json, self.cluster_centers.tolist()))}]"

    def answer_if_ready(self, message: DeviceMessage) -> Identity | None:
        """The answer to a device, or None if it should ask again; see `labels_if_ready`."""
        cluster_ids = labels_if_ready(self.clusters, message)
        if cluster_ids is None:
            return None
        scale, columns = self.clusters.scale, self.clusters.columns
        return Identity(message.device_id, cluster_ids, self.cluster_centers, columns, scale, self.cluster_shares)


def _row_as_json(row: list[float]) -> str:
    return "null" if math.isnan(row[0]) else f"[{', '.join(map(repr, row))}]"


@dataclass
class Live:
    """A federation as it is now. It is changed on the event loop only."""

    federation: Federation
    clusters: Clusters | None = None
    version: int = 0
    remark: str = ""
    """Why the last attempt to aggregate failed; it may name devices."""
    told: str = ""
    """The same as devices are told, who learn no names of others."""
    unsure_with: int = 0
    """Number of devices among which no number of clusters stood out, if that is what the remark says."""
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

    def remark_among(self, n_devices: int, *, to_device: bool = False) -> str:
        """The remark; without the numbers of clusters that it names if these were compared among other devices."""
        if not self.remark or self.unsure_with in (0, n_devices):
            return self.told if to_device else self.remark
        federation, again = self.federation, ""
        if federation.deadline is not None or federation.quorum is not None:
            least = self.retry_from if federation.quorum is None else max(federation.quorum, self.retry_from)
            after = " after the deadline" if federation.quorum is None else ""
            again = f"there are {least:,}{after}, or when "
        return (
            f"with {plural(self.unsure_with, 'device')}, no number of clusters stood out; it is tried again when "
            f"{again}the administrator asks: kfed federation aggregate {federation.name}"
        )

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
            told = f"federation {self.federation.name!r} is damaged"
            raise ProblemError(
                503, f"{told}: {self.damage}", {"Retry-After": "60"}, told=f"{told}; the administrator sees how"
            )

    def publish(self, clusters: Clusters | None, version: int, remark: str = "", told: str = "") -> None:
        """Answer devices from these clusters from now on."""
        self.clusters, self.version = clusters, version
        self.say(remark, told)
        said = self.late_notices.items()
        self.late_notices = {} if clusters is None else {one: own for one, own in said if clusters.is_late(one)}
        self.damage, self.can_be_mended = "", False

    def disable(self, damage: str, *, can_be_mended: bool = False) -> None:
        """Stop serving it, and say why."""
        log.error("federation %s is damaged and disabled: %s", self.federation.name, damage)
        self.clusters, self.damage, self.can_be_mended = None, damage, can_be_mended
        self.say(damage)

    def say(self, remark: str, told: str = "", unsure_with: int = 0) -> None:
        """Remark on what failed; if nothing else is `told`, devices learn that the administrator sees it."""
        self.remark, self.unsure_with = remark, unsure_with
        self.told = told or (NOT_MADE if remark else "")


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
