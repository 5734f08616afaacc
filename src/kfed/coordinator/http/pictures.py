"""`Pictures`: each version of a federation is drawn once, one at a time, on a thread of its own."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Hashable
from concurrent.futures import ThreadPoolExecutor

from kfed.coordinator.core import Clusters, Coordinator, Live, Turns
from kfed.coordinator.federation import Federation
from kfed.coordinator.http.picture import picture_of

MAX_KEPT = 32


class Pictures:
    """The pictures of a coordinator's federations, in JSON.

    All who ask for a picture that waits to be drawn share it. After a picture, the thread rests for as long as it drew,
    so that drawing takes at most half of a processor, however many watch and however fast devices join.
    """

    def __init__(self, coordinator: Coordinator) -> None:
        self._coordinator = coordinator
        self._turns = Turns()
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="kfed-pictures")
        self._kept: dict[int, tuple[Hashable, bytes]] = {}
        self._rested_at = 0.0

    async def of(self, live: Live) -> bytes:
        """The picture of a federation as it is now."""
        live.check()
        drawn: bytes = self._drawn(live) or await self._turns.take(live.federation.id, lambda: self._draw(live))
        return drawn

    def _drawn(self, live: Live) -> bytes | None:
        version, drawn = self._kept.get(live.federation.id, (None, None))
        return drawn if version == self._version(live) else None

    def close(self) -> None:
        """Stop drawing."""
        self._turns.close()
        self._thread.shutdown(wait=False, cancel_futures=True)

    async def _draw(self, live: Live) -> bytes:
        if (drawn := self._drawn(live)) is not None:
            return drawn
        await asyncio.sleep(max(0.0, self._rested_at - time.monotonic()))
        version, begun = self._version(live), time.monotonic()
        loop = asyncio.get_running_loop()
        drawn = await loop.run_in_executor(self._thread, self._render, live.federation, live.clusters)
        self._rested_at = 2 * time.monotonic() - begun
        self._kept.pop(live.federation.id, None)
        while len(self._kept) >= MAX_KEPT:
            del self._kept[next(iter(self._kept))]
        self._kept[live.federation.id] = (version, drawn)
        return drawn

    def _render(self, federation: Federation, clusters: Clusters | None) -> bytes:
        return picture_of(self._coordinator.store, federation, clusters).model_dump_json().encode()

    def _version(self, live: Live) -> Hashable:
        return live.version, live.changed_at, live.last_change, self._coordinator.tally(live)
