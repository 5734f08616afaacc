"""`Turns`: one piece of work at a time, in the order asked for; the same work is not done twice in a row."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Hashable
from typing import Any


class Turns:
    """A queue on the event loop. Whoever asks for work that waits already shares its result."""

    def __init__(self) -> None:
        self._turn = asyncio.Lock()
        self._waiting: dict[Hashable, asyncio.Task[Any]] = {}
        self._tasks: set[asyncio.Task[Any]] = set()

    async def take(self, key: Hashable, work: Callable[[], Coroutine[Any, Any, Any]]) -> Any:
        """Run `work` after everything asked for before, unless work with the same key has yet to begin."""
        if key not in self._waiting:
            task = self._waiting[key] = asyncio.get_running_loop().create_task(self._run(key, work))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        return await asyncio.shield(self._waiting[key])

    @property
    def are_idle(self) -> bool:
        """Whether no work is under way, and none waits."""
        return not self._tasks

    async def _run(self, key: Hashable, work: Callable[[], Coroutine[Any, Any, Any]]) -> Any:
        async with self._turn:
            del self._waiting[key]
            return await work()

    def close(self) -> None:
        """Cancel whatever has not ended."""
        for task in self._tasks:
            task.cancel()
