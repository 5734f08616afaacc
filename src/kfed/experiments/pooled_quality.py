"""As good as pooled: the default against k-means on all rows in one place, on MNIST and on public sets of few rows."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from kfed._base import geometry
from kfed._base.array import Array
from kfed.baselines import centralized, distributed_lloyd
from kfed.datasets import Dataset, Partition, mnist, mnist_by_writer, partition
from kfed.device import LocalClustering
from kfed.experiments import _public_sets
from kfed.experiments.axes import Axes, grid, seed_of
from kfed.experiments.drawing import finish, plus_minus, select, values_of
from kfed.experiments.experiment import Experiment, ExperimentSummary, Finding, Result, TextTable
from kfed.experiments.yardstick import WITHIN_NOISE, at_most, holds, worst
from kfed.metrics import kmeans_cost
from kfed.simulate import Round, cluster_devices

if TYPE_CHECKING:
    from matplotlib.axes import Axes as AxesOfPlot
    from matplotlib.figure import Figure

N_DIGITS = 10
HELD = {"random (IID)": N_DIGITS, "by writer": N_DIGITS, "two digits": 2, "half and half": N_DIGITS}
"""How images are spread, and the digits on a device: what the paper's k^(z) is."""

CENTERS = (12, 24, 64)
"""Most centers of a summary; the last is the default, of which 20 kB hold 44 to 60."""

MOST, MOST_BYTES = 1.005, 20_000
N_SEEDINGS = 3
WAYS = {"default": "#2f6690", "paper": "0.5", "distributed Lloyd": "#d1603d"}


@lru_cache(maxsize=2)
def _data(by_writer: bool) -> Dataset:
    return mnist_by_writer() if by_writer else mnist()


@lru_cache(maxsize=10)
def _centers_of_all(k: int, seed: int) -> Array:
    """Centers of pooled k-means on all images, which devices hold in every split but that by writer."""
    return centralized([_data(False).points], k, seed, n_init=N_SEEDINGS).centers


@lru_cache(maxsize=1)
def _split(kind: str, n_devices: int, n_points: int, seed: int) -> Partition:
    """Spread images over devices; half and half is one half at random, and one half by two digits."""
    data = _data(kind == "by writer")
    if kind == "by writer":
        return partition.natural(data.owners, seed, min_points=50, n_devices=n_devices)
    assert data.classes is not None
    rows = np.random.default_rng(seed).permutation(data.n_points)[:n_points]
    halves = {"random (IID)": (rows, rows[:0]), "two digits": (rows[:0], rows)}.get(kind, np.array_split(rows, 2))
    parts = []
    if len(halves[0]):
        parts.append([halves[0][own] for own in partition.iid(len(halves[0]), n_devices, seed).rows])
    if len(halves[1]):
        dealt = partition.structured(data.classes[halves[1]], n_devices, 2, seed)
        parts.append([halves[1][own] for own in dealt.rows])
    together = tuple(np.sort(np.concatenate(own)) for own in zip(*parts, strict=True))
    return replace(partition.iid(data.n_points, n_devices, seed), rows=together)


@lru_cache(maxsize=len(CENTERS))
def _summaries(kind: str, n_devices: int, n_points: int, seed: int, most: int) -> dict[str, LocalClustering]:
    """What devices that give no number find: the same for every k, which only the server knows."""
    devices = _split(kind, n_devices, n_points, seed).devices(_data(kind == "by writer").points)
    return cluster_devices(devices, random_state=seed, max_local_clusters=most)


def run_one(axes: Axes, seed: int) -> dict[str, Any]:
    """Cluster images, or one of the public sets."""
    return _public_sets.run_set(axes, seed) if "set" in axes else _run_images(axes, seed)


def _files(axes: Axes) -> tuple[str, ...]:
    return (_public_sets.FOLDER,) if "set" in axes else ("mnist", "mnist-writers")


