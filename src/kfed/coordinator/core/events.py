"""`Events`: records what changed in federations, and tells watchers, at most a few times a second."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager

from kfed.coordinator.core.clock import Clock
from kfed.coordinator.core.live import Live

PACE_SECONDS = 0.25
SILENCE_SECONDS = 15.0


class Events:
    """Passes the names of changed federations to any number of watchers."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._watchers: set[_Watcher] = set()
        self._is_closed = False

    def close(self) -> None:
        """Let everybody who watches go."""
        self._is_closed = True
        for watcher in self._watchers:
            watcher.wake.set()

    def changed(self, live: Live, what: str) -> None:
        """Record a change of a federation, and tell all watchers."""
        live.last_change, live.changed_at = what, self._clock.now()
        self.publish(live.federation.name)

    def publish(self, name: str) -> None:
        """Tell all watchers that a federation changed."""
        for watcher in self._watchers:
            watcher.changed.add(name)
            watcher.wake.set()

    @contextmanager
    def watch(self) -> Iterator[AsyncIterator[set[str]]]:
        """Names of the federations that change from now on; an empty set now and then as a sign of life."""
        watcher = _Watcher()
        self._watchers.add(watcher)
        try:
            yield self._changes(watcher)
        finally:
            self._watchers.discard(watcher)

    async def _changes(self, watcher: _Watcher) -> AsyncIterator[set[str]]:
        while not self._is_closed:
            try:
                await asyncio.wait_for(watcher.wake.wait(), SILENCE_SECONDS)
            except TimeoutError:
                yield set()
                continue
            watcher.wake.clear()
            changed, watcher.changed = watcher.changed, set()
            yield changed
            await asyncio.sleep(PACE_SECONDS)


class _Watcher:
    def __init__(self) -> None:
        self.changed: set[str] = set()
        self.wake = asyncio.Event()
