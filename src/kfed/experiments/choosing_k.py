"""Choosing k by separation: the distribution of c_rs on MNIST for several k (the appendix's figure)."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from kfed.experiments.axes import Axes, grid, seed_of
from kfed.experiments.experiment import Experiment, ExperimentSummary, Finding, Result, TextTable, Verdict
from kfed.experiments.oracle import MNIST, largest_ratios, needed_files, pooled_labels, some_owners
from kfed.experiments.yardstick import holds
from kfed.separation import SeparationChoice

if TYPE_CHECKING:
    from matplotlib.figure import Figure

THRESHOLD = 0.5
"""c_0, the paper's."""

READINGS: dict[str, Callable[[int], float]] = {
    "the appendix's formula, with the 2": lambda k: 1.0,  # noqa: ARG005
    "the theorem's scale, without the 2": lambda k: 2.0,  # noqa: ARG005
    "centralized clustering, with √k and without the 2": lambda k: 2.0 / k**0.5,
}
"""Ways to scale c_rs, as multiples of the appendix's at k' = m0 = 1; the last is that of lemma:awasthi."""


def run_one(axes: Axes, seed: int) -> dict[str, Any]:
    """Cluster MNIST into k clusters, and measure c_rs of all pairs."""
    data = some_owners(MNIST, axes["n_owners"], seed)
    labels = pooled_labels(data.points, axes["k"], seed_of(seed, **axes))
    return {
        "separation_ratios": np.sort(largest_ratios(data.points, labels)),
        "n_points": data.n_points,
        "source": data.name,
    }


def summarize(results: list[Result]) -> ExperimentSummary:
    """Look at how large c_rs are, and which k the appendix's rule picks: one claim, by the appendix's own formula."""
    choices = {reading: _choice(results, scale) for reading, scale in READINGS.items()}
    each = (_table(results, reading, choice) for reading, choice in choices.items())
    return ExperimentSummary((_small(choices), _picks(choices)), (_picks_table(choices), *each))


def _choice(results: list[Result], scale: Callable[[int], float]) -> SeparationChoice:
    ratios = {result["k"]: scale(result["k"]) * np.array(result["separation_ratios"]) for result in results}
    return SeparationChoice(THRESHOLD, ratios)


def _small(choices: dict[str, SeparationChoice]) -> Finding:
    every = [np.concatenate(list(choice.separation_ratios.values())) for choice in choices.values()]
    shares = [float(np.mean(ratios < 1)) for ratios in every]
    largest = ", ".join(f"{ratios.max():.2f}" for ratios in every)
    return Finding(
        claim="the separation of real data is small: c_rs < 1 for most pairs of clusters",
        paper="c_rs < 1 for most cluster pairs",
        ours=f"{min(shares):.0%} of {len(every[0]):,} pairs, however c_rs is read; the largest is {largest}",
        verdict=holds(min(shares) > 0.5),
    )


def _picks(choices: dict[str, SeparationChoice]) -> Finding:
    """Judge the appendix's formula, and say what the other readings pick."""
    (judged, choice), *others = choices.items()
    verdict = _verdict(choice)
    nothing = "no pair of clusters passes at any k, even with k' = m₀ = 1, where c_rs is largest"
    differ = [f"by {reading}, it is {own}" for reading, other in others if (own := _verdict(other)) != verdict]
    beside = "; ".join(f"by {reading}: {_picked(other)}" for reading, other in others)
    return Finding(
        claim=f"the k with most pairs above c₀ = {THRESHOLD:g} gives the oracle clustering",
        paper="some k is picked (which one is not stated)",
        ours=f"{_picked(choice)}, by {judged} ({beside})",
        verdict=verdict,
        reason="; ".join([*([] if choice.n_clusters else [nothing]), *differ]),
    )


def _verdict(choice: SeparationChoice) -> Verdict:
    return holds(choice.n_clusters is not None)


