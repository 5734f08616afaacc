"""The rules where clusters are not separated: MNIST with as many clusters as digits, and with more."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from kfed.datasets import Dataset, Partition, mnist_by_writer, partition
from kfed.experiments.axes import Axes, grid, seed_of
from kfed.experiments.drawing import finish, select, spread, values_of
from kfed.experiments.experiment import Experiment, ExperimentSummary, Finding, Result, TextTable
from kfed.experiments.ways import WAYS, labels_each_way
from kfed.experiments.yardstick import leads, worst
from kfed.metrics import partition_cost
from kfed.simulate import cluster_devices

if TYPE_CHECKING:
    from matplotlib.figure import Figure

N_DIGITS = 10
LOCAL = {"by writer": N_DIGITS, "two digits": 2}
"""How digits are spread, and the digits on a device: k^(z)."""

MIN_POINTS = 50
LEAST = 0.02
"""A difference of ARI that counts as none, whatever the noise."""

MEASURES = {"ARI": "Adjusted Rand index against the digits", "cost": "k-means cost of a point"}


@lru_cache(maxsize=1)
def _data() -> Dataset:
    return mnist_by_writer()


def _split(data: Dataset, kind: str, n_devices: int, seed: int) -> Partition:
    if kind == "by writer":
        return partition.natural(data.owners, seed, min_points=MIN_POINTS, n_devices=n_devices)
    rows = np.sort(np.random.default_rng(seed).permutation(data.n_points)[: 100 * n_devices])
    assert data.classes is not None
    dealt = partition.structured(data.classes[rows], n_devices, LOCAL[kind], seed)
    return replace(dealt, n_points=data.n_points, rows=tuple(rows[own] for own in dealt.rows))


def run_one(axes: Axes, seed: int) -> dict[str, Any]:
    """Cluster in every way: how clusters agree with digits, and what they cost."""
    from sklearn.metrics import adjusted_rand_score

    data, own = _data(), seed_of(seed, split=axes["split"], run=axes["run"])
    assert data.classes is not None
    split = _split(data, axes["split"], axes["n_devices"], own)
    devices, used = split.devices(data.points), np.concatenate(split.rows)
    local = cluster_devices(devices, LOCAL[axes["split"]], random_state=own)
    found: dict[str, Any] = {}
    for way, labels in labels_each_way(local, devices, axes["k"]).items():
        found[f"{way}: ARI"] = float(adjusted_rand_score(data.classes[used], labels))
        found[f"{way}: cost"] = partition_cost(data.points[used], labels) / len(used)
    return found


def summarize(results: list[Result]) -> ExperimentSummary:
    """See what becomes of the robust rule's lead as k grows, and whether its clusters cost less."""
    splits = values_of(results, "split")
    return ExperimentSummary(
        (
            *(_shrinks(select(results, split=split), split) for split in splits),
            _costs([result for result in results if result["k"] > N_DIGITS]),
        ),
        tuple(_table(select(results, split=split), split, what) for split in splits for what in MEASURES),
    )


def _means(results: list[Result], what: str) -> list[float]:
    return [float(np.mean([result[f"{way}: {what}"] for result in results])) for way in WAYS]


def _shrinks(results: list[Result], split: str) -> Finding:
    """Whether the robust rule is less ahead, or more behind, at the largest k than at the least, run by run."""
    leads_by_k = {k: np.array([_lead(r) for r in select(results, k=k)]) for k in sorted(values_of(results, "k"))}
    least, *_, most = leads_by_k.values()
    shown = ", ".join(f"{np.mean(own):+.3f} at k = {k}" for k, own in leads_by_k.items())
    return Finding(
        claim=f"the larger k, the less the robust rule agrees with the digits, next to the paper's ({split})",
        paper="has one rule",
        ours=f"ARI over that of the paper's rule: {shown}",
        verdict=leads((least - most).tolist(), least=LEAST),
    )


def _lead(result: Result) -> float:
    return float(result["robust: ARI"] - result["paper: ARI"])


def _costs(beyond: list[Result]) -> Finding:
    """Whether clusters of the robust rule cost less, however digits are spread: a mean over k for each run."""
    saved = {split: _saved(select(beyond, split=split)) for split in values_of(beyond, "split")}
    return Finding(
        claim="the k-means cost, which the robust rule lowers, is lower by it also with more clusters than digits",
        paper="has one rule",
        ours=", ".join(f"{100 * np.mean(own):.2f} % lower ({split})" for split, own in saved.items()),
        verdict=worst([leads(own) for own in saved.values()]),
    )


def _saved(results: list[Result]) -> list[float]:
    runs = (select(results, run=run) for run in values_of(results, "run"))
    return [float(np.mean([1 - r["robust: cost"] / r["paper: cost"] for r in own])) for own in runs]


def _table(results: list[Result], split: str, what: str) -> TextTable:
    rows = [(str(k), *(f"{mean:.3f}" for mean in _means(select(results, k=k), what))) for k in values_of(results, "k")]
    return TextTable(f"{MEASURES[what]}, {split}", ("k", *WAYS), tuple(rows), n_words=0)


def plot(results: list[Result], figure: Figure) -> None:
    """Draw the agreement with digits against k."""
    many, splits = values_of(results, "k"), values_of(results, "split")
    for ax, split in zip(figure.subplots(1, len(splits), squeeze=False)[0], splits, strict=True):
        own = select(results, split=split)
        for way, color in WAYS.items():
            spread(ax, many, [[r[f"{way}: ARI"] for r in select(own, k=k)] for k in many], way, color)
        finish(ax, split, "clusters, k", "ARI against digits")


EXPERIMENT = Experiment.of(
    __name__,
    "The rules where clusters are not separated",
    "beyond the paper",
    claim="On MNIST the robust rule's clusters cost less than the paper's. They agree more with the digits where k is "
    "their number, and the larger k is, the less so next to the paper's.",
    measure="Adjusted Rand index of the induced clusters against digits, and their k-means cost.",
    setup_differs="MNIST: a device is a writer with k^(z) = 10, or has about 100 images of two digits, and k^(z) = 2.",
    quick=grid(split=LOCAL, k=[10, 25], n_devices=[40], run=range(1)),
    full=grid(split=LOCAL, k=[10, 16, 25, 40], n_devices=[100], run=range(5)),
    requires=("mnist", "mnist-writers"),
    side_by_side=4,
    figure_size=(9.5, 4.6),
    legend={"ncols": 3},
    minutes=(0.3, 0.8),
)
