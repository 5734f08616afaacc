"""Where the robust rule loses: MNIST with more clusters than there are digits."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from kfed.datasets import Dataset, Partition, mnist_by_writer, partition
from kfed.experiments.drawing import finish, select, spread, values_of
from kfed.experiments.experiment import Axes, Experiment, ExperimentSummary, Finding, Result, TextTable, grid, seed_of
from kfed.experiments.ways import WAYS, labels_each_way
from kfed.experiments.yardstick import holds
from kfed.metrics import partition_cost
from kfed.simulate import cluster_devices

if TYPE_CHECKING:
    from matplotlib.figure import Figure

N_DIGITS = 10
LOCAL = {"by writer": N_DIGITS, "two digits": 2}
"""How digits are spread, and the digits on a device: k^(z)."""

MIN_POINTS = 50
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
    """See whether the robust rule is behind where k is larger than the number of digits."""
    beyond = [result for result in results if result["k"] > N_DIGITS]
    splits = values_of(results, "split")
    return ExperimentSummary(
        (
            *(_loss(select(beyond, split=split), split) for split in splits),
            _costs(beyond),
        ),
        tuple(_table(select(results, split=split), split, what) for split in splits for what in MEASURES),
    )


def _means(results: list[Result], what: str) -> list[float]:
    return [float(np.mean([result[f"{way}: {what}"] for result in results])) for way in WAYS]


def _loss(beyond: list[Result], split: str) -> Finding:
    paper, robust, _ = _means(beyond, "ARI")
    return Finding(
        claim=f"with more clusters than digits the robust rule agrees less with the digits ({split})",
        paper="has one rule",
        ours=f"ARI {robust:.3f}, by the paper's rule {paper:.3f}",
        verdict=holds(robust < paper),
    )


def _costs(beyond: list[Result]) -> Finding:
    paper, robust, _ = _means(beyond, "cost")
    return Finding(
        claim="the k-means cost, which the robust rule lowers, is lower by it nevertheless",
        paper="has one rule",
        ours=f"{robust:.2f} a point, by the paper's rule {paper:.2f}",
        verdict=holds(robust < paper),
    )


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
    claim="On MNIST with k larger than the number of digits the robust rule loses against the paper's.",
    measure="Adjusted Rand index of the induced clusters against digits, and their k-means cost.",
    setup_differs="MNIST: a device is a writer with k^(z) = 10, or has about 100 images of two digits, and k^(z) = 2.",
    quick=grid(split=LOCAL, k=[10, 25], n_devices=[40], run=range(1)),
    full=grid(split=LOCAL, k=[10, 16, 25, 40], n_devices=[100], run=range(5)),
    requires=("mnist", "mnist-writers"),
    figure_size=(9.5, 4.6),
    legend={"ncols": 3},
    minutes=(0.3, 0.4),
)
