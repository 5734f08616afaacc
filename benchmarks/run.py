"""Run workloads and show what was reached."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from importlib import metadata

from benchmarks import coordinator, devices, federated, messages, partitions, servers
from benchmarks.figures import Figure
from kfed._base import checks, pool
from kfed._base.progress import progress_bar

WORKLOADS: dict[str, Callable[[bool], Iterator[Figure]]] = {
    "W1": devices.fleet("W1", 10_000, 100, 64, 4, over_sklearn=25, over_faiss=1.5, as_called=22, over_unmeasured=1.3),
    "W2": devices.fleet("W2", 1_000, 1_000, 100, 4, over_sklearn=4, over_faiss=1.5, as_called=4, over_unmeasured=1.3),
    "W3": devices.fleet("W3", 100, 600, 784, 2, over_sklearn=3, over_faiss=1, as_called=2, over_unmeasured=2),
    "W4": devices.one_device,
    "W5": devices.wide_device,
    "K1": devices.many_clusters(100_000, 10, 100),
    "K2": devices.many_clusters(200_000, 2, 100),
    "K3": devices.many_clusters(50_000, 20, 500),
    "S1": servers.small,
    "S2": servers.large("S2", 1_000_000, 64),
    "S3": servers.large("S3", 200_000, 784),
    "S4": servers.choosing,
    "S5": servers.robust("S5", 1_000_000, 500, target=15, gap=10.0),
    "S6": servers.robust("S6", 80_000, 100, target=2, gap=0.0),
    "C1": servers.comparison,
    "message": messages.message,
    "messages": messages.many,
    "import": messages.imports,
    "federated": federated.federated,
}

SERVICES: dict[str, Callable[[bool], Iterator[Figure]]] = {
    "coordinator": coordinator.coordinator,
    "dask": partitions.partitions,
}
"""Measured when named: what they take is an extra, and their figures are no ratios to a competitor."""


def run(names: Sequence[str] = (), *, quick: bool = False, progress: bool | None = None) -> list[Figure]:
    """Measure workloads, all but services by default; `quick` makes them about ten times smaller."""
    known = WORKLOADS | SERVICES
    chosen = [checks.one_of(name, list(known), "workload") for name in names] or list(WORKLOADS)
    figures: list[Figure] = []
    with progress_bar("measuring", len(chosen), progress) as advance:
        for name in chosen:
            figures.extend(known[name](quick))
            advance(1)
    return figures


def as_json(figures: Sequence[Figure]) -> str:
    """The figures for a program."""
    return json.dumps([{**asdict(figure), "reached": figure.reached} for figure in figures], indent=2)


def as_markdown(figures: Sequence[Figure]) -> str:
    """The figures as a page of the documentation."""
    measured = {figure.workload for figure in figures}
    about, packages = _PAGES[measured.pop()] if len(measured) == 1 and measured <= set(_PAGES) else _PAGE
    lines = [*about, "", f"{pool.available_cores()} cores, {_versions(*packages)}.", "", *table(figures)]
    return "\n".join(lines if about is not _PAGE[0] else [*lines, *_PICTURE])


def table(figures: Sequence[Figure]) -> Iterator[str]:
    """The lines of a table of figures in Markdown."""
    yield "| workload | measure | reached | must be | | |"
    yield "|---|---|---|---|---|---|"
    for figure in figures:
        sign = "≥" if figure.higher_is_better else "≤"
        verdict = "yes" if figure.reached else "**no**"
        cells = [figure.workload, figure.measure, f"{figure.value:,.4g}", f"{sign} {figure.target:g}", verdict]
        yield f"| {' | '.join([*cells, figure.detail])} |"


_PICTURE = [
    "",
    "## How time grows",
    "",
    "Written by `make bench`, too (`python -m benchmarks scaling`). Both scales are logarithmic, so a straight line is",
    "a power of the size, and a line that turns up is time that grows faster than before. faiss takes 25 steps from a",
    "random start, whatever is left to do; scikit-learn stops when centers move less than its tolerance, kfed when",
    "nothing changes, both after 300 steps at most; and kfed measures the spectral deviation.",
    "",
    "![Time against points, features, clusters and devices](images/scaling.png)",
]


_PAGE: tuple[list[str], list[str]] = (
    [
        "# Benchmarks",
        "",
        "Written by `make bench`. Every figure is a size, a ratio to a competitor in the same run, or seconds.",
        "Fleets and W4 are mixtures of Gaussians with means about 6 standard deviations apart. scikit-learn and faiss",
        "fit the devices of a fleet one after the other with one thread, kfed with all cores; `benchmarks/` says more.",
        '"As users call it" and the memory of 16,000 x 3,000 are with the spectral deviation, which kfed measures by',
        "default and others never. Its other rows are without it, but for those that compare both.",
    ],
    ["numpy", "scikit-learn", "faiss-cpu", "safetensors"],
)
"""What a page of figures begins with, and the packages whose versions it names."""

_PAGES: dict[str, tuple[list[str], list[str]]] = {
    "coordinator": (
        [
            "# The coordinator under load",
            "",
            "Written by `make bench ARGS='coordinator --markdown docs/benchmarks-coordinator.md'`. `kfed serve` with",
            "SQLite on this machine's disk, and the devices that send to it over 64 connections on the same machine.",
            "A message is acknowledged when it is on disk.",
        ],
        ["numpy", "fastapi", "uvicorn", "sqlalchemy"],
    ),
    "dask": (
        [
            "# Devices in Parquet, on Dask",
            "",
            "Written by `make bench ARGS='dask --markdown docs/benchmarks-dask.md'`. Devices of unequal sizes in forty",
            "Parquet files, clustered where they lie by `cluster_partitions` on a local cluster of processes with one",
            "thread each. In the same run, k-means on all rows of the same files: scikit-learn's MiniBatchKMeans in",
            "the memory of one process, and dask-ml's KMeans on two workers if it is installed. The cost is that of",
            "all rows, each at its nearest center. Times are with reading.",
        ],
        ["numpy", "dask", "distributed", "pandas", "pyarrow", "scikit-learn", "dask-ml"],
    ),
}


def _versions(*packages: str) -> str:
    found = []
    for package in packages:
        with contextlib.suppress(metadata.PackageNotFoundError):
            found.append(f"{package} {metadata.version(package)}")
    return ", ".join(found)
