"""W1 to W5, K1 to K3: Algorithm 1 on fleets, large and wide devices and many clusters; scikit-learn and faiss too."""

from __future__ import annotations

import subprocess
import sys
import tracemalloc
import warnings
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

import kfed
from benchmarks.figures import Figure, race
from kfed._base.array import Array
from kfed.metrics import kmeans_cost

SEPARATION = 6.0
"""Typical distance between cluster means, in standard deviations of a cluster along one axis."""

N_COMPONENTS = 16


def fleet(
    name: str,
    n_devices: int,
    n_points: int,
    n_features: int,
    n_clusters: int,
    over_sklearn: float,
    over_faiss: float,
    as_called: float,
    over_unmeasured: float,
) -> Callable[[bool], Iterator[Figure]]:
    """A workload of many devices; competitors fit the first of them one after the other, with one thread."""

    def workload(quick: bool) -> Iterator[Figure]:
        from sklearn.cluster import KMeans

        devices = _mixtures(max(64, n_devices // 10) if quick else n_devices, n_points, n_features, n_clusters)
        looped = devices[: max(32, min(len(devices), 300_000 // n_points))]

        def ours(measure_deviation: bool = False) -> list[kfed.LocalClustering]:
            return kfed.cluster_fleet(devices, n_clusters, random_state=0, measure_deviation=measure_deviation)

        def theirs() -> list[Any]:
            return [KMeans(n_clusters, n_init=1, random_state=0).fit(points) for points in looped]

        with threadpool_limits(1):
            their_cost = _mean_cost(looped, [(model.cluster_centers_, model.labels_) for model in theirs()])
        our_cost = _mean_cost(looped, [(local.centers, local.labels) for local in ours()[: len(looped)]])
        contestants = {"kfed": ours, "scikit-learn": alone(theirs), "measured": lambda: ours(measure_deviation=True)}
        faiss_fit = faiss_loop(looped, n_clusters)
        if faiss_fit is not None:
            contestants["faiss"] = faiss_fit
        seconds = race(contestants, rounds=5 if n_devices > 100 else 9)
        each = {who: s / len(devices if who in ("kfed", "measured") else looped) * 1e3 for who, s in seconds.items()}
        shown = [who for who in ("kfed", "scikit-learn", "faiss") if who in each]
        detail = ", ".join(f"{who} {each[who]:.3f} ms a device" for who in shown)
        for other, target in (("scikit-learn", over_sklearn), ("faiss", over_faiss)):
            if other in each:
                yield Figure(name, f"times as fast as {other}", each[other] / each["kfed"], target, True, detail)
        with_norm = f"kfed {each['measured']:.3f} ms a device"
        by_default = each["scikit-learn"] / each["measured"]
        yield Figure(name, "times as fast as scikit-learn, as users call it", by_default, as_called, True, with_norm)
        longer = each["measured"] / each["kfed"]
        yield Figure(name, "time with the spectral deviation over without", longer, over_unmeasured, False, with_norm)
        yield Figure(name, "mean cost over scikit-learn's", our_cost / their_cost, 1.0, False)

    return workload


def one_device(quick: bool) -> Iterator[Figure]:
    """W4: one device of a million points."""
    from sklearn.cluster import KMeans

    n_points, n_features, n_clusters = (100_000 if quick else 1_000_000), 32, 16
    points = mixture(np.random.default_rng(0), n_points, n_features, n_clusters)

    def ours(seed: int = 0) -> kfed.LocalClustering:
        return kfed.cluster_device(points, n_clusters, random_state=seed, measure_deviation=False)

    def by_default() -> kfed.LocalClustering:
        return kfed.cluster_device(points, n_clusters, random_state=0)

    def theirs(seed: int = 0) -> Any:
        return KMeans(n_clusters, n_init=1, random_state=seed).fit(points)

    seconds = race({"kfed": ours, "scikit-learn": theirs, "by default": by_default}, rounds=3)
    yield from _against_scikit_learn("W4", seconds, "with all threads")
    seeds, same = range(5), [points] * 5
    our_cost = _mean_cost(same, [(local.centers, local.labels) for local in map(ours, seeds)])
    their_cost = _mean_cost(same, [(model.cluster_centers_, model.labels_) for model in map(theirs, seeds)])
    yield Figure("W4", "mean cost over scikit-learn's", our_cost / their_cost, 1.0, False, "five seeds")
    tracemalloc.start()
    ours()
    peak = 1 + tracemalloc.get_traced_memory()[1] / points.nbytes
    tracemalloc.stop()
    size = f"input {points.nbytes / 1e6:.0f} MB, included"
    yield Figure("W4", "peak memory over the input's", peak, 2.0, False, size)


def wide_device(quick: bool) -> Iterator[Figure]:
    """W5: one device of many features, where the spectral deviation takes longest."""
    n_points, n_features, n_clusters = (4_000 if quick else 16_000), 3_000, 16
    points = mixture(np.random.default_rng(0), n_points, n_features, n_clusters)
    name = f"{n_points:,} x {n_features:,} float32"

    def ours(measure_deviation: bool) -> kfed.LocalClustering:
        return kfed.cluster_device(points, n_clusters, random_state=0, measure_deviation=measure_deviation)

    seconds = race({"without": lambda: ours(False), "with": lambda: ours(True)}, rounds=3)
    detail = f"{seconds['with']:.2f} s, without {seconds['without']:.2f} s"
    longer = seconds["with"] / seconds["without"]
    yield Figure(name, "time with the spectral deviation over without", longer, 2.0, False, detail)
    code = f"from benchmarks import devices; print(devices.peak_over_input({n_points}, {n_features}, {n_clusters}))"
    fresh = subprocess.run(
        [sys.executable, "-c", code],
        cwd=Path(__file__).parents[1],
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    size = f"input {points.nbytes / 1e6:.0f} MB, included; in a fresh process"
    yield Figure(name, "peak memory over the input's", float(fresh.stdout), 1.2, False, size)


def peak_over_input(n_points: int, n_features: int, n_clusters: int) -> float:
    """The most that Python and NumPy hold while a device is clustered with its deviation, over its points."""
    points = mixture(np.random.default_rng(0), n_points, n_features, n_clusters)
    tracemalloc.start()
    kfed.cluster_device(points, n_clusters, random_state=0)
    return 1 + tracemalloc.get_traced_memory()[1] / points.nbytes


def many_clusters(n_points: int, n_features: int, n_clusters: int) -> Callable[[bool], Iterator[Figure]]:
    """One device with many clusters, each contestant with one thread."""

    def workload(quick: bool) -> Iterator[Figure]:
        from sklearn.cluster import KMeans

        size = n_points // 4 if quick else n_points
        points = mixture(np.random.default_rng(0), size, n_features, n_clusters)
        name = f"{size:,} x {n_features}, k = {n_clusters}"

        def ours(seed: int = 0) -> kfed.LocalClustering:
            return kfed.cluster_device(points, n_clusters, random_state=seed, measure_deviation=False, n_jobs=1)

        def by_default() -> kfed.LocalClustering:
            return kfed.cluster_device(points, n_clusters, random_state=0, n_jobs=1)

        def theirs(seed: int = 0) -> Any:
            return KMeans(n_clusters, n_init=1, random_state=seed).fit(points)

        seconds = race({"kfed": ours, "scikit-learn": alone(theirs), "by default": by_default}, rounds=3)
        yield from _against_scikit_learn(name, seconds, "one thread each")
        seeds, same = range(3), [points] * 3
        our_cost = _mean_cost(same, [(local.centers, local.labels) for local in map(ours, seeds)])
        their_cost = _mean_cost(same, [(model.cluster_centers_, model.labels_) for model in map(theirs, seeds)])
        yield Figure(name, "mean cost over scikit-learn's", our_cost / their_cost, 1.01, False, "three seeds")

    return workload


def _against_scikit_learn(name: str, seconds: Mapping[str, float], threads: str) -> Iterator[Figure]:
    """How many times as fast one device is, without the spectral deviation and as users call it."""
    theirs, what = seconds["scikit-learn"], "times as fast as scikit-learn"
    detail = f"kfed {seconds['kfed']:.2f} s, scikit-learn {theirs:.2f} s, {threads}"
    yield Figure(name, what, theirs / seconds["kfed"], 1.5, True, detail)
    own = seconds["by default"]
    yield Figure(name, f"{what}, as users call it", theirs / own, 1.5, True, f"kfed {own:.2f} s")


def _mean_cost(devices: list[Array], answers: list[tuple[Array, Array]]) -> float:
    """The mean k-means cost of centers and labels, measured in double precision for all alike."""
    costs = [kmeans_cost(points, *answer) for points, answer in zip(devices, answers, strict=True)]
    return float(np.mean(costs))


def _mixtures(n_devices: int, n_points: int, n_features: int, n_clusters: int) -> list[Array]:
    """Devices that each hold points of a few of the components of one mixture."""
    rng = np.random.default_rng(0)
    return [mixture(rng, n_points, n_features, n_clusters) for _ in range(n_devices)]


def mixture(rng: np.random.Generator, n_points: int, n_features: int, n_clusters: int) -> Array:
    """Points of a mixture of Gaussians with means about `SEPARATION` standard deviations apart."""
    scale = SEPARATION / np.sqrt(2 * n_features)
    means = scale * np.random.default_rng(1).standard_normal((max(N_COMPONENTS, n_clusters), n_features))
    own = rng.choice(len(means), n_clusters, replace=False)[rng.integers(n_clusters, size=n_points)]
    return np.asarray(means[own] + rng.standard_normal((n_points, n_features)), dtype=np.float32)


def alone(function: Callable[[], object]) -> Callable[[], object]:
    """`function` with one thread, as suits many small fits."""

    def limited() -> object:
        with threadpool_limits(1):
            return function()

    return limited


def faiss_loop(devices: list[Array], n_clusters: int) -> Callable[[], object] | None:
    """Faiss's k-means with one thread on each device, or None if it is not installed."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            import faiss
    except ImportError:
        return None

    def fit() -> None:
        faiss.omp_set_num_threads(1)
        for points in devices:
            faiss.Kmeans(
                points.shape[1], n_clusters, min_points_per_centroid=1, max_points_per_centroid=len(points)
            ).train(points)

    return fit
