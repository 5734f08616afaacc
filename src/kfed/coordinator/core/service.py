"""`Coordinator`: federations, the devices that join, leave or come late, and when clusters are made of them.

Everything in this file runs on the event loop. `Writer` makes changes to the store and `Clusterings` makes clusters;
what takes long they have done on threads. `kfed.coordinator.core` draws the threads.
"""

from __future__ import annotations

import asyncio
import dataclasses
import logging
import time
from collections.abc import Callable, Coroutine
from contextlib import suppress
from functools import partial
from typing import Any

from kfed._base.text import plural
from kfed.coordinator.core.administration import Administration
from kfed.coordinator.core.aggregator import Aggregator
from kfed.coordinator.core.arrivals import Accepted, Proofs, arrival_of, check_admission, read_message
from kfed.coordinator.core.clock import Clock
from kfed.coordinator.core.clusterings import Clusterings
from kfed.coordinator.core.events import Events
from kfed.coordinator.core.live import Live
from kfed.coordinator.core.measures import Measures
from kfed.coordinator.core.notices import Latecomers
from kfed.coordinator.core.readers import Readers
from kfed.coordinator.core.registry import Registry
from kfed.coordinator.core.second_round import SecondRound
from kfed.coordinator.core.writer import Writer
from kfed.coordinator.federation import NO_FEDERATION, Admission, Tally, is_due
from kfed.coordinator.problems import ProblemError
from kfed.coordinator.security import matches
from kfed.coordinator.store import Departure, Device, Receipt, Store
from kfed.errors import KFedError
from kfed.wire import DeviceMessage, FeatureSchema

TICK_SECONDS, LOOK_SECONDS = 0.5, 2.0

log = logging.getLogger("kfed.coordinator")


