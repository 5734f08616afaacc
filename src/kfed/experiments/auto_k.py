"""How often ``n_clusters="auto"`` finds k, says that it cannot tell, or is wrong."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from kfed.experiments.axes import Axes, grid, seed_of
from kfed.experiments.drawing import finish, select, values_of
from kfed.experiments.experiment import Experiment, ExperimentSummary, Finding, Result, TextTable
from kfed.experiments.troubles import N_CLUSTERS, TROUBLES, troubled
from kfed.experiments.yardstick import holds
from kfed.server import choose_n_clusters
from kfed.simulate import messages_of

if TYPE_CHECKING:
    from matplotlib.figure import Figure

WAYS = {"k^(z) given": "given", "k^(z) auto too": "auto"}
TELLABLE = 10.0
"""Standard deviations between clusters from which on k should be found."""

MOSTLY = 0.95
MIN_CLUSTER_SIZE = 3


def run_one(axes: Axes, seed: int) -> dict[str, Any]:
    """Let the server find k from what devices send, with k^(z) given and with k^(z) found, too."""
    own = seed_of(seed, trouble=axes["trouble"], separation=axes["separation"], run=axes["run"])
    world = troubled(TROUBLES[axes["trouble"]], axes["separation"], own)
    found: dict[str, Any] = {}
    for way, n_local in (("given", world.n_local_clusters), ("auto", "auto")):
        choice = choose_n_clusters(messages_of(world.clustered(n_local, own, MIN_CLUSTER_SIZE)))
        found[f"{way}_k"], found[f"{way}_reliable"] = choice.n_clusters, choice.is_reliable
    return found


def _share(results: list[Result], way: str, what: str) -> float:
    """The share of runs in which k was found ("exact"), or another number was ("wrong"); in others none was."""
    reliable = np.array([bool(result[f"{way}_reliable"]) for result in results])
    right = np.array([result[f"{way}_k"] == N_CLUSTERS for result in results])
    return float(np.mean(reliable & (right if what == "exact" else ~right)))


def summarize(results: list[Result]) -> ExperimentSummary:
    """See how often k is found, and whether what is called reliable is."""
    findings = [make(results, *way) for make in (_found, _trusted) for way in WAYS.items()]
    return ExperimentSummary(tuple(findings), tuple(_table(results, *way) for way in WAYS.items()))


def _found(results: list[Result], name: str, way: str) -> Finding:
    tellable = [result for result in results if result["separation"] >= TELLABLE]
    shares = {t: _share(select(tellable, trouble=t), way, "exact") for t in values_of(tellable, "trouble")}
    worst = min(shares, key=lambda trouble: shares[trouble])
    return Finding(
        claim=f"k is found where clusters are {TELLABLE:g} standard deviations apart or more ({name})",
        paper="takes k as given",
        ours=f"in {_share(tellable, way, 'exact'):.1%} of the runs; least, {worst}: {shares[worst]:.1%}",
        verdict=holds(shares[worst] >= MOSTLY),
        reason=f"asked for is {MOSTLY:.0%} in every row",
    )


def _trusted(results: list[Result], name: str, way: str) -> Finding:
    n_wrong = round(_share(results, way, "wrong") * len(results))
    return Finding(
        claim=f"a number that is called reliable is right, at any separation ({name})",
        paper="takes k as given",
        ours=f"{n_wrong} wrong of {len(results)} runs",
        verdict=holds(n_wrong == 0),
    )


def _table(results: list[Result], name: str, way: str) -> TextTable:
    separations = values_of(results, "separation")
    rows = []
    for trouble in values_of(results, "trouble"):
        every = [select(results, trouble=trouble, separation=separation) for separation in separations]
        rows.append((trouble, *(f"{_share(own, way, 'exact'):.0%} / {_share(own, way, 'wrong'):.0%}" for own in every)))
    return TextTable(
        f"Runs in which k was found / another number was called reliable, by separation ({name})",
        ("", *(f"{separation:g} sd" for separation in separations)),
        tuple(rows),
    )


def plot(results: list[Result], figure: Figure) -> None:
    """Draw the share of runs in which k was found against the separation, a line for each trouble."""
    from matplotlib import colormaps

    separations, troubles = values_of(results, "separation"), values_of(results, "trouble")
    for ax, (name, way) in zip(figure.subplots(1, len(WAYS), sharey=True), WAYS.items(), strict=True):
        for position, trouble in enumerate(troubles):
            heights = [_share(select(results, trouble=trouble, separation=s), way, "exact") for s in separations]
            places = np.arange(len(separations)) + 0.05 * (position - len(troubles) / 2)
            ax.plot(places, heights, marker="o", color=colormaps["tab10"](position), label=trouble)
        ax.set_xticks(range(len(separations)), [f"{separation:g}" for separation in separations])
        finish(ax, name, "separation in standard deviations", "share of runs in which k was found")


EXPERIMENT = Experiment.of(
    __name__,
    "Finding the number of clusters",
    "beyond the paper, which takes k and k^(z) as given",
    claim="The number of clusters shows in the farthest-first distances, or kfed says that it does not.",
    measure="Share of runs in which k was found exactly, and in which another number was called reliable.",
    setup_differs="Mixtures of Table 1 with d = 100, k = 16 and 100 points of each component on a device, with the "
    "troubles of the robustness experiment. Clusters of fewer than 3 points are withheld.",
    quick=grid(trouble=["clean", "5 outliers"], separation=[5.0, 10.0], run=range(2)),
    full=grid(trouble=[t for t in TROUBLES if t != "20 outliers"], separation=[5.0, 7.0, 10.0, 20.0], run=range(12)),
    side_by_side=4,
    figure_size=(10.0, 5.2),
    legend={"ncols": 4},
    minutes=(0.1, 7),
)
