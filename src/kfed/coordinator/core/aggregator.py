"""Runs Algorithm 2 over stored messages, off the event loop, one federation at a time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Literal

from kfed._base import pool
from kfed.coordinator.core.clusters import Clusters
from kfed.coordinator.core.gather import gather
from kfed.coordinator.federation import Federation
from kfed.coordinator.store import Store
from kfed.errors import TooFewCentersError
from kfed.server import aggregate


class Aggregator:
    """A thread for aggregations. Requests for the same work that has not begun yet share one run."""

    def __init__(self) -> None:
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="kfed-aggregator")
        self._waiting: dict[Any, asyncio.Future[Any]] = {}

    async def run(self, key: Any, work: Callable[[], Any]) -> Any:
        """Run `work` after what was asked for before, unless the same, by its key, is waiting already."""
        if key not in self._waiting:
            loop = asyncio.get_running_loop()

            def begin() -> Any:
                loop.call_soon_threadsafe(self._waiting.pop, key, None)
                return work()

            self._waiting[key] = loop.run_in_executor(self._thread, begin)
        return await asyncio.shield(self._waiting[key])

    def close(self) -> None:
        """Begin nothing new."""
        self._thread.shutdown(wait=False, cancel_futures=True)


def cluster(
    store: Store,
    federation: Federation,
    n_clusters: int | Literal["auto"],
    last_sequence: int,
    previous: Clusters | None,
    version: int,
    now: float,
) -> Clusters:
    """Aggregate the devices that came no later than `last_sequence`; a core is left to those who come meanwhile."""
    with store.reading(federation.id, last_sequence) as reading:
        sizes = reading.sizes()
        if not sizes:
            raise TooFewCentersError("there must be at least one device to aggregate, and none has joined")
        gathering = gather(sizes, reading.messages(), federation.n_features)
    n_jobs = max(1, pool.available_cores() - 1)
    aggregation = aggregate(gathering, n_clusters, rule=federation.rule, n_jobs=n_jobs)
    return Clusters.of(aggregation, previous, last_sequence, version, now)