def _run_images(axes: Axes, seed: int) -> dict[str, Any]:
    """Cluster in every way: the cost over that of pooled k-means, bytes from a device, and what labels agree with."""
    from sklearn.metrics import adjusted_rand_score

    data, k = _data(axes["split"] == "by writer"), axes["k"]
    own = seed_of(seed, split=axes["split"], run=axes["run"])
    assert data.classes is not None
    where = (axes["split"], axes["n_devices"], axes["n_points"], own)
    split = _split(*where)
    devices, used = split.devices(data.points), np.concatenate(split.rows)
    points, digits = data.points[used], np.asarray(data.classes)[used]
    if len(used) == data.n_points:
        pooled = _centers_of_all(k, seed_of(seed, run=axes["run"]))
    else:
        pooled = centralized(list(devices.values()), k, own, n_init=N_SEEDINGS).centers
    labels = geometry.nearest(points, pooled.astype(points.dtype))
    best = kmeans_cost(points, pooled, labels)
    found: dict[str, Any] = {"pooled: ARI": float(adjusted_rand_score(digits, labels)), "pooled: cost": best}
    for most in CENTERS:
        done = replace(Round.of(_summaries(*where, most), k), points=devices)
        found[f"default, {most}"] = _measured(done, points, best)
    found["default: ARI"] = float(adjusted_rand_score(digits, done.labels))
    found["default, induced: ARI"] = float(adjusted_rand_score(digits, replace(done, points=None).labels))
    found["rule"] = done.aggregation.rule
    paper = Round.run(devices, k, HELD[axes["split"]], random_state=own)
    found["paper"] = _measured(paper, points, best)
    found["paper: ARI"] = float(adjusted_rand_score(digits, paper.labels))
    lloyd = distributed_lloyd(list(devices.values()), k, own, max_rounds=axes["max_rounds"])
    found["lloyd"] = [[step.sent.bytes_up / len(devices), step.cost / best] for step in lloyd.steps]
    return found


def _measured(done: Round, points: Array, best: float) -> list[float]:
    """Bytes of the largest message, and the cost over the best, with every row at its nearest center."""
    n_bytes = max(len(message.to_bytes()) for message in done.messages)
    return [n_bytes, kmeans_cost(points, done.aggregation.cluster_centers.astype(points.dtype)) / best]


def summarize(results: list[Result]) -> ExperimentSummary:
    """See whether the default is within half a percent of pooled k-means on images, and near it on small sets."""
    images, sets = _parted(results)
    found: list[Finding] = []
    tables: list[TextTable] = []
    if images:
        cases = [(split, k) for split in values_of(images, "split") for k in values_of(images, "k")]
        found += [_finding(select(images, split=split, k=k), split, k) for split, k in cases]
        tables += [_table(images, cases), _labels(images, cases)]
    if sets:
        found += _public_sets.findings(sets)
        tables.append(_public_sets.costs_table(sets))
    return ExperimentSummary(tuple(found), tuple(tables))


def _parted(results: list[Result]) -> tuple[list[Result], list[Result]]:
    """Runs on images, and on public sets."""
    return [one for one in results if "split" in one.axes], [one for one in results if "set" in one.axes]


def _finding(results: list[Result], split: str, k: int) -> Finding:
    n_bytes, ratios = zip(*(result[f"default, {CENTERS[-1]}"] for result in results), strict=True)
    paper = np.mean([result["paper"][1] for result in results])
    verdict = worst([at_most(ratios, MOST), holds(max(n_bytes) <= MOST_BYTES)])
    why = WITHIN_NOISE if np.mean(ratios) <= MOST else "summaries are coarse, and k-means ends in a local optimum"
    return Finding(
        claim=f"the default costs at most {MOST:g} of pooled k-means, in one round of at most 20 kB ({split}, k = {k})",
        paper="has one rule",
        ours=f"{np.mean(ratios):.4f} with at most {max(n_bytes):,.0f} bytes a device; by the paper's rule {paper:.4f}",
        verdict=verdict,
        reason="" if verdict == "reproduced" else why if max(n_bytes) <= MOST_BYTES else "a message is larger",
    )


def _table(results: list[Result], cases: list[tuple[str, int]]) -> TextTable:
    rows = []
    for split, k in cases:
        own = select(results, split=split, k=k)
        summaries = [plus_minus([r[f"default, {most}"][1] for r in own], 4) for most in CENTERS]
        others = [plus_minus([r["paper"][1] for r in own], 4), plus_minus([r["lloyd"][-1][1] for r in own], 4)]
        rows.append((split, str(k), *summaries, *others))
    headings = ("split", "k", *(f"default, {most} centers" for most in CENTERS), "paper", "distributed Lloyd")
    return TextTable("Cost over that of pooled k-means", headings, tuple(rows), n_words=1)


