"""Coordinators for tests: in this process, or as a program of their own; and devices to send to them."""

from __future__ import annotations

import asyncio
import json
import os
import pwd
import shutil
import signal
import socket
import ssl
import subprocess
import sysconfig
import threading
import time
from contextlib import contextmanager, suppress
from pathlib import Path
from urllib.parse import quote

import httpx
import numpy as np
from documented import checker

import kfed
from kfed.coordinator.http import Address, Limits, ServiceSettings, create_app, make_server
from kfed.coordinator.security import hashed
from kfed.coordinator.store import Arrival

KFED = Path(sysconfig.get_path("scripts")) / "kfed"
ADMIN = "an-admin-token-for-tests"
SECRET = "a-device-secret-for-tests"
NO_TLS = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
"""For clients without TLS; httpx would read the certificates of the system for each of them."""
MEANS = np.array([[0.0, 0.0], [20.0, 0.0], [0.0, 20.0], [20.0, 20.0]])


def message(device_id, groups=(0, 1), seed=0, means=MEANS, dtype=np.float64):
    """What a device that holds these groups would send."""
    rng = np.random.default_rng([seed, *device_id.encode()])
    centers = means[list(groups)] + rng.normal(scale=0.5, size=(len(groups), means.shape[1]))
    counts = rng.integers(10, 50, len(groups))
    return kfed.DeviceMessage(device_id, centers.astype(dtype), counts, 2.0 * counts, 9.0)


def messages(n_devices, seed=0, **options):
    rng = np.random.default_rng(seed)
    k = len(options.get("means", MEANS))
    return [
        message(f"device-{i:04}", rng.choice(k, size=2, replace=False), seed=seed, **options) for i in range(n_devices)
    ]


def arrival_of(sent, federation, **options):
    """A message on its way into the store."""
    facts = {"secret_hash": None, "received_at": 0.0, "n_centers": 2, "n_points": 1.0, "is_double": True, **options}
    return Arrival(federation=federation, device_id=sent.device_id, message=sent.to_bytes(), **facts)


def is_on_event_loop():
    """Whether the thread that asks is one that runs an event loop."""
    try:
        return asyncio.get_running_loop().is_running()
    except RuntimeError:
        return False


class Caller:
    """Calls a coordinator over an HTTP client: as its administrator, and as devices of its federations."""

    def __init__(self, http, admin=ADMIN):
        self.http = http
        self.admin = {"Authorization": f"Bearer {admin}"}
        self.join = {}

    def create(self, name="clinics", **terms):
        """Create a federation; tests look at all centers, unless they say otherwise."""
        terms = {"n_features": 2, "n_clusters": 4, "min_devices_shown": 1, **terms}
        answer = self.http.post("/v1/federations", json={"name": name, **terms}, headers=self.admin)
        assert answer.status_code == 201, answer.text
        self.join[name] = {"Authorization": f"Bearer {answer.json()['join_token']}"}
        return answer.json()

    def create_aggregated(self, sent, name="clinics", **terms):
        """Create a federation of all these devices, and wait until it is aggregated."""
        self.create(name, quorum=len(sent), **terms)
        for one in sent:
            assert self.put(one, name).status_code == 201
        return self.wait_until("aggregated", name)

    def invite(self):
        """The code of a link for watching, as `kfed serve` prints one; for coordinators in this process."""
        return self.http.app.state.desk.viewers.invite()

    def path(self, device_id, name="clinics"):
        return f"/v1/federations/{name}/devices/{quote(device_id, safe='')}"

    def put(self, sent, name="clinics", secret=SECRET, replace=False, **options):
        headers = {**self.join[name], **({} if secret is None else {"Kfed-Device-Secret": secret})}
        payload = sent if isinstance(sent, bytes) else sent.to_bytes()
        device_id = options.pop("device_id", None) or sent.device_id
        path = f"{self.path(device_id, name)}/message{'?replace=true' if replace else ''}"
        return self.http.put(path, content=payload, headers=headers | options.pop("headers", {}), **options)

    def identity(self, device_id, name="clinics", secret=SECRET):
        answer = self.http.get(f"{self.path(device_id, name)}/identity", headers={"Kfed-Device-Secret": secret})
        assert answer.status_code == 200, answer.text
        return answer.json()

    def remove(self, device_id, name="clinics", secret=SECRET):
        return self.http.delete(self.path(device_id, name), headers={"Kfed-Device-Secret": secret})

    def aggregate(self, name="clinics", **how):
        return self.http.post(f"/v1/federations/{name}/aggregate", json=how or None, headers=self.admin)

    def get(self, what, name="clinics", headers=None):
        """Ask for what a federation has, as its administrator unless `headers` say otherwise."""
        return self.http.get(f"/v1/federations/{name}/{what}", headers=self.admin if headers is None else headers)

    def show(self, name="clinics"):
        answer = self.http.get(f"/v1/federations/{name}", headers=self.admin)
        assert answer.status_code == 200, answer.text
        return answer.json()

    def wait_until(self, state, name="clinics", seconds=20):
        return self.wait_for(lambda shown: shown["state"] == state, name, seconds)

    def wait_for(self, is_reached, name="clinics", seconds=20):
        until = time.monotonic() + seconds
        while not is_reached(shown := self.show(name)):
            assert time.monotonic() < until, shown
            time.sleep(0.02)
        return shown


def made_settings(address, **settings):
    """How coordinators of the tests are set up, unless they say otherwise."""
    return ServiceSettings(address, **{"admin_token_hash": hashed(ADMIN), "open_to_loopback": True, **settings})


