"""The coordinator under load: devices by the thousand against ``kfed serve`` on this machine, client included."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import numpy as np

from benchmarks import load
from benchmarks.figures import Figure
from kfed.wire import DeviceMessage

N_FEATURES = 64
N_LOCAL_CLUSTERS = 4
N_CLUSTERS = 100
N_CONNECTIONS = 64
RATE = 1_500
NAME = "coordinator"
SECRET = {"Kfed-Device-Secret": "s" * 32}


def coordinator(quick: bool) -> Iterator[Figure]:
    """Accept 10,000 devices, serve late ones, and aggregate a million centers while others come."""
    n_devices, n_centers = (2_000, 100_000) if quick else (10_000, 1_000_000)
    with tempfile.TemporaryDirectory(prefix="kfed-bench-") as folder, serving(Path(folder), "load.db") as service:
        yield from _accepting(service, n_devices)
        yield from _late(service)
    with tempfile.TemporaryDirectory(prefix="kfed-bench-") as folder:
        token_hash = _fill(Path(folder) / "full.db", n_centers)
        with serving(Path(folder), "full.db", token_hash) as service:
            yield from _aggregating(service, n_centers)


def _accepting(service: Service, n_devices: int) -> Iterator[Figure]:
    """As fast as they are answered, then at half the rate that is asked for."""
    service.create("full", n_clusters=N_CLUSTERS)
    sent = messages(n_devices, "device")
    requests = service.puts("full", sent)
    used = service.processor_seconds()
    at_once = load.send(service.port, requests, N_CONNECTIONS)
    each = (service.processor_seconds() - used) / n_devices * 1e3
    own = f"service: {service.peak_bytes() / 1e6:.0f} MB at most, {each:.2f} ms of processor time a message"
    detail = f"p50 {at_once.percentile(50):.0f} ms, p99 {at_once.percentile(99):.0f} ms; {own}"
    yield Figure(NAME, "accepted messages a second", at_once.rate, RATE, True, detail)
    kept = service.ask("GET", "/v1/federations/full")["n_devices"] / n_devices
    accepted = at_once.statuses.get(201, 0)
    yield Figure(NAME, "share of messages there", kept, 1, True, f"{accepted:,} of {n_devices:,} acknowledged as new")
    paced = load.send(service.port, service.puts("full", messages(n_devices // 2, "paced")), N_CONNECTIONS, RATE / 2)
    detail = f"p50 {paced.percentile(50):.1f} ms at {paced.rate:.0f} a second"
    yield Figure(NAME, "p99 at half that rate, ms", paced.percentile(99), 250, False, detail)


def _late(service: Service) -> Iterator[Figure]:
    """One after the other, once there are clusters."""
    service.ask("POST", "/v1/federations/full/aggregate", {})
    headers = {"Accept": "application/octet-stream"}
    late = load.send(service.port, service.puts("full", messages(500, "late"), headers), 1)
    detail = f"k={N_CLUSTERS}, d={N_FEATURES}; p99 {late.percentile(99):.1f} ms"
    yield Figure(NAME, "identity of a late device, p50 in ms", late.percentile(50), 10, False, detail)


def _aggregating(service: Service, n_centers: int) -> Iterator[Figure]:
    """Devices that come while a million stored centers are aggregated."""
    seconds: list[float] = []

    def aggregate() -> None:
        started = time.perf_counter()
        service.ask("POST", "/v1/federations/full/aggregate", {})
        seconds.append(time.perf_counter() - started)

    requests = iter(service.puts("full", messages(20_000, "meanwhile")))
    worker = threading.Thread(target=aggregate)
    worker.start()
    latencies: list[float] = []
    while worker.is_alive():
        latencies.extend(load.send(service.port, [next(requests) for _ in range(20)], 4, rate=50).latencies)
    worker.join()
    detail = f"{len(latencies)} devices in {seconds[0]:.1f} s of aggregating; p50 {np.median(latencies) * 1e3:.1f} ms"
    yield Figure(NAME, "longest wait meanwhile, ms", max(latencies) * 1e3, 1_000, False, detail)
    if service.peak_bytes():
        size = 4 * N_FEATURES * n_centers
        detail = f"{n_centers:,} centers of {size / 1e6:.0f} MB; the whole service {service.peak_bytes() / 1e6:.0f} MB"
        yield Figure(NAME, "peak memory over the centers", service.peak_bytes() / size, 3, False, detail)


def messages(n_devices: int, prefix: str, seed: int = 0) -> list[DeviceMessage]:
    """Messages of devices that know a few of many clusters, k^(z)=4, d=64, in single precision."""
    rng = np.random.default_rng([seed, *prefix.encode()])
    means = 5 * np.random.default_rng(seed).standard_normal((N_CLUSTERS, N_FEATURES), np.float32)
    groups = rng.integers(0, N_CLUSTERS, (n_devices, N_LOCAL_CLUSTERS))
    shape = (n_devices, N_LOCAL_CLUSTERS, N_FEATURES)
    centers = means[groups] + rng.standard_normal(shape, np.float32) / 5
    return [
        DeviceMessage(f"{prefix}-{i:06}", own, [30] * N_LOCAL_CLUSTERS, [60.0] * N_LOCAL_CLUSTERS, 9.0)
        for i, own in enumerate(centers)
    ]


def _fill(path: Path, n_centers: int) -> str:
    """Put devices into a store that nobody serves yet; gives the join token of their federation."""
    from kfed.coordinator.federation import Federation
    from kfed.coordinator.security import hashed, new_token
    from kfed.coordinator.store import Store
    from kfed.wire import FeatureSchema

    token = new_token()
    store = Store(str(path))
    schema = FeatureSchema(N_FEATURES)
    federation = store.add_federation(Federation(0, "full", schema, N_CLUSTERS, "paper", hashed(token), 0.0))
    assert federation is not None
    for part in range(n_centers // N_LOCAL_CLUSTERS // 1_000):
        store.change_devices([_arrival(federation, message) for message in messages(1_000, f"stored-{part}")])
    store.close()
    return token


def _arrival(federation: Any, message: DeviceMessage) -> Any:
    from kfed.coordinator.store import Arrival

    return Arrival(
        federation=federation,
        device_id=message.device_id,
        message=message.to_bytes(),
        secret_hash=None,
        n_centers=N_LOCAL_CLUSTERS,
        n_points=120.0,
        is_double=False,
        received_at=0.0,
    )


class Service:
    """A coordinator as a program of its own, and what to say to it."""

    def __init__(self, process: subprocess.Popen[str], url: str, admin_token: str) -> None:
        self._process, self._admin_token = process, admin_token
        self._admin = {"Authorization": f"Bearer {admin_token}"}
        self._url = url
        self.port = int(url.rsplit(":", 1)[1])
        self.join_tokens: dict[str, str] = {}

    def ask(self, method: str, path: str, body: Any = None) -> Any:
        """Ask as the administrator."""
        from kfed.coordinator.client import CLUSTERING_SECONDS, Line

        with Line(self._url, timeout=CLUSTERING_SECONDS) as line:
            return line.request(method, path, token=self._admin_token, json=body).json()

    def create(self, name: str, n_clusters: int) -> None:
        """Create a federation."""
        terms = {"name": name, "n_features": N_FEATURES, "n_clusters": n_clusters}
        self.join_tokens[name] = self.ask("POST", "/v1/federations", terms)["join_token"]

    def puts(
        self, name: str, sent: Sequence[DeviceMessage], headers: dict[str, str] | None = None, query: str = ""
    ) -> list[bytes]:
        """The requests of devices that send their messages."""
        rights = {"Authorization": f"Bearer {self.join_tokens[name]}", **SECRET, **(headers or {})}
        paths = [f"/v1/federations/{name}/devices/{one.device_id}/message{query}" for one in sent]
        return [load.request("PUT", path, rights, one.to_bytes()) for path, one in zip(paths, sent, strict=True)]

    def as_device(self, name: str, method: str, device_id: str, tail: str = "") -> bytes:
        """A request of a device about itself."""
        return load.request(method, f"/v1/federations/{name}/devices/{device_id}{tail}", SECRET)

    def look(self, path: str) -> bytes:
        """A request of whoever watches."""
        return load.request("GET", path, self._admin)

    @contextmanager
    def events(self) -> Iterator[Iterator[str]]:
        """The lines of events, as a page gets them."""
        with httpx.stream("GET", f"{self._url}/v1/events", headers=self._admin, timeout=60) as answer:
            yield answer.iter_lines()

    def processor_seconds(self) -> float:
        """How long the service has computed; 0 where the system does not say."""
        try:
            fields = Path(f"/proc/{self._process.pid}/stat").read_text().rpartition(")")[2].split()
        except OSError:
            return 0.0
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def peak_bytes(self) -> int:
        """The most memory that the service has used; 0 where the system does not say."""
        return self._memory("VmHWM:")

    def memory_bytes(self) -> int:
        """The memory that the service uses now; 0 where the system does not say."""
        return self._memory("VmRSS:")

    def _memory(self, line: str) -> int:
        try:
            status = Path(f"/proc/{self._process.pid}/status").read_text()
        except OSError:
            return 0
        return 1024 * int(status.partition(line)[2].split()[0])


@contextmanager
def serving(folder: Path, store: str, join_token: str | None = None) -> Iterator[Service]:
    """``kfed serve`` on a free port."""
    command = [sys.executable, "-c", "from kfed.cli import main; main()", "serve", "--port", "0", "--json"]
    files = ["--store", str(folder / store), "--admin-token-file", str(folder / "admin.token")]
    with subprocess.Popen([*command, *files], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        assert process.stdout is not None
        lines = iter(process.stdout.readline, "")
        said = "".join(line for line in _until(lines, "}\n"))
        service = Service(process, json.loads(said)["url"], (folder / "admin.token").read_text().strip())
        if join_token is not None:
            service.join_tokens["full"] = join_token
        try:
            yield service
        finally:
            process.terminate()


def _until(lines: Iterator[str], last: str) -> Iterator[str]:
    for line in lines:
        yield line
        if line == last:
            return
