"""`Coordinator`: federations, the devices that join, leave or come late, and the clusters made of them.

Everything in this file runs on the event loop. `Committer` and `Aggregator` do what takes long on threads of their own
and return a result; what a federation shows changes here, and only here. `kfed.coordinator.core` draws the threads.
"""

from __future__ import annotations

import asyncio
import dataclasses
import logging
import time
from collections.abc import Callable, Coroutine
from contextlib import suppress
from functools import partial
from typing import Any, Literal, TypeVar

from kfed._base.text import plural
from kfed.coordinator.core.administration import Administration
from kfed.coordinator.core.aggregator import Aggregator, Job
from kfed.coordinator.core.arrivals import Accepted, Proofs, arrival_of, check_admission, read_message
from kfed.coordinator.core.clock import Clock
from kfed.coordinator.core.clusters import Clusters, in_words
from kfed.coordinator.core.committer import Committer
from kfed.coordinator.core.events import Events
from kfed.coordinator.core.live import Live
from kfed.coordinator.core.measures import Measures
from kfed.coordinator.core.notices import Latecomers, log_new
from kfed.coordinator.core.readers import Readers
from kfed.coordinator.core.registry import Registry
from kfed.coordinator.core.second_round import SecondRound
from kfed.coordinator.core.turns import Turns
from kfed.coordinator.federation import NO_FEDERATION, Admission, Tally, is_due
from kfed.coordinator.problems import DamagedMessagesError, ProblemError, StoreUnavailableError
from kfed.coordinator.security import matches
from kfed.coordinator.store import Departure, Device, Receipt, Store
from kfed.errors import FeatureMismatchError, KFedError, NoReliableKError, TooFewCentersError
from kfed.wire import DeviceMessage, FeatureSchema

TICK_SECONDS, LOOK_SECONDS = 0.5, 2.0

log = logging.getLogger("kfed.coordinator")

Result = TypeVar("Result")


