"""Heterogeneity for the win: how near clusters may be that no device holds together (the corollary of section 3)."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

import numpy as np

from kfed._base import geometry
from kfed.baselines import centralized
from kfed.errors import AggregationWarning
from kfed.experiments._needed_distance import RIGHT, asked_in_words, needed, needed_in_words
from kfed.experiments._two_distances import CLUSTER_SIZE, N_CLUSTERS, N_FEATURES, TwoDistances, two_distances
from kfed.experiments.axes import Axes, grid, seed_of
from kfed.experiments.drawing import finish, plus_minus, select, spread, values_of
from kfed.experiments.experiment import Experiment, ExperimentSummary, Finding, Result, TextTable
from kfed.experiments.yardstick import holds, leads, worst
from kfed.metrics import matched_accuracy
from kfed.simulate import Round

if TYPE_CHECKING:
    from matplotlib.axes import Axes as Panel
    from matplotlib.figure import Figure

ACTIVE = 20.0
"""Standard deviations between clusters that share a device."""

N_SEEDINGS = 4
"""Of k-means on the pooled points; the best is kept, as on a device of k-FED."""

KFED, POOLED, KNOWN = "kfed", "pooled", "known"
LABELS = {KFED: "k-FED, one round", POOLED: "k-means on all points", KNOWN: "nearest true mean"}
COLORS = {KFED: "#2f6690", POOLED: "#d1603d", KNOWN: "0.5"}
THEOREM = "theorem"
"""The distance at which clusters are exactly as far apart as the main theorem asks, active pairs too."""

USUAL_LOCAL, USUAL_SHARING = 4, 6
USUAL = {"local": USUAL_LOCAL, "sharing": USUAL_SHARING}
"""k' and m0."""

LEAST_GROWTH = 0.05
"""Of the logarithm of a distance: less is no growth, whatever the noise."""

NEAR = 2.0


def run_one(axes: Axes, seed: int) -> dict[str, Any]:
    """Draw clusters at two distances, and cluster them in one round and in one place."""
    own = seed_of(
        seed, local=axes["local"], sharing=axes["sharing"], run=axes["run"]
    )  # the same noise at all distances
    distance, active = (None, None) if axes["distance"] == THEOREM else (axes["distance"], ACTIVE)
    drawn = two_distances(axes["local"], axes["sharing"], distance, active, np.random.default_rng(own))
    bounds = {name: getattr(drawn, name) for name in ("inactive_bound", "active_bound", "centralized_bound")}
    return {KFED: _one_round(drawn, axes["local"], own), **bounds} | (
        _in_one_place(drawn, own) if axes["in_one_place"] else {}
    )


def _one_round(drawn: TwoDistances, n_local: int, seed: int) -> float:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", AggregationWarning)  # clusters that are nearer than their points spread
        done = Round.run(drawn.devices, N_CLUSTERS, n_local, random_state=seed)
    return 100 * matched_accuracy(drawn.targets, done.labels)


def _in_one_place(drawn: TwoDistances, seed: int) -> dict[str, float]:
    """What k-means finds, and what knowing the true means would, without knowing who has a point."""
    points = np.concatenate(list(drawn.devices.values()))
    found = centralized([points], N_CLUSTERS, seed, n_init=N_SEEDINGS)
    known = geometry.nearest(points, drawn.means)
    return {POOLED: 100 * matched_accuracy(drawn.targets, found.labels), KNOWN: 100 * np.mean(known == drawn.targets)}


def summarize(results: list[Result]) -> ExperimentSummary:
    """See from which distance on clusters are told apart, and what m0 and k' do to it."""
    usual = _usual(results)
    findings = (_told_apart(usual), _needed(usual), _guaranteed(results), _grows(results))
    return ExperimentSummary(findings, (_table(usual), _needs_table(results)))


def _drawn(results: list[Result]) -> list[Result]:
    return [result for result in results if result["distance"] != THEOREM]


def _usual(results: list[Result]) -> list[Result]:
    return select(_drawn(results), **USUAL)


