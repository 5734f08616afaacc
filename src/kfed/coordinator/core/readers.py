"""`Readers`: single reads from the store, on a few threads; nobody waits for a store that does not answer."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from kfed.coordinator.problems import StoreUnavailableError

Result = TypeVar("Result")

N_THREADS = 8
PATIENCE_SECONDS = 4.0


class Readers:
    """Reads for the event loop.

    A read is given up when no read has succeeded for `PATIENCE_SECONDS`. A long queue that moves is no reason.
    """

    def __init__(self) -> None:
        self._threads = ThreadPoolExecutor(N_THREADS, thread_name_prefix="kfed-reader")
        self._pending: set[asyncio.Future[Any]] = set()
        self._succeeded_at = 0.0

    async def read(self, function: Callable[..., Result], *arguments: Any) -> Result:
        """The result of a function that reads from the store."""
        loop = asyncio.get_running_loop()
        if not self._pending:
            self._succeeded_at = loop.time()
        reading = loop.run_in_executor(self._threads, function, *arguments)
        self._pending.add(reading)
        reading.add_done_callback(self._done)
        while not reading.done():
            seconds_left = self._succeeded_at + PATIENCE_SECONDS - loop.time()
            if seconds_left <= 0:
                reading.cancel()  # one that has begun goes on, and shows when the store answers again
                raise StoreUnavailableError("the database does not answer")
            await asyncio.wait({reading}, timeout=seconds_left)
        return reading.result()

    def close(self) -> None:
        """Begin nothing new."""
        self._threads.shutdown(wait=False, cancel_futures=True)

    def _done(self, reading: asyncio.Future[Any]) -> None:
        self._pending.discard(reading)
        if not reading.cancelled() and reading.exception() is None:
            self._succeeded_at = asyncio.get_running_loop().time()
