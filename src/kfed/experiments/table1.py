"""Table 1: the accuracy of k-FED on mixtures of Gaussians, k' = sqrt(k), m0 = 5, over 10 runs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from kfed._base import pool
from kfed._base.array import Array
from kfed.baselines import textbook_local
from kfed.datasets import Mixture, mixture
from kfed.experiments.axes import Axes, grid, seed_of
from kfed.experiments.drawing import deviation, finish, plus_minus, select
from kfed.experiments.experiment import Experiment, ExperimentSummary, Finding, Result, TextTable
from kfed.experiments.yardstick import reaches
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

PAPER_RUNS = 10
LITERAL = "ours, c = 100"


@dataclass(frozen=True)
class TableColumn:
    """How the points of a column are drawn and clustered."""

    method: str
    separation: dict[str, Any]
    layout: str = "equidistant"


COLUMNS = {
    LITERAL: TableColumn(OURS, {"required_ratio": 100.0}),
    "ours, 30 sd": TableColumn(OURS, {"separation": 30.0}),
    "ours, 20 sd": TableColumn(OURS, {"separation": 20.0}),
    "ours, random means, 20 sd": TableColumn(OURS, {"separation": 20.0}, "random"),
    "greedy k-means++, 20 sd": TableColumn(GREEDY, {"separation": 20.0}),
    "plain k-means++, 20 sd": TableColumn(PLAIN, {"separation": 20.0}),
    "plain k-means++, 40 sd": TableColumn(PLAIN, {"separation": 40.0}),
    "plain k-means++, 100 sd": TableColumn(PLAIN, {"separation": 100.0}),
    "plain k-means++, random means, 40 sd": TableColumn(PLAIN, {"separation": 40.0}, "random"),
}


def run_one(axes: Axes, seed: int) -> dict[str, Any]:
    """Draw a mixture, run one round, and match clusters with components."""
    own, column = seed_of(seed, d=axes["d"], k=axes["k"], run=axes["run"]), COLUMNS[axes["column"]]
    drawn = mixture(
        axes["d"], axes["k"], points_per_cluster=axes["n_r"], layout=column.layout, seed=own, **column.separation
    )
    labels = _round(drawn, own) if column.method == OURS else _textbook_round(drawn, N_CANDIDATES[column.method], own)
    return {
        "accuracy": 100 * matched_accuracy(np.concatenate(drawn.targets), labels),
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
    # One more of each count: plain seeding can leave a cluster empty, and a message holds none of 0 points. The rule
    # takes counts only to find the device of most points, and every device gets as many more.
    messages = [
        DeviceMessage(name, centers, np.bincount(labels, minlength=len(centers)) + 1)
        for name, (labels, centers) in zip(drawn.device_ids, local, strict=True)
    ]
    result = aggregate(messages, drawn.n_clusters)
    answers = (np.asarray(result.identity(name)) for name in drawn.device_ids)
    return np.concatenate([answer[labels] for answer, (labels, _) in zip(answers, local, strict=True)])


def summarize(results: list[Result]) -> ExperimentSummary:
    """Compare every row with the paper's."""
    rows = tuple((str(d), str(k), _printed(d, k), *_cells(results, d, k)) for d, k in _rows(results))
    headings = ("d", "k", "paper, c = 100", *COLUMNS)
    title = "Accuracy in percent, mean ± standard deviation over runs"
    return ExperimentSummary((_finding(results),), (TextTable(title, headings, rows, n_words=2),))


def _rows(results: list[Result]) -> list[tuple[int, int]]:
    return [(d, k) for d, k in PAPER if any((r["d"], r["k"]) == (d, k) for r in results)]


def _printed(d: int, k: int) -> str:
    mean, deviation = PAPER[d, k]
    return f"{mean:.2f} ± {deviation:.2f}"


def _cells(results: list[Result], d: int, k: int) -> list[str]:
    return [plus_minus(_accuracies(results, column, d, k)) for column in COLUMNS]


