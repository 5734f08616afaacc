"""The one writer: messages that wait together are committed together, and an acknowledgement means "on disk".

A commit costs a flush of the disk, whether it holds one message or five hundred. While one is under way others
gather, so the more there is to do the cheaper each becomes.
"""

from __future__ import annotations

import asyncio
import queue
import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from kfed.coordinator.problems import ProblemError, StoreUnavailableError
from kfed.coordinator.store import Arrival, Receipt, Store

Result = TypeVar("Result")

MAX_BATCH = 512


@dataclass(frozen=True)
class _Task:
    """Something to write, and who waits for it."""

    work: Arrival | Callable[[], Any]
    future: asyncio.Future[Any]


class Committer:
    """A thread that makes all changes to a store, in the order they were asked for."""

    def __init__(self, store: Store, observe: Callable[[int], None] = lambda _: None) -> None:
        self._store = store
        self._observe = observe
        self._tasks: queue.SimpleQueue[_Task | None] = queue.SimpleQueue()
        self._loop = asyncio.get_running_loop()
        self._thread = threading.Thread(target=self._run, name="kfed-committer", daemon=True)
        self._thread.start()

    async def put(self, arrival: Arrival) -> Receipt:
        """Write a message; returns when it is on disk."""
        receipt: Receipt = await self._submit(arrival)
        return receipt

    async def change(self, function: Callable[..., Result], *arguments: Any) -> Result:
        """Make another change to the store; returns when it is on disk."""
        result: Result = await self._submit(lambda: function(*arguments))
        return result

    async def close(self) -> None:
        """Finish what was asked for, and end."""
        self._tasks.put(None)
        await asyncio.to_thread(self._thread.join)

    async def _submit(self, work: Arrival | Callable[[], Any]) -> Any:
        future = self._loop.create_future()
        self._tasks.put(_Task(work, future))
        return await future

    def _run(self) -> None:
        is_open = True
        while is_open:
            batch = self._waiting()
            is_open = None not in batch
            for group in _groups([task for task in batch if task is not None]):
                answers = self._write(group)
                self._loop.call_soon_threadsafe(_answer, group, answers)

    def _waiting(self) -> list[_Task | None]:
        """All that waits, up to a limit; at least one."""
        batch = [self._tasks.get()]
        while len(batch) < MAX_BATCH and not self._tasks.empty():
            batch.append(self._tasks.get())
        return batch

    def _write(self, group: Sequence[_Task]) -> list[Any]:
        """One transaction; what goes wrong with it goes wrong for all in it."""
        try:
            first = group[0].work
            if not isinstance(first, Arrival):
                return [first()]
            self._observe(len(group))
            return list(self._store.put([task.work for task in group if isinstance(task.work, Arrival)]))
        except ProblemError as problem:
            return [problem] * len(group)
        except Exception as error:  # the writer must go on, whatever it was
            return [StoreUnavailableError(type(error).__name__)] * len(group)


def _groups(tasks: Iterable[_Task]) -> list[list[_Task]]:
    """Arrivals that follow each other together, every other change alone."""
    groups: list[list[_Task]] = []
    for task in tasks:
        is_arrival = isinstance(task.work, Arrival)
        if is_arrival and groups and isinstance(groups[-1][0].work, Arrival):
            groups[-1].append(task)
        else:
            groups.append([task])
    return groups


def _answer(group: Sequence[_Task], answers: Sequence[Any]) -> None:
    for task, answer in zip(group, answers, strict=True):
        if task.future.done():  # whoever asked has gone
            continue
        if isinstance(answer, Exception):
            task.future.set_exception(answer)
        else:
            task.future.set_result(answer)
