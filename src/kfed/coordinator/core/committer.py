"""`Committer`: the one writer, which puts devices that come or leave on disk, and makes all other changes to a store.

Devices that come or leave together are committed together; a receipt means "on disk". A commit costs one flush of the
disk, whether it holds one message or five hundred. Messages that arrive during a commit share the next one, so under
load each message costs less.

Nobody waits for a write that takes longer than `PATIENCE_SECONDS`, though the thread that makes it has to. Changes that
wait behind it are given up, and never made; those on their way are in doubt.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, TypeVar

from kfed.coordinator.problems import ProblemError, StoreUnavailableError
from kfed.coordinator.store import Arrival, Departure, Device, Receipt, Store

Result = TypeVar("Result")

MAX_BATCH = 512
PAUSE_SECONDS = 0.002
PATIENCE_SECONDS = 4.0
SILENCE = "it does not answer"


@dataclass(frozen=True)
class _Task:
    """A change to make, and the future of whoever waits for it."""

    work: Arrival | Departure | Callable[[], Any]
    future: asyncio.Future[Any]

    def fail(self, problem: Exception) -> None:
        """Answer with an error, unless whoever asked has gone."""
        if not self.future.done():
            self.future.set_exception(problem)


class Committer:
    """Makes changes to a store in the order they were submitted, on a thread of its own."""

    def __init__(self, store: Store, observe: Callable[[int], None] = lambda _: None) -> None:
        self._store = store
        self._observe = observe
        self._loop = asyncio.get_running_loop()
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="kfed-committer")
        self._waiting: deque[_Task] = deque()
        self._under_way: asyncio.Task[None] | None = None
        self._is_stuck = False

    async def put(self, arrival: Arrival) -> Receipt:
        """Write a message; returns when it is on disk."""
        receipt: Receipt = await self._submit(arrival)
        return receipt

    async def remove(self, departure: Departure) -> Device | None:
        """Remove a device; returns when that is on disk."""
        device: Device | None = await self._submit(departure)
        return device

    async def change(self, function: Callable[..., Result], *arguments: Any) -> Result:
        """Make another change to the store; returns when it is on disk."""
        result: Result = await self._submit(lambda: function(*arguments))
        return result

    async def close(self) -> None:
        """Make all submitted changes, and end the thread."""
        if self._under_way is not None:
            await self._under_way
        self._thread.shutdown()

    def _submit(self, work: Arrival | Departure | Callable[[], Any]) -> asyncio.Future[Any]:
        task = _Task(work, self._loop.create_future())
        self._waiting.append(task)
        if self._is_stuck:
            self._give_up_waiting()
        if self._under_way is None:
            self._under_way = self._loop.create_task(self._commit_all())
        return task.future

    async def _commit_all(self) -> None:
        """Commit until nothing waits; after a commit of several messages, pause for more to arrive."""
        while group := _first_group(self._waiting):
            timer = self._loop.call_later(PATIENCE_SECONDS, self._give_up, group)
            answers = await self._loop.run_in_executor(self._thread, self._write, group)
            timer.cancel()
            self._is_stuck = False
            _answer(group, answers)
            if len(group) > 1:
                await asyncio.sleep(PAUSE_SECONDS)
        self._under_way = None

    def _give_up(self, group: Sequence[_Task]) -> None:
        """Answer those whose changes are on their way, and those that wait behind them."""
        self._is_stuck = True
        self._store.doubt()
        for task in group:
            task.fail(StoreUnavailableError(SILENCE, may_be_kept=True))
        self._give_up_waiting()

    def _give_up_waiting(self) -> None:
        while self._waiting:
            self._waiting.popleft().fail(StoreUnavailableError(SILENCE))

    def _write(self, group: Sequence[_Task]) -> list[Any]:
        """Make the changes in one transaction; an error is the answer to all of them."""
        try:
            first = group[0].work
            if callable(first):
                return [first()]
            self._observe(len(group))
            return self._store.change_devices([task.work for task in group if not callable(task.work)])
        except ProblemError as problem:
            return [problem] * len(group)
        except Exception as error:  # the writer must survive any error
            return [StoreUnavailableError(type(error).__name__)] * len(group)


def _first_group(waiting: deque[_Task]) -> list[_Task]:
    """Take the first arrivals and departures in a row, or one other change; whoever has gone is passed over."""
    group: list[_Task] = []
    while waiting and len(group) < MAX_BATCH and (not group or _are_of_devices(group[-1], waiting[0])):
        task = waiting.popleft()
        if not task.future.done():
            group.append(task)
    return group


def _are_of_devices(*tasks: _Task) -> bool:
    return not any(callable(task.work) for task in tasks)


def _answer(group: Sequence[_Task], answers: Sequence[Any]) -> None:
    for task, answer in zip(group, answers, strict=True):
        if task.future.done():  # whoever asked has gone
            continue
        if isinstance(answer, Exception):
            task.future.set_exception(answer)
        else:
            task.future.set_result(answer)
