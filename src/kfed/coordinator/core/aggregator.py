"""`Aggregator`: reads stored messages, runs Algorithm 2 over them and saves the clusters, on a thread of its own."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Literal

from kfed._base import pool
from kfed.coordinator.core.clusters import Clusters
from kfed.coordinator.core.gather import digests_of, gather
from kfed.coordinator.federation import Federation
from kfed.coordinator.store import Store
from kfed.errors import TooFewCentersError
from kfed.server import aggregate


@dataclass(frozen=True)
class Job:
    """What to make clusters of.

    Attributes
    ----------
    previous : Clusters or None
        The clusters so far; new ones keep their ids.
    version : int
        The number of the clustering to be made.
    made_at : float
        The time now, in seconds since 1970.
    """

    federation: Federation
    previous: Clusters | None
    version: int
    made_at: float


class Aggregator:
    """Makes the clusters of federations, one job after the other. It shares nothing with its callers but the store."""

    def __init__(self, store: Store, observe_seconds: Callable[[float], None] = lambda _: None) -> None:
        self._store = store
        self._observe_seconds = observe_seconds
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="kfed-aggregator")

    async def cluster(self, job: Job, n_clusters: int | Literal["auto"]) -> Clusters:
        """Cluster the centers of all devices that have joined by now, and save the clusters."""
        return await self._run(lambda: self._cluster(job, n_clusters, self._store.last_sequence))

    async def settle(self, job: Job) -> Clusters:
        """Cluster anew if devices behind `job.previous` have gone; returns `job.previous` itself if none has.

        Raises
        ------
        TooFewCentersError
            If too few centers are left. That there are no clusters any more is saved.
        """
        return await self._run(lambda: self._settle(job))

    def load(self, federation_id: int, payload: bytes) -> Clusters:
        """Read saved clusters; those that an older version saved without digests get them from the stored messages.

        A device that has gone or replaced its message since then keeps a digest of zeros, which matches no message.
        """
        clusters = Clusters.from_bytes(payload)
        if clusters.digests.any():
            return clusters
        with self._store.reading(federation_id, clusters.last_sequence) as reading:
            clusters = replace(clusters, digests=digests_of(clusters.device_ids, reading.messages()))
        self._store.save_clustering(federation_id, clusters.version, clusters.to_bytes(), None)
        return clusters

    def close(self) -> None:
        """Begin nothing new."""
        self._thread.shutdown(wait=False, cancel_futures=True)

    async def _run(self, work: Callable[[], Clusters]) -> Clusters:
        return await asyncio.get_running_loop().run_in_executor(self._thread, work)

    def _settle(self, job: Job) -> Clusters:
        old = job.previous
        assert old is not None
        if self._store.count(job.federation.id, old.last_sequence) == len(old.device_ids):
            return old
        try:
            return self._cluster(job, old.n_clusters, old.last_sequence)
        except TooFewCentersError as error:
            self._store.save_clustering(job.federation.id, job.version, None, str(error))
            raise

    def _cluster(self, job: Job, n_clusters: int | Literal["auto"], last_sequence: int) -> Clusters:
        """Aggregate the devices that came no later than `last_sequence`."""
        started, federation = time.monotonic(), job.federation
        with self._store.reading(federation.id, last_sequence) as reading:
            sizes = reading.sizes()
            if not sizes:
                raise TooFewCentersError("no device has joined; aggregating takes at least one")
            gathered = gather(sizes, reading.messages(), federation.schema.n_features)
        n_jobs = max(1, pool.available_cores() - 1)  # one core is left to devices that come meanwhile
        clusters = Clusters.of(
            aggregate(gathered.messages, n_clusters, rule=federation.rule, n_jobs=n_jobs),
            gathered.digests,
            job.previous,
            last_sequence=last_sequence,
            version=job.version,
            made_at=job.made_at,
        )
        self._store.save_clustering(federation.id, job.version, clusters.to_bytes(), None)
        self._observe_seconds(time.monotonic() - started)
        return clusters
