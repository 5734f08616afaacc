"""`SecondRound`: second messages of devices, in federations that ask for them.

Clusters of one round are answered as they are; when every device that they were made of has sent a second message, or
the administrator says so, their centers move. If a device leaves, its influence on what the others sent could not be
taken back: the clusters are those of one round again.
"""

from __future__ import annotations

from kfed.coordinator.core.arrivals import check_message
from kfed.coordinator.core.clusterings import Clusterings
from kfed.coordinator.core.clusters import Clusters
from kfed.coordinator.core.events import Events
from kfed.coordinator.core.live import Live
from kfed.coordinator.core.writer import Writer
from kfed.coordinator.problems import ProblemError, StoreUnavailableError
from kfed.coordinator.store import Device, SecondMessage, Store
from kfed.errors import InvalidInputError, MessageError
from kfed.wire import DeviceMessage, clusters_fingerprint


class SecondRound:
    """Takes second messages, and has clusters refined by them."""

    def __init__(self, store: Store, writer: Writer, clusterings: Clusterings, events: Events) -> None:
        self._store, self._writer, self._clusterings, self._events = store, writer, clusterings, events

    async def accept(self, live: Live, device: Device, payload: bytes) -> bool:
        """Keep the second message of a device; returns whether it is new. The last one refines the clusters."""
        clusters = self._clusters(live)
        if clusters.is_late(device.device_id):
            raise ProblemError(409, "this device came after the clusters were made; it needs no second message")
        try:
            message = _read(live, clusters, device, payload)
        except (MessageError, InvalidInputError) as error:
            raise ProblemError(422, str(error)) from error
        sent = SecondMessage(device.device_id, clusters.version, message.to_bytes())
        stored = await self._writer.change(self._store.second.put, live.federation.id, sent)
        if stored.message != sent.message:
            raise ProblemError(
                409, "this device has already sent a different second message; each device sends only one"
            )
        is_new = stored is sent
        if is_new:
            self._events.changed(live, f"{device.device_id} sent its second message")
        # also if it is sent again: what came after it the first time may have failed
        if self._store.second.count(live.federation.id, clusters.version) >= len(clusters.members):
            try:
                await self.finish(live)
            except StoreUnavailableError as error:
                raise StoreUnavailableError(error.reason, may_be_kept=True) from error
        return is_new

    async def finish(self, live: Live) -> None:
        """Refine the clusters by the second messages that are there; devices without one count as before."""
        clusters = self._clusters(live)
        if self._store.second.count(live.federation.id, clusters.version) == 0:
            raise ProblemError(409, "no device has sent a second message about these clusters yet")
        await self._clusterings.refine(live)

    def _clusters(self, live: Live) -> Clusters:
        live.check()
        if live.federation.rounds < 2:
            raise ProblemError(409, f"federation {live.federation.name!r} takes one message from each device")
        if live.clusters is None:
            raise ProblemError(409, "there are no clusters yet; a second message is about clusters")
        if live.clusters.rounds > 1:
            raise ProblemError(409, "the clusters have already been refined")
        return live.clusters


def _read(live: Live, clusters: Clusters, device: Device, payload: bytes) -> DeviceMessage:
    """The second message of a device. Raises unless it is about the clusters that the device was told."""
    message = DeviceMessage.from_bytes(payload)
    check_message(live.federation, device.device_id, message)
    told = None if live.shown is None else live.shown.answer_if_ready(DeviceMessage.from_bytes(device.message))
    details = message.details
    if details is None or details.cluster_ids is None:
        raise InvalidInputError("this is a first message; a second one names the clusters that it is about")
    if told is None or details.refines != clusters_fingerprint(told.cluster_centers):
        raise ProblemError(
            409, "this message is not about the current clusters; fetch the identity again and make a new message"
        )
    if (details.cluster_ids >= clusters.n_clusters).any():
        raise InvalidInputError(f"cluster_ids must be from 0 to {clusters.n_clusters - 1}")
    return message
