"""Finding k in many worlds: how often it is right, and that it is hardly ever called reliable and wrong."""

import os
import warnings
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import kfed
from k_worlds import sent_by, square_of_places, unequal, with_outliers
from worlds import mixture_world

# Statistics -----------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("gap", [10.0, 20.0])
def test_k_is_found_in_99_of_100_worlds_and_never_wrong(gap):
    n_right = n_wrong = n_worlds = 0
    for seed in range(25):
        world = mixture_world(16, 100, gap=gap, points_per_cluster=100, devices_per_group=5, seed=seed)
        more = replace(world, n_local_clusters=5)
        for shown in (unequal(world, seed), more, with_outliers(world, 1, seed), with_outliers(world, 5, seed)):
            choice = kfed.choose_n_clusters(shown.messages(seed))
            n_worlds += 1
            n_right += choice.is_reliable and choice.n_clusters == 16
            n_wrong += choice.is_reliable and choice.n_clusters != 16
    assert n_wrong == 0
    assert n_right >= 0.99 * n_worlds


@pytest.mark.slow
def test_at_five_standard_deviations_k_is_mostly_found_and_hardly_ever_wrong():
    choices = [
        kfed.choose_n_clusters(shown.messages(seed))
        for seed in range(15)
        for world in [mixture_world(16, 100, gap=5.0, points_per_cluster=100, devices_per_group=5, seed=seed)]
        for shown in (world, with_outliers(world, 1, seed), with_outliers(world, 5, seed))
    ]
    n_right = sum(choice.is_reliable and choice.n_clusters == 16 for choice in choices)
    n_wrong = sum(choice.is_reliable and choice.n_clusters != 16 for choice in choices)
    assert n_right >= 0.6 * len(choices)
    assert n_wrong <= 0.02 * len(choices)


# Clusters that nobody here made ---------------------------------------------------------------------------------

BENCHMARK_SETS = {"s2": 15, "s3": 15, "a1": 20, "r15": 15, "d31": 31, "unbalance": 8}


def benchmark_set(name):
    """Points and classes of a public set, see the README beside them."""
    folder = Path(os.environ.get("KFED_DATA", "data")) / "benchmark-sets"
    if not (folder / f"{name}.data.gz").exists():
        pytest.skip(f"needs {name}.data.gz under {folder}, which is not part of the repository; set KFED_DATA")
    points, classes = (np.loadtxt(folder / f"{name}.{part}.gz") for part in ("data", "labels0"))
    return points / points.std(), classes.astype(int)


def blobs(name):
    """A generated set, as its name says: clusters, and standard deviations between their places."""
    n_clusters, apart = map(int, name.split(" blobs "))
    rng = np.random.default_rng(n_clusters)
    side = int(np.ceil(np.sqrt(n_clusters)))
    places = square_of_places(side, apart)[rng.permutation(side**2)[:n_clusters]]
    classes = rng.permutation(np.repeat(np.arange(n_clusters), 100))
    return places[classes] + rng.normal(size=(len(classes), 2)), classes


def spread_out(classes, way, seed):
    """Rows of each device, one for every 60 points, 4 to 40: alike, by about sqrt(k) classes, or half and half."""
    rng = np.random.default_rng(seed)
    rows, n_devices = rng.permutation(len(classes)), int(np.clip(len(classes) // 60, 4, 40))
    if way == "alike":
        return np.array_split(rows, n_devices)
    if way == "by classes":
        return by_classes(classes, rows, n_devices, rng)
    first, rest = np.split(rows, [len(rows) // 2])
    return [*np.array_split(first, n_devices // 2), *by_classes(classes, rest, n_devices - n_devices // 2, rng)]


def by_classes(classes, rows, n_devices, rng):
    names = np.unique(classes)
    per_device = int(np.ceil(np.sqrt(len(names))))
    deck = np.concatenate([rng.permutation(names) for _ in range(n_devices)])
    devices = [[] for _ in range(n_devices)]
    for name in names:
        places = np.unique(np.flatnonzero(deck[: n_devices * per_device] == name) // per_device)
        holders = places if len(places) else rng.integers(n_devices, size=1)
        for part, holder in zip(np.array_split(rows[classes[rows] == name], len(holders)), holders, strict=True):
            devices[holder].append(part)
    return [np.concatenate(own) for own in devices if own]


def compared(sent):
    """What they get who give the server no number: where distances and cost are in doubt, values of k are compared."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", kfed.AggregationWarning)
        return kfed.aggregate(sent).k_choice


def half_in_summaries(devices, n_local_clusters, seed):
    return sent_by(devices[::2], n_local_clusters, seed) + sent_by(devices[1::2], None, seed, "summary-")


def tally(make, names, n_seeds, n_local_clusters, choose=kfed.choose_n_clusters, send=sent_by):
    """Runs in which the right number, and in which another, was called reliable, and all runs."""
    n_right = n_wrong = n_runs = 0
    for name in names:
        points, classes = make(name)
        n_clusters = len(np.unique(classes))
        n_local = int(np.ceil(np.sqrt(n_clusters))) if n_local_clusters == "sqrt(k)" else n_local_clusters
        for way in ("alike", "by classes", "half and half"):
            for seed in range(n_seeds):
                choice = choose(send([points[rows] for rows in spread_out(classes, way, seed)], n_local, seed))
                n_right += choice.is_reliable and choice.n_clusters == n_clusters
                n_wrong += choice.is_reliable and choice.n_clusters != n_clusters
                n_runs += 1
    return n_right, n_wrong, n_runs


@pytest.mark.slow
@pytest.mark.parametrize(("n_local_clusters", "least"), [("auto", 24), ("sqrt(k)", 40)])
def test_on_public_sets_no_wrong_number_is_called_reliable(n_local_clusters, least):
    n_right, n_wrong, n_runs = tally(benchmark_set, BENCHMARK_SETS, 8, n_local_clusters)
    assert n_runs == 144
    assert n_wrong == 0
    assert n_right >= least


@pytest.mark.slow
@pytest.mark.parametrize(
    ("n_local_clusters", "send", "least"),
    [(None, sent_by, 17), ("auto", sent_by, 8), ("sqrt(k)", sent_by, 8), ("sqrt(k)", half_in_summaries, 10)],
    ids=["summaries", "auto", "sqrt(k)", "some summaries"],
)
def test_on_public_sets_no_wrong_number_is_called_reliable_where_values_of_k_are_compared(
    n_local_clusters, send, least
):
    n_right, n_wrong, n_runs = tally(benchmark_set, BENCHMARK_SETS, 2, n_local_clusters, compared, send)
    assert (n_wrong, n_runs) == (0, 36)
    assert n_right >= least


@pytest.mark.slow
@pytest.mark.parametrize("n_local_clusters", ["auto", "sqrt(k)"])
def test_on_generated_sets_no_wrong_number_is_called_reliable(n_local_clusters):
    names = [f"{k} blobs {apart}" for k in (9, 16, 25) for apart in (5, 8, 20)]
    n_right, n_wrong, n_runs = tally(blobs, names, 5, n_local_clusters)
    assert n_runs == 135
    assert n_wrong == 0
    assert n_right >= n_runs / 4
