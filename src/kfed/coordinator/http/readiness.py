"""`Readiness`: whether the store can be written now, which is tested at most once a second."""

from __future__ import annotations

import asyncio
import time
from concurrent.futures import ThreadPoolExecutor

from kfed.coordinator.problems import ProblemError
from kfed.coordinator.store import Store

ANSWER_SECONDS = 4.0
FRESH_SECONDS = 1.0


class Readiness:
    """Tests the store on its own thread; only those who ask wait, and all of them share one test."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="kfed-readiness")
        self._test: asyncio.Future[None] | None = None
        self._written_at = -FRESH_SECONDS

    async def check(self) -> None:
        """Raise a problem 503 if the store was lost, cannot be written, or does not answer in time."""
        if self._test is None or self._test.done():
            self._test = asyncio.get_running_loop().run_in_executor(self._thread, self._write)
        try:
            await asyncio.wait_for(asyncio.shield(self._test), ANSWER_SECONDS)
        except TimeoutError:
            raise _not_ready(f"the store did not answer within {ANSWER_SECONDS:g} seconds") from None
        except ProblemError as error:
            raise _not_ready(error.detail) from error

    def close(self) -> None:
        """End the thread when its test has ended."""
        self._thread.shutdown(wait=False, cancel_futures=True)

    def _write(self) -> None:
        self._store.check()
        if time.monotonic() - self._written_at >= FRESH_SECONDS:
            self._store.set_key("readiness", b"")
            self._written_at = time.monotonic()


def _not_ready(reason: str) -> ProblemError:
    return ProblemError(503, f"not ready: {reason}", {"Retry-After": "2"})
