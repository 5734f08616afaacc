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
import json, select, socket, sys, time
from pathlib import Path

port, pid = int(sys.argv[1]), sys.argv[2]
request = b"GET /healthz HTTP/1.1\\r\\nHost: 127.0.0.1\\r\\nConnection: close\\r\\n\\r\\n"

def waits():
    try:
        threads = Path(f"/proc/{pid}/task").iterdir()
        return {thread.name: int((thread / "schedstat").read_text().split()[1]) for thread in threads}
    except OSError:
        return {}

def noise(before, after):
    grown = {thread: after[thread] - before.get(thread, 0) for thread in after}
    return (grown.pop(pid, 0) + max(grown.values(), default=0)) / 1e9

answers, faults = [], []
print("watching", flush=True)
while not select.select([sys.stdin], [], [], 0.02)[0]:
    before, begun = waits(), time.perf_counter()
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=10) as connection:
            connection.sendall(request)
            said = connection.recv(1000)
        if not said.startswith(b"HTTP/1.1 200"):
            faults.append(repr(said[:50]))
    except OSError as error:
        faults.append(str(error))
    answers.append((time.perf_counter() - begun, noise(before, waits())))
print(json.dumps([answers, faults]))
"""


class Watch:
    """Asks for the health of a coordinator on a new connection every 20 ms, in a process of its own.

    The noise of a busy machine is allowed on top, as the system has measured it: how long the coordinator's threads
    could have run in that time, and had no processor.
    """

    def __init__(self, server):
        self._server = server

    def __enter__(self):
        command = [sys.executable, "-c", WATCH, str(self._server.port), str(self._server.process.pid)]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert self._process.stdout.readline() == "watching\n"
        self._memory = memory(self._server)
        time.sleep(0.1)
        return self

    def __exit__(self, *error):
        said, _ = self._process.communicate("stop\n", timeout=60)
        self.memory_grown = memory(self._server) - self._memory
        answers, faults = json.loads(said)
        seconds, noise = max(answers)
        print(  # noqa: T201
            f"\nhealth: {len(answers)} answers, slowest {seconds * 1e3:.0f} ms, of which {noise * 1e3:.0f} ms without "
            f"a processor; memory grew by {self.memory_grown / 1e6:.0f} MB"
        )
        if error[0] is None:
            assert not faults
            assert len(answers) > 5
            assert max(seconds - noise for seconds, noise in answers) < HEALTHY_SECONDS


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
