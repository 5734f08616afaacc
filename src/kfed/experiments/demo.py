"""The whole method on one page: handwritten digits on 100 simulated devices, clustered in one round.

The digits are the 1,797 images of 8 x 8 that come with scikit-learn. Every device holds images of two digits
only, as people who write the same few things would; each image is on exactly one device.
"""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from typing import Any

import numpy as np

from kfed import datasets, metrics
from kfed._base import figures
from kfed._base.array import Array
from kfed.insight import cluster_colors, plot_centers
from kfed.server import Aggregation
from kfed.simulate import Round

N_DEVICES = 100
DIGITS_PER_DEVICE = 2
N_CLUSTERS = 10


@dataclass(frozen=True)
class Quality:
    """How well one method clustered the digits: the cost is of all images, each at its nearest center."""

    method: str
    rounds: int | None
    kmeans_cost: float
    adjusted_rand_index: float
    normalized_mutual_information: float
    matched_accuracy: float


@dataclass(frozen=True, eq=False)
class DemoResult:
    """What was sent, and how good what came of it is."""

    n_points: int
    n_features: int
    message_bytes: tuple[int, ...]
    raw_bytes: int
    n_withheld: int
    seconds: float
    qualities: tuple[Quality, ...]
    aggregation: Aggregation

    def plot(self, path: str | os.PathLike[str]) -> None:
        """Save a picture: the device centers, and the global centers as digits."""
        figure = figures.new_figure(11.0, 7.0)
        figure.suptitle(f"{N_DEVICES} devices, one round, {self.aggregation.rule} rule", fontsize="x-large")
        left, right = figure.subfigures(1, 2, width_ratios=[3.2, 1.0], squeeze=False).flat
        plot_centers(self.aggregation, ax=left.add_subplot())
        right.suptitle("global centers as images", fontsize="large")
        colors = cluster_colors(N_CLUSTERS)
        for cluster, ax in enumerate(right.subplots(N_CLUSTERS // 2, 2).flat):
            ax.imshow(self.aggregation.cluster_centers[cluster].reshape(8, 8), cmap="gray_r")
            ax.set_ylabel(str(cluster), color=colors[cluster] * 0.7, fontweight="bold", rotation=0, labelpad=10)
            ax.set(xticks=[], yticks=[])
            for spine in ax.spines.values():
                spine.set(color=colors[cluster], linewidth=2.5)
        figures.save_figure(figure, path)


def run_demo(seed: int = 0) -> DemoResult:
    """Split the digits over devices, run one round by default and by each rule, and compare with central k-means.

    Parameters
    ----------
    seed : int
        Decides the split and every random choice.
    """
    data = datasets.digits()
    points, digits = data.points, np.asarray(data.classes)
    started = time.perf_counter()
    split = datasets.partition.structured(digits, N_DEVICES, DIGITS_PER_DEVICE, seed)
    devices = split.devices(points)
    options: dict[str, Any] = {"random_state": seed, "measure_deviation": True, "progress": None}
    ours = Round.run(devices, N_CLUSTERS, **options)
    seconds = time.perf_counter() - started

    paper = Round.run(devices, N_CLUSTERS, DIGITS_PER_DEVICE, rule="paper", **options)
    ways = {
        "default": ours,
        "k^(z) = 2, paper": paper,
        "k^(z) = 2, robust": Round.of(paper.local, N_CLUSTERS, rule="robust"),
    }
    qualities = [
        _quality(f"kfed, {way}", 1, data, done.aggregation.cluster_centers, split.gather(done.device_labels()))
        for way, done in ways.items()
    ]
    qualities.append(_quality("k-means, pooled data", None, data, *_centralized(points, seed)))
    return DemoResult(
        n_points=len(points),
        n_features=points.shape[1],
        message_bytes=tuple(len(message.to_bytes()) for message in ours.messages),
        raw_bytes=points.nbytes,
        n_withheld=sum(int((local.withheld & (local.counts > 0)).sum()) for local in ours.local.values()),
        seconds=seconds,
        qualities=tuple(qualities),
        aggregation=ours.aggregation,
    )


def _centralized(points: Array, seed: int) -> tuple[Array, Array]:
    from sklearn.cluster import KMeans

    found = KMeans(N_CLUSTERS, n_init=10, random_state=seed).fit(points)
    return found.cluster_centers_, found.labels_


def _quality(method: str, rounds: int | None, data: datasets.Dataset, centers: Array, labels: Array) -> Quality:
    from sklearn.metrics import adjusted_rand_score, normalized_mutual_info_score

    digits = np.asarray(data.classes)
    return Quality(
        method,
        rounds,
        metrics.kmeans_cost(data.points, centers),
        float(adjusted_rand_score(digits, labels)),
        float(normalized_mutual_info_score(digits, labels)),
        metrics.matched_accuracy(digits, labels),
    )
