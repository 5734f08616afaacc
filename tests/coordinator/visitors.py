"""Visitors who mean harm: connections that say too much, too little or nothing; and somebody who watches the health."""

import json
import socket
import subprocess
import sys
import time
from contextlib import ExitStack, contextmanager
from pathlib import Path

HEALTHY_SECONDS = 0.2


WATCH = """
import json, socket, sys, time
ports, seconds, faults = [int(port) for port in sys.argv[1:]], ([], []), []
request = b"GET /healthz HTTP/1.1\\r\\nHost: 127.0.0.1\\r\\nConnection: close\\r\\n\\r\\n"
print("watching", flush=True)
import select
while not select.select([sys.stdin], [], [], 0.02)[0]:
    for port, own in zip(ports, seconds):
        begun = time.perf_counter()
        try:
            with socket.create_connection(("127.0.0.1", port), timeout=10) as connection:
                connection.sendall(request)
                said = connection.recv(1000)
            if not said.startswith(b"HTTP/1.1 200"):
                faults.append(repr(said[:50]))
        except OSError as error:
            faults.append(str(error))
        own.append(time.perf_counter() - begun)
print(json.dumps([*seconds, faults]))
"""

BYSTANDER = """
import socket
listening = socket.create_server(("127.0.0.1", 0))
print(listening.getsockname()[1], flush=True)
while True:
    connection, _ = listening.accept()
    connection.recv(1000)
    connection.sendall(b"HTTP/1.1 200 OK\\r\\n\\r\\n")
    connection.close()
"""


class Watch:
    """Asks for the health of a coordinator on a new connection every 20 ms, in a process of its own.

    It asks a bystander in the same breath: a server that nobody attacks and that does nothing. How long that one takes
    is the noise of the machine, and is allowed on top.
    """

    def __init__(self, server):
        self._server = server

    def __enter__(self):
        self._bystander = self._start(BYSTANDER)
        port = self._bystander.stdout.readline().strip()
        self._process = self._start(WATCH, str(self._server.port), port)
        assert self._process.stdout.readline() == "watching\n"
        self.memory_before = memory(self._server)
        time.sleep(0.1)
        return self

    @staticmethod
    def _start(program, *arguments):
        command = [sys.executable, "-c", program, *arguments]
        return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def __exit__(self, *error):
        said, _ = self._process.communicate("stop\n", timeout=60)
        self._bystander.kill()
        self._bystander.communicate()
        self.memory_grown = memory(self._server) - self.memory_before
        self.seconds, self.noise, faults = json.loads(said)
        print(  # noqa: T201
            f"\nhealth: {len(self.seconds)} answers, slowest {max(self.seconds) * 1e3:.0f} ms; bystander: "
            f"{max(self.noise) * 1e3:.0f} ms; memory grew by {self.memory_grown / 1e6:.0f} MB"
        )
        if error[0] is None:
            assert not faults
            assert len(self.seconds) > 5
            assert max(self.seconds) < HEALTHY_SECONDS + max(self.noise)


def memory(server):
    """The most memory that the service has had, in bytes."""
    status = Path(f"/proc/{server.process.pid}/status").read_text()
    return 1024 * int(status.partition("VmHWM:")[2].split()[0])


@contextmanager
def connected(port, n_connections, source="127.0.0.1"):
    """Many connections at once."""
    with ExitStack() as open_ones:
        yield [
            open_ones.enter_context(socket.create_connection(("127.0.0.1", port), 10, (source, 0)))
            for _ in range(n_connections)
        ]


def sent_in_time(connection, parts, seconds):
    """Send parts until the other side ends the connection; gives how many bytes it took."""
    n_bytes, until = 0, time.monotonic() + seconds
    try:
        for part in parts:
            connection.sendall(part)
            n_bytes += len(part)
            if time.monotonic() > until:
                break
    except OSError:
        pass
    return n_bytes


def answer_of(connection, seconds=10):
    connection.settimeout(seconds)
    said = b""
    try:
        while part := connection.recv(65536):
            said += part
    except ConnectionResetError:
        pass
    return said
