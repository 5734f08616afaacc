"""Choosing k by separation: the distribution of c_rs on MNIST for several k (the appendix's figure)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from kfed.experiments.experiment import Axes, Experiment, ExperimentSummary, Finding, Result, TextTable, grid, seed_of
from kfed.experiments.oracle import pooled_labels, separation_ratios, some_owners
from kfed.separation import SeparationChoice

if TYPE_CHECKING:
    from matplotlib.figure import Figure

THRESHOLDS = (0.5, 0.4, 0.3, 0.25, 0.2)
"""c_0: the paper's, and lower ones."""


def run_one(axes: Axes, seed: int) -> dict[str, Any]:
    """Cluster MNIST into k clusters, and measure c_rs of all pairs."""
    data = some_owners("MNIST by writer", axes["n_owners"], seed)
    labels = pooled_labels(data.points, axes["k"], seed_of(seed, **axes))
    return {"separation_ratios": np.sort(separation_ratios(data.points, labels)), "n_points": data.n_points}


def summarize(results: list[Result]) -> ExperimentSummary:
    """Look at how large c_rs are, and which k the appendix's rule picks."""
    every = np.concatenate([result["separation_ratios"] for result in results])
    picked = {threshold: _choice(results, threshold).n_clusters for threshold in THRESHOLDS}
    lower = ", ".join(f"k = {k} at c₀ = {threshold:g}" for threshold, k in picked.items() if k)
    return ExperimentSummary(
        (
            Finding(
                claim="the separation of real data is small: c_rs < 1 for most pairs of clusters",
                paper="c_rs < 1 for most cluster pairs",
                ours=f"{np.mean(every < 1):.0%} of {len(every):,} pairs; the largest c_rs is {every.max():.2f}",
                verdict="reproduced" if np.mean(every < 1) > 0.5 else "not reproduced",
            ),
            Finding(
                claim="the k with most pairs above c₀ = 0.5 gives the oracle clustering",
                paper="some k is picked (which one is not stated)",
                ours=f"k = {picked[0.5]}" if picked[0.5] else f"none; at lower thresholds {lower}",
                verdict="reproduced" if picked[0.5] else "not reproduced",
                reason=""
                if picked[0.5]
                else "no pair of clusters has c_rs above 0.5 at any k, even with k' = m₀ = 1, "
                "where c_rs is largest; the paper does not say how its c_rs are scaled",
            ),
        ),
        (_table(results),),
    )


def _choice(results: list[Result], threshold: float) -> SeparationChoice:
    return SeparationChoice(threshold, {result["k"]: np.array(result["separation_ratios"]) for result in results})


def _table(results: list[Result]) -> TextTable:
    shares = [_choice(results, threshold).shares for threshold in THRESHOLDS]
    rows = []
    for result in results:
        ratios, k = np.array(result["separation_ratios"]), result["k"]
        numbers = (ratios.min(), np.median(ratios), ratios.max())
        rows.append((str(k), f"{len(ratios):,}", *(f"{x:.3f}" for x in numbers), *(f"{own[k]:.0%}" for own in shares)))
    headings = ("k", "pairs", "least c_rs", "median", "largest", *(f"above {t:g}" for t in THRESHOLDS))
    return TextTable(f"c_rs of {results[0]['n_points']:,} MNIST digits", headings, tuple(rows), n_words=0)


def plot(results: list[Result], figure: Figure) -> None:
    """Draw the share of pairs above any c_rs, by k."""
    ax = figure.add_subplot()
    _choice(results, THRESHOLDS[0]).plot(ax=ax)
    ax.legend(frameon=False, loc="lower left", title=f"pairs above {THRESHOLDS[0]:g}")
    ax.set_title("MNIST: share of pairs of clusters with a larger c_rs (k' = m₀ = 1)", loc="left", fontsize="medium")


EXPERIMENT = Experiment(
    name="choosing-k",
    title="Choosing k by separation",
    paper="Figure of c_rs, appendix 'Choosing k Based on Separation'",
    claim="On MNIST the separation of clusters is small: c_rs < 1 for most pairs. The k with the largest share of "
    "pairs above c₀ (say 0.5) is taken for the oracle clustering.",
    measure="c_rs = |μ_r - μ_s| / 2√m₀ (Δ_r + Δ_s) of all pairs of clusters of the pooled digits.",
    setup_differs="Digits of 180 writers, about 20,000. k' and m₀ of the figure are not stated; here both are 1 "
    "(each cluster whole on a device of its own), which makes c_rs as large as it can be.",
    quick=grid(n_owners=[40], k=[4, 10, 25]),
    full=grid(n_owners=[180], k=[2, 4, 6, 8, 10, 16, 25, 36, 64]),
    run_one=run_one,
    summarize=summarize,
    plot=plot,
    requires=("mnist", "mnist-writers"),
)
