"""Devices on a Dask cluster: twenty thousand of them in Parquet files, on two worker processes and in one process."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.figures import Figure
from kfed._base import pool
from kfed._base.array import Array
from kfed.errors import MissingExtraError

NAME = "dask"
N_FEATURES = 16
N_CLUSTERS = 32
N_LOCAL_CLUSTERS = 4
N_WORKERS = 2
N_FILES = 40
COLUMNS = [f"x{i}" for i in range(N_FEATURES)]


def partitions(quick: bool) -> Iterator[Figure]:
    """Cluster 10 million rows of 20,000 devices of unequal sizes; a tenth of them if `quick`."""
    n_devices, n_rows = (2_000, 1_000_000) if quick else (20_000, 10_000_000)
    with tempfile.TemporaryDirectory(prefix="kfed-bench-") as folder:
        sizes = _sizes(n_devices, n_rows)
        _write(Path(folder), sizes)
        here, expected = _timed(lambda: _clustered(folder))
        with _cluster(1) as client:
            start = client.run(time.process_time)
            alone, _ = _timed(lambda: _clustered(folder, client))
            cpu_alone = _busiest(start, client.run(time.process_time))
        with _cluster(N_WORKERS) as client:
            before, start = max(client.run(_peak_bytes).values()), client.run(time.process_time)
            own = time.process_time()
            together, found = _timed(lambda: _clustered(folder, client))
            own = time.process_time() - own
            cpu_together = _busiest(start, client.run(time.process_time))
            peak = max(client.run(_peak_bytes).values())
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


@contextmanager
def _cluster(n_workers: int) -> Iterator[Any]:
    """Processes with one thread each, ready to work."""
    try:
        from distributed import Client, LocalCluster
    except ImportError as error:
        raise MissingExtraError("this benchmark needs Dask: pip install 'kfed[dask]'") from error
    with (
        LocalCluster(n_workers=n_workers, threads_per_worker=1, processes=True, dashboard_address=":0") as cluster,
        Client(cluster) as client,
    ):
        client.run(_warm)
        yield client


def _clustered(folder: str, client: Any = None) -> Any:
    from kfed.adapters.dask import cluster_partitions

    return cluster_partitions(folder, "device", COLUMNS, N_LOCAL_CLUSTERS, N_CLUSTERS, client)


def _timed(work: Callable[[], Any]) -> tuple[float, Any]:
    started = time.perf_counter()
    result = work()
    return time.perf_counter() - started, result


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


def _warm() -> None:
    """Import on a worker what the work imports: that is start-up, not work."""
    for name in ("pandas", "pyarrow.dataset", "pyarrow.parquet", "kfed.adapters.dask"):
        import_module(name)


def _peak_bytes() -> int:
    """The most memory that this process has used; 0 where the system does not say."""
    try:
        status = Path("/proc/self/status").read_text()
    except OSError:
        return 0
    return 1024 * int(status.partition("VmHWM:")[2].split()[0])
