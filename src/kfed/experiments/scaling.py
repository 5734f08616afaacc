"""Theorem 2 as a picture: distance computations and time of the server step, and of a late device."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np

from kfed._base import geometry
from kfed.experiments.axes import Axes, grid, seed_of
from kfed.experiments.drawing import finish, from_to, values_of
from kfed.experiments.experiment import Experiment, ExperimentSummary, Finding, Result, TextTable
from kfed.experiments.yardstick import holds
from kfed.server import aggregate
from kfed.wire import DeviceMessage

if TYPE_CHECKING:
    from matplotlib.figure import Figure

N_FEATURES = 64
SPREAD = 0.1
K_PRIME = 4
AGAINST_Z, AGAINST_K = "Z", "k"


def run_one(axes: Axes, seed: int) -> dict[str, Any]:
    """Count and time the server step on messages of Z devices, and the answer to a late one."""
    *messages, late = _messages(axes["Z"] + 1, axes["k"], np.random.default_rng(seed_of(seed, **axes)))
    with counting_distances() as count:
        result = aggregate(messages, axes["k"], n_jobs=1)
        n_server = count()
        result.assign(late)
        n_late = count() - n_server
    return {
        "server_distances": n_server,
        "late_distances": n_late,
        "server_seconds": _best_time(lambda: aggregate(messages, axes["k"], n_jobs=1)),
        "late_seconds": _best_time(lambda: result.assign(late)),
    }


def _messages(n_devices: int, n_clusters: int, rng: np.random.Generator) -> list[DeviceMessage]:
    """What devices with k' clusters each would send, if clusters are well separated."""
    means = rng.standard_normal((n_clusters, N_FEATURES))
    held = rng.permuted(np.tile(np.arange(n_clusters), (n_devices, 1)), axis=1)[:, :K_PRIME]
    held[: n_clusters // K_PRIME] = rng.permutation(n_clusters).reshape(-1, K_PRIME)  # every cluster is somewhere
    centers = means[held] + SPREAD * rng.standard_normal((n_devices, K_PRIME, N_FEATURES))
    return [DeviceMessage(f"device-{i:06d}", own, np.full(K_PRIME, 100)) for i, own in enumerate(centers)]


@contextmanager
def counting_distances() -> Iterator[Callable[[], int]]:
    """Count pairwise distances: all that the server computes pass through two functions."""
    counted = 0
    originals = {name: getattr(geometry, name) for name in ("product_distances", "squared_distances")}

    def counting(function: Callable[..., Any]) -> Callable[..., Any]:
        def wrapper(left: Any, right: Any, *rest: Any) -> Any:
            nonlocal counted
            counted += len(left) * len(right)
            return function(left, right, *rest)

        return wrapper

    try:
        for name, function in originals.items():
            setattr(geometry, name, counting(function))
        yield lambda: counted
    finally:
        for name, function in originals.items():
            setattr(geometry, name, function)


def _best_time(work: Callable[[], Any], n_tries: int = 3) -> float:
    seconds = []
    for _ in range(n_tries):
        started = time.perf_counter()
        work()
        seconds.append(time.perf_counter() - started)
    return min(seconds)


def summarize(results: list[Result]) -> ExperimentSummary:
    """Compare counts with the theorem's bounds."""
    shares = [r["server_distances"] / _bound(r) for r in results]
    plain = [r["server_distances"] / (r["Z"] * K_PRIME * r["k"]) for r in results]
    late = [r["late_distances"] / (K_PRIME * r["k"]) for r in results]
    slopes = {x: _slope(_along(results, x), x, "server_distances") for x in (AGAINST_Z, AGAINST_K)}
    return ExperimentSummary(
        (
            Finding(
                claim="the server step takes O(Z k' k²) distance computations",
                paper="O(Z k' k²)",
                ours=f"{from_to(plain)} times Z k' k: at most {max(shares):.1%} of Z k' k²; "
                f"grows as Z^{slopes[AGAINST_Z]:.2f} and k^{slopes[AGAINST_K]:.2f}",
                verdict=holds(max(shares) <= 1),
                reason="a center is measured again only when it could be the farthest",
            ),
            Finding(
                claim="a late device takes O(k' k) distance computations",
                paper="O(k' k)",
                ours=f"{from_to(late)} times k' k, whatever Z",
                verdict=holds(max(late) <= 1),
            ),
        ),
        (_table(results),),
    )


def _bound(result: Result) -> int:
    return int(result["Z"] * K_PRIME * result["k"] ** 2)


def _along(results: list[Result], axis: str) -> list[Result]:
    """The runs in which only one of Z and k varies, in its order."""
    other = AGAINST_K if axis == AGAINST_Z else AGAINST_Z
    fixed = max(values_of(results, other), key=lambda value: sum(r[other] == value for r in results))
    return sorted((result for result in results if result[other] == fixed), key=lambda result: result[axis])


def _slope(results: list[Result], axis: str, name: str) -> float:
    return float(np.polyfit(np.log([r[axis] for r in results]), np.log([r[name] for r in results]), 1)[0])


def _table(results: list[Result]) -> TextTable:
    headings = ("Z", "k", "distances", "of Z k' k²", "server, ms", "late device: distances", "ms")
    rows = tuple(
        (
            f"{r['Z']:,}",
            str(r["k"]),
            f"{r['server_distances']:,}",
            f"{r['server_distances'] / _bound(r):.2%}",
            f"{1e3 * r['server_seconds']:.1f}",
            f"{r['late_distances']:,}",
            f"{1e3 * r['late_seconds']:.2f}",
        )
        for r in results
    )
    return TextTable(f"k' = {K_PRIME}, d = {N_FEATURES}, one thread", headings, rows, n_words=0)


def plot(results: list[Result], figure: Figure) -> None:
    """Draw counts and times against Z and against k, with the theorem's bounds."""
    grid_of_axes = figure.subplots(2, 2, sharex="col", squeeze=False)
    for column, axis in enumerate((AGAINST_Z, AGAINST_K)):
        own = _along(results, axis)
        _draw_counts(grid_of_axes[0, column], own, axis)
        _draw_times(grid_of_axes[1, column], own, axis)
        grid_of_axes[1, column].set_xticks([r[axis] for r in own], [f"{r[axis]:,}" for r in own])
        grid_of_axes[1, column].minorticks_off()
    figure.legend(*grid_of_axes[0, 0].get_legend_handles_labels(), loc="outside upper center", ncols=4, frameon=False)


def _draw_counts(ax: Any, results: list[Result], axis: str) -> None:
    places = [r[axis] for r in results]
    ax.loglog(places, [_bound(r) for r in results], "--", color="0.5", label="Z k' k² (the theorem)")
    ax.loglog(places, [r["Z"] * K_PRIME * r["k"] for r in results], ":", color="0.5", label="Z k' k")
    ax.loglog(places, [r["server_distances"] for r in results], "o-", color="C0", label="server step")
    ax.loglog(places, [r["late_distances"] for r in results], "s-", color="C1", label="late device")
    fixed = f"k = {results[0]['k']}" if axis == AGAINST_Z else f"Z = {results[0]['Z']:,}"
    finish(ax, f"{fixed}, k' = {K_PRIME}", "", "distances computed" if axis == AGAINST_Z else "")


def _draw_times(ax: Any, results: list[Result], axis: str) -> None:
    places = [r[axis] for r in results]
    ax.loglog(places, [1e3 * r["server_seconds"] for r in results], "o-", color="C0", label="server step")
    ax.loglog(places, [1e3 * r["late_seconds"] for r in results], "s-", color="C1", label="late device")
    across = "devices, Z" if axis == AGAINST_Z else "clusters, k"
    finish(ax, "", across, "milliseconds" if axis == AGAINST_Z else "")


def _preset(many_z: list[int], many_k: list[int], usual_z: int, usual_k: int) -> tuple[Axes, ...]:
    both = [*grid(Z=many_z, k=[usual_k]), *grid(Z=[usual_z], k=many_k)]
    return tuple({tuple(axes.items()): axes for axes in both}.values())


EXPERIMENT = Experiment.of(
    __name__,
    "Cost of the server step and of a late device",
    "Theorem 2, section 3",
    claim="The server step takes O(Z k' k²) distance computations, and a new device O(k' k).",
    measure="Pairwise distances that the server computes (counted), and the best of three times on one thread.",
    setup_differs="The theorem has no experiment in the paper. Centers are those of well separated clusters. Times "
    "depend on the machine, and are the only numbers here that another run does not repeat.",
    quick=_preset([100, 300, 1000], [16, 64], 300, 64),
    full=_preset([100, 300, 1000, 3000, 10000, 30000], [16, 32, 64, 128, 256, 512], 3000, 64),
    figure_size=(9.0, 6.5),
    minutes=(0.02, 0.15),
)
