"""`Aggregator`: reads stored messages, runs Algorithm 2 over them and saves the clusters.

Clusters are made on a thread of its own; `load`, `messages` and `result` run on that of the caller.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from kfed._base import pool
from kfed._base.array import Array
from kfed.coordinator.core.asked import as_asked
from kfed.coordinator.core.clusters import Clusters
from kfed.coordinator.core.results import first_aggregation, refined_aggregation
from kfed.coordinator.federation import Federation
from kfed.coordinator.problems import DamagedMessagesError, ProblemError
from kfed.coordinator.store import Reading, SavedClustering, Store
from kfed.errors import FeatureMismatchError, MessageError, NoReliableKError, TooFewCentersError
from kfed.server import Aggregation, aggregate_batch
from kfed.wire import DIGEST_BYTES, DeviceMessage, MessageBatch, digest_of


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
    epoch : int
        That of the store as `previous` was read; the clusters are not saved if it is read back meanwhile.
    """

    federation: Federation
    previous: Clusters | None
    version: int
    made_at: float
    epoch: int


class Aggregator:
    """Makes the clusters of federations, one job after the other. It shares nothing with its callers but the store."""

    def __init__(self, store: Store, observe_seconds: Callable[[float], None] = lambda _: None) -> None:
        self._store = store
        self._observe_seconds = observe_seconds
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="kfed-aggregator")

    async def cluster(self, job: Job, n_clusters: int | Literal["auto"] | None) -> Clusters:
        """Cluster the centers of all devices that have joined by now, and save the clusters.

        Raises
        ------
        NoReliableKError
            If `n_clusters` is "auto" and no number of clusters stands out; None takes the best.
        """
        return await self._run(lambda: self._cluster(job, n_clusters, None))

    async def settle(self, job: Job) -> Clusters:
        """Cluster anew if devices behind `job.previous` have gone; returns `job.previous` itself if none has.

        Raises
        ------
        TooFewCentersError
            If too few centers are left.
        FeatureMismatchError
            If devices have different features. In both cases it is saved that there are no clusters any more.
        """
        return await self._run(lambda: self._settle(job))

    async def refine(self, job: Job) -> Clusters:
        """Move the centers of `job.previous` by the second messages of its devices, and save the clusters."""
        return await self._run(lambda: self._refine(job))

    def messages(self, federation: Federation) -> MessageBatch:
        """The messages of all devices that have joined. Slow: call it from a worker thread."""
        return self._stored(federation.id, None)[0]

    def result(self, federation: Federation, clusters: Clusters) -> Aggregation:
        """The aggregation behind `clusters`, with its messages. Slow: call it from a worker thread."""
        batch, *_ = self._stored(federation.id, set(clusters.members.sequences.tolist()))
        if batch.device_ids != clusters.members.device_ids:
            raise TooFewCentersError("a device left; retry once the clusters are updated")
        first = first_aggregation(federation, clusters, batch)
        second = self._store.second.of(federation.id, clusters.version - 1) if clusters.rounds > 1 else []
        return refined_aggregation(first, second) if second else first

    def load(self, federation_id: int, payload: bytes) -> Clusters:
        """Read saved clusters; in those of older versions, find out which of the stored messages they were made of."""
        clusters = Clusters.from_bytes(payload)
        if clusters.members.sequences.any():
            return clusters
        epoch = self._store.epoch
        with self._store.reading(federation_id) as reading:
            members = clusters.members.retraced(reading.messages(clusters.members.last_sequence))
        clusters = replace(clusters, members=members)
        self._store.save_clustering(SavedClustering(federation_id, clusters.version, clusters.to_bytes()), epoch)
        return clusters

    def close(self) -> None:
        """Begin nothing new."""
        self._thread.shutdown(wait=False, cancel_futures=True)

    async def _run(self, work: Callable[[], Clusters]) -> Clusters:
        return await asyncio.get_running_loop().run_in_executor(self._thread, work)

    def _settle(self, job: Job) -> Clusters:
        old = job.previous
        assert old is not None
        with self._store.reading(job.federation.id) as reading:
            members = old.members.among(reading.sequences())
        if len(members) == len(old.members):
            return old
        try:
            return self._cluster(job, old.n_clusters, members)
        except (TooFewCentersError, FeatureMismatchError) as error:
            self._store.save_clustering(SavedClustering(job.federation.id, job.version, None, str(error)), job.epoch)
            raise

    def _refine(self, job: Job) -> Clusters:
        old = job.previous
        assert old is not None
        first = self.result(job.federation, old)
        found = refined_aggregation(first, self._store.second.of(job.federation.id, old.version))
        about: dict[str, Any] = {"version": job.version, "made_at": job.made_at, "rounds": 2}
        about["devices_in_cluster"] = np.minimum(old.devices_in_cluster, found.devices_in_cluster)  # of both rounds
        centers = first.schema.align(found.cluster_centers, found.schema)
        clusters = replace(old, cluster_centers=centers, cluster_sizes=found.cluster_sizes, **about)
        self._store.save_clustering(SavedClustering(job.federation.id, job.version, clusters.to_bytes()), job.epoch)
        return clusters

    def _cluster(self, job: Job, n_clusters: int | Literal["auto"] | None, members: set[int] | None) -> Clusters:
        """Aggregate the messages at these places in the order of arrivals; None takes all."""
        started, federation = time.monotonic(), job.federation
        try:
            batch, digests, sequences = self._stored(federation.id, members)
        except FeatureMismatchError as error:
            remedy = f"kfed federation remove {federation.name} DEVICE"
            raise FeatureMismatchError(f"{error}; or remove the device that differs: {remedy}") from error
        if not federation.by_column:
            federation.schema.check_same(batch.schema, f"federation {federation.name}", "its devices")
        n_jobs = max(1, pool.available_cores() - 1)  # one core is left to devices that come meanwhile
        how: dict[str, Any] = {"n_jobs": n_jobs, "min_devices": federation.min_devices}
        found = aggregate_batch(batch, n_clusters or "auto", federation.rule, **how)
        if n_clusters == "auto":
            _check_sure(found, federation)
        clusters = Clusters.of(
            found,
            digests,
            sequences,
            job.previous,
            version=job.version,
            made_at=job.made_at,
        )
        asked = n_clusters if members is None else job.previous and job.previous.how_many.asked
        if isinstance(asked, int) and asked != federation.n_clusters:
            clusters = as_asked(clusters, asked, job.previous)
        self._store.save_clustering(SavedClustering(federation.id, job.version, clusters.to_bytes()), job.epoch)
        self._observe_seconds(time.monotonic() - started)
        return clusters

    def _stored(self, federation_id: int, members: set[int] | None) -> tuple[MessageBatch, Array, Array]:
        """Stored messages as columns, and for each its digest and its place in the order of arrivals."""
        with self._store.reading(federation_id) as reading:
            places = reading.sequences()
            wanted = set(places.values()) if members is None else members
            if not wanted:
                raise TooFewCentersError("no device has joined; aggregating takes at least one")
            digests: dict[int, bytes] = {}
            try:
                batch = MessageBatch.of_bytes(_noted(reading.messages(max(wanted)), wanted, digests))
            except ProblemError:
                raise
            except Exception as error:  # whatever is wrong with a message, its device is named
                _check_each(reading, wanted, places)
                raise error
        sequences = np.array([places[device_id] for device_id in batch.device_ids])
        rows = np.frombuffer(b"".join(map(digests.__getitem__, sequences.tolist())), np.uint8)
        return batch, rows.reshape(-1, DIGEST_BYTES), sequences