def loop_in_a_thread():
    """An event loop that runs, and its thread."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    return loop, thread


class InProcess:
    """A coordinator on an event loop in a thread of this process; its client speaks ASGI, without a socket."""

    def __init__(self, settings):
        self._loop, self._thread = loop_in_a_thread()
        self.app = create_app(settings)
        self._lifespan = self.app.router.lifespan_context(self.app)
        self._run(self._lifespan.__aenter__())
        hooks = {"response": [checker(self.app)]}
        transport = _Bridge(self.app, self._run)
        self.client = httpx.Client(base_url="http://127.0.0.1:8765", transport=transport, event_hooks=hooks)

    def _run(self, coroutine):
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result(60)

    def stop(self):
        self.client.close()
        self._run(self._lifespan.__aexit__(None, None, None))
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


class _Bridge(httpx.BaseTransport):
    """Lets a client that blocks call an application on another thread's event loop."""

    def __init__(self, app, run):
        self._asgi, self._run = httpx.ASGITransport(app, raise_app_exceptions=False), run

    def handle_request(self, request):
        return self._run(self._answer(request))

    async def _answer(self, request):
        answer = await self._asgi.handle_async_request(request)
        return httpx.Response(answer.status_code, headers=answer.headers, content=await answer.aread())


class OnSocket:
    """A coordinator in this process, on a socket of its own, and a client of it."""

    def __init__(self, settings, limits=None):
        self.app = create_app(settings)
        address = Address(port=0)
        listening = address.listen()
        self._server = make_server(self.app, address, limits or Limits())
        self._thread = threading.Thread(target=lambda: self._server.run(sockets=[listening]))
        self._thread.start()
        url, hooks = f"http://127.0.0.1:{listening.getsockname()[1]}", {"response": [checker(self.app)]}
        self.client = httpx.Client(base_url=url, timeout=30, event_hooks=hooks, verify=NO_TLS)
        while not self._server.started:
            time.sleep(0.01)

    def stop(self):
        self.client.close()
        self._server.should_exit = True
        self._thread.join()


class Server:
    """`kfed serve` as a program of its own."""

    def __init__(self, store, folder, *options, env=None):
        self.folder = Path(folder)
        token = self.folder / "admin.token"
        command = [KFED, "serve", "--store", store, "--json", "--admin-token-file", token, *options]
        if "--port" not in options:
            command += ["--port", "0"]
        self.log = (self.folder / "serve.log").open("ab")
        self.process = subprocess.Popen(
            [str(part) for part in command], stdout=subprocess.PIPE, stderr=self.log, text=True, env=env
        )
        said = ""
        while True:
            line = self.process.stdout.readline()
            assert line, (self.folder / "serve.log").read_text()
            said += line
            if line.startswith("}"):
                break
        self.said = json.loads(said)
        self.url = self.said["url"]
        self.port = int(self.url.rsplit(":", 1)[1])
        self.admin = token.read_text().strip()

    def kill(self):
        self.process.send_signal(signal.SIGKILL)
        self._end()

    def stop(self):
        self.process.terminate()
        self._end()

    def _end(self):
        self.process.wait(20)
        self.process.stdout.close()
        self.log.close()


def free_port():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


class Postgres:
    """A PostgreSQL of its own in a temporary folder, on a free port."""

    def __init__(self, folder):
        self.folder = Path(folder)
        self.programs = postgres_programs()
        self.user = None if os.geteuid() else "postgres"
        if self.user is not None:
            shutil.chown(self.folder, self.user)
        self._run("initdb", "-D", self.folder / "data", "-U", "kfed", "-A", "trust", "--no-sync")
        self.port = free_port()
        self.start()

    @property
    def address(self):
        return f"postgresql://kfed@127.0.0.1:{self.port}/postgres"

    def start(self):
        options = f"-p {self.port} -c listen_addresses=127.0.0.1 -c unix_socket_directories={self.folder} -c fsync=off"
        self._run("pg_ctl", "-D", self.folder / "data", "-w", "-l", self.folder / "log", "-o", options, "start")

    def stop(self):
        self._run("pg_ctl", "-D", self.folder / "data", "-m", "immediate", "stop")

    @contextmanager
    def frozen(self):
        """Stop all of its processes for a while: connections stay open, and nobody answers."""
        first = int((self.folder / "data" / "postmaster.pid").read_text().split()[0])
        frozen = [first]
        os.kill(first, signal.SIGSTOP)
        for child in Path(f"/proc/{first}/task/{first}/children").read_text().split():
            os.kill(int(child), signal.SIGSTOP)
            frozen.append(int(child))
        try:
            yield
        finally:
            for one in frozen:
                with suppress(ProcessLookupError):
                    os.kill(one, signal.SIGCONT)

    def _run(self, program, *arguments):
        command = [str(self.programs / program), *map(str, arguments)]
        subprocess.run(command, check=True, capture_output=True, user=self.user, cwd=self.folder)


def postgres_programs():
    """The folder of the newest PostgreSQL programs, or None."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda path: int(path.parts[-3]))
    return found[-1].parent if found else None


def why_no_postgres():
    """Why PostgreSQL cannot be started here; nothing if it can."""
    if postgres_programs() is None:
        return "PostgreSQL is not installed (Debian package postgresql)"
    if os.geteuid() == 0:
        try:
            pwd.getpwnam("postgres")
        except KeyError:
            return "PostgreSQL does not run as root, and there is no user postgres"
    return ""
