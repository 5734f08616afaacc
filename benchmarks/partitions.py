"""Devices on a Dask cluster: eight thousand of them in Parquet files, on two worker processes and in one process."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.figures import Figure, timed
from benchmarks.rivals import Rival, cluster_of, costs_of, cpu_of, peak_bytes, rivals
from kfed._base import pool
from kfed._base.array import Array

NAME = "dask"
N_FEATURES = 16
N_CLUSTERS = 32
N_LOCAL_CLUSTERS = 4
N_WORKERS = 2
N_FILES = 40
COLUMNS = [f"x{i}" for i in range(N_FEATURES)]


def partitions(quick: bool) -> Iterator[Figure]:
    """Cluster 4 million rows of 8,000 devices of unequal sizes, beside k-means on all rows; a twentieth if `quick`."""
    n_devices, n_rows = (400, 200_000) if quick else (8_000, 4_000_000)
    with tempfile.TemporaryDirectory(prefix="kfed-bench-") as folder:
        sizes = _sizes(n_devices, n_rows)
        _write(Path(folder), sizes)
        here, expected = timed(lambda: _clustered(folder))
        with cluster_of(1) as client:
            start = client.run(time.process_time)
            alone, _ = timed(lambda: _clustered(folder, client))
            cpu_alone = _busiest(start, client.run(time.process_time))
        with cluster_of(N_WORKERS) as client:
            cpu = cpu_of(client)
            before, start = max(client.run(peak_bytes).values()), client.run(time.process_time)
            own = time.process_time()
            together, found = timed(lambda: _clustered(folder, client))
            own = time.process_time() - own
            cpu_together = _busiest(start, client.run(time.process_time))
            peak, cpu = max(client.run(peak_bytes).values()), cpu_of(client) - cpu
        ours = Rival("k-FED", together, cpu, expected.cluster_centers, peak)
        others = list(rivals(folder, COLUMNS, N_CLUSTERS))
        costs = costs_of(folder, COLUMNS, [ours, *others])
    same = float(found.to_bytes() == expected.to_bytes())
    shape = f"{n_devices:,} devices of {sizes.min()} to {sizes.max():,} rows, {sizes.sum():,} rows, d={N_FEATURES}"
    yield Figure(NAME, "share of answers of one process", same, 1, True, shape)
    detail = (
        f"processes of one thread each: two {together:.1f} s, one {alone:.1f} s; "
        f"one process with all {pool.available_cores()} cores and no cluster {here:.1f} s"
    )
    yield Figure(NAME, "two workers, times as fast as one", alone / together, 1.6, True, detail)
    detail = (
        f"the busier of two {cpu_together:.1f} s, one {cpu_alone:.1f} s; beside them, client and scheduler {own:.1f} s"
    )
    yield Figure(NAME, "the same in CPU time of a worker", cpu_alone / cpu_together, 1.6, True, detail)
    if peak:
        rows = 4 * N_FEATURES * int(sizes.sum())
        detail = (
            f"peak {peak / 1e6:.0f} MB, of which {before / 1e6:.0f} MB before the work; all rows {rows / 1e6:.0f} MB"
        )
        yield Figure(NAME, "worker memory for the work over all rows", (peak - before) / rows, 0.5, False, detail)
    yield from _beside(ours, others, costs)


def _beside(ours: Rival, others: Sequence[Rival], costs: Sequence[float]) -> Iterator[Figure]:
    """Cost, CPU time and memory over those of k-means on all rows."""
    for rival, cost in zip(others, costs[1:], strict=True):
        detail = f"k-FED {ours.in_words(costs[0])}; {rival.name} {rival.in_words(cost)}"
        yield Figure(NAME, f"cost over that of {rival.name}", costs[0] / cost, 1.05, False, detail)
        yield Figure(NAME, f"CPU time over that of {rival.name}", ours.cpu / rival.cpu, 10, False)
        if ours.peak:
            measure = f"memory of a process over that of {rival.name}"
            yield Figure(NAME, measure, ours.peak / max(rival.peak, 1), 1, False)


def _clustered(folder: str, client: Any = None) -> Any:
    from kfed.adapters.dask import cluster_partitions

    return cluster_partitions(folder, "device", COLUMNS, N_LOCAL_CLUSTERS, N_CLUSTERS, client)


def _busiest(start: dict[str, float], end: dict[str, float]) -> float:
    """CPU seconds of the worker that worked most."""
    return max(end[worker] - start[worker] for worker in end)


def _sizes(n_devices: int, n_rows: int) -> Array:
    """Rows of each device: a few have many, most have few, and none has fewer than 20."""
    shares = np.random.default_rng(0).lognormal(sigma=1.0, size=n_devices)
    sizes = np.maximum(20, (shares * n_rows / shares.sum()).astype(np.int64))
    sizes[sizes.argmax()] += n_rows - sizes.sum()
    return np.asarray(sizes)


def _write(folder: Path, sizes: Array) -> None:
    """Write files of whole devices, each with points of four of the clusters, in single precision."""
    import pandas as pd

    means = 5 * np.random.default_rng(1).standard_normal((N_CLUSTERS, N_FEATURES), np.float32)
    for first, own in zip(range(0, len(sizes), len(sizes) // N_FILES), np.split(sizes, N_FILES), strict=True):
        rng = np.random.default_rng([2, first])
        devices = np.repeat(np.arange(len(own)), own)
        known = rng.permuted(np.tile(np.arange(N_CLUSTERS), (len(own), 1)), axis=1)[:, :N_LOCAL_CLUSTERS]
        kinds = known[devices, rng.integers(N_LOCAL_CLUSTERS, size=len(devices))]
        points = means[kinds] + rng.standard_normal((len(devices), N_FEATURES), np.float32)
        frame = pd.DataFrame(points, columns=COLUMNS).assign(device=first + devices)
        frame.to_parquet(folder / f"part-{first:06}.parquet", index=False)
