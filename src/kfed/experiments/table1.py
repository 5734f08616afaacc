"""Table 1: the accuracy of k-FED on mixtures of Gaussians, k' = sqrt(k), m0 = 5, over 10 runs."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import numpy as np

from kfed._base import pool
from kfed._base.array import Array
from kfed.baselines import textbook_local
from kfed.datasets import Mixture, mixture
from kfed.experiments.drawing import select
from kfed.experiments.experiment import Axes, Experiment, ExperimentSummary, Finding, Result, TextTable, grid, seed_of
from kfed.metrics import matched_accuracy
from kfed.server import aggregate
from kfed.simulate import Round
from kfed.wire import DeviceMessage

if TYPE_CHECKING:
    from matplotlib.figure import Figure

OURS, PLAIN, GREEDY = "kfed", "plain k-means++", "greedy k-means++"
N_CANDIDATES = {PLAIN: 1, GREEDY: None}
"""Other seedings of Algorithm 1, of one try: how many candidates there are for each next seed."""

PAPER = {(100, 16): (100.00, 0.00), (100, 64): (98.82, 0.70), (300, 64): (99.27, 0.73), (300, 100): (98.40, 0.80)}
PAPER[300, 16] = (100.00, 0.00)
"""Mean and standard deviation of the accuracy, by d and k."""

SEPARATIONS: dict[str, dict[str, Any]] = {
    "c = 100": {"required_ratio": 100.0},
    "30 sd": {"separation": 30.0},
    "20 sd": {"separation": 20.0},
}
MUST_REACH = {"c = 100": 100.0, "30 sd": 99.95, "20 sd": 99.95}


def run_one(axes: Axes, seed: int) -> dict[str, Any]:
    """Draw a mixture, run one round, and match clusters with components."""
    own = seed_of(seed, d=axes["d"], k=axes["k"], run=axes["run"])
    drawn = mixture(axes["d"], axes["k"], points_per_cluster=axes["n_r"], seed=own, **SEPARATIONS[axes["separation"]])
    labels = _round(drawn, own) if axes["method"] == OURS else _textbook_round(drawn, N_CANDIDATES[axes["method"]], own)
    return {
        "accuracy": 100 * matched_accuracy(np.concatenate(drawn.targets), labels),
        "gap": drawn.separation,
        "theorem_c": drawn.separation / drawn.required_separation,
    }


def _round(drawn: Mixture, seed: int) -> Array:
    return Round.run(drawn.devices, drawn.n_clusters, drawn.n_local_clusters, random_state=seed).labels


def _textbook_round(drawn: Mixture, n_candidates: int | None, seed: int) -> Array:
    """One round in which devices seed by k-means++ once."""
    with pool.one_blas_thread():
        local = [
            textbook_local(points, drawn.n_local_clusters, seed + i, n_candidates=n_candidates)
            for i, points in enumerate(drawn.points)
        ]
    messages = [
        DeviceMessage(name, centers, np.bincount(labels, minlength=len(centers)) + 1)
        for name, (labels, centers) in zip(drawn.device_ids, local, strict=True)
    ]
    result = aggregate(messages, drawn.n_clusters)
    answers = (np.asarray(result.identity(name)) for name in drawn.device_ids)
    return np.concatenate([answer[labels] for answer, (labels, _) in zip(answers, local, strict=True)])


def summarize(results: list[Result]) -> ExperimentSummary:
    """Compare every row with the paper's."""
    rows = [_row(d, k, results) for d, k in PAPER if any((r["d"], r["k"]) == (d, k) for r in results)]
    headings = (
        "d",
        "k",
        "paper, c = 100",
        *(f"ours, {name}" for name in SEPARATIONS),
        *(f"{name}, 20 sd" for name in N_CANDIDATES),
    )
    return ExperimentSummary(
        tuple(_finding(name, results) for name in SEPARATIONS),
        (TextTable("Accuracy in percent, mean ± standard deviation over runs", headings, tuple(rows), n_words=0),),
    )


def _row(d: int, k: int, results: list[Result]) -> tuple[str, ...]:
    ours = [_accuracies(results, name, d, k) for name in SEPARATIONS]
    others = [_accuracies(results, "20 sd", d, k, method) for method in N_CANDIDATES]
    return (str(d), str(k), _plus_minus(*PAPER[d, k]), *(_plus_minus(np.mean(a), np.std(a)) for a in ours + others))


