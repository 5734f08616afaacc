"""What a coordinator does, whoever asks: federations, devices that join, leave or come late, and clusters made of them.

All of it runs on one event loop. What changes the store goes through the `Committer`, and what takes long through the
`Aggregator`; in between, nothing waits.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Coroutine
from dataclasses import dataclass
from typing import Any, Literal

from kfed.coordinator.core.aggregator import Aggregator, cluster
from kfed.coordinator.core.clock import Clock
from kfed.coordinator.core.clusters import Clusters
from kfed.coordinator.core.commits import Committer
from kfed.coordinator.core.events import Events
from kfed.coordinator.core.measures import Measures
from kfed.coordinator.federation import Federation, Outcome, Tally, check_message, is_due
from kfed.coordinator.problems import ProblemError
from kfed.coordinator.security import hashed, new_token
from kfed.coordinator.store import Arrival, Device, Receipt, Store
from kfed.errors import InvalidInputError, KFedError, MessageError, NoReliableKError, TooFewCentersError
from kfed.wire import DeviceMessage

MAX_FEDERATIONS = 1_000
TICK_SECONDS = 0.5

log = logging.getLogger("kfed.coordinator")

REFUSALS = {
    Outcome.CONFLICT: (409, "another message came from this device before; add ?replace=true to replace it"),
    Outcome.NO_RIGHT: (
        403,
        "only the device itself may replace its message: the device secret must be the one that came with the first",
    ),
    Outcome.CLOSED: (409, "this federation is closed to new devices"),
    Outcome.FULL: (409, "this federation has as many devices as it may have; ask its administrator"),
}


@dataclass
class Live:
    """A federation as it is now."""

    federation: Federation
    clusters: Clusters | None = None
    version: int = 0
    remark: str = ""
    """Why the last attempt to aggregate failed."""
    last_change: str = "created"
    changed_at: float = 0.0
    retry_from: int = 0
    """Devices there must be before it is tried again without being asked."""
    is_busy: bool = False
    """Whether something is being done about it in the background."""
    is_unsettled: bool = False
    """Whether a device may have gone whose centers are in the clusters still."""

    @property
    def state(self) -> Literal["gathering", "aggregated"]:
        """MessageBatch, or aggregated."""
        return "gathering" if self.clusters is None else "aggregated"


@dataclass(frozen=True)
class Accepted:
    """A message that is on disk, and what to answer to it."""

    live: Live
    message: DeviceMessage
    receipt: Receipt


class Coordinator:
    """The federations of one store."""

    def __init__(self, store: Store, clock: Clock | None = None) -> None:
        self.store = store
        self.clock = clock or Clock()
        self.events = Events()
        self.measures = Measures()
        self._aggregator = Aggregator()
        self._tasks: set[asyncio.Task[Any]] = set()
        self._live: dict[str, Live] = {}

    # Life ------------------------------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Take up what the store holds."""
        self._committer = Committer(self.store, self.measures.batch.observe)
        for federation in self.store.federations():
            self._live[federation.name] = Live(federation, changed_at=federation.created_at)
        by_id = {live.federation.id: live for live in self._live.values()}
        for federation_id, version, payload, remark in self.store.clusterings():
            live = by_id[federation_id]
            live.version, live.remark = version, remark or ""
            live.clusters = None if payload is None else Clusters.from_bytes(payload)
            live.is_unsettled = True
        self._in_background(self._tick())

    async def stop(self) -> None:
        """Finish what was begun, and end."""
        for task in self._tasks:
            task.cancel()
        self._aggregator.close()
        await self._committer.close()

    async def _tick(self) -> None:
        """Look for deadlines that have passed, and for what could not be done before."""
        while True:
            for live in self.all():
                if live.is_unsettled and not live.is_busy:
                    self._unasked(live, self._settle(live))
                self._aggregate_if_due(live)
            await asyncio.sleep(TICK_SECONDS)

    def _in_background(self, work: Any) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    # Federations -----------------------------------------------------------------------------------------------------

    def all(self) -> list[Live]:
        """All federations, in the order they were created."""
        return list(self._live.values())

    def find(self, name: str) -> Live | None:
        """The federation of this name, if there is one."""
        return self._live.get(name)

    def tally(self, live: Live) -> Tally:
        """What has arrived."""
        return self.store.tally(live.federation.id)

    async def create(self, terms: dict[str, Any]) -> tuple[Live, str]:
        """Create a federation; gives it and its join token, which is not kept."""
        if len(self._live) >= MAX_FEDERATIONS:
            raise ProblemError(409, f"there may be at most {MAX_FEDERATIONS:,} federations, and there are")
        token = new_token()
        now = self.clock.now()
        asked = Federation(id=0, join_token_hash=hashed(token), created_at=now, **terms)
        if asked.deadline is not None and asked.deadline <= now:
            raise InvalidInputError("deadline must lie in the future, and does not")
        federation = await self._committer.change(self.store.add_federation, asked)
        if federation is None:
            raise ProblemError(409, f"there is a federation {asked.name!r} already; choose another name")
        live = self._live[federation.name] = Live(federation, changed_at=now)
        self._changed(live, "created")
        return live, token

    async def close(self, live: Live) -> None:
        """Turn new devices away from now on; those that are in are served still."""
        live.federation = await self._committer.change(self.store.close_federation, live.federation)
        self._changed(live, "closed to new devices")

    # Devices ---------------------------------------------------------------------------------------------------------

    async def accept(
        self, live: Live, device_id: str, payload: bytes, *, secret: str | None = None, replace: bool = False
    ) -> Accepted:
        """Take the message of a device; returns when it is on disk."""
        try:
            message = DeviceMessage.from_bytes(payload)
            check_message(live.federation, device_id, message)
        except (MessageError, InvalidInputError) as error:
            self.measures.messages.labels("refused").inc()
            raise ProblemError(422, str(error)) from error
        receipt = await self._committer.put(
            Arrival(
                federation=live.federation,
                device_id=device_id,
                message=payload,
                secret=secret,
                secret_hash=None if secret is None else hashed(secret),
                replace=replace,
                n_centers=message.n_local_clusters,
                n_points=message.n_points,
                is_double=message.centers.dtype.itemsize == 8,
                received_at=self.clock.now(),
            )
        )
        self.measures.messages.labels(receipt.outcome.value).inc()
        if not receipt.outcome.is_kept:
            raise ProblemError(*REFUSALS[receipt.outcome])
        await self._follow(live, message, len(payload), receipt)
        return Accepted(live, message, receipt)

    async def _follow(self, live: Live, message: DeviceMessage, n_bytes: int, receipt: Receipt) -> None:
        """Do what a message that is on disk gives rise to."""
        if receipt.outcome is Outcome.REPEATED:
            return
        verb = "joined" if receipt.outcome is Outcome.JOINED else "replaced its message"
        late = " late" if live.clusters is not None and verb == "joined" else ""
        self._changed(live, f"{message.device_id} {verb}{late}: {message.n_local_clusters} centers, {n_bytes:,} bytes")
        if receipt.outcome is Outcome.REPLACED:
            await self._settle(live)
        self._aggregate_if_due(live)

    async def device(self, live: Live, device_id: str) -> Device | None:
        """A device of a federation, if it has joined."""
        return await asyncio.to_thread(self.store.device, live.federation.id, device_id)

    async def remove(self, live: Live, device_id: str) -> bool:
        """Forget a device; the clusters become those of a federation that it never joined. False if it is not there."""
        if await self._committer.change(self.store.remove, live.federation.id, device_id) is None:
            return False
        self._changed(live, f"{device_id} left")
        await self._settle(live)
        return True

    # Clusters --------------------------------------------------------------------------------------------------------

    def _aggregate_if_due(self, live: Live) -> None:
        """Aggregate in the background if it is time, unless it was tried with about as many devices before."""
        if live.clusters is not None or live.is_busy:
            return
        tally = self.tally(live)
        if tally.n_devices >= live.retry_from and is_due(live.federation, tally, self.clock.now()):
            self._unasked(live, self.aggregate(live))

    def _unasked(self, live: Live, work: Coroutine[Any, Any, None]) -> None:
        """Do in the background what nobody waits for; the next tick tries again what the store refused."""
        live.is_busy = True

        async def finish() -> None:
            try:
                await work
            except KFedError as error:
                log.warning("federation %s: %s", live.federation.name, error)
            finally:
                live.is_busy = False

        self._in_background(finish())

    async def aggregate(self, live: Live, n_clusters: int | None = None) -> None:
        """Cluster the centers of all devices that have joined by now; clusters keep their ids."""
        k = n_clusters or live.federation.n_clusters
        try:
            await self._aggregator.run(
                (live.federation.id, k), lambda: self._cluster(live, k, self.store.last_sequence)
            )
        except (NoReliableKError, TooFewCentersError) as error:
            live.retry_from, live.remark = 2 * self.tally(live).n_devices, str(error)
            self._changed(live, "could not be aggregated")
            raise ProblemError(409, str(error)) from error
        self._changed(live, f"aggregated: {self._clusters_in_words(live)}")

    async def _settle(self, live: Live) -> None:
        """If a device that was aggregated has gone since, cluster anew without it."""
        live.is_unsettled = True
        was_stale = await self._aggregator.run((live.federation.id, "settle"), lambda: self._cluster_rest(live))
        live.is_unsettled = False
        if was_stale:
            self._changed(live, f"{live.last_change}; {self._clusters_in_words(live)}")

    def _cluster_rest(self, live: Live) -> bool:
        """Cluster the aggregated devices that are left, if some are not; on the aggregator's thread."""
        old = live.clusters
        if old is None or self.store.count(live.federation.id, old.last_sequence) == len(old.device_ids):
            return False
        try:
            self._cluster(live, old.n_clusters, old.last_sequence)
        except TooFewCentersError as error:  # without those that left there would be no clusters
            self.store.save_clustering(live.federation.id, live.version + 1, None, str(error))
            live.clusters, live.version, live.remark = None, live.version + 1, str(error)
        return True

    def _cluster(self, live: Live, n_clusters: int | Literal["auto"], last_sequence: int) -> None:
        """Make clusters, keep them, then serve them; on the aggregator's thread."""
        started = time.monotonic()
        version = live.version + 1
        federation, now = live.federation, self.clock.now()
        clusters = cluster(self.store, federation, n_clusters, last_sequence, live.clusters, version, now)
        self.store.save_clustering(federation.id, version, clusters.to_bytes(), None)
        live.clusters, live.version, live.remark = clusters, version, ""
        self.measures.aggregation.observe(time.monotonic() - started)

    def _clusters_in_words(self, live: Live) -> str:
        if live.clusters is None:
            return "gathering again, as too few centers are left"
        return f"{live.clusters.n_clusters} clusters of {len(live.clusters.device_ids):,} devices"

    def _changed(self, live: Live, what: str) -> None:
        """Tell those who watch."""
        live.last_change, live.changed_at = what, self.clock.now()
        self.events.publish(live.federation.name)