def _finding(results: list[Result]) -> Finding:
    """Judge the column whose separation is the theorem's, read literally."""
    rows = _rows(results)
    means = {column: [float(np.mean(_accuracies(results, column, *row))) for row in rows] for column in COLUMNS}
    printed = [PAPER[row] for row in rows]
    noise = max(2 * deviation / np.sqrt(PAPER_RUNS) for _, deviation in PAPER.values())
    ours, others = means[LITERAL], ("ours, 20 sd", "plain k-means++, 40 sd")
    c = [r["theorem_c"] for r in select(results, column=others[0])]
    return Finding(
        claim="one round recovers the target clustering",
        paper=f"{min(mean for mean, _ in printed):.2f} to {max(mean for mean, _ in printed):.2f} at c = 100",
        ours=_range(ours),
        verdict=reaches(ours, [mean for mean, _ in printed], noise),
        reason=f"at 20 sd, where by the theorem's formula c is {min(c):.2g} to {max(c):.2g}, "
        f"{_range(means[others[0]])}; at 40 sd with one plain k-means++ seeding (as in the authors' code, only this), "
        f"{_range(means[others[1]])}",
    )


def _range(means: list[float]) -> str:
    return f"{min(means):.2f} to {max(means):.2f}" if min(means) < 100 else "100.00 in every row"


def _accuracies(results: list[Result], column: str, d: int, k: int) -> list[float]:
    return [r["accuracy"] for r in select(results, column=column, d=d, k=k)]


def plot(results: list[Result], figure: Figure) -> None:
    """Draw the paper's rows beside ours."""
    ax = figure.add_subplot()
    rows = _rows(results)
    series = {"paper, c = 100": [PAPER[row] for row in rows]}
    for column in COLUMNS:
        every = [_accuracies(results, column, *row) for row in rows]
        series[column] = [(float(np.mean(own)), deviation(own)) for own in every]
    for position, (name, values) in enumerate(series.items()):
        places = np.arange(len(rows)) + 0.08 * (position - len(series) / 2)
        means, deviations = zip(*values, strict=True)
        marker, color = _look(name)
        spreads = np.minimum(deviations, 100 - np.array(means)), deviations
        ax.errorbar(places, means, spreads[::-1], fmt=marker, color=color, capsize=3, markersize=6, label=name)
    ax.set_xticks(range(len(rows)), [f"d = {d}, k = {k}" for d, k in rows])
    finish(ax, "Table 1: mixtures of Gaussians, k' = √k, m₀ = 5", "", "accuracy in percent")


COLORS = {OURS: "#2f6690", GREEDY: "C2", PLAIN: "#d1603d"}
MARKERS = "ov^D"


def _look(name: str) -> tuple[str, str]:
    """A square for the paper; a color for each method, and a marker for each of its columns."""
    if name not in COLUMNS:
        return "s", "0.1"
    method = COLUMNS[name].method
    alike = [column for column, own in COLUMNS.items() if own.method == method]
    return MARKERS[alike.index(name)], COLORS[method]


EXPERIMENT = Experiment.of(
    __name__,
    "Separating mixtures of Gaussians",
    "Table 1, section 4.1",
    claim="One round of k-FED recovers the target clustering of mixtures of Gaussians with high accuracy.",
    measure="Share of points in the cluster matched to their component (best matching), in percent.",
    setup_differs="The paper's generator is unpublished. Here components have unit variance and 500 points, 100 of "
    "them on each of the m0 = 5 devices that share a group; their k means are equidistant, or drawn at random and "
    "scaled so that the two nearest are as far apart as said. 'c = 100' is the main theorem's active separation "
    "read literally, c sqrt(m0) (Delta_r + Delta_s) with norm(A - C) measured; a number of sd places the means "
    "that many standard deviations apart, which is far below it. Ours has the best of four greedy k-means++ "
    "seedings; other columns have one, plain or greedy. One plain seeding is what the authors' code has; the rest "
    "of these columns is the paper's algorithms, not that code. They show where the printed numbers come back; the "
    "paper asks for any 10-approximation.",
    quick=grid(d=[100], k=[16, 64], column=COLUMNS, n_r=[500], run=range(2)),
    full=tuple({"d": d, "k": k, **axes} for d, k in PAPER for axes in grid(column=COLUMNS, n_r=[500], run=range(10))),
    side_by_side=4,
    figure_size=(11.0, 5.0),
    legend={"ncols": 4, "fontsize": "small"},
    minutes=(0.15, 3),
)