def _finding(name: str, results: list[Result]) -> Finding:
    rows = {(d, k): np.mean(_accuracies(results, name, d, k)) for d, k in {(r["d"], r["k"]) for r in results}}
    least, paper = min(rows.values()), [PAPER[row][0] for row in rows]
    reached = least >= MUST_REACH[name]
    better = all(rows[row] >= PAPER[row][0] for row in rows) and any(rows[row] > PAPER[row][0] for row in rows)
    measured = {r["theorem_c"] for r in results if r.axes["separation"] == name}
    least_c, most_c = f"{min(measured):.3g}", f"{max(measured):.3g}"
    c = f"by the theorem's formula c is {least_c if least_c == most_c else f'{least_c} to {most_c}'} here"
    return Finding(
        claim=f"one round recovers the target clustering ({name})",
        paper=f"{min(paper):.2f} to {max(paper):.2f} at c = 100",
        ours=f"{least:.2f} to {max(rows.values()):.2f}" if least < 100 else "100.00 in every row",
        verdict="not reproduced" if not reached else "exceeded" if better else "reproduced",
        reason=c if reached else f"a row has {least:.2f}, less than {MUST_REACH[name]}; {c}",
    )


def _accuracies(results: list[Result], name: str, d: int, k: int, method: str = OURS) -> list[float]:
    return [r["accuracy"] for r in select(results, separation=name, d=d, k=k, method=method)]


def _plus_minus(mean: Any, deviation: Any) -> str:
    return f"{mean:.2f} ± {deviation:.2f}"


def plot(results: list[Result], figure: Figure) -> None:
    """Draw the paper's rows beside ours."""
    ax = figure.add_subplot()
    rows = [row for row in PAPER if any((r["d"], r["k"]) == row for r in results)]
    series = {"paper, c = 100": [PAPER[row] for row in rows]}
    for name in SEPARATIONS:
        every = [_accuracies(results, name, *row) for row in rows]
        series[f"ours, {name}"] = [(float(np.mean(a)), float(np.std(a))) for a in every]
    for method in N_CANDIDATES:
        every = [_accuracies(results, "20 sd", *row, method) for row in rows]
        series[f"{method}, 20 sd"] = [(float(np.mean(a)), float(np.std(a))) for a in every]
    for position, (name, values) in enumerate(series.items()):
        places = np.arange(len(rows)) + 0.13 * (position - 2.5)
        means, deviations = zip(*values, strict=True)
        marker, color = ("s", "0.45") if position == 0 else ("o", f"C{position - 1}")
        ax.errorbar(places, means, deviations, fmt=marker, color=color, capsize=4, markersize=7, label=name)
    ax.set_xticks(range(len(rows)), [f"d = {d}, k = {k}" for d, k in rows])
    ax.set(ylabel="accuracy in percent")
    ax.set_title("Table 1: mixtures of Gaussians, k' = √k, m₀ = 5", loc="left")
    ax.grid(axis="y", alpha=0.3)
    ax.spines[["top", "right"]].set_visible(False)
    ax.legend(loc="lower left", frameon=False)


def _preset(rows: Iterable[tuple[int, int]], n_runs: int) -> tuple[Axes, ...]:
    """All separations with our Algorithm 1, and the smallest with other seedings, too."""
    methods = [*grid(separation=SEPARATIONS, method=[OURS]), *grid(separation=["20 sd"], method=N_CANDIDATES)]
    runs = grid(n_r=[500], run=range(n_runs))
    return tuple({"d": d, "k": k, **method, **run} for d, k in rows for method in methods for run in runs)


EXPERIMENT = Experiment(
    name="table1",
    title="Separating mixtures of Gaussians",
    paper="Table 1, section 4.1",
    claim="One round of k-FED recovers the target clustering of mixtures of Gaussians with high accuracy.",
    measure="Share of points in the cluster matched to their component (best matching), in percent.",
    setup_differs="The paper's generator is unpublished. Here the k means are equidistant, and components have unit "
    "variance and 500 points, 100 of them on each of the m0 = 5 devices that share a group. 'c = 100' is the main "
    "theorem's active separation read literally, c sqrt(m0) (Delta_r + Delta_s) with norm(A - C) measured; '20 sd' "
    "and '30 sd' place the means that many standard deviations apart, which is far below it. Other columns have "
    "Algorithm 1 with one k-means++ seeding, plain or greedy, where kfed takes the best of four greedy ones; the "
    "paper asks for any 10-approximation.",
    quick=_preset([(100, 16), (100, 64)], 2),
    full=_preset(PAPER, 10),
    run_one=run_one,
    summarize=summarize,
    plot=plot,
)
