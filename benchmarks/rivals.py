"""K-means on all rows of the same files: scikit-learn's MiniBatchKMeans in memory, and dask-ml's KMeans on workers."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from kfed._base.array import Array
from kfed.errors import MissingExtraError
from kfed.metrics import kmeans_cost

N_WORKERS = 2


@dataclass(frozen=True)
class Rival:
    """What a method took and found: time with reading, centers, and the most memory of one of its processes."""

    name: str
    seconds: float
    cpu: float  # seconds of all its processes
    centers: Array
    peak: int

    def in_words(self, cost: float) -> str:
        """Time, memory and cost."""
        took = f"{self.seconds:.1f} s, {self.cpu:.1f} s of CPU"
        return f"{took}, at most {self.peak / 1e6:.0f} MB in a process, cost {cost:.4g}"


def rivals(folder: str, columns: list[str], n_clusters: int) -> Iterator[Rival]:
    """Run those that are installed, one after the other."""
    with ProcessPoolExecutor(1, get_context("spawn")) as alone:
        yield alone.submit(_mini_batch, folder, columns, n_clusters).result()
    if find_spec("dask_ml") is not None:
        yield _dask_ml(folder, columns, n_clusters)


def _mini_batch(folder: str, columns: list[str], n_clusters: int) -> Rival:
    import pandas as pd
    from sklearn.cluster import MiniBatchKMeans

    started, cpu = time.perf_counter(), time.process_time()
    rows = pd.read_parquet(folder, columns=columns).to_numpy()
    model = MiniBatchKMeans(n_clusters, n_init=3, random_state=0).fit(rows)
    took = time.perf_counter() - started, time.process_time() - cpu
    return Rival("MiniBatchKMeans", *took, model.cluster_centers_, peak_bytes())


def _dask_ml(folder: str, columns: list[str], n_clusters: int) -> Rival:
    import dask.dataframe as dd
    from dask_ml.cluster import KMeans

    with cluster_of(N_WORKERS) as client:
        started, cpu = time.perf_counter(), cpu_of(client)
        rows = dd.read_parquet(folder)[columns].to_dask_array(lengths=True).persist()
        model = KMeans(n_clusters, random_state=0).fit(rows)
        took = time.perf_counter() - started, cpu_of(client) - cpu
        return Rival("dask-ml's KMeans", *took, model.cluster_centers_, max(client.run(peak_bytes).values()))


def cpu_of(client: Any) -> float:
    """CPU seconds of this process and of all workers until now."""
    return time.process_time() + float(sum(client.run(time.process_time).values()))


def costs_of(folder: str, columns: list[str], found: Sequence[Rival]) -> list[float]:
    """K-means cost of all rows, each at the nearest center of each method."""
    import pandas as pd

    costs = [0.0] * len(found)
    for path in sorted(Path(folder).iterdir()):
        rows = pd.read_parquet(path, columns=columns).to_numpy()
        costs = [cost + kmeans_cost(rows, one.centers) for cost, one in zip(costs, found, strict=True)]
    return costs


@contextmanager
def cluster_of(n_workers: int) -> Iterator[Any]:
    """A Dask cluster of processes with one thread each, ready to work."""
    try:
        from distributed import Client, LocalCluster
    except ImportError as error:
        raise MissingExtraError("this benchmark needs Dask: pip install 'kfed[dask]'") from error
    with (
        LocalCluster(n_workers=n_workers, threads_per_worker=1, processes=True, dashboard_address=":0") as cluster,
        Client(cluster) as client,
    ):
        client.run(warm)
        yield client


def warm() -> None:
    """Import on a worker what the work imports: that is start-up, not work."""
    for name in ("pandas", "pyarrow.dataset", "pyarrow.parquet", "kfed.adapters.dask"):
        import_module(name)


def peak_bytes() -> int:
    """The most memory that this process has used; 0 where the system does not say."""
    try:
        status = Path("/proc/self/status").read_text()
    except OSError:
        return 0
    return 1024 * int(status.partition("VmHWM:")[2].split()[0])