def _mean(results: list[Result], name: str) -> float:
    return float(np.mean([result[name] for result in results]))


def _told_apart(usual: list[Result]) -> Finding:
    own = select(usual, distance=NEAR)
    ours, pooled, known = (_mean(own, name) for name in (KFED, POOLED, KNOWN))
    return Finding(
        claim=f"k-FED tells clusters apart that share no device and are {NEAR:g} standard deviations apart",
        paper="names no such distance",
        ours=f"{ours:.1f} % of the points right; k-means on all points {pooled:.1f} %",
        verdict=worst([leads([result[KFED] - result[POOLED] for result in own], least=1.0), holds(ours >= RIGHT)]),
        reason=f"told apart means {RIGHT:g} % right; with the true means known, but not who has a point, {known:.1f} % "
        "is the most that can be had",
        is_ours=True,
    )


def _needed(usual: list[Result]) -> Finding:
    """Whether pairs need less distance than in one place, by as much as the theory says.

    k-means may lack a good start only; so the claim is judged by what knowing the true means needs, if that is less.
    """
    theory = N_CLUSTERS**0.25
    ours, pooled, known = (needed(usual, method) for method in (KFED, POOLED, KNOWN))
    words = f"{needed_in_words(usual, KFED)}, pooled {needed_in_words(usual, POOLED)}"
    return Finding(
        claim="pairs that share no device need less distance than if all points are clustered in one place",
        paper=f"k^(1/4) instead of √k: {theory:g} times less at k = {N_CLUSTERS}, constants apart",
        ours=f"{RIGHT:g} % right {words}",
        verdict=leads(np.log(np.divide(np.minimum(pooled, known), ours)).tolist(), float(np.log(theory))),
        reason=f"judged by the nearest true mean where that needs less: {needed_in_words(usual, KNOWN)}; up to there "
        f"points overlap, beyond it k-means lacks a good start. Theory asks for more: {asked_in_words(usual)}"
        + (". A run that never gets there counts with the largest distance drawn" if "no distance" in words else ""),
    )


def _guaranteed(results: list[Result]) -> Finding:
    own = [result for result in results if result["distance"] == THEOREM]
    least = min(result[KFED] for result in own)
    return Finding(
        claim="where the main theorem's distances hold, every point is right",
        paper="all points are classified correctly",
        ours=f"{least:.2f} % in the worst of {len(own)} runs; pairs that share no device "
        f"{_mean(own, 'inactive_bound'):,.0f} sd apart, others {_mean(own, 'active_bound'):,.0f}",
        verdict=holds(least == 100),
    )


def _grows(results: list[Result]) -> Finding:
    """Whether more distance is needed where more devices share a cluster, and each has fewer of its points."""
    varied = _varied(results, "sharing")
    needs = {m0: needed(own, KFED) for m0, own in varied.items()}
    bounds = {m0: _mean(own, "inactive_bound") for m0, own in varied.items()}
    few, many = min(needs), max(needs)
    asked, root = bounds[many] / bounds[few], np.sqrt(many / few)
    effects = np.log(np.divide(needs[many], needs[few])).tolist()
    return Finding(
        claim="the fewer points of a cluster a device has, the more distance is needed",
        paper=f"10 √m₀ λ, {asked:.2g} times as much at m₀ = {many} as at {few}",
        ours=f"{np.exp(np.mean(effects)):.2g} times as much: "
        + ", ".join(f"{needed_in_words(own, KFED)} at m₀ = {m0}" for m0, own in varied.items()),
        verdict=leads(effects, float(np.log(asked)), least=LEAST_GROWTH),
        reason=f"√m₀ alone, which the paper's text names, would be {root:.2g} times: λ has √n_min below, the points of "
        "the smallest device or cluster, and a device that shares its clusters with more others is smaller. Judged by "
        "the whole bound, in logarithms",
    )