def _labels(results: list[Result], cases: list[tuple[str, int]]) -> TextTable:
    ways = ("pooled", "default", "default, induced", "paper")
    rows = []
    for split, k in cases:
        own = select(results, split=split, k=k)
        rows.append((split, str(k), *(plus_minus([r[f"{way}: ARI"] for r in own], 3) for way in ways)))
    return TextTable(
        "Adjusted Rand index against the digits",
        ("split", "k", "pooled k-means", "default", "default, by centers alone", "paper"),
        tuple(rows),
        n_words=1,
    )


def plot(results: list[Result], figure: Figure) -> None:
    """Draw cost against bytes, one panel a split, and the costs of the public sets."""
    images, sets = _parted(results)
    splits = values_of(images, "split")
    panels = figure.subplots(1, len(splits) + bool(sets), squeeze=False)[0]
    for ax, split in zip(panels, splits, strict=False):
        _draw_split(ax, images, split, values_of(images, "k")[0])
    if splits:
        handles = panels[0].get_legend_handles_labels()
        figure.legend(*handles, loc="outside lower center", ncols=4, frameon=False)
    if sets:
        _public_sets.draw_costs(sets, panels[-1])
        panels[-1].legend(frameon=False, fontsize="small")
        finish(panels[-1], "public sets", "", "")
    panels[0].set_ylabel("cost over pooled k-means")


def _draw_split(ax: AxesOfPlot, results: list[Result], split: str, k: int) -> None:
    own = select(results, split=split, k=k)
    ours = np.mean([[r[f"default, {most}"] for most in CENTERS] for r in own], axis=0)
    ax.plot(*ours.T, marker="o", label="default", color=WAYS["default"])
    ax.plot(*np.mean([r["paper"] for r in own], axis=0), "s", label="paper", color=WAYS["paper"])
    ax.plot(*np.array(own[0]["lloyd"]).T, label="distributed Lloyd", color=WAYS["distributed Lloyd"])
    ax.axhline(1, color="0.4", linestyle="--", linewidth=1, label="pooled k-means")
    ax.set(xscale="log", xlim=(5e3, 1.2e6), ylim=(0.995, 1.12))
    ax.set_xticks([1e4, 1e5, 1e6], ["10 kB", "100 kB", "1 MB"])
    ax.minorticks_off()
    finish(ax, f"{split}, k = {k}", "bytes from a device", "")


EXPERIMENT = Experiment(
    name="pooled-quality",
    title="As good as pooled, in one round",
    paper="beyond the paper",
    claim="Where clusters are not separated, the default comes within half a percent of k-means on all rows. On public "
    f"sets of few rows it does so only without the floor: with it no center of fewer than {_public_sets.FLOOR} rows "
    "is sent, which costs it more where a device has few rows of a group.",
    measure="k-means cost, every row at its nearest center, over that of k-means on all rows (best of three seedings; "
    "of ten on public sets).",
    setup_differs="The paper spreads MNIST by rotations only (Table 2); here its images are spread at random, by "
    "writer and by digit, and there are public sets with a device for every 60 rows. "
    "k is given to all; k^(z) to the paper's rule alone, as the number of classes on a device.",
    quick=grid(split=HELD, run=range(1), k=[10, 20], n_devices=[15], n_points=[9_000], max_rounds=[20])
    + grid(set=["r15", "wdbc", "ecoli"], spread=_public_sets.SPREADS, run=range(1)),
    full=grid(split=HELD, run=range(5), k=[10, 20], n_devices=[100], n_points=[60_000], max_rounds=[20])
    + grid(set=_public_sets.SETS, spread=_public_sets.SPREADS, run=range(5)),
    run_one=run_one,
    summarize=summarize,
    plot=plot,
    run_requires=_files,
    optional=(_public_sets.FOLDER,),
    side_by_side=4,
    figure_size=(15.0, 4.0),
    minutes=(1, 16),
)
