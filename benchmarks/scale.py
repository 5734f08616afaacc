"""What many devices cost, flat and by tree: unit costs measured here, multiplied up; and how far a tree differs."""

from __future__ import annotations

import tracemalloc
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from math import ceil, log
from typing import Any

import numpy as np

import kfed
from benchmarks.figures import timed
from kfed import DeviceMessage
from kfed._base import pool
from kfed._base.array import Array
from kfed.metrics import matched_accuracy, partition_cost
from kfed.simulate import Round, messages_of
from kfed.wire import MessageBatch

N_FEATURES, N_LOCAL_CLUSTERS, N_CLUSTERS, FAN_IN = 64, 4, 100, 1_000
N_REGIONAL_SERVERS = 100
NETWORKS = (1_000_000, 100_000_000)
SEPARATIONS = (2, 3, 4, 6, 10)
SITES = ("north", "south", "east", "west")


@dataclass(frozen=True)
class Units:
    """What one device costs the server: k^(z)=4 centers of d=64 in single precision, k=100.

    Messages are read many at a time, as a coordinator reads them.
    """

    message_bytes: int
    decode_seconds: float
    flat_seconds: float
    flat_bytes: float
    tree_seconds: float
    devices_bytes: int  # a region of fan_in devices
    regions_bytes: int  # a region of fan_in regions
    n_measured: int

    def tree_bytes(self, n_devices: int) -> int:
        """Peak memory of a tree: one region at each level, each taken to be full."""
        n_levels = max(1, ceil(log(n_devices, FAN_IN) - 1e-9))
        return self.devices_bytes + (n_levels - 1) * self.regions_bytes


@dataclass(frozen=True)
class Difference:
    """A tree beside the flat answer, on one mixture."""

    rule: str
    separation: float
    agreement: float
    cost_ratio: float


