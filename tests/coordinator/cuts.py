"""A proxy before PostgreSQL that cuts a connection at its next COMMIT: before the server gets it, or after it did."""

import socket
import threading
from contextlib import suppress


class CuttingProxy:
    """Passes bytes on until told to cut; `n_cuts` counts the connections that it has cut."""

    def __init__(self, port):
        self._target = ("127.0.0.1", port)
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port = self._listening.getsockname()[1]
        self._lock = threading.Lock()
        self._cut = None
        self.n_cuts = 0
        self._sockets = []
        threading.Thread(target=self._accept, daemon=True).start()

    def cut_next_commit(self, *, after):
        """Cut the connection that sends the next COMMIT, after the server has carried it out or before it gets it."""
        self._cut = "after" if after else "before"

    def close(self):
        self._listening.close()
        for one in self._sockets:
            _end(one)

    def _accept(self):
        with suppress(OSError):
            while True:
                client = self._listening.accept()[0]
                server = socket.create_connection(self._target)
                self._sockets += [client, server]
                pair = _Pair(client, server)
                threading.Thread(target=self._upstream, args=(pair,), daemon=True).start()
                threading.Thread(target=self._downstream, args=(pair,), daemon=True).start()

    def _upstream(self, pair):
        with suppress(OSError):
            while data := pair.client.recv(65536):
                with self._lock:
                    cut, self._cut = (self._cut, None) if b"COMMIT\x00" in data else (None, self._cut)
                if cut is not None:
                    self.n_cuts += 1
                    pair.is_mute = True
                if cut == "before":
                    break
                pair.server.sendall(data)
        if not pair.is_mute or cut == "before":
            pair.end()

    def _downstream(self, pair):
        with suppress(OSError):
            while data := pair.server.recv(65536):
                if pair.is_mute:  # the server has answered the COMMIT
                    break
                pair.client.sendall(data)
        pair.end()


class _Pair:
    def __init__(self, client, server):
        self.client, self.server, self.is_mute = client, server, False

    def end(self):
        _end(self.client)
        _end(self.server)


def _end(one):
    with suppress(OSError):
        one.shutdown(socket.SHUT_RDWR)
    one.close()
