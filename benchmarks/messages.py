"""What a message costs in bytes and time, and what ``import kfed`` costs."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator

import numpy as np

from benchmarks.figures import Figure
from kfed import DeviceMessage
from kfed.wire import MessageBatch


def message(quick: bool) -> Iterator[Figure]:
    """A message of four centers of 784 features."""
    centers = np.random.default_rng(0).standard_normal((4, 784), dtype=np.float32)
    sent = DeviceMessage("site7", centers, np.full(4, 25), np.arange(1.0, 5.0), 5.0)
    yield Figure("message", "bytes over the raw array", len(sent.to_bytes()) - centers.nbytes, 150, False, "k=4, d=784")
    rates = []
    for _ in range(3 if quick else 10):
        started = time.perf_counter()
        for _ in range(2_000):
            DeviceMessage.from_bytes(sent.to_bytes())
        rates.append(2_000 / (time.perf_counter() - started))
    yield Figure("message", "encoded and decoded a second", max(rates), 20_000, True, "best of several runs")


def many(quick: bool) -> Iterator[Figure]:
    """Messages of four centers of 64 features, read, checked and stacked at once, as a server does."""
    centers = np.random.default_rng(0).standard_normal((4, 64), dtype=np.float32)
    n_messages = 10_000 if quick else 100_000
    payloads = [DeviceMessage(f"{i}", centers, np.full(4, 25), np.ones(4), 5.0).to_bytes() for i in range(n_messages)]
    seconds = []
    for _ in range(3):
        started = time.perf_counter()
        MessageBatch.of_bytes(payloads)
        seconds.append(time.perf_counter() - started)
    detail = f"{n_messages:,} messages, k=4, d=64"
    yield Figure("messages", "µs to read one of many", 1e6 * min(seconds) / n_messages, 10, False, detail)


def imports(quick: bool) -> Iterator[Figure]:
    """Seconds that ``import kfed`` takes where numpy is imported already."""
    code = "import numpy, time; t = time.perf_counter(); import kfed; print(time.perf_counter() - t)"
    seconds = [
        float(subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout)
        for _ in range(3 if quick else 7)
    ]
    yield Figure("import", "seconds on top of numpy", min(seconds), 0.4, False, "best of several runs")
