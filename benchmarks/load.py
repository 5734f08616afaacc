"""Many devices at once against a coordinator: requests over a number of open connections, and how long each took."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np

Result = TypeVar("Result")

CLOSED, MOST_TRIES = 0, 3


@dataclass(frozen=True)
class Load:
    """What came of a number of requests.

    Attributes
    ----------
    statuses : dict of int to int
        How many answers had each status; `CLOSED` is a connection that was closed without one.
    seconds : float
        From the first request to the last answer.
    latencies : sequence of float
        Seconds that each request waited for its answer, in the order of requests, counted from when it was due.
    """

    statuses: dict[int, int]
    seconds: float
    latencies: list[float]

    def percentile(self, share: float) -> float:
        """Milliseconds in which this percentage of requests was answered."""
        return float(np.percentile(self.latencies, share)) * 1e3

    @property
    def rate(self) -> float:
        """Answers a second."""
        return len(self.latencies) / self.seconds


def request(method: str, path: str, headers: dict[str, str], body: bytes = b"") -> bytes:
    """A request as it goes over the wire."""
    lines = [f"{method} {path} HTTP/1.1", "Host: 127.0.0.1", f"Content-Length: {len(body)}"]
    lines += [f"{name}: {value}" for name, value in headers.items()]
    return "\r\n".join([*lines, "", ""]).encode() + body


def send(port: int, requests: Sequence[bytes], n_connections: int, rate: float | None = None) -> Load:
    """Send all requests, as fast as they are answered or so many a second.

    Parameters
    ----------
    port : int
        Of a coordinator on this machine.
    requests : sequence of bytes
        See `request`.
    n_connections : int
        Requests that may be under way at once.
    rate : float, optional
        Requests that come due a second, whether or not those before them were answered.
    """
    return _run(lambda: _send(port, requests, n_connections, rate))


def _run(work: Callable[[], asyncio.Future[Result] | object]) -> Load:
    try:
        import uvloop

        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            return runner.run(work())  # type: ignore[arg-type]
    except ImportError:
        return asyncio.run(work())  # type: ignore[arg-type]


async def _send(port: int, requests: Sequence[bytes], n_connections: int, rate: float | None) -> Load:
    found = Load({}, 0.0, [0.0] * len(requests))
    started = time.perf_counter()
    queue = enumerate(requests)
    async with asyncio.TaskGroup() as group:
        for _ in range(n_connections):
            group.create_task(_connection(port, queue, started, rate, found))
    return replace(found, seconds=time.perf_counter() - started)


async def _connection(
    port: int, queue: Iterator[tuple[int, bytes]], started: float, rate: float | None, found: Load
) -> None:
    """One device after the other, over one connection; one that is closed is opened again, as devices do."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    for number, request in queue:
        due = time.perf_counter() if rate is None else started + number / rate
        await asyncio.sleep(max(0.0, due - time.perf_counter()))
        for _ in range(MOST_TRIES):
            try:
                status, is_open = await _answer(reader, writer, request)
            except (asyncio.IncompleteReadError, ConnectionError):
                status, is_open = CLOSED, False
                found.statuses[CLOSED] = found.statuses.get(CLOSED, 0) + 1
            if not is_open:
                writer.close()
                reader, writer = await asyncio.open_connection("127.0.0.1", port)
            if status != CLOSED:
                break
        found.latencies[number] = time.perf_counter() - due
        found.statuses[status] = found.statuses.get(status, 0) + 1
    writer.close()


async def _answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, request: bytes) -> tuple[int, bool]:
    """The status of the answer, and whether the connection stays open after it."""
    writer.write(request)
    head = (await reader.readuntil(b"\r\n\r\n")).lower()
    await reader.readexactly(int(head.partition(b"content-length: ")[2].split(b"\r\n", 1)[0]))
    return int(head[9:12]), b"\r\nconnection: close\r\n" not in head
