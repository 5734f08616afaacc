"""Nine public sets of few rows, spread three ways: the default beside pooled k-means, and what the floor costs it."""

from __future__ import annotations

import warnings
from functools import lru_cache
from typing import Any

import numpy as np

from kfed._base import geometry
from kfed._base.array import Array
from kfed._base.averages import means_by_label
from kfed.baselines import centralized
from kfed.datasets import Dataset, Partition, locate, partition
from kfed.errors import AggregationWarning
from kfed.experiments.axes import Axes, seed_of
from kfed.experiments.drawing import select, values_of
from kfed.experiments.experiment import Finding, Result, TextTable, Verdict
from kfed.experiments.yardstick import WITHIN_NOISE, at_most, worst
from kfed.metrics import kmeans_cost
from kfed.simulate import Round

FOLDER = "benchmark-sets"
SETS = ("s2", "s3", "a1", "unbalance", "r15", "d31", "wdbc", "yeast", "ecoli")
UNSCALED = ("wdbc", "yeast", "ecoli")
"""Sets whose columns have units of their own."""

SPREADS = ("IID", "by groups", "Dirichlet")
ROWS_EACH, LEAST_DEVICES, MOST_DEVICES = 60, 4, 40
ALPHA = 0.1

FLOOR = 3
"""What `min_cluster_size` is by default."""

N_STARTS, MAX_STEPS = 4, 30
MOST_MEAN, MOST_WORST, LESS_THAN_PAPER, LESS_THAN_POOLED = 1.03, 1.15, 0.02, 0.03
WAYS = {"default": "default", "no floor": "default, min_cluster_size=1", "floor": "pooled, with the floor"}


@lru_cache(maxsize=len(SETS))
def load_set(name: str) -> Dataset:
    """One of the sets; columns that have units have unit variance."""
    files = locate(FOLDER)
    points, classes = (np.loadtxt(files[f"{name}.{what}.gz"]) for what in ("data", "labels0"))
    if name in UNSCALED:
        points = points[:, np.ptp(points, axis=0) > 0]
        points = (points - points.mean(axis=0)) / points.std(axis=0)
    return Dataset(name, points, np.unique(classes.astype(int), return_inverse=True)[1])


@lru_cache(maxsize=len(SETS))
def _pooled(name: str) -> tuple[float, float]:
    """Cost of k-means on all rows, the best of ten seedings, and its adjusted Rand index."""
    data, k = load_set(name), _n_classes(name)
    done = centralized([data.points], k, n_init=10)
    return kmeans_cost(data.points, done.centers), _index(data.classes, done.labels)


def _n_classes(name: str) -> int:
    return int(np.asarray(load_set(name).classes).max()) + 1


def _index(classes: Any, labels: Array) -> float:
    from sklearn.metrics import adjusted_rand_score

    return float(adjusted_rand_score(classes, labels))


