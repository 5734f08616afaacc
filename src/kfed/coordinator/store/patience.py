"""How long PostgreSQL may be silent before a connection to it is given up.

A server that is frozen keeps its connections open and answers nothing, and neither TCP nor its own timeouts notice:
libpq would wait forever. So the client limits each wait itself, by ending the connection that it waits on.
"""

from __future__ import annotations

import os
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import psycopg
from sqlalchemy import Connection

CONNECT_SECONDS = 2
LOCK_SECONDS = 2
ANSWER_SECONDS = 2.5
LONG_ANSWER_SECONDS = 60.0
CHECK_SECONDS = 0.25

CONNECT_ARGUMENTS = {
    "connect_timeout": CONNECT_SECONDS,
    "tcp_user_timeout": int(1000 * ANSWER_SECONDS),
    "keepalives_idle": 10,
    "keepalives_interval": 3,
    "keepalives_count": 3,
}


class ImpatientConnection(psycopg.Connection[Any]):
    """A connection that ends if the server is silent for longer than `patience` seconds."""

    patience = ANSWER_SECONDS

    def wait(self, *arguments: Any, **options: Any) -> Any:
        """Wait for the server; every call to it comes through here."""
        with _watchdog.limiting(self.pgconn.socket, self.patience):
            return super().wait(*arguments, **options)


def set_up(connection: psycopg.Connection[Any]) -> None:
    """Limit, on the server too, how long statements wait for locks and run."""
    connection.autocommit = True
    connection.execute(f"SET lock_timeout = '{LOCK_SECONDS}s'")
    connection.execute(f"SET statement_timeout = '{LONG_ANSWER_SECONDS:.0f}s'")
    connection.autocommit = False


def set_patience(connection: Connection, seconds: float) -> None:
    """Change how long answers may take."""
    wrapped = connection.connection.driver_connection
    assert isinstance(wrapped, ImpatientConnection)
    wrapped.patience = seconds


class _Watchdog:
    """Shuts down sockets that are waited on for too long, on a thread that starts with the first of them."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waiting: dict[int, tuple[float, int]] = {}
        self._thread: threading.Thread | None = None

    @contextmanager
    def limiting(self, fileno: int, seconds: float) -> Iterator[None]:
        me = threading.get_ident()
        with self._lock:
            self._waiting[me] = time.monotonic() + seconds, fileno
            if self._thread is None:
                self._thread = threading.Thread(target=self._watch, name="kfed-watchdog", daemon=True)
                self._thread.start()
        try:
            yield
        finally:
            with self._lock:
                self._waiting.pop(me, None)

    def _watch(self) -> None:
        while True:
            time.sleep(CHECK_SECONDS)
            with self._lock:  # so that no wait ends, and its number goes to another socket, before the shutdown
                now = time.monotonic()
                for me, (deadline, fileno) in list(self._waiting.items()):
                    if now > deadline:
                        _shut_down(fileno)
                        del self._waiting[me]


def _shut_down(fileno: int) -> None:
    """End a connection for both sides, and leave the file descriptor to its owner."""
    with suppress(OSError), socket.socket(fileno=os.dup(fileno)) as copy:
        copy.shutdown(socket.SHUT_RDWR)


_watchdog = _Watchdog()