def measure_units(quick: bool = False) -> Units:
    """Measure on this machine, on as many devices as take a few seconds."""
    n_devices = 5_000 if quick else 50_000
    payloads = [message.to_bytes() for message in _messages(n_devices)]
    decoding, batch = timed(lambda: MessageBatch.of_bytes(payloads))
    flat, _ = timed(lambda: _quietly(batch))
    messages = [DeviceMessage.from_bytes(payload) for payload in payloads]
    tree, _ = timed(lambda: kfed.aggregate_tree(messages, N_CLUSTERS, fan_in=FAN_IN))
    flat_bytes = _peak(lambda: _quietly(_messages(n_devices // 5)))
    return Units(
        message_bytes=len(payloads[0]),
        decode_seconds=decoding / n_devices,
        flat_seconds=flat / n_devices,
        flat_bytes=flat_bytes / (n_devices // 5),
        tree_seconds=tree / n_devices,
        devices_bytes=_peak(lambda: _quietly(_messages(FAN_IN))),
        regions_bytes=_peak(lambda: _quietly(_messages(FAN_IN, N_CLUSTERS), rule="regions")),
        n_measured=n_devices,
    )


def measure_differences(quick: bool = False) -> Iterator[Difference]:
    """Compare both rules on mixtures of 16 clusters in 16 dimensions, 600 devices in regions of 25."""
    for separation in SEPARATIONS:
        points, local = _mixture(100 if quick else 600, separation)
        messages = messages_of(local)
        for rule in ("paper", "robust"):
            flat = _quietly(messages, 16, rule)
            tree = kfed.aggregate_tree(messages, 16, fan_in=25, rule=rule)
            ours, theirs = (  # both answer as late devices are answered
                Round(local, messages, found, tuple(map(found.assign, messages))).labels for found in (tree, flat)
            )
            ratio = partition_cost(points, ours) / partition_cost(points, theirs)
            yield Difference(rule, separation, matched_accuracy(theirs, ours), ratio)


def page(units: Units, differences: list[Difference]) -> str:
    """The page of the documentation."""
    return "\n".join([*_introduction(units), *_networks(units), *_comparison(differences), *_answers()]) + "\n"


def _introduction(units: Units) -> Iterator[str]:
    yield from (
        "# Scale: from one server to a tree",
        "",
        "Written by `make scale`: unit costs are measured, networks are computed.",
        "",
        "One round of k-FED is one message up and one answer down for each device, however many there are. A flat",
        "aggregation (`kfed.aggregate`) holds all device centers in memory. A tree (`kfed.aggregate_tree`) aggregates",
        f"`fan_in` devices at a time, here {FAN_IN:,}; each region's result goes to the next level as one message.",
        "",
        "## What one device costs",
        "",
        f"k^(z) = {N_LOCAL_CLUSTERS} centers of d = {N_FEATURES} features in single precision, k = {N_CLUSTERS}; "
        f"{units.n_measured:,} devices, {pool.available_cores()} cores.",
        "",
        "| unit | measured |",
        "|---|---|",
        f"| message | {units.message_bytes:,} bytes |",
        f"| reading and checking it, among many | {units.decode_seconds * 1e6:.1f} µs |",
        f"| flat: grouping its centers | {units.flat_seconds * 1e6:.1f} µs |",
        f"| flat: peak memory | {units.flat_bytes:,.0f} bytes for each device |",
        f"| tree: grouping its centers, at all levels | {units.tree_seconds * 1e6:.1f} µs |",
        f"| tree: peak memory of {FAN_IN:,} devices | {_size(units.devices_bytes)} |",
        f"| tree: peak memory of {FAN_IN:,} regions of k centers, at each level above | {_size(units.regions_bytes)} |",
        "",
    )


def _networks(units: Units) -> Iterator[str]:
    yield from (
        "## What a network costs",
        "",
        "Time is reading and grouping, one after the other, on this machine, and linear in the number of devices. With",
        f"regional servers, {N_REGIONAL_SERVERS} machines like this one have their share of the devices each, and the "
        "last level is one more.",
        "",
        "| devices | how | messages | received | memory of a server | time |",
        "|---|---|---|---|---|---|",
    )
    for n_devices in NETWORKS:
        received = _size(n_devices * units.message_bytes)
        flat = n_devices * (units.decode_seconds + units.flat_seconds)
        tree = n_devices * (units.decode_seconds + units.tree_seconds)
        n_messages, share = n_devices + N_REGIONAL_SERVERS, units.tree_bytes(n_devices // N_REGIONAL_SERVERS)
        rows = (
            ("flat", n_devices, n_devices * units.flat_bytes, flat),
            ("tree, one server", n_devices, units.tree_bytes(n_devices), tree),
            (f"tree, {N_REGIONAL_SERVERS} regional servers", n_messages, share, tree / N_REGIONAL_SERVERS),
        )
        for how, messages, memory, seconds in rows:
            yield f"| {n_devices:,} | {how} | {messages:,} | {received} | {_size(memory)} | {_duration(seconds)} |"
    yield ""


def _comparison(differences: list[Difference]) -> Iterator[str]:
    yield from (
        "## How far a tree differs from the flat answer",
        "",
        "Where clusters are far apart, not at all: the tests hold that as a law. Elsewhere, measured on mixtures of 16",
        "Gaussians in 16 dimensions, 600 devices of 80 points that know four clusters each, in regions of 25, with",
        "means about so many standard deviations apart. Agreement is the share of points in the same cluster, clusters",
        "matched; cost is the k-means cost of the tree's clusters over that of the flat ones (below 1, the tree's are",
        f"better): at most {max((one.cost_ratio for one in differences), default=1) - 1:.1%} more here.",
        "",
        "| distance of means | rule | agreement | cost over the flat one's |",
        "|---|---|---|---|",
    )
    for one in differences:
        yield f"| {one.separation:g} | {one.rule} | {one.agreement:.1%} | {one.cost_ratio:.3f} |"
    yield ""


def _answers() -> Iterator[str]:
    yield from (
        "## How a device of a tree gets its answer",
        "",
        "The last level knows regions, not devices. A device is answered by `result.assign(message)`, the nearest",
        "global center, as a late one is; or by `region.relay(device_id, answer)`, level by level, from the regions",
        "that `keep` was given. What a region sends, and why:",
        "[decision 0012](decisions/0012-an-aggregation-as-a-message.md).",
        "",
        "## A tree of files",
        "",
        "Sites whose messages meet at two places, which report to a third:",
        "",
        "```console",
        "$ cd examples/consortium",
        *(f"$ kfed device {one}.csv -k 2 --id-column patient --scale scale.json" for one in SITES),
        "$ kfed aggregate north.kfed south.kfed -k 4 -o upper.clusters --message upper.region",
        "$ kfed aggregate east.kfed west.kfed -k 4 -o lower.clusters --message lower.region",
        "$ kfed aggregate upper.region lower.region -k 4 --rule regions -o world.kfed",
        *(f"$ kfed label {one}.local --clusters world.kfed -o {one}-labels.csv" for one in SITES),
        "```",
        "",
        "`upper.region` is the message of a device called `upper`. Regions can join a coordinator, too:",
        "[how to](how-to-coordinator.md#regions-that-join). On Dask, `cluster_partitions(..., fan_in=1000)` builds the",
        "tree from partitions as they come: [guide](guide-dask.md).",
    )


def _messages(n_devices: int, n_centers: int = N_LOCAL_CLUSTERS) -> Iterator[DeviceMessage]:
    rng = np.random.default_rng(0)
    means = 5 * rng.standard_normal((N_CLUSTERS, N_FEATURES), np.float32)
    for i in range(n_devices):
        own = means[rng.choice(N_CLUSTERS, n_centers, replace=False)]
        centers = own + rng.standard_normal(own.shape, np.float32) / 5
        yield DeviceMessage(f"device-{i:08}", centers, [30] * len(own), [60.0] * len(own), 9.0)


def _mixture(n_devices: int, separation: float) -> tuple[Array, dict[str, kfed.LocalClustering]]:
    """The points of all devices, and what Algorithm 1 finds on each."""
    rng = np.random.default_rng(0)
    means = separation / np.sqrt(32) * rng.standard_normal((16, 16))
    devices = []
    for _ in range(n_devices):
        own = rng.choice(16, 4, replace=False)[rng.integers(4, size=80)]
        devices.append(means[own] + rng.standard_normal((80, 16)))
    local = kfed.cluster_fleet(devices, 4, random_state=0, measure_deviation=False, progress=False)
    return np.concatenate(devices), {f"{i:04}": one for i, one in enumerate(local)}


def _quietly(messages: Any, n_clusters: int = N_CLUSTERS, rule: str = "paper") -> kfed.Aggregation:
    """Aggregate without the warnings that a benchmark has no reader for."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", kfed.AggregationWarning)
        return kfed.aggregate(messages, n_clusters, rule=rule)


def _peak(work: Callable[[], Any]) -> int:
    """The most bytes that Python and NumPy held at once, the messages included."""
    tracemalloc.start()
    try:
        work()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def _size(n_bytes: float) -> str:
    for unit in ("bytes", "kB", "MB", "GB"):
        if n_bytes < 1_000:
            return f"{n_bytes:.3g} {unit}"
        n_bytes /= 1_000
    return f"{n_bytes:,.3g} TB"


def _duration(seconds: float) -> str:
    for limit, unit in ((60, "s"), (3_600, "min")):
        if seconds < limit:
            return f"{seconds / (limit / 60):.2g} {unit}"
    return f"{seconds / 3_600:.2g} h"
