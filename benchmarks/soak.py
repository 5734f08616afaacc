"""A coordinator for many minutes: devices come, replace their messages, leave and come back, and somebody watches.

every five seconds   one cohort of devices joins, some of the cohort before replace their messages,
                     the cohort before that leaves; lists, pictures and identities are asked for meanwhile
every minute         everything that is there is aggregated anew, so those who leave were aggregated
all the time         one page listens for events
"""

from __future__ import annotations

import os
import random
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path

import numpy as np

from benchmarks import load
from benchmarks.coordinator import N_CONNECTIONS, Service, messages, serving
from benchmarks.figures import Figure

NAME = "soak"
STEP_SECONDS = 5
STEPS_A_MINUTE = 60 // STEP_SECONDS
N_COHORTS = 4
N_STAYING = 1_000
N_CLUSTERS = 20
REPLACED = 0.1
"""Share of the messages that replace one of the same device."""
BEGIN, END = "<!-- soak -->", "<!-- /soak -->"


ABOUT = [
    "## For many minutes",
    "",
    "Written by `python -m benchmarks soak --markdown docs/benchmarks-coordinator.md`. Devices come, one message in",
    "ten replaces another, as many devices leave as come, pages and identities are asked for, and everything is",
    "aggregated anew once a minute. Latency is counted from when a request was due. The machine did other work",
    "meanwhile.",
]
"""What the section of the page begins with."""


@dataclass
class Record:
    """What was seen, by kind of request: latencies in seconds, and samples of memory in bytes."""

    latencies: dict[str, list[float]] = field(default_factory=dict)
    statuses: dict[int, int] = field(default_factory=dict)
    memory: list[int] = field(default_factory=list)
    seconds: float = 0.0
    machine_load: list[float] = field(default_factory=list)

    def add(self, kinds: Sequence[str], found: load.Load) -> None:
        """Note the answers to requests of these kinds."""
        for kind, latency in zip(kinds, found.latencies, strict=True):
            self.latencies.setdefault(kind, []).append(latency)
        for status, n_answers in found.statuses.items():
            self.statuses[status] = self.statuses.get(status, 0) + n_answers

    @property
    def n_errors(self) -> int:
        """Answers that are no success, and requests that got none."""
        n_answered = sum(n_answers for status, n_answers in self.statuses.items() if status != load.CLOSED)
        refused = sum(n_answers for status, n_answers in self.statuses.items() if status >= 300)
        return refused + self.n_requests - n_answered

    @property
    def n_requests(self) -> int:
        """Requests that were sent."""
        return sum(len(own) for kind, own in self.latencies.items() if kind != "aggregation")


def soak(minutes: float, rate: int, tell: Callable[[str], None] = lambda _: None) -> list[Figure]:
    """Run for so many minutes with so many messages a second."""
    with (
        tempfile.TemporaryDirectory(prefix="kfed-bench-") as folder,
        serving(Path(folder), "soak.db") as service,
    ):
        service.create(NAME, n_clusters=N_CLUSTERS)
        staying = service.puts(NAME, messages(N_STAYING, "staying"))
        load.send(service.port, staying, N_CONNECTIONS)
        service.ask("POST", f"/v1/federations/{NAME}/aggregate", {})
        record, used = Record(), service.processor_seconds()
        with _watching(service):
            _run(service, record, 60 * minutes, rate, tell)
        used = service.processor_seconds() - used
        kept = service.ask("GET", f"/v1/federations/{NAME}")
        size = sum(path.stat().st_size for path in Path(folder).glob("soak.db*"))
    return list(_figures(record, minutes, rate, f"{used / record.seconds:.2f}", kept["n_devices"], size))


def _run(service: Service, record: Record, seconds: float, rate: int, tell: Callable[[str], None]) -> None:
    cohorts = [_Cohort.of(service, number, rate * STEP_SECONDS) for number in range(N_COHORTS)]
    started = time.perf_counter()
    for step in count():
        if time.perf_counter() - started >= seconds:
            break
        if step % STEPS_A_MINUTE == STEPS_A_MINUTE - 1:
            begun = time.perf_counter()
            service.ask("POST", f"/v1/federations/{NAME}/aggregate", {})
            record.latencies.setdefault("aggregation", []).append(time.perf_counter() - begun)
        requests = _requests(service, cohorts, step)
        kinds, sent = zip(*requests, strict=True)
        record.add(kinds, load.send(service.port, sent, N_CONNECTIONS, len(sent) / STEP_SECONDS))
        record.memory.append(service.memory_bytes())
        record.machine_load.append(os.getloadavg()[0])
        tell(f"{time.perf_counter() - started:.0f} s; {record.memory[-1] / 1e6:.0f} MB; {record.n_errors} errors")
    record.seconds = time.perf_counter() - started