def _varied(results: list[Result], axis: str) -> dict[int, list[Result]]:
    """The runs in which only k' or only m0 is not as usual, by its value."""
    others = {name: value for name, value in USUAL.items() if name != axis}
    own = select(_drawn(results), **others)
    return {value: select(own, **{axis: value}) for value in sorted(values_of(own, axis))}


def _table(usual: list[Result]) -> TextTable:
    rows = [
        (f"{distance:g}", *(plus_minus([r[method] for r in select(usual, distance=distance)], 1) for method in LABELS))
        for distance in values_of(usual, "distance")
    ]
    headings = ("nearest pair that shares no device, sd", *LABELS.values())
    about = f"Points in the right cluster, in percent: k = {N_CLUSTERS}, k' = {USUAL_LOCAL}, m₀ = {USUAL_SHARING}"
    return TextTable(
        f"{about}, pairs that share a device {ACTIVE:g} sd apart or more", headings, tuple(rows), n_words=0
    )


def _needs_table(results: list[Result]) -> TextTable:
    rows = []
    for local, sharing in dict.fromkeys((r["local"], r["sharing"]) for r in results):
        own = select(_drawn(results), local=local, sharing=sharing)
        needs = needed_in_words(own, KFED)
        bounds = (f"{_mean(own, name):,.0f}" for name in ("inactive_bound", "centralized_bound"))
        rows.append((str(local), str(sharing), str(CLUSTER_SIZE // sharing), needs, *bounds))
    title = f"Distance from which on {RIGHT:g} % of the points are right, and what theory asks for in sd"
    headings = ("k'", "m₀", "points of a cluster on a device", "k-FED", "main theorem", "centralized theory")
    return TextTable(title, headings, tuple(rows), n_words=0)


def plot(results: list[Result], figure: Figure) -> None:
    """Draw accuracy against the distance of pairs that share no device, and what m0 and k' do to it."""
    panels = figure.subplot_mosaic([["usual", "sharing"], ["usual", "local"]], width_ratios=[2, 1])
    _draw_usual(panels["usual"], _usual(results))
    _draw_varied(panels["sharing"], _varied(results, "sharing"), "m₀", "C2")
    _draw_varied(panels["local"], _varied(results, "local"), "k'", "C4")
    panels["sharing"].set_title("m₀ devices share a cluster", loc="left", fontsize="medium")
    panels["local"].set_title(f"k' clusters on a device (√k = {N_CLUSTERS**0.5:g})", loc="left", fontsize="medium")


NAMES_AT = {
    KFED: ("k-FED", (1.0, 84)),
    POOLED: ("k-means on all points\nin one place", (2.3, 48)),
    KNOWN: ("the most that is possible\nwithout knowing the devices", (5.0, 78)),
}
"""What the curves are called in the picture, and where."""

BOUNDS = {
    "inactive_bound": (KFED, "the paper's theorem\nasks {:,.0f} sd\nof these pairs"),
    "centralized_bound": (POOLED, "theory in one place\nasks {:,.0f} sd\nof every pair"),
}
"""What the lines say of the distances that theory asks for."""


def _draw_usual(ax: Panel, usual: list[Result]) -> None:
    distances = sorted(values_of(usual, "distance"))
    for method, (words, at) in NAMES_AT.items():
        runs = [[r[method] for r in select(usual, distance=distance)] for distance in distances]
        style = {"linestyle": "--", "marker": ""} if method == KNOWN else {"linewidth": 2.4}
        color = COLORS[method]
        spread(ax, distances, runs, LABELS[method], color, **style)
        ax.text(*at, words, color=color, fontweight="bold", va="center")
    for name, (method, words) in BOUNDS.items():
        bound, color = _mean(usual, name), COLORS[method]
        ax.axvline(bound, color=color, linestyle=":", linewidth=1.6)
        ax.annotate(
            words.format(bound),
            (bound, 6),
            (-5, 0),
            textcoords="offset points",
            ha="right",
            color=color,
            fontsize="small",
        )
    ax.set_xscale("log")
    ax.xaxis.set_major_formatter(lambda value, _: f"{value:,g}")
    ax.set(ylim=(0, 104), xlim=(0.27, 6000))
    devices = N_CLUSTERS // USUAL_LOCAL * USUAL_SHARING
    title = f"{N_CLUSTERS} clusters on {devices} devices, {USUAL_LOCAL} on each: how near may two be that share none?"
    across = f"distance of the nearest two that share no device, in sd (two that share one: {ACTIVE:g} sd or more)"
    finish(ax, title, across, "points in the right cluster, %")


def _draw_varied(ax: Panel, varied: dict[int, list[Result]], letter: str, color: str) -> None:
    near = sorted(set.intersection(*({r["distance"] for r in own} for own in varied.values())))
    for position, (value, own) in enumerate(varied.items()):
        runs = [[r[KFED] for r in select(own, distance=distance)] for distance in near]
        label = f"{letter} = {value} (theorem: {_mean(own, 'inactive_bound'):,.0f} sd)"
        strength = 0.35 + 0.65 * position / (len(varied) - 1)
        spread(ax, near, runs, label, color, markersize=4, alpha=strength)
    ax.set_xscale("log")
    ax.set_xticks(near, [f"{distance:g}" for distance in near])
    ax.minorticks_off()
    finish(ax, "", "distance, sd", "right, %")
    ax.set(ylim=(0, 104))
    ax.legend(loc="lower right", frameon=False, fontsize="small")


def _preset(
    distances: list[float], near: list[float], sharing: list[int], local: list[int], n_runs: int
) -> tuple[Axes, ...]:
    """All distances where m0 and k' are as usual; few where one of them is not, by k-FED alone."""
    runs = range(n_runs)
    usual = {"local": [USUAL_LOCAL], "sharing": [USUAL_SHARING]}
    return (
        *grid(**usual, distance=distances, in_one_place=[True], run=runs),
        *grid(**usual, distance=[THEOREM], in_one_place=[False], run=runs),
        *grid(local=[USUAL_LOCAL], sharing=sharing, distance=near, in_one_place=[False], run=runs),
        *grid(local=local, sharing=[USUAL_SHARING], distance=near, in_one_place=[False], run=runs),
    )


EXPERIMENT = Experiment.of(
    __name__,
    "Heterogeneity for the win",
    "Corollary of the main theorem, section 3: what the paper is named for",
    claim="Clusters that no device holds together need far less distance than k-means on pooled data needs.",
    measure="Share of points in the cluster matched to theirs (best matching), in percent, against the distance of the "
    "two nearest clusters that share no device.",
    setup_differs=f"The paper proves it and has no experiment. Here k = {N_CLUSTERS} Gaussian clusters of "
    f"{CLUSTER_SIZE} points and unit variance in d = {N_FEATURES} dimensions are in groups of k'; each group is on m₀ "
    f"devices. Clusters of a group are {ACTIVE:g} standard deviations apart, or as far as twins if that is more; each "
    "has a twin in every other group, at the distance that is drawn. Pooled k-means is scikit-learn's, the best of "
    "four seedings. k-FED goes by the paper's rule. A larger k' means fewer groups, and so fewer twins to take a "
    "cluster for: at small distances k' = 8, with one twin, has more points right than k' = 2, with seven. The bound "
    "is the same at k' = 2 and 4, as λ has √k' above and √n_min below, and the smallest device grows with k' until it "
    "is larger than a cluster.",
    quick=_preset([1.0, NEAR, 8.0], [0.5, 1.0, 2.0, 4.0], [2, 18], [2, 8], 2),
    full=_preset(
        [0.5, 0.75, 1.0, 1.5, NEAR, 3.0, 4.0, 6.0, 8.0, 12.0, 20.0, 60.0, 200.0],
        [0.25, 0.5, 0.75, 1.0, 1.5, 2.0, 3.0, 4.0],
        [2, 18],
        [2, 8],
        5,
    ),
    side_by_side=4,
    figure_size=(11.0, 5.4),
    minutes=(0.1, 0.6),
)
