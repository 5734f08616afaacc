"""`GuardedProtocol`: HTTP on one connection, within the limits.

What uvicorn lacks: it bounds neither the head of a request nor the time that a client takes to send one or to read an
answer.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from kfed.coordinator import problems
from kfed.coordinator.http.connections import Connection, Connections
from kfed.coordinator.problems import ProblemError

MADE_PROGRESS_BYTES = 2**16
MAX_AHEAD = 8
"""Requests that a client may send ahead of the answers before; each may have a large one."""


class Beginner:
    """Begins TLS or HTTP, on the event loop, on connections that the gate passes on."""

    def __init__(
        self, connections: Connections, tls: ssl.SSLContext | None, make: Callable[..., GuardedProtocol]
    ) -> None:
        self._connections, self._tls, self._make = connections, tls, make
        self._loop = asyncio.get_running_loop()
        self._tasks: set[asyncio.Task[None]] = set()

    def pass_on(self, accepted: socket.socket, connection: Connection) -> None:
        """Begin soon; may be called on any thread."""
        connection.abort = lambda: self._soon(_shut, accepted)
        self._soon(self._begin, accepted, connection)

    def _soon(self, work: Callable[..., object], *arguments: Any) -> None:
        with suppress(RuntimeError):  # the loop has ended
            self._loop.call_soon_threadsafe(work, *arguments)

    def _begin(self, accepted: socket.socket, connection: Connection) -> None:
        task = self._loop.create_task(self._connect(accepted, connection))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _connect(self, accepted: socket.socket, connection: Connection) -> None:
        seconds = None if self._tls is None else self._connections.limits.head_seconds
        protocol = self._make(connection, self._connections)
        try:
            await self._loop.connect_accepted_socket(
                lambda: protocol, accepted, ssl=self._tls, ssl_handshake_timeout=seconds, ssl_shutdown_timeout=seconds
            )
        except BaseException as error:
            self._connections.forget(connection)
            accepted.close()
            if not isinstance(error, OSError):  # a client that does not begin is no error of the coordinator
                raise
        else:
            connection.is_idle = lambda: protocol.is_idle
            connection.abort = lambda: self._soon(protocol.abort)


def _shut(accepted: socket.socket) -> None:
    with suppress(OSError):
        accepted.shutdown(socket.SHUT_RDWR)


class GuardedProtocol(HttpToolsProtocol):
    """HTTP on one connection, within the limits."""

    def __init__(self, connection: Connection, connections: Connections, **uvicorns: Any) -> None:
        super().__init__(**uvicorns)
        self._connection, self._connections, self._limits = connection, connections, connections.limits
        self._in_head, self._in_body = True, False
        self._head_bytes = self._discarded = self._progress = self._n_unsent = 0
        self._since = self._body_since = self._unsent_since = time.monotonic()

    # What uvicorn calls -----------------------------------------------------------------------------------------------

    def connection_lost(self, exc: Exception | None) -> None:
        """End."""
        self._connections.forget(self._connection)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Parse what arrives, and no more of a head than is allowed."""
        while self._in_head and data and not self.transport.is_closing():
            room = self._limits.head_bytes - self._head_bytes
            if self._head_bytes == 0:
                self._since = time.monotonic()
            part, data = data[:room], data[room:]
            self._head_bytes += len(part)
            super().data_received(part)
            if self._in_head and self._head_bytes >= self._limits.head_bytes:
                self._refuse(ProblemError(431, f"a head may have at most {self._limits.head_bytes:,} bytes"))
        if data and not self.transport.is_closing():
            super().data_received(data)

    def on_headers_complete(self) -> None:
        """The head is there."""
        self._in_head, self._in_body = False, True
        self._progress = self._discarded = 0
        self._since = self._body_since = time.monotonic()
        if len(self.pipeline) >= MAX_AHEAD:
            self.abort()
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        """A part of the body is there."""
        self._progress += len(body)
        if self._progress >= MADE_PROGRESS_BYTES:
            self._progress, self._since = 0, time.monotonic()
        if self.cycle is not None and self.cycle.response_complete:
            self._discarded += len(body)
            if self._discarded > self._limits.discarded_bytes:
                self.abort()
        super().on_body(body)

    def on_message_complete(self) -> None:
        """The request is there; the next bytes are another head."""
        self._in_head, self._in_body, self._head_bytes = True, False, 0
        super().on_message_complete()

    # Limits ----------------------------------------------------------------------------------------------------------

    @property
    def is_idle(self) -> bool:
        """Whether it waits for a request, which another connection may do as well."""
        return not self._in_body and not self._is_answering

    @property
    def _is_answering(self) -> bool:
        return self.cycle is not None and not self.cycle.response_complete

    def abort(self) -> None:
        """Close it at once, and stop counting it."""
        self._connections.forget(self._connection)
        if self.transport is not None:
            self.transport.abort()

    def close_if_late(self, now: float) -> None:
        """Close it if the client has taken too long to send a head or a body, or to read an answer."""
        n_unsent = self.transport.get_write_buffer_size()
        if n_unsent == 0 or n_unsent < self._n_unsent:
            self._unsent_since = now
        self._n_unsent = n_unsent
        if now - self._unsent_since > self._limits.unread_seconds:
            self.abort()
        elif self._is_late(now):
            self._refuse(ProblemError(408, "the request took too long to arrive; send it again", {"Retry-After": "1"}))

    def _is_late(self, now: float) -> bool:
        limits = self._limits
        if self._in_body:
            return now - self._since > limits.body_seconds or now - self._body_since > limits.whole_body_seconds
        # between requests, uvicorn's own timer closes the connection after `idle_seconds`
        begun = self._head_bytes > 0 or self.cycle is None
        return begun and not self._is_answering and now - self._since > limits.head_seconds

    def _refuse(self, problem: ProblemError) -> None:
        """Answer without the application, unless it has begun to answer, and close."""
        if self.transport.is_closing() or (self._is_answering and self.cycle.response_started):
            self.abort()
            return
        body = problem.to_bytes()
        headers = {"content-type": problems.MEDIA_TYPE, "content-length": len(body), **problem.headers}
        lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
        head = f"HTTP/1.1 {problem.status} \r\n{lines}connection: close\r\n\r\n"
        with suppress(OSError):
            self.transport.write(head.encode() + body)
        self.transport.close()
