"""Table 1: the accuracy of k-FED on mixtures of Gaussians, k' = sqrt(k), m0 = 5, over 10 runs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from kfed.datasets import mixture
from kfed.experiments.experiment import Axes, Experiment, Finding, Result, Summary, Table, grid, seed_of
from kfed.experiments.one_round import one_round
from kfed.metrics import matched_accuracy

if TYPE_CHECKING:
    from matplotlib.figure import Figure

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
    done = one_round(drawn.points, drawn.n_clusters, drawn.n_local_clusters, drawn.device_ids, own)
    accuracy = matched_accuracy(np.concatenate(drawn.targets), done.all_labels)
    return {
        "accuracy": 100 * accuracy,
        "gap": drawn.separation,
        "theorem_c": drawn.separation / drawn.required_separation,
    }


def summarize(results: list[Result]) -> Summary:
    """Compare every row with the paper's."""
    rows = [_row(d, k, results) for d, k in PAPER if any((r["d"], r["k"]) == (d, k) for r in results)]
    headings = ("d", "k", "paper, c = 100", *(f"ours, {name}" for name in SEPARATIONS))
    return Summary(
        tuple(_finding(name, results) for name in SEPARATIONS),
        (Table("Accuracy in percent, mean ± standard deviation over runs", headings, tuple(rows)),),
    )


def _row(d: int, k: int, results: list[Result]) -> tuple[str, ...]:
    ours = [_accuracies(results, name, d, k) for name in SEPARATIONS]
    return (str(d), str(k), _plus_minus(*PAPER[d, k]), *(_plus_minus(np.mean(a), np.std(a)) for a in ours))


def _finding(name: str, results: list[Result]) -> Finding:
    rows = {(d, k): np.mean(_accuracies(results, name, d, k)) for d, k in {(r["d"], r["k"]) for r in results}}
    least, paper = min(rows.values()), [PAPER[row][0] for row in rows]
    reached = least >= MUST_REACH[name]
    better = all(rows[row] >= PAPER[row][0] for row in rows) and any(rows[row] > PAPER[row][0] for row in rows)
    measured = {r["theorem_c"] for r in results if r.axes["separation"] == name}
    c = f"c is {min(measured):.3g} to {max(measured):.3g} here by the theorem's formula"
    return Finding(
        claim=f"one round agrees with the target clustering, clusters {name} apart",
        paper=f"{min(paper):.2f} to {max(paper):.2f} at c = 100",
        ours=f"{least:.2f} to {max(rows.values()):.2f}",
        verdict="not reproduced" if not reached else "exceeded" if better else "reproduced",
        reason=c if reached else f"a row has {least:.2f}, less than {MUST_REACH[name]}; {c}",
    )


def _accuracies(results: list[Result], name: str, d: int, k: int) -> list[float]:
    return [r["accuracy"] for r in results if (r.axes["separation"], r["d"], r["k"]) == (name, d, k)]


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
    for position, (name, values) in enumerate(series.items()):
        places = np.arange(len(rows)) + 0.14 * (position - 1.5)
        means, deviations = zip(*values, strict=True)
        marker, color = ("s", "0.45") if position == 0 else ("o", f"C{position - 1}")
        ax.errorbar(places, means, deviations, fmt=marker, color=color, capsize=4, markersize=7, label=name)
    ax.set_xticks(range(len(rows)), [f"d = {d}, k = {k}" for d, k in rows])
    ax.set(ylabel="accuracy in percent")
    ax.set_title("Table 1: mixtures of Gaussians, k' = √k, m₀ = 5", loc="left")
    ax.grid(axis="y", alpha=0.3)
    ax.spines[["top", "right"]].set_visible(False)
    ax.legend(loc="lower left", frameon=False)


EXPERIMENT = Experiment(
    name="table1",
    title="Separating mixtures of Gaussians",
    paper="Table 1, section 4.1",
    claim="One round of k-FED recovers the target clustering of mixtures of Gaussians with high accuracy.",
    measure="Share of points in the cluster matched to their component (best matching), in percent.",
    setup_differs="The paper's generator is unpublished. Here the k means are equidistant, and components have unit "
    "variance and 500 points, 100 of them on each of the m0 = 5 devices that share a group. 'c = 100' is the main "
    "theorem's active separation read literally, c sqrt(m0) (Delta_r + Delta_s) with norm(A - C) measured; '20 sd' and "
    "'30 sd' place the means that many standard deviations apart, which is far below it.",
    quick=grid(d=[100], k=[16, 64], separation=SEPARATIONS, n_r=[500], run=range(2)),
    full=tuple(
        a
        for a in grid(d=[100, 300], k=[16, 64, 100], separation=SEPARATIONS, n_r=[500], run=range(10))
        if (a["d"], a["k"]) in PAPER
    ),
    run_one=run_one,
    summarize=summarize,
    plot=plot,
)
