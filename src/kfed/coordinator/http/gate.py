"""`Gate`: accepts connections on its own thread, answers health checks there, and passes on connections that send more.

Whatever keeps the event loop busy, a health check waits for none of it; and a connection that says nothing costs a
socket and no more. A health check fails if the event loop has not turned for long: then the coordinator hangs.
"""

from __future__ import annotations

import logging
import selectors
import socket
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

from kfed.coordinator.http.connections import Connection, Connections
from kfed.coordinator.http.wrong_tokens import network_of

log = logging.getLogger("kfed.coordinator")

BACKLOG = 2048
HEALTH = (b"GET /healthz HTTP/1.1\r\n", b"GET /healthz HTTP/1.0\r\n")
HANGS_SECONDS = 30.0


@dataclass(eq=False)
class _Silent:
    """A connection that has said nothing yet."""

    accepted: socket.socket
    connection: Connection
    until: float


class Gate:
    """The thread; uvicorn takes it for a server of asyncio.

    Parameters
    ----------
    pass_on : function
        Takes a socket that has something to read, and its connection; called on this thread.
    """

    def __init__(
        self, listening: socket.socket, connections: Connections, pass_on: Callable[[socket.socket, Connection], None]
    ) -> None:
        self._listening, self._connections, self._pass_on = listening, connections, pass_on
        self._selector = selectors.DefaultSelector()
        self._silent: dict[_Silent, None] = {}
        self._is_closed = False
        self._turned_at = time.monotonic()
        listening.setblocking(False)
        listening.listen(BACKLOG)
        self._selector.register(listening, selectors.EVENT_READ)
        self._thread = threading.Thread(target=self._run, name="kfed-gate", daemon=True)
        self._thread.start()

    def beat(self) -> None:
        """Note that the event loop is running."""
        self._turned_at = time.monotonic()

    def close(self) -> None:
        """Accept no more connections."""
        self._is_closed = True
        self._thread.join()

    async def wait_closed(self) -> None:
        """Nothing is left to wait for."""

    def _run(self) -> None:
        while not self._is_closed:
            try:
                self._turn()
            except Exception:  # whatever happens to one connection, the next one is accepted
                log.exception("a connection could not be accepted")
                time.sleep(0.01)
        for one in list(self._silent):
            self._drop(one)
        self._selector.close()

    def _turn(self) -> None:
        for key, _ in self._selector.select(0.1):
            if key.data is None:
                self._accept()
            else:
                self._hear(key.data)
        self._end_late()

    def _accept(self) -> None:
        try:
            accepted, peer = self._listening.accept()
        except BlockingIOError:
            return
        except OSError:  # the peer has gone already, or no more files can be opened
            time.sleep(0.01)
            return
        accepted.setblocking(False)
        silent = _Silent(accepted, Connection(network_of(str(peer[0])), lambda: self._drop(silent)), 0.0)
        silent.until = time.monotonic() + self._connections.limits.head_seconds
        if not self._connections.admit(silent.connection):
            accepted.close()
            return
        self._silent[silent] = None
        self._selector.register(accepted, selectors.EVENT_READ, silent)

    def _hear(self, silent: _Silent) -> None:
        """Answer a health check, pass on everything else."""
        if silent not in self._silent:
            return  # it made room for another one in this very round
        try:
            begun = silent.accepted.recv(4096, socket.MSG_PEEK)
        except OSError:
            begun = b""
        if not begun:
            self._end(silent)
        elif begun.startswith(HEALTH) and begun.endswith(b"\r\n\r\n"):
            with suppress(OSError):
                silent.accepted.recv(4096)
                silent.accepted.send(self._health())
            self._end(silent)
        else:
            self._forget(silent)
            self._pass_on(silent.accepted, silent.connection)

    def _health(self) -> bytes:
        hangs = time.monotonic() - self._turned_at > HANGS_SECONDS
        status, body = (b"503 Service Unavailable", b"hangs") if hangs else (b"200 OK", b"ok")
        body = b'{"status":"' + body + b'"}'
        head = b"HTTP/1.1 %s\r\ncontent-type: application/json\r\ncontent-length: %d\r\n" % (status, len(body))
        return head + b"cache-control: no-store\r\nconnection: close\r\n\r\n" + body

    def _end_late(self) -> None:
        """Close connections that have said nothing for too long; they stand in the order in which they came."""
        now = time.monotonic()
        while self._silent and (first := next(iter(self._silent))).until < now:
            self._end(first)

    def _end(self, silent: _Silent) -> None:
        self._connections.forget(silent.connection)
        self._drop(silent)

    def _drop(self, silent: _Silent) -> None:
        self._forget(silent)
        silent.accepted.close()

    def _forget(self, silent: _Silent) -> None:
        if self._silent.pop(silent, self) is None:
            self._selector.unregister(silent.accepted)
