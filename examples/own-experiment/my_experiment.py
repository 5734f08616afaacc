"""Medians of device centers, compared with k-FED and with the clusters of a single device.

A rule, a baseline, a data set, a partition and an experiment of one's own: ``kfed reproduce my_experiment.py``.
"""

import numpy as np
from sklearn.cluster import KMeans

from kfed import baselines, datasets
from kfed.experiments import Experiment, ExperimentSummary, Finding, TextTable, grid, seed_of, tidy
from kfed.server import farthest_first
from kfed.simulate import Communication


def medians(batch, n_clusters):
    """A server rule: k-medians on device centers, from a farthest-first start."""
    places = batch.centers[farthest_first(batch.centers, n_clusters, np.array([batch.counts.argmax()]), None).picks]
    for _ in range(20):
        labels = np.abs(batch.centers[:, None] - places).sum(axis=2).argmin(axis=1)
        own = [batch.centers[labels == cluster] for cluster in range(n_clusters)]
        places = np.array([np.median(one, axis=0) if len(one) else at for one, at in zip(own, places, strict=True)])
    return labels


def first_device(devices, n_clusters, seed=0):
    """A baseline: the clusters of one device for all of them."""
    model = KMeans(n_clusters, n_init=4, random_state=seed % 2**32).fit(devices[0])
    sent = Communication.of_round([model.cluster_centers_.tobytes()], [model.cluster_centers_.tobytes()] * len(devices))
    return baselines.CountedClusters(model.cluster_centers_, model.predict(np.concatenate(devices)), sent)


def petals(seed, n_clusters=6, n_points=900):
    """A data set: long blobs about a circle."""
    rng = np.random.default_rng(seed)
    classes = rng.integers(n_clusters, size=n_points)
    angles = 2 * np.pi * classes / n_clusters + rng.normal(0, 0.08, n_points)
    points = np.column_stack([np.cos(angles), np.sin(angles)]) * rng.normal(10, 1.5, n_points)[:, None]
    return datasets.Dataset("petals", points, classes)


def neighbours(classes, n_devices, seed):
    """A partition: each device has rows of two classes that follow each other."""
    rng, n_classes = np.random.default_rng(seed), classes.max() + 1
    owners = (classes - rng.integers(2, size=len(classes))) % n_classes + n_classes * rng.integers(
        n_devices // n_classes, size=len(classes)
    )
    rows = [np.flatnonzero(owners == device) for device in range(n_devices)]
    return datasets.Partition(len(classes), tuple(rows), tuple(f"petal-{device}" for device in range(n_devices)))


METHODS = {
    "k-FED": baselines.k_fed(2),
    "medians": baselines.k_fed(2, rule=medians),
    "first device": first_device,
}


def run_one(axes, seed):
    """One run: named axes in, plain numbers out."""
    own = seed_of(seed, run=axes["run"])  # the same for all methods; each random step makes one of its own from it
    data = petals(seed_of(own, step="data"))
    split = neighbours(data.classes, 24, seed_of(own, step="split"))
    devices, classes = split.of(data.points), split.of(data.classes)
    found = baselines.compare({"it": METHODS[axes["method"]]}, devices, 6, [own], classes=classes)
    return {name: found.rows[0][name] for name in ("ari", "cost_ratio", "bytes", "rounds")}


def summarize(results):
    """What the runs say: a claim with its verdict, and a table."""
    table = tidy(results)
    gain = table.paired("medians", "first device", "ari", over=["run"])
    claim = Finding(
        claim="messages of all devices beat the clusters of one",
        paper="sends one message a device",
        ours=f"ARI {gain.mean_difference:+.3f}, 95 % from {gain.low:+.3f} to {gain.high:+.3f}",
        verdict="reproduced" if gain.low > 0 else "not reproduced",
    )
    rows = [
        (row["method"], f"{row['ari_mean']:.3f}", f"{row['ari_std']:.3f}", str(row["ari_n"]))
        for row in table.summary("method", ["ari"]).rows
    ]
    return ExperimentSummary((claim,), (TextTable("ARI", ("method", "mean", "deviation", "runs"), tuple(rows)),))


def plot(results, figure):
    """Draw every run on a matplotlib figure."""
    ax = figure.add_subplot()
    for method in METHODS:
        ax.plot([r["ari"] for r in results if r["method"] == method], "o", label=method)
    ax.set(xlabel="run", ylabel="ARI")
    ax.legend()


EXPERIMENT = Experiment.of(
    __name__,
    "Medians of device centers",
    "beyond the paper",
    claim="Messages of all devices beat the clusters of one.",
    measure="Adjusted Rand index against the petals.",
    setup_differs="Six petals on 24 devices of two neighbouring petals each.",
    quick=grid(method=METHODS, run=range(2)),
    full=grid(method=METHODS, run=range(20)),
)
