"""What becomes of a message that arrives: it is checked, and `Committer`, the one writer, puts it on disk.

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

from kfed.coordinator.core.clusters import Clusters
from kfed.coordinator.federation import Admission, Federation, check_message, names_to_keep
from kfed.coordinator.problems import ProblemError, StoreUnavailableError
from kfed.coordinator.security import hashed
from kfed.coordinator.store import Arrival, Departure, Device, Receipt, Store
from kfed.errors import InvalidInputError, MessageError
from kfed.wire import DeviceMessage

Result = TypeVar("Result")

MAX_BATCH = 512
PAUSE_SECONDS = 0.002
PATIENCE_SECONDS = 4.0
SILENCE = "it does not answer"

REFUSALS = {
    Admission.CONFLICT: (409, "this device has sent another message before; to replace it, use kfed join --replace"),
    Admission.NO_RIGHT: (
        403,
        "only the device itself may replace its message; send the device secret that came with the first message",
    ),
    Admission.CLOSED: (409, "this federation is closed to new devices"),
    Admission.FULL: (409, "this federation is full; ask its administrator"),
    Admission.OTHER_FEATURES: (422, "this message has other features than this federation"),
    Admission.NOT_INVITED: (
        403,
        "this device joins by its own invitation, which works once; ask the administrator for one",
    ),
    Admission.GONE: (404, "this federation was deleted"),
}


@dataclass(frozen=True)
class Proofs:
    """What a device sends beside its message.

    Attributes
    ----------
    secret : str, optional
        Its device secret.
    replace : bool
        Whether the message replaces the one before.
    invitation : str, optional
        The token of its invitation, if it came by one and not by the join token.
    """

    secret: str | None = None
    replace: bool = False
    invitation: str | None = None


@dataclass(frozen=True)
class Accepted:
    """A message that is on disk."""

    message: DeviceMessage
    receipt: Receipt


def read_message(
    federation: Federation, device_id: str, payload: bytes, clusters: Clusters | None = None
) -> DeviceMessage:
    """Read the message of a device. Raises unless it may send this to this federation, which may have clusters."""
    try:
        message = DeviceMessage.from_bytes(payload)
        check_message(federation, device_id, message)
        if clusters is not None and device_id not in clusters:  # it comes late
            clusters.schema.check_same(message.schema, f"federation {federation.name}", repr(device_id))
    except (MessageError, InvalidInputError) as error:
        raise ProblemError(422, str(error)) from error
    return message


def arrival_of(federation: Federation, message: DeviceMessage, proofs: Proofs, now: float) -> Arrival:
    """A message on its way into the store, encoded again by kfed, whatever bytes the sender used."""
    return Arrival(
        federation=federation,
        device_id=message.device_id,
        message=message.to_bytes(),
        secret=proofs.secret,
        secret_hash=None if proofs.secret is None else hashed(proofs.secret),
        replace=proofs.replace,
        invitation=proofs.invitation,
        n_centers=message.n_local_clusters,
        n_points=message.n_points,
        is_double=message.centers.dtype.itemsize == 8,
        received_at=now,
        feature_names=names_to_keep(federation, message),
        table=None if federation.schema.columns or not message.schema.columns else message.schema,
    )


def check_admission(receipt: Receipt, federation: Federation, message: DeviceMessage) -> None:
    """Raise the reason why a message was not kept; that of other features says which ones differ."""
    if receipt.reason:
        raise ProblemError(422, receipt.reason)
    if receipt.admission is Admission.OTHER_FEATURES:
        read_message(federation, message.device_id, message.to_bytes())
    if not receipt.admission.is_kept:
        raise ProblemError(*REFUSALS[receipt.admission])


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