@dataclass(frozen=True)
class _Cohort:
    """The requests of devices that come and go together."""

    joining: list[bytes]
    replacing: list[bytes]
    leaving: list[bytes]
    asking: list[bytes]

    @classmethod
    def of(cls, service: Service, number: int, n_messages: int) -> _Cohort:
        n_replacing = int(REPLACED * n_messages)
        prefix, n_devices = f"cohort-{number}", n_messages - n_replacing
        first, second = (messages(n_devices, prefix, seed) for seed in (0, 1))
        return cls(
            service.puts(NAME, first),
            service.puts(NAME, second[:n_replacing], query="?replace=true"),
            [service.as_device(NAME, "DELETE", one.device_id) for one in first],
            [service.as_device(NAME, "GET", one.device_id, "/identity") for one in first[:n_replacing]],
        )


def _requests(service: Service, cohorts: list[_Cohort], step: int) -> list[tuple[str, bytes]]:
    """What is sent in one step, in random order: no request needs another of the same step."""
    now, before, gone = (cohorts[(step - ago) % N_COHORTS] for ago in range(3))
    requests = [("message", request) for request in now.joining]
    if step >= 1:
        requests += [("message", request) for request in before.replacing]
        requests += [("identity", request) for request in before.asking]
    if step >= 2:
        requests += [("leaving", request) for request in gone.leaving]
    looks = ["/v1/federations", f"/v1/federations/{NAME}", f"/v1/federations/{NAME}/picture", "/metrics", "/healthz"]
    requests += [("view", service.look(path)) for path in looks]
    random.Random(step).shuffle(requests)
    return requests


@contextmanager
def _watching(service: Service) -> Iterator[None]:
    """A page that listens for events meanwhile."""
    ended = threading.Event()

    def listen() -> None:
        with service.events() as lines:
            for _ in lines:
                if ended.is_set():
                    return

    listener = threading.Thread(target=listen, daemon=True)
    listener.start()
    try:
        yield
    finally:
        ended.set()
        listener.join(timeout=30)


def _figures(record: Record, minutes: float, rate: int, cores: str, n_devices: int, size: int) -> Iterator[Figure]:
    sent = record.latencies["message"]
    waits = "; ".join(f"{kind}: {_waits(own)}" for kind, own in record.latencies.items())
    machine = f"load of the machine {np.mean(record.machine_load):.1f} on {os.cpu_count()} cores"
    detail = f"{len(sent):,} in {minutes:g} minutes; the service used {cores} of a core; {machine}"
    yield Figure(NAME, "messages a second", len(sent) / record.seconds, 0.9 * rate, True, detail)
    answers = ", ".join(f"{n:,} of {status}" for status, n in sorted(record.statuses.items()) if status != load.CLOSED)
    n_closed = record.statuses.get(load.CLOSED, 0)
    detail = f"answers: {answers}; idle connections that were closed, and opened again: {n_closed}"
    yield Figure(NAME, "errors", record.n_errors, 0, False, detail)
    quarter = max(1, len(record.memory) // 4)
    early, late = (
        float(np.mean(part)) / 1e6 for part in (record.memory[quarter : 2 * quarter], record.memory[-quarter:])
    )
    detail = (
        f"{early:.0f} MB in the second quarter, {late:.0f} MB in the last, {max(record.memory) / 1e6:.0f} MB at most"
    )
    yield Figure(NAME, "memory, last quarter over the second", late / early, 1.1, False, detail)
    yield Figure(NAME, "p99 of a message, ms", float(np.percentile(sent, 99)) * 1e3, 1_000, False, waits)
    detail = f"{n_devices:,} devices at the end; the store has {size / 1e6:.0f} MB"
    yield Figure(NAME, "longest wait, ms", max(map(max, record.latencies.values())) * 1e3, 10_000, False, detail)


def _waits(seconds: list[float]) -> str:
    p50, p99 = np.percentile(seconds, [50, 99]) * 1e3
    return f"p50 {p50:.0f} ms, p99 {p99:.0f} ms"


def section_of(page: str) -> str:
    """What stands between the markers of a page; empty if it has none."""
    return page.partition(BEGIN)[2].partition(END)[0]


def with_section(page: str, section: str) -> str:
    """A page with this between its markers, which are added at its end if it has none."""
    before, _, rest = page.partition(BEGIN)
    after = rest.partition(END)[2]
    return f"{before.rstrip()}\n\n{BEGIN}{section}{END}\n{after.lstrip()}" if section else page
