"""What to look at in clusters: which notices go to a device, and what is said of devices that come late."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from typing import Any

from kfed.coordinator.core.clusters import Clusters
from kfed.coordinator.core.live import Live
from kfed.coordinator.store import Store
from kfed.server import late_advice
from kfed.wire import DeviceMessage, MessageBatch, Notice

log = logging.getLogger("kfed.coordinator")

N_COMPARED, N_CELLS = 20, 4_000
"""A late device is compared with so many of those that were aggregated, or with fewer if tables are wide."""
MAX_COLUMNS = 2_000
"""Wider tables are not compared: others would wait."""
MAX_OF_DEVICE = 5
MAX_FEDERATIONS = 32
"""Federations of which the messages to compare with are remembered."""
MAX_REMEMBERED = 10_000
"""Late messages whose notices are remembered, so that asking again costs nothing."""
MAX_LATE = 50
"""Late devices of which a federation shows notices."""


def for_device(notices: Iterable[Notice], device_id: str) -> list[Notice]:
    """The notices for a device: those about all, or about itself. Only the administrator sees names of others.

    Examples
    --------
    >>> said = [
    ...     Notice.about_all("alike", "devices are too alike"),
    ...     Notice.about(["b"], "no center", "'b' sent no center"),
    ...     Notice.about(["a", "b"], "set aside", "centers of 'a' and 'b' ...", "centers of this device ..."),
    ...     Notice("new", "'c' is not what 'a' is"),
    ... ]
    >>> [notice.text for notice in for_device(said, "a")], [notice.text for notice in for_device(said, "c")]
    (['devices are too alike', 'centers of this device ...'], ['devices are too alike'])
    """
    return [told for notice in notices if (told := notice.for_device(device_id)) is not None]


def log_new(live: Live, before: Iterable[Notice]) -> None:
    """Log the notices of a federation that were not there before."""
    known = set(before)
    for notice in live.notices:
        if notice not in known:
            log.warning("federation %s: [%s] %s", live.federation.name, notice.code, notice.text)


class Latecomers:
    """Compares what comes late with the clusters, and columns of tables with those of some devices behind them.

    `read` runs a function that reads from the store, on another thread; `publish` tells those who watch a federation.
    """

    def __init__(self, store: Store, read: Callable[..., Any], publish: Callable[[str], None]) -> None:
        self._store, self._read, self._publish = store, read, publish
        self._compared: dict[int, tuple[Clusters, MessageBatch | None]] = {}
        self._said: dict[tuple[int, int, str, bytes], tuple[Notice, ...]] = {}

    async def notices(self, live: Live, message: DeviceMessage) -> tuple[Notice, ...]:
        """What to look at in a message that came late; the federation shows it from now on."""
        clusters = live.clusters
        if clusters is None or not clusters.is_late(message.device_id):
            return ()
        if clusters.columns is None or len(clusters.columns.columns or ()) > MAX_COLUMNS:
            return self._shown(live, message.device_id, tuple(late_advice(clusters, None, message)))
        key = (live.federation.id, live.version, message.device_id, message.digest())
        if key not in self._said:
            batch = await self._compared_with(live.federation.id, clusters)
            found = await self._read(late_advice, clusters, batch, message, clusters.columns)
            self._said[key] = tuple(found[:MAX_OF_DEVICE])
        while len(self._said) > MAX_REMEMBERED:
            del self._said[next(iter(self._said))]
        return self._shown(live, message.device_id, self._said[key])

    def _shown(self, live: Live, device_id: str, found: tuple[Notice, ...]) -> tuple[Notice, ...]:
        before = live.notices
        live.late_notices.pop(device_id, None)
        if found:
            live.late_notices[device_id] = found
        while len(live.late_notices) > MAX_LATE:
            del live.late_notices[next(iter(live.late_notices))]
        log_new(live, before)
        if live.notices != before:
            self._publish(live.federation.name)
        return found

    async def _compared_with(self, federation_id: int, clusters: Clusters) -> MessageBatch | None:
        known, batch = self._compared.get(federation_id, (None, None))
        if known is not clusters:
            batch = await self._read(self._aggregated, federation_id, clusters)
            self._compared = dict(list(self._compared.items())[-MAX_FEDERATIONS:]) | {federation_id: (clusters, batch)}
        return batch

    def _aggregated(self, federation_id: int, clusters: Clusters) -> MessageBatch | None:
        """The messages of some of the devices that were aggregated."""
        n_columns = len(clusters.columns.columns or ()) if clusters.columns else 1
        most = max(2, min(N_COMPARED, N_CELLS // max(1, n_columns)))
        ids = clusters.members.device_ids[:: max(1, len(clusters.members) // most)][:most]
        found = [self._store.device(federation_id, device_id) for device_id in ids]
        sent = [DeviceMessage.from_bytes(device.message) for device in found if device is not None]
        return MessageBatch.of(sent) if sent else None