class Coordinator:
    """The federations of one store."""

    def __init__(self, store: Store, clock: Clock | None = None) -> None:
        self.store = store
        self.clock = clock or Clock()
        self.events = Events()
        self.measures = Measures()
        self._readers = Readers()
        self.read = self._readers.read
        self._aggregator = Aggregator(store, self.measures.aggregation.observe)
        self.latecomers = Latecomers(store, self.read, self.events.publish)
        self._turns = Turns()
        self._turns_of_reading = Turns()  # an aggregation under way must not keep devices waiting
        self._epoch = 0
        self._tasks: set[asyncio.Task[Any]] = set()
        self._registry = Registry(self._aggregator.load)
        self.administration = Administration(
            store, self._registry, self.clock, self._read_back_if_in_doubt, self._write, self._changed
        )
        self.second = SecondRound(
            store, self._aggregator, self._turns, self._write, self._job, self._made, self._changed
        )
        self.result, self.messages = self._aggregator.result, self._aggregator.messages

    # Start and stop --------------------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Load what the store holds, and begin to look for deadlines."""
        self._committer = Committer(self.store, self.measures.batch.observe)
        self._registry.show(self.store.read_back())
        self._epoch = self.store.epoch
        self._in_background(self._tick())

    async def stop(self) -> None:
        """Cancel what runs in the background, and finish what is being written."""
        for task in self._tasks:
            task.cancel()
        self._turns.close()
        self._turns_of_reading.close()
        self._aggregator.close()
        self._readers.close()
        await self._committer.close()

    async def _tick(self) -> None:
        """Look for deadlines that have passed, and retry what failed before."""
        looked = 0.0
        while True:
            with suppress(ProblemError):  # tried again at the next tick
                await self._read_back_if_in_doubt()
                if time.monotonic() - looked > LOOK_SECONDS:
                    looked = time.monotonic()
                    await self.read(self.store.look)
            for live in self.all():
                if live.is_unsettled and not live.is_busy:
                    self._unasked(live, partial(self._settle, live))
                self._aggregate_if_due(live)
            await asyncio.sleep(TICK_SECONDS)

    async def _write(self, function: Callable[..., Result], *arguments: Any) -> Result:
        """Make a change to the store, after reading it back if need be."""
        await self._read_back_if_in_doubt()
        return await self._committer.change(function, *arguments)

    async def _read_back_if_in_doubt(self) -> None:
        """After a write that may or may not have been kept, or after losing the store, show what it really holds."""
        if self._is_behind():
            await self._turns_of_reading.take("read back", self._read_back)

    async def _read_back(self) -> None:
        if self._is_behind():
            self._registry.show(await self._committer.change(self.store.read_back))
            self._epoch = self.store.epoch

    def _is_behind(self) -> bool:
        return self.store.is_in_doubt or self._epoch != self.store.epoch

    def _in_background(self, work: Any) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

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
        await self._read_back_if_in_doubt()
        arrival = arrival_of(live.federation, message, proofs, self.clock.now())
        receipt = await self._committer.put(arrival)
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
        self._changed(live, f"{message.device_id} {verb}{late}: {sent}")
        if receipt.admission is Admission.REPLACED:
            await self._settle_after_change(live, message.device_id)
        self._aggregate_if_due(live)

    async def device(self, live: Live, device_id: str) -> Device | None:
        """A device of a federation, or None if it has not joined."""
        live.check()
        return await self.read(self.store.device, live.federation.id, device_id)

    async def remove(self, live: Live, device_id: str) -> bool:
        """Remove a device, and cluster anew as if it had never joined; returns whether it was there."""
        live.check(mends=True)
        await self._read_back_if_in_doubt()
        if await self._committer.remove(Departure(live.federation.id, device_id)) is None:
            return False
        live.late_notices.pop(device_id, None)
        self._changed(live, f"{device_id} left")
        await self._settle_after_change(live, device_id)
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
        """Work in the background for nobody in particular; the next tick retries what fails."""
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

    async def aggregate(self, live: Live, n_clusters: int | None = None) -> None:
        """Cluster the centers of all devices that have joined by now; clusters keep their ids."""
        live.check(mends=True)
        await self._read_back_if_in_doubt()
        k = n_clusters or live.federation.n_clusters
        await self._turns.take((live.federation.id, k), lambda: self._aggregate_now(live, k))

    async def _aggregate_now(self, live: Live, n_clusters: int | Literal["auto"] | None) -> None:
        job, before = self._job(live), live.notices
        try:
            live.publish(await self._made(live, self._aggregator.cluster(job, n_clusters)), job.version)
        except (NoReliableKError, TooFewCentersError, FeatureMismatchError) as error:
            live.retry_from, live.remark = 2 * self.tally(live).n_devices, str(error)
            self._changed(live, "could not be aggregated")
            raise ProblemError(409, str(error)) from error
        log_new(live, before)
        self._changed(live, f"aggregated: {in_words(live.clusters)}")

    async def _settle(self, live: Live) -> None:
        """If a device that was aggregated has gone since, cluster anew without it."""
        live.is_unsettled = True
        await self._turns.take((live.federation.id, "settle"), lambda: self._settle_now(live))

    async def _settle_after_change(self, live: Live, device_id: str) -> None:
        """Settle after a change to a device that is on disk already, and say so if it fails."""
        is_among = live.clusters is not None and device_id in live.clusters
        if self._turns.are_idle and not is_among:  # no clusters of it are there, nor being made
            return
        try:
            await self._settle(live)
        except StoreUnavailableError as error:
            raise StoreUnavailableError(error.reason, may_be_kept=True) from error

    async def _settle_now(self, live: Live) -> None:
        live.is_unsettled = False  # a device that goes from now on asks for another turn
        if live.clusters is None:
            return
        job, before = self._job(live), live.notices
        try:
            clusters = await self._made(live, self._aggregator.settle(job))
        except (TooFewCentersError, FeatureMismatchError) as error:
            live.publish(None, job.version, str(error))
        except BaseException:
            live.is_unsettled = True
            raise
        else:
            if clusters is job.previous:
                return
            live.publish(clusters, job.version)
        log_new(live, before)
        self._changed(live, f"{live.last_change}; {in_words(live.clusters)}")

    async def _made(self, live: Live, work: Coroutine[Any, Any, Clusters]) -> Clusters:
        try:
            return await work
        except DamagedMessagesError as error:
            live.disable(error.damage, can_be_mended=True)
            self._changed(live, "disabled")
            raise

    def _job(self, live: Live) -> Job:
        return Job(live.federation, live.clusters, live.version + 1, self.clock.now(), self._epoch)

    def _changed(self, live: Live, what: str) -> None:
        """Record a change, and tell watchers."""
        live.last_change, live.changed_at = what, self.clock.now()
        self.events.publish(live.federation.name)
