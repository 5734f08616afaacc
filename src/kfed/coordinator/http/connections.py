"""`Connections`: how many there may be, in all and of one address, and how long each may keep the coordinator waiting.

What uvicorn lacks: it bounds neither the head of a request nor the time that a client takes to send one, and it counts
connections only when a request is complete. Here a connection is counted when it is accepted, before TLS.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from kfed.coordinator import problems
from kfed.coordinator.http.wrong_tokens import network_of
from kfed.coordinator.problems import ProblemError

BACKLOG = 2048
MADE_PROGRESS_BYTES = 2**16


@dataclass(frozen=True)
class Limits:
    """What one visitor may take up.

    Attributes
    ----------
    connections, per_address : int
        Most connections in all, and of one address; one that is idle makes room for a new one.
    head_bytes, head_seconds : int, float
        Largest request line with its headers, and how long it may take to arrive.
    body_seconds : float
        How long 64 KiB of a body, or its end, may take to arrive.
    whole_body_seconds : float
        How long a whole body may take.
    idle_seconds : float
        How long a connection may wait for its next request.
    unread_seconds : float
        How long a client may leave an answer unread.
    discarded_bytes : int
        How much may be sent to a request that was answered already.
    """

    connections: int = 2_000
    per_address: int = 256
    head_bytes: int = 2**15
    head_seconds: float = 10.0
    body_seconds: float = 20.0
    whole_body_seconds: float = 300.0
    idle_seconds: float = 5.0
    unread_seconds: float = 30.0
    discarded_bytes: int = 2**25


class Connections:
    """All connections of a server, by the address they come from, oldest first."""

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self._of_address: dict[str, dict[GuardedProtocol, None]] = {}
        self._n_connections = 0

    def admit(self, connection: GuardedProtocol) -> bool:
        """Count a connection, after closing an idle one if there are too many; returns whether there is room."""
        own = self._of_address.get(connection.address, {})
        if len(own) >= self.limits.per_address and not self._evict(own):
            return False
        if self._n_connections >= self.limits.connections and not self._evict(self._largest()):
            return False
        self._of_address.setdefault(connection.address, {})[connection] = None
        self._n_connections += 1
        return True

    def forget(self, connection: GuardedProtocol) -> None:
        """Count a connection no more."""
        own = self._of_address.get(connection.address, {})
        if connection in own:
            del own[connection]
            self._n_connections -= 1
            if not own:
                del self._of_address[connection.address]

    def sweep(self) -> None:
        """Close connections that have kept the coordinator waiting for too long."""
        now = time.monotonic()
        for own in list(self._of_address.values()):
            for connection in list(own):
                connection.close_if_late(now)

    def _largest(self) -> dict[GuardedProtocol, None]:
        return max(self._of_address.values(), key=len, default={})

    def _evict(self, connections: dict[GuardedProtocol, None]) -> bool:
        for connection in connections:
            if connection.is_idle:
                connection.abort()
                return True
        return False


class Acceptor:
    """Accepts connections, counts them, and begins TLS or HTTP on them; uvicorn takes it for a server of asyncio."""

    def __init__(
        self,
        connections: Connections,
        listening: socket.socket,
        tls: ssl.SSLContext | None,
        make: Callable[..., GuardedProtocol],
    ) -> None:
        self._connections, self._listening, self._tls, self._make = connections, listening, tls, make
        self._loop = asyncio.get_running_loop()
        self._beginning: set[asyncio.Task[None]] = set()
        self._accepting = self._loop.create_task(self._accept())

    def close(self) -> None:
        """Accept no more."""
        for task in (self._accepting, *self._beginning):
            task.cancel()

    async def wait_closed(self) -> None:
        """Wait until none is being accepted."""
        await asyncio.gather(self._accepting, *self._beginning, return_exceptions=True)

    async def _accept(self) -> None:
        self._listening.setblocking(False)
        self._listening.listen(BACKLOG)
        while True:
            try:
                accepted, peer = await self._loop.sock_accept(self._listening)
            except OSError:  # the peer has gone already, or no more files can be opened
                await asyncio.sleep(0.05)
                continue
            protocol = self._make(self._connections, network_of(str(peer[0])))
            if self._connections.admit(protocol):
                protocol.beginning = self._loop.create_task(self._begin(accepted, protocol))
                self._beginning.add(protocol.beginning)
                protocol.beginning.add_done_callback(self._beginning.discard)
            else:
                accepted.close()

    async def _begin(self, accepted: socket.socket, protocol: GuardedProtocol) -> None:
        seconds = None if self._tls is None else self._connections.limits.head_seconds
        try:
            await self._loop.connect_accepted_socket(
                lambda: protocol, accepted, ssl=self._tls, ssl_handshake_timeout=seconds, ssl_shutdown_timeout=seconds
            )
        except (OSError, asyncio.CancelledError):  # a client that does not begin is no error of the coordinator
            self._connections.forget(protocol)
            accepted.close()


class GuardedProtocol(HttpToolsProtocol):
    """HTTP on one connection, within the limits."""

    def __init__(self, connections: Connections, address: str, **uvicorns: Any) -> None:
        super().__init__(**uvicorns)
        self.address = address
        self.beginning: asyncio.Task[None] | None = None
        self._connections, self._limits = connections, connections.limits
        self._in_head, self._in_body = True, False
        self._head_bytes = self._discarded = self._progress = self._n_unsent = 0
        self._since = self._body_since = self._unsent_since = time.monotonic()

    # What uvicorn calls -----------------------------------------------------------------------------------------------

    def connection_lost(self, exc: Exception | None) -> None:
        """End."""
        self._connections.forget(self)
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
        """Close it at once, and count it no more."""
        self._connections.forget(self)
        if self.transport is not None:
            self.transport.abort()
        elif self.beginning is not None:
            self.beginning.cancel()

    def close_if_late(self, now: float) -> None:
        """Close it if the client has taken too long to send a head or a body, or to read an answer."""
        if self.transport is None:
            return
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
