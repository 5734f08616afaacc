"""`Connections`: how many there may be, in all and of one address; and `Limits` of what each may do."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass


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


class Connection:
    """One connection, from when it is accepted until it is closed.

    Attributes
    ----------
    address : str
        Where it comes from.
    is_idle : function
        Whether it waits for a request, which another connection may do as well.
    abort : function
        Closes it at once; may be called on any thread.
    """

    def __init__(self, address: str, abort: Callable[[], None]) -> None:
        self.address = address
        self.is_idle: Callable[[], bool] = lambda: True
        self.abort = abort


class Connections:
    """All connections of a server, by the address they come from, oldest first; for several threads."""

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self._of_address: dict[str, dict[Connection, None]] = {}
        self._n_connections = 0
        self._lock = threading.Lock()

    def admit(self, connection: Connection) -> bool:
        """Count a connection, after closing an idle one if there are too many; returns whether there is room."""
        with self._lock:
            own = self._of_address.get(connection.address, {})
            if len(own) >= self.limits.per_address and not self._evict(own):
                return False
            if self._n_connections >= self.limits.connections and not self._evict(self._largest()):
                return False
            self._of_address.setdefault(connection.address, {})[connection] = None
            self._n_connections += 1
            return True

    def forget(self, connection: Connection) -> None:
        """Stop counting a connection."""
        with self._lock:
            self._forget(connection)

    def _forget(self, connection: Connection) -> None:
        own = self._of_address.get(connection.address, {})
        if connection in own:
            del own[connection]
            self._n_connections -= 1
            if not own:
                del self._of_address[connection.address]

    def _largest(self) -> dict[Connection, None]:
        return max(self._of_address.values(), key=len, default={})

    def _evict(self, connections: dict[Connection, None]) -> bool:
        for connection in connections:
            if connection.is_idle():
                self._forget(connection)
                connection.abort()
                return True
        return False
