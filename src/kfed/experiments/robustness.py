"""Outliers, a wrong k^(z) and devices that are alike: the paper's rule, the robust rule, and refined labels."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from kfed.experiments.axes import Axes, grid, seed_of
from kfed.experiments.drawing import finish, select, values_of
from kfed.experiments.experiment import Experiment, ExperimentSummary, Finding, Result, TextTable
from kfed.experiments.troubles import N_CLUSTERS, TROUBLES, troubled
from kfed.experiments.ways import WAYS, labels_each_way
from kfed.experiments.yardstick import leads, similar, worst

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SEPARATION = 10.0
MOST_OUTLIERS = "20 outliers"
"""A trouble that refined labels mend only in part."""

LEAST = 0.02
"""A difference of ARI that counts as none, whatever the noise."""


def run_one(axes: Axes, seed: int) -> dict[str, Any]:
    """Cluster a spoiled mixture in every way, and compare with the components; outliers are not counted."""
    from sklearn.metrics import adjusted_rand_score

    own = seed_of(seed, trouble=axes["trouble"], run=axes["run"])
    world = troubled(TROUBLES[axes["trouble"]], SEPARATION, own)
    local = world.clustered(world.n_local_clusters, own, axes["least"])
    truth = np.concatenate(world.targets)
    found = labels_each_way(local, world.devices, N_CLUSTERS)
    return {way: float(adjusted_rand_score(truth[truth >= 0], labels[truth >= 0])) for way, labels in found.items()}


def summarize(results: list[Result]) -> ExperimentSummary:
    """Compare the ways where rows are bad, and where nothing is wrong."""
    return ExperimentSummary(
        (_helps(results), _refines(results), _harmless(results)), tuple(map(_table, _by_least(results)))
    )


def _by_least(results: list[Result]) -> list[list[Result]]:
    return [select(results, least=least) for least in values_of(results, "least")]


def _mean(results: list[Result], way: str) -> float:
    return float(np.mean([result[way] for result in results]))


def _helps(results: list[Result]) -> Finding:
    """See whether the robust rule is ahead where several outliers are sent; it is not unharmed."""
    bad = {row: own for row, own in _rows(results).items() if TROUBLES[row[0]].n_outliers > 1 and row[1] == 1}
    means = (f"{_mean(own, 'robust'):.3f} against {_mean(own, 'paper'):.3f} ({row[0]})" for row, own in bad.items())
    return Finding(
        claim="the robust rule is ahead of the paper's where centers of several outliers are sent",
        paper="assumes none",
        ours=f"mean ARI {', '.join(means)}",
        verdict=worst([leads(_gains(own), least=LEAST) for own in bad.values()]),
        reason="ahead, not unharmed: without outliers ARI is 1",
    )


def _refines(results: list[Result]) -> Finding:
    """See whether refined labels are as good as the truth, up to a margin; 20 outliers are shown, and not judged."""
    scores = {row: [r["robust, refined"] for r in own] for row, own in _rows(results).items()}
    judged = {row: own for row, own in scores.items() if row[0] != MOST_OUTLIERS}
    others = [float(np.mean(own)) for row, own in scores.items() if row[0] == MOST_OUTLIERS]
    at_worst = f" ({min(others):.3f})" if others else ""
    return Finding(
        claim="refined labels mend what an outlier or a wrong k^(z) did to a device",
        paper="assumes k^(z) known and no outliers",
        ours=f"mean ARI at least {min(map(np.mean, judged.values())):.3f} in every row but {MOST_OUTLIERS}{at_worst}",
        verdict=worst([similar([score - 1 for score in own], LEAST) for own in judged.values()]),
        reason=f"mended means at most {LEAST:g} below 1, beyond the noise",
    )


def _harmless(results: list[Result]) -> Finding:
    """See whether the robust rule is ever behind the paper's by more than a margin."""
    gains = {row: _gains(own) for row, own in _rows(results).items()}
    (trouble, size), least = min(((row, float(np.mean(own))) for row, own in gains.items()), key=lambda pair: pair[1])
    unsure = [
        f"{trouble}, clusters of {size} or more sent"
        for (trouble, size), own in gains.items()
        if similar(own, LEAST) != "reproduced"
    ]
    margin = f"a difference of {LEAST:g} counts as none"
    return Finding(
        claim=f"the robust rule is never behind the paper's by more than {LEAST:g}",
        paper="has one rule",
        ours=f"least difference of mean ARI {least:+.3f} ({trouble}, clusters of {size} or more sent)",
        verdict=worst([similar(own, LEAST) for own in gains.values()]),
        reason=f"{margin}; not so beyond the noise of the runs: {'; '.join(unsure)}" if unsure else margin,
    )


def _rows(results: list[Result]) -> dict[tuple[str, int], list[Result]]:
    """The runs of each trouble and least size that is sent."""
    every = dict.fromkeys((result["trouble"], result["least"]) for result in results)
    return {(trouble, least): select(results, trouble=trouble, least=least) for trouble, least in every}


def _gains(results: list[Result]) -> list[float]:
    """ARI of the robust rule above that of the paper's, for each run."""
    return [result["robust"] - result["paper"] for result in results]


def _table(results: list[Result]) -> TextTable:
    rows = tuple(
        (trouble, *(f"{_mean(select(results, trouble=trouble), way):.3f}" for way in WAYS))
        for trouble in values_of(results, "trouble")
    )
    least = results[0]["least"]
    sent = "every center is sent" if least == 1 else f"clusters of fewer than {least} points are withheld"
    return TextTable(f"Mean ARI where {sent}", ("", *WAYS), rows)


def plot(results: list[Result], figure: Figure) -> None:
    """Draw bars for each trouble, a panel for each least size."""
    panels = _by_least(results)
    for ax, own in zip(figure.subplots(1, len(panels), sharey=True, squeeze=False)[0], panels, strict=True):
        troubles = values_of(own, "trouble")
        for position, (way, color) in enumerate(WAYS.items()):
            heights = [_mean(select(own, trouble=trouble), way) for trouble in troubles]
            ax.barh(np.arange(len(troubles)) + 0.27 * (position - 1), heights, 0.25, color=color, label=way)
        ax.set_yticks(range(len(troubles)), troubles)
        least = own[0]["least"]
        sent = "every center is sent" if least == 1 else f"clusters under {least} points withheld"
        finish(ax, sent, "mean ARI", "")
        ax.grid(axis="y", visible=False)
        ax.grid(axis="x", alpha=0.3)
    ax.invert_yaxis()


EXPERIMENT = Experiment.of(
    __name__,
    "Outliers, a wrong k^(z), devices that are alike",
    "beyond the paper, which assumes clean data and known k^(z)",
    claim="The robust rule and refined labels keep the clusters where the paper's rule loses them.",
    measure="Adjusted Rand index of the induced clustering against the components, outliers left out.",
    setup_differs="Mixtures of Table 1 with d = 100, k = 16, components 10 standard deviations apart and 100 points of "
    "each on a device. An outlier lies 5 to 20 such distances from the middle. IID devices have all 16 components.",
    quick=grid(trouble=["clean", "5 outliers", "k^(z) + 1"], least=[1, 3], run=range(2)),
    full=grid(trouble=TROUBLES, least=[1, 3], run=range(20)),
    side_by_side=4,
    figure_size=(10.0, 5.0),
    legend={"ncols": 3},
    minutes=(0.15, 0.8),
)
