"""S1 to S3: Algorithm 2, against a textbook and against plain passes; S4 to S6 and C1: seconds, where no rival is."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from functools import partial

import numpy as np

from benchmarks.figures import Figure, race
from kfed._base import geometry
from kfed._base.array import Array
from kfed.server import aggregate, choose_n_clusters, compare_k, farthest_first
from kfed.wire import DeviceMessage, FeatureSchema, MessageBatch

N_START = 4


def small(quick: bool) -> Iterator[Figure]:
    """S1: against a textbook that measures all distances to M at every step."""
    for kind, centers in _kinds(1_000 if quick else 10_000, 100, n_clusters=64):
        ours, theirs = _raced(centers, 64, _textbook, rounds=9)
        detail = f"kfed {ours * 1e3:.0f} ms, textbook {theirs * 1e3:.0f} ms"
        yield Figure(f"S1 {kind}", "times as fast as a textbook", theirs / ours, 50, True, detail)
        yield _agreement(f"S1 {kind}", centers, 64, np.arange(N_START))


def large(name: str, n_centers: int, n_features: int) -> Callable[[bool], Iterator[Figure]]:
    """Against n_clusters plain products of all centers with a vector, which do no more than read the memory."""

    def workload(quick: bool) -> Iterator[Figure]:
        n_clusters = 100
        for kind, centers in _kinds(n_centers // 10 if quick else n_centers, n_features, n_clusters):
            ours, passes = _raced(centers, n_clusters, _passes, rounds=5)
            detail = f"kfed {ours:.2f} s, {n_clusters} passes {passes:.2f} s"
            yield Figure(f"{name} {kind}", "time over k passes", ours / passes, 0.6, False, detail)
            yield _agreement(f"{name} {kind}", centers, n_clusters, np.arange(N_START))

    return workload


def comparison(quick: bool) -> Iterator[Figure]:
    """C1: twelve values of k on 10,000 centers with 20 resamplings of the devices."""
    for kind, centers in _kinds(1_000 if quick else 10_000, 20, n_clusters=8):
        n_devices = len(centers) // 10
        sent = [
            DeviceMessage(f"{device:04}", own, np.full(10, 30), np.full(10, 30.0 * own.shape[1]))
            for device, own in enumerate(np.split(centers, n_devices))
        ]
        batch = MessageBatch.of(sent)
        started = time.perf_counter()
        found = compare_k(batch, range(2, 14))
        seconds = time.perf_counter() - started
        detail = f"recommended: {found.recommended}"
        yield Figure(f"C1 {kind}", "seconds for twelve values of k", seconds, 10, False, detail)


def choosing(quick: bool) -> Iterator[Figure]:
    """S4: how long it takes to choose k."""
    for n_features in (16, 64):
        batch = _batch(100_000 if quick else 1_000_000, n_features, n_clusters=32)
        seconds = race({"kfed": partial(choose_n_clusters, batch)}, rounds=3)["kfed"]
        chosen = choose_n_clusters(batch)
        detail = f"{len(batch.centers):,} centers of {n_features} features, k={chosen.n_clusters}"
        yield Figure("S4", "seconds to choose k", seconds, 3, False, detail)


def robust(name: str, n_centers: int, n_clusters: int, target: float, gap: float) -> Callable[[bool], Iterator[Figure]]:
    """How long the robust rule takes."""

    def workload(quick: bool) -> Iterator[Figure]:
        batch = _batch(n_centers // 10 if quick else n_centers, 64, n_clusters, gap)
        seconds = race({"kfed": partial(aggregate, batch, n_clusters, rule="robust")}, rounds=3)["kfed"]
        kind = "separated" if gap else "no clusters at all"
        detail = f"{len(batch.centers):,} centers of 64 features, k={n_clusters}, {kind}"
        yield Figure(name, "seconds of the robust rule", seconds, target, False, detail)

    return workload


def _batch(n_centers: int, n_features: int, n_clusters: int, gap: float = 10.0) -> MessageBatch:
    """Devices of four centers each; `gap` is the scale of the places of clusters, in deviations of their points."""
    rng = np.random.default_rng(0)
    n_devices, counts = n_centers // 4, rng.integers(20, 60, n_centers)
    places = gap * rng.standard_normal((n_clusters, n_features), dtype=np.float32)
    noise = rng.standard_normal((n_centers, n_features), dtype=np.float32) / np.sqrt(counts, dtype=np.float32)[:, None]
    return MessageBatch(
        device_ids=tuple(f"{i:07}" for i in range(n_devices)),
        centers=places[rng.integers(n_clusters, size=n_centers)] + noise,
        owners=np.repeat(np.arange(n_devices), 4),
        counts=counts,
        sums_of_squares=rng.chisquare((counts - 1) * n_features),
        spectral_deviations=np.full(n_devices, np.nan),
        is_named=np.zeros(n_devices, bool),
        is_double=np.zeros(n_devices, bool),
        schema=FeatureSchema(n_features),
    )


def _raced(centers: Array, n_clusters: int, rival: Callable[..., object], rounds: int) -> tuple[float, float]:
    """Seconds of kfed and of its rival."""
    contestants: dict[str, Callable[[], object]]
    contestants = {"kfed": partial(_group, centers, n_clusters), "rival": partial(rival, centers, n_clusters)}
    seconds = race(contestants, rounds=rounds)
    return seconds["kfed"], seconds["rival"]


def _kinds(n_centers: int, n_features: int, n_clusters: int) -> Iterator[tuple[str, Array]]:
    rng = np.random.default_rng(0)
    noise = rng.standard_normal((n_centers, n_features), dtype=np.float32)
    means = 10 * rng.standard_normal((n_clusters, n_features), dtype=np.float32)
    yield "separated", means[rng.integers(n_clusters, size=n_centers)] + noise
    yield "overlapping", noise


def _group(centers: Array, n_clusters: int) -> tuple[Array, Array]:
    """Steps 2 to 7 of Algorithm 2: the rows of M, and the label of every center."""
    traversal = farthest_first(centers, n_clusters, np.arange(N_START))
    return traversal.picks, geometry.nearest(centers, centers[traversal.picks], near=traversal.near)


def _textbook(centers: Array, n_clusters: int) -> tuple[list[int], Array]:
    """Algorithm 2 as it is written: at every step, the distances of all centers to all of M."""
    from scipy.spatial.distance import cdist

    picks = list(range(N_START))
    while len(picks) < n_clusters:
        picks.append(int(cdist(centers, centers[picks]).min(axis=1).argmax()))
    return picks, cdist(centers, centers[picks]).argmin(axis=1)


def _passes(centers: Array, n_passes: int) -> list[Array]:
    """Plain products of all centers with a vector."""
    return [centers @ centers[i] for i in range(n_passes)]


def _agreement(name: str, centers: Array, n_clusters: int, start: Array) -> Figure:
    """The share of picks and labels that are those of direct differences in double precision."""
    picks, found = _group(centers, n_clusters)
    nearest = geometry.squared_distances(centers, centers[start])
    labels, distances = nearest.argmin(axis=1), nearest.min(axis=1)
    for cluster in range(len(start), n_clusters):
        if picks[cluster] != distances.argmax():
            return Figure(name, "share of the textbook's answer", 0.0, 1.0, True, f"another pick at step {cluster}")
        to_pick = geometry.squared_distances(centers, centers[picks[[cluster]]])[:, 0]
        labels[to_pick < distances] = cluster
        distances = np.minimum(distances, to_pick)
    same = float(np.mean(found == labels))
    return Figure(name, "share of the textbook's answer", same, 1.0, True, "picks and labels, by direct differences")