def _check_sure(found: Aggregation, federation: Federation) -> None:
    """Raise if no number of clusters stands out, as `kfed aggregate -k auto` does: people choose one instead."""
    if found.k_choice is not None and not found.k_choice.stands_out:
        raise NoReliableKError(f"{found.k_choice}; {to_choose(federation)}")


def to_choose(federation: Federation) -> str:
    """Who chooses a number of clusters, and how."""
    return f"the administrator has to choose a number: kfed federation aggregate {federation.name} -k N"


def _check_each(reading: Reading, wanted: set[int], places: dict[str, int]) -> None:
    """Raise if one of these messages cannot be read, and say whose they are."""
    damaged = [sequence for sequence, payload in reading.messages(max(wanted)) if not _is_readable(payload)]
    if names := [device_id for device_id, place in places.items() if place in wanted.intersection(damaged)]:
        raise DamagedMessagesError.of(names)


def _is_readable(payload: bytes) -> bool:
    try:
        DeviceMessage.from_bytes(payload)
    except MessageError:
        return False
    return True


def _noted(messages: Iterable[tuple[int, bytes]], wanted: set[int], digests: dict[int, bytes]) -> Iterator[bytes]:
    """The wanted messages; the digest of each is noted on its way."""
    for sequence, payload in messages:
        if sequence in wanted:
            digests[sequence] = digest_of(payload)
            yield payload