def spread_set(classes: Array, how: str, seed: int) -> Partition:
    """A device for every 60 rows: at random, with about sqrt(k) classes each, or by shares of a Dirichlet draw."""
    n_devices = int(np.clip(len(classes) // ROWS_EACH, LEAST_DEVICES, MOST_DEVICES))
    if how == "IID":
        return partition.iid(len(classes), n_devices, seed)
    if how == "Dirichlet":
        return partition.dirichlet(classes, n_devices, ALPHA, seed)
    k = int(classes.max()) + 1
    return _by_groups(classes, n_devices, 1 if k == 2 else round(np.sqrt(k)), np.random.default_rng(seed))


def _by_groups(classes: Array, n_devices: int, per_device: int, rng: np.random.Generator) -> Partition:
    """Give each device so many classes. A class of few rows may be missing on some of those that were to hold it."""
    k = int(classes.max()) + 1
    held = np.zeros((n_devices, k), bool)
    for own in held:
        own[np.lexsort((rng.random(k), held.sum(axis=0)))[:per_device]] = True
    owners = np.empty(len(classes), np.intp)
    for one in range(k):
        rows = rng.permutation(np.flatnonzero(classes == one))
        owners[rows] = np.resize(rng.permutation(np.flatnonzero(held[:, one])), len(rows))
    return partition.natural(owners)


def run_set(axes: Axes, seed: int) -> dict[str, Any]:
    """Cluster one set, spread in one way: costs over that of pooled k-means, and what labels agree with."""
    name = axes["set"]
    data, k, (best, index) = load_set(name), _n_classes(name), _pooled(name)
    assert data.classes is not None
    own = seed_of(seed, set=name, spread=axes["spread"], run=axes["run"])
    split = spread_set(data.classes, axes["spread"], own)
    devices, rows = split.devices(data.points), np.concatenate(split.rows)
    points, classes = data.points[rows], data.classes[rows]
    held = [len(np.unique(data.classes[mine])) for mine in split.rows]
    found: dict[str, Any] = {"pooled: ARI": index}
    settings: dict[str, dict[str, Any]] = {
        "default": {},
        "no floor": {"min_cluster_size": 1},
        "paper": {"n_local_clusters": held},
    }
    for way, options in settings.items():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", AggregationWarning)  # clusters of one device, and others on all
            done = Round.run(devices, k, random_state=own, **options)
        found[f"{way}: cost"] = kmeans_cost(points, done.aggregation.cluster_centers) / best
        found[f"{way}: ARI"] = _index(classes, done.labels)
        if way == "default":
            start = done.aggregation.cluster_centers
    found["floor: cost"] = pooled_with_floor(points, split.sizes, start, own) / best
    return found


def pooled_with_floor(points: Array, sizes: Array, start: Array, seed: int) -> float:
    """The least cost found by k-means on all rows where no cluster may have a few rows of a device.

    It sees every row, which no server does; but of a cluster, a device has no row or at least `FLOOR`. It starts from
    the centers `start` and from some of k-means. Rows of one device follow each other, as `sizes` says.
    """
    costs = [kmeans_cost(points, start)]
    for turn in range(N_STARTS):
        own = seed_of(seed, start=turn)
        seeds = start if turn == 0 else centralized([points], len(start), own).centers
        costs.append(kmeans_cost(points, _lloyd_with_floor(points, sizes, seeds, np.random.default_rng(own))))
    return min(costs)


def _lloyd_with_floor(points: Array, sizes: Array, centers: Array, rng: np.random.Generator) -> Array:
    labels = np.full(len(points), -1)
    for _ in range(MAX_STEPS):
        before, labels = labels, _labels_with_floor(geometry.squared_distances(points, centers), sizes)
        if np.array_equal(before, labels):
            break
        elsewhere = points[rng.choice(len(points), len(centers))]  # for clusters that no device may have
        centers = means_by_label(points, labels, elsewhere)
    return centers


def _labels_with_floor(squares: Array, sizes: Array) -> Array:
    """The nearest center of each row, where the smallest clusters of a device are given up until none is too small."""
    labels = []
    for own in np.split(squares, np.cumsum(sizes)[:-1]):
        chosen, distances = own.argmin(axis=1), own.copy()
        while True:
            counts = np.bincount(chosen, minlength=own.shape[1])
            small = (counts > 0) & (counts < FLOOR)
            if not small.any() or np.count_nonzero(counts) == 1:
                break
            distances[:, np.where(small, counts, len(own)).argmin()] = np.inf
            chosen = distances.argmin(axis=1)
        labels.append(chosen)
    return np.concatenate(labels)


def findings(results: list[Result]) -> tuple[Finding, ...]:
    """See whether the bars are kept, beyond the noise of the runs."""
    cases = _cases(results)
    grouped = {case: own for case, own in cases.items() if case[1] == "by groups"}
    where = f"{len(values_of(results, 'set'))} public sets"
    mean = {way: [_geometric_mean(results, way)] for way in WAYS}
    each = {way: [_values(own, f"{way}: cost") for own in cases.values()] for way in WAYS}
    return (
        _cost_finding(f"geometric mean of cost over pooled k-means at most {MOST_MEAN:g} ({where})", mean, MOST_MEAN),
        _cost_finding(f"cost over pooled k-means at most {MOST_WORST:g} everywhere ({where})", each, MOST_WORST),
        _finding(
            f"without the floor, both hold: the cost that is missing is what the floor costs ({where})",
            worst([_kept(mean["no floor"], MOST_MEAN), _kept(each["no floor"], MOST_WORST)]),
            f"mean {_largest(mean['no floor']):.3f}, worst {_largest(each['no floor']):.3f} with min_cluster_size=1",
            "the rule is not as good as k-means on all rows even so",
        ),
        _index_finding(
            f"by groups, labels agree with the classes as the paper's do with the true k^(z) ({where})",
            {case: _behind(own, "paper") for case, own in grouped.items()},
            LESS_THAN_PAPER,
        ),
        _index_finding(
            f"labels agree with the classes as those of pooled k-means do ({where})",
            {case: _behind(own, "pooled") for case, own in cases.items()},
            LESS_THAN_POOLED,
        ),
    )


Case = tuple[str, str]


def _cases(results: list[Result]) -> dict[Case, list[Result]]:
    """The runs of each set and spread."""
    every = ((name, how) for name in values_of(results, "set") for how in values_of(results, "spread"))
    return {case: own for case in every if (own := select(results, set=case[0], spread=case[1]))}


def _values(results: list[Result], what: str) -> list[float]:
    return [float(result[what]) for result in results]


def _means(results: list[Result]) -> dict[Case, dict[str, float]]:
    """Means over runs, by set and spread."""
    return {
        case: {what: float(np.mean(_values(own, what))) for what in own[0].values}
        for case, own in _cases(results).items()
    }


def _geometric_mean(results: list[Result], way: str) -> list[float]:
    """The mean over sets and spreads, for each run."""
    runs = (select(results, run=run) for run in values_of(results, "run"))
    return [float(np.exp(np.mean(np.log(_values(own, f"{way}: cost"))))) for own in runs]


def _behind(results: list[Result], other: str) -> list[float]:
    """By how much the default's index is below another's, for each run."""
    return [float(result[f"{other}: ARI"] - result["default: ARI"]) for result in results]


def _kept(cases: list[list[float]], bound: float) -> Verdict:
    return worst([at_most(runs, bound) for runs in cases])


def _largest(cases: list[list[float]]) -> float:
    return max(float(np.mean(runs)) for runs in cases)


def _finding(claim: str, verdict: Verdict, ours: str, reason: str) -> Finding:
    return Finding(claim, "has no such setting", ours, verdict, "" if verdict == "reproduced" else reason)


def _cost_finding(claim: str, costs: dict[str, list[list[float]]], most: float) -> Finding:
    mine, without, floor = (_largest(costs[way]) for way in ("default", "no floor", "floor"))
    with_floor = f"the floor: k-means on all rows has {floor:.3f} at best"
    reason = f"{with_floor}, if of no cluster it may use fewer than {FLOOR} rows of a device"
    ours = f"{mine:.3f}; {without:.3f} with min_cluster_size=1"
    return _finding(claim, _kept(costs["default"], most), ours, WITHIN_NOISE if mine <= most else reason)


def _index_finding(claim: str, behind: dict[Case, list[float]], most: float) -> Finding:
    means = {case: float(np.mean(own)) for case, own in behind.items()}
    failed = {case: mean for case, mean in means.items() if at_most(behind[case], most) == "not reproduced"}
    listed = ", ".join(
        f"{name} ({how}) by {mean:.3f}{'' if mean > most else ', within the noise of what is allowed'}"
        for (name, how), mean in failed.items()
    )
    ours = f"adjusted Rand index at most {max([*means.values(), 0.0]):.3f} below; {most:g} is allowed"
    return _finding(claim, _kept(list(behind.values()), most), ours, f"below on {listed}")


def costs_table(results: list[Result]) -> TextTable:
    """The figures of each set and spread."""
    costs, indices = (*WAYS, "paper"), ("pooled", "default", "no floor", "paper")
    rows = [
        (
            *case,
            *(f"{own[f'{way}: cost']:.3f}" for way in costs),
            *(f"{own[f'{way}: ARI']:.2f}" for way in indices),
        )
        for case, own in _means(results).items()
    ]
    headings = ("set", "spread", "cost", "no floor", "pooled, with the floor", "paper")
    return TextTable(
        "Public sets: cost over that of pooled k-means, and adjusted Rand index",
        (*headings, "index of pooled", "of the default", "with no floor", "of the paper's rule"),
        tuple(rows),
        n_words=2,
    )


def draw_costs(results: list[Result], ax: Any) -> None:
    """Draw the costs of each set, one mark a spread."""
    names, cases = values_of(results, "set"), _means(results)
    for way, marker in (("default", "o"), ("no floor", "x"), ("floor", "_")):
        places = [names.index(name) for name, _ in cases]
        ax.plot(places, [own[f"{way}: cost"] for own in cases.values()], marker, label=WAYS[way])
    ax.axhline(1, color="0.4", linestyle="--", linewidth=1)
    ax.set_xticks(range(len(names)), names, rotation=60)
