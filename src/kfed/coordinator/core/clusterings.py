"""`Clusterings`: makes the clusters of federations, one after the other, and publishes them.

`Aggregator` does what takes long on a thread of its own; what a federation shows changes here, on the event loop.
"""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any, Literal

from kfed._base.text import plural
from kfed.coordinator.core.aggregator import Aggregator, Job, to_choose
from kfed.coordinator.core.clock import Clock
from kfed.coordinator.core.clusters import Clusters, in_words
from kfed.coordinator.core.events import Events
from kfed.coordinator.core.live import NOT_MADE, Live
from kfed.coordinator.core.notices import log_new
from kfed.coordinator.core.turns import Turns
from kfed.coordinator.core.writer import Writer
from kfed.coordinator.problems import DamagedMessagesError, ProblemError, StoreUnavailableError
from kfed.coordinator.store import Store
from kfed.errors import FeatureMismatchError, KFedError, NoReliableKError, TooFewCentersError


class Clusterings:
    """Aggregates federations, clusters anew where devices have gone, and refines clusters by second messages."""

    def __init__(self, store: Store, aggregator: Aggregator, writer: Writer, clock: Clock, events: Events) -> None:
        self._store, self._aggregator, self._writer = store, aggregator, writer
        self._clock, self._events = clock, events
        self._turns = Turns()

    def close(self) -> None:
        """Begin nothing new, and cancel what has not ended."""
        self._turns.close()
        self._aggregator.close()

    async def aggregate(self, live: Live, n_clusters: int | None = None) -> None:
        """Cluster the centers of all devices that have joined by now; clusters keep their ids."""
        live.check(mends=True)
        await self._writer.catch_up()
        k = n_clusters or live.federation.n_clusters
        await self._turns.take((live.federation.id, k), lambda: self._aggregate_now(live, k))

    async def _aggregate_now(self, live: Live, n_clusters: int | Literal["auto"] | None) -> None:
        job, before = self._job(live), live.notices
        n_devices = self._store.tally(live.federation.id).n_devices
        try:
            live.publish(await self._made(live, self._aggregator.cluster(job, n_clusters)), job.version)
        except (NoReliableKError, TooFewCentersError, FeatureMismatchError) as error:
            _remember(live, n_devices, error)
            self._events.changed(live, "could not be aggregated")
            raise ProblemError(409, str(error), told=NOT_MADE) from error
        log_new(live, before)
        self._events.changed(live, f"aggregated: {in_words(live.clusters)}")

    async def settle(self, live: Live) -> None:
        """If a device that was aggregated has gone since, cluster anew without it."""
        live.is_unsettled = True
        await self._turns.take((live.federation.id, "settle"), lambda: self._settle_now(live))

    async def settle_after(self, live: Live, device_id: str) -> None:
        """Settle after a change to a device that is on disk already, and say so if it fails."""
        is_among = live.clusters is not None and not live.clusters.is_late(device_id)
        if self._turns.are_idle and not is_among:  # no clusters of it are there, nor being made
            return
        try:
            await self.settle(live)
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
            live.publish(None, job.version, str(error), _told(error))
        except BaseException:
            live.is_unsettled = True
            raise
        else:
            if clusters is job.previous:
                return
            live.publish(clusters, job.version)
        log_new(live, before)
        self._events.changed(live, f"{live.last_change}; {in_words(live.clusters)}")

    async def refine(self, live: Live) -> None:
        """Move the centers of clusters by the second messages that are there, unless they were moved before."""
        await self._turns.take((live.federation.id, "refine"), lambda: self._refine_now(live))

    async def _refine_now(self, live: Live) -> None:
        if live.clusters is None or live.clusters.rounds > 1:
            return
        job = self._job(live)
        try:
            live.publish(await self._made(live, self._aggregator.refine(job)), job.version)
        except ProblemError:
            raise
        except KFedError as error:
            raise ProblemError(409, str(error), told=NOT_MADE) from error
        self._events.changed(live, "refined by second messages")

    def _job(self, live: Live) -> Job:
        return Job(live.federation, live.clusters, live.version + 1, self._clock.now(), self._writer.epoch)

    async def _made(self, live: Live, work: Coroutine[Any, Any, Clusters]) -> Clusters:
        """Wait for clusters, and disable the federation if messages that they are made of cannot be read."""
        try:
            return await work
        except DamagedMessagesError as error:
            live.disable(error.damage, can_be_mended=True)
            self._events.changed(live, "disabled")
            raise


def _remember(live: Live, n_devices: int, error: KFedError) -> None:
    """Show why there are no clusters, and try again without a request when there are twice as many devices."""
    live.retry_from = 2 * n_devices
    among = f"with {plural(n_devices, 'device')}: " if n_devices else ""
    if isinstance(error, NoReliableKError):
        told = f"no number of clusters stands out; {to_choose(live.federation)}"
        live.say(f"{among}{error}", f"{among}{told}", unsure_with=n_devices)
    else:
        live.say(f"{among}{error}", _told(error) and f"{among}{_told(error)}")


def _told(error: KFedError) -> str:
    """The words for devices, if they name none of them."""
    return str(error) if isinstance(error, TooFewCentersError) else ""
