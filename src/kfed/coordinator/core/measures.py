"""What a coordinator counts, for Prometheus."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.process_collector import ProcessCollector

METRICS_MEDIA_TYPE = "text/plain; version=0.0.4; charset=utf-8"


class Measures:
    """Counters of one coordinator, in a registry of its own."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        ProcessCollector(registry=self._registry)
        self.messages = Counter(
            "kfed_messages", "Messages of devices, by what happened to them", ["outcome"], registry=self._registry
        )
        self.answers = Counter("kfed_answers", "Answers, by status", ["status"], registry=self._registry)
        self.batch = Histogram(
            "kfed_commit_messages",
            "Messages in a commit",
            buckets=(1, 2, 4, 8, 16, 32, 64, 128, 256, 512),
            registry=self._registry,
        )
        self.aggregation = Histogram(
            "kfed_aggregation_seconds",
            "Duration of an aggregation",
            buckets=(0.01, 0.1, 1, 10, 100),
            registry=self._registry,
        )
        self.seconds = Histogram(
            "kfed_request_seconds",
            "Time from a request to the end of its answer, by kind of route",
            ["route"],
            buckets=(0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10),
            registry=self._registry,
        )
        self._devices = Gauge("kfed_devices", "Devices of a federation", ["federation"], registry=self._registry)
        self._centers = Gauge("kfed_centers", "Device centers of a federation", ["federation"], registry=self._registry)

    def text(self, sizes: dict[str, tuple[int, int]]) -> bytes:
        """All metrics, given the devices and centers of each federation."""
        for gauge in (self._devices, self._centers):
            gauge.clear()  # of federations that were deleted
        for name, (n_devices, n_centers) in sizes.items():
            self._devices.labels(name).set(n_devices)
            self._centers.labels(name).set(n_centers)
        return generate_latest(self._registry)