def _picked(choice: SeparationChoice) -> str:
    """Say which k is picked; of several with as many pairs, the largest."""
    picked = choice.n_clusters
    if picked is None:
        return "none"
    tied = [str(k) for k, share in choice.shares.items() if share == choice.shares[picked]]
    largest = f", the largest of {', '.join(tied)}" if len(tied) > 1 else ""
    return f"k = {picked}{largest}, with {choice.shares[picked]:.0%} of its pairs"


def _picks_table(choices: dict[str, SeparationChoice]) -> TextTable:
    rows = []
    for reading, choice in choices.items():
        largest = max(own.max() for own in choice.separation_ratios.values())
        share = max(choice.shares.values())
        rows.append((reading, f"{largest:.3f}", str(choice.n_clusters or "none"), f"{share:.0%}"))
    title = "The k that is picked, however c_rs is read (the first is judged; the largest of several is taken)"
    return TextTable(title, ("c_rs by", "largest c_rs", "k", f"its pairs above {THRESHOLD:g}"), tuple(rows))


def _table(results: list[Result], reading: str, choice: SeparationChoice) -> TextTable:
    rows = []
    for k, ratios in choice.separation_ratios.items():
        numbers = (ratios.min(), np.median(ratios), ratios.max())
        rows.append((str(k), f"{len(ratios):,}", *(f"{x:.3f}" for x in numbers), f"{choice.shares[k]:.0%}"))
    headings = ("k", "pairs", "least c_rs", "median", "largest", f"above {THRESHOLD:g}")
    return TextTable(
        f"c_rs of {results[0]['n_points']:,} digits ({results[0]['source']}) by {reading}",
        headings,
        tuple(rows),
        n_words=0,
    )


def plot(results: list[Result], figure: Figure) -> None:
    """Draw the share of pairs above any c_rs, by k, in each reading."""
    panels = figure.subplots(1, len(READINGS), sharey=True)
    for ax, (reading, scale) in zip(panels, READINGS.items(), strict=True):
        _choice(results, scale).plot(ax=ax)
        below = {"loc": "upper center", "bbox_to_anchor": (0.5, -0.14), "ncols": 3}  # curves fill the panels
        ax.legend(frameon=False, title=f"pairs above c₀ = {THRESHOLD:g} (dashed)", fontsize="small", **below)
        ax.set_title(reading, loc="left", fontsize="medium")
        ax.set(
            xlabel="c_rs, scaled as the title says",
            ylabel="share of pairs with a larger one" if ax is panels[0] else "",
        )
        ax.set_xscale("linear")
    most = max(ax.get_xlim()[1] for ax in panels)
    for ax in panels:
        ax.set_xlim(0, most)  # one axis for all, so that the readings can be compared


def _files(axes: Axes) -> tuple[str, ...]:  # noqa: ARG001
    return needed_files(MNIST)


EXPERIMENT = Experiment.of(
    __name__,
    "Choosing k by separation",
    "Figure of c_rs, appendix 'Choosing k Based on Separation'",
    claim="On MNIST the separation of clusters is small: c_rs < 1 for most pairs. The k with the largest share of "
    "pairs above c₀ (say 0.5) is taken for the oracle clustering.",
    measure="c_rs = |μ_r - μ_s| / 2√m₀ (Δ_r + Δ_s) of all pairs of clusters of the pooled digits, and what it is "
    "without the 2 (as in the main theorem), and with √k for k' (as centralized clustering asks).",
    setup_differs="The digits are those of some writers of MNIST. k' and m₀ of the figure are not stated; here "
    "both are 1 (each cluster whole on a device of its own), which makes c_rs as large as it can be.",
    quick=grid(n_owners=[40], k=[4, 10, 25]),
    full=grid(n_owners=[180], k=[2, 4, 6, 8, 10, 16, 25, 36, 64]),
    run_requires=_files,
    figure_size=(15.0, 5.8),
    minutes=(0.1, 0.7),
)