class Coordinator:
    """The federations of one store."""

    def __init__(self, store: Store, clock: Clock | None = None) -> None:
        self.store = store
        self.clock = clock or Clock()
        self.events = Events(self.clock)
        self.measures = Measures()
        self._readers = Readers()
        self.read = self._readers.read
        self._tasks: set[asyncio.Task[Any]] = set()
        aggregator = Aggregator(store, self.measures.aggregation.observe)
        self.result, self.messages = aggregator.result, aggregator.messages
        self._registry = Registry(aggregator.load)
        self._writer = Writer(store, self._registry, self.measures.batch.observe)
        self._clusterings = Clusterings(store, aggregator, self._writer, self.clock, self.events)
        self.aggregate = self._clusterings.aggregate
        self.latecomers = Latecomers(store, self.read, self.events.publish)
        self.administration = Administration(store, self._registry, self._writer, self.clock, self.events)
        self.second = SecondRound(store, self._writer, self._clusterings, self.events)

    # Start and stop --------------------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Load what the store holds, and begin to look for deadlines."""
        self._writer.start()
        self._in_background(self._tick())

    async def stop(self) -> None:
        """Cancel what runs in the background, and finish what is being written."""
        for task in self._tasks:
            task.cancel()
        self._clusterings.close()
        self._readers.close()
        await self._writer.close()

    async def _tick(self) -> None:
        """Look for deadlines that have passed, and retry what failed before."""
        looked = 0.0
        while True:
            with suppress(ProblemError):  # tried again at the next tick
                await self._writer.catch_up()
                if time.monotonic() - looked > LOOK_SECONDS:
                    looked = time.monotonic()
                    await self.read(self.store.look)
            for live in self.all():
                if live.is_unsettled and not live.is_busy:
                    self._unasked(live, partial(self._clusterings.settle, live))
                self._aggregate_if_due(live)
            await asyncio.sleep(TICK_SECONDS)

    def _in_background(self, work: Any) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    @property
    def is_behind(self) -> bool:
        """Whether federations may be shown as they were before a write whose end is not known."""
        return self._writer.is_behind()

    # Federations -----------------------------------------------------------------------------------------------------

    def all(self) -> list[Live]:
        """All federations, in the order they were created."""
        return self._registry.all()

    def find(self, name: str) -> Live | None:
        """The federation of this name, or None."""
        return self._registry.find(name)

    def tally(self, live: Live) -> Tally:
        """Totals of its devices."""
        return self.store.tally(live.federation.id)

    async def is_invited(self, live: Live | None, device_id: str, token: str | None) -> bool:
        """Whether this is the token of an invitation of this device, used or not."""
        federation_id = NO_FEDERATION if live is None else live.federation.id
        invitation = await self.read(self.store.invitations.find, federation_id, device_id)
        return matches(token, None if invitation is None else invitation.token_hash)

    # Devices ---------------------------------------------------------------------------------------------------------

    async def accept(self, live: Live, device_id: str, payload: bytes, proofs: Proofs) -> Accepted:
        """Accept the message of a device; returns when it is on disk."""
        live.check()
        try:
            message = read_message(live.federation, device_id, payload, live.clusters)
        except ProblemError:
            self.measures.messages.labels("refused").inc()
            raise
        await self._writer.catch_up()  # its terms may have changed
        receipt = await self._writer.put(arrival_of(live.federation, message, proofs, self.clock.now()))
        self.measures.messages.labels(receipt.admission.value).inc()
        self._name_features(live)
        check_admission(receipt, live.federation, message)
        await self._follow(live, message, len(payload), receipt)
        return Accepted(message, receipt)

    def _name_features(self, live: Live) -> None:
        """Show the feature names that a message gave to a federation without any."""
        names = self.store.feature_names(live.federation.id)
        if names is not None and live.federation.schema.names is None:
            schema = FeatureSchema(live.federation.schema.n_features, names)
            live.federation = dataclasses.replace(live.federation, schema=schema)

    async def _follow(self, live: Live, message: DeviceMessage, n_bytes: int, receipt: Receipt) -> None:
        """Tell watchers of a message that is on disk, and bring the clusters up to date."""
        if receipt.admission is Admission.REPEATED:
            return
        verb = "joined" if receipt.admission is Admission.JOINED else "replaced its message"
        late = " late" if live.clusters is not None and verb == "joined" else ""
        sent = f"{plural(message.n_local_clusters, 'center')}, {n_bytes:,} bytes"
        self.events.changed(live, f"{message.device_id} {verb}{late}: {sent}")
        if receipt.admission is Admission.REPLACED:
            await self._clusterings.settle_after(live, message.device_id)
        self._aggregate_if_due(live)

    async def device(self, live: Live, device_id: str) -> Device | None:
        """A device of a federation, or None if it has not joined."""
        live.check()
        return await self.read(self.store.device, live.federation.id, device_id)

    async def remove(self, live: Live, device_id: str) -> bool:
        """Remove a device, and cluster anew as if it had never joined; returns whether it was there."""
        live.check(mends=True)
        if await self._writer.remove(Departure(live.federation.id, device_id)) is None:
            return False
        live.late_notices.pop(device_id, None)
        self.events.changed(live, f"{device_id} left")
        await self._clusterings.settle_after(live, device_id)
        return True

    # Clusters --------------------------------------------------------------------------------------------------------

    def _aggregate_if_due(self, live: Live) -> None:
        """Aggregate in the background if it is time, unless that failed before with about as many devices."""
        if live.clusters is not None or live.is_busy or live.damage:
            return
        tally = self.tally(live)
        if tally.n_devices >= live.retry_from and is_due(live.federation, tally, self.clock.now()):
            self._unasked(live, partial(self.aggregate, live))

    def _unasked(self, live: Live, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Run work in the background that no request waits for; the next tick retries what fails."""
        live.is_busy = True

        async def finish() -> None:
            try:
                await work()
            except KFedError as error:
                log.warning("federation %s: %s", live.federation.name, error)
            except Exception as error:  # its words may show a message, and other federations go on
                log.error("federation %s: %s", live.federation.name, type(error).__name__)
            finally:
                live.is_busy = False

        self._in_background(finish())
