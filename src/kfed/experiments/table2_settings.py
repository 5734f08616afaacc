"""Table 2 in other settings: the CNN that the paper names, and all devices in every round as IFCA's authors had it."""

from __future__ import annotations

from textwrap import fill
from typing import TYPE_CHECKING, Any

import numpy as np

from kfed._base.report import Finding, TextTable
from kfed.experiments import _personalization as trained
from kfed.experiments._personalization import GLOBAL, IFCA, KFED, METHODS, TRUTH, train_and_test
from kfed.experiments.axes import Axes, grid
from kfed.experiments.drawing import deviation, finish, plus_minus, select, values_of
from kfed.experiments.experiment import Experiment, ExperimentSummary, Result
from kfed.experiments.yardstick import leads, noise_of, worst

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SETTINGS: dict[str, dict[str, Any]] = {
    "CNN": {"network": "CNN", "per_round": 3, "rate": 0.3, "final_rate": 0.1},
    "all devices in every round, IFCA's settings": {
        "network": "perceptron",
        "per_round": None,
        "rate": 0.1,
        "final_rate": None,
    },
}
"""By the names of the runs. IFCA's published settings are otherwise those of Table 2: 200 hidden units, 10 local steps,
batches of 100."""

IN_WORDS = {
    "CNN": "with the CNN that the paper names",
    "all devices in every round, IFCA's settings": "with all devices in every round",
}

LAYOUT, N_DEVICES = "k' = 2, all pairs", 100
WAYS = (*METHODS, TRUTH)
NAMED = {IFCA: "IFCA", GLOBAL: "one model for all"}
IFCA_ROUNDS = 300
LEAST_LEAD = 0.1
"""Points of accuracy that are no lead, whatever the noise: what a single draw must pass."""

run_one = train_and_test


def summarize(results: list[Result]) -> ExperimentSummary:
    """Judge the row in which a device holds any two rotations, in each setting."""
    settings = values_of(results, "setting")
    findings = tuple(_finding(select(results, setting=setting), setting) for setting in settings)
    rows = tuple(_row(select(results, setting=setting), setting) for setting in settings)
    title = f"Test accuracy in percent, mean ± standard deviation over draws: {N_DEVICES} devices, {LAYOUT}"
    table = TextTable(title, ("setting", *WAYS, "IFCA models in use"), rows)
    return ExperimentSummary(findings, (table,), headline=_headline(results, settings))


def _headline(results: list[Result], settings: list[str]) -> str:
    """Say first how k-FED stands against the others here."""
    paper = trained.printed((LAYOUT, N_DEVICES))
    stands = "; ".join(_standing(select(results, setting=setting), IN_WORDS[setting]) for setting in settings)
    return (
        f"At k' = 2, all pairs: {stands}. In the paper k-FED is {paper[KFED] - paper[IFCA]:+.1f} against IFCA and "
        f"{paper[KFED] - paper[GLOBAL]:+.1f} against one model."
    )


def _standing(own: list[Result], setting: str) -> str:
    """How k-FED stands against the others in a setting: ahead or behind only beyond the noise of the draws."""
    over = {other: trained.leads_over(own, (LAYOUT, N_DEVICES), KFED, other) for other in (IFCA, GLOBAL)}
    named = ", ".join(
        f"{_ahead(leads_by_draw)} {NAMED[other]} ({np.mean(leads_by_draw):+.2f})"
        for other, leads_by_draw in over.items()
    )
    return f"{setting}, k-FED is {named}"


def _ahead(leads_by_draw: list[float]) -> str:
    mean, least = float(np.mean(leads_by_draw)), max(LEAST_LEAD, noise_of(leads_by_draw))
    return "ahead of" if mean > least else "behind" if mean < -least else "level with"


def _named(results: list[Result], setting: str) -> str:
    """What a setting is called: how many rounds it has of those that IFCA's authors had."""
    if setting == "CNN":
        return setting
    return f"all devices in every round: IFCA's model and steps, {results[0]['rounds']} of its {IFCA_ROUNDS} rounds"


def _row(results: list[Result], setting: str) -> tuple[str, ...]:
    (place,) = trained.places_of(results)
    cells = (plus_minus(trained.values(results, place, method)) for method in WAYS)
    in_use = ", ".join(f"{n:.0f}" for n in trained.values(results, place, IFCA, "models_in_use"))
    return (_named(results, setting), *cells, in_use)


def _finding(results: list[Result], setting: str) -> Finding:
    (place,) = trained.places_of(results)
    paper = trained.printed(place)
    over = {other: trained.leads_over(results, place, KFED, other) for other in (IFCA, GLOBAL)}
    return Finding(
        claim=f"k-FED does better than IFCA and one global model, {trained.named(place)} ({_named(results, setting)})",
        paper=trained.by_method(paper, 1),
        ours=trained.by_method({method: float(np.mean(trained.values(results, place, method))) for method in METHODS}),
        verdict=worst([leads(own, paper[KFED] - paper[other], least=LEAST_LEAD) for other, own in over.items()]),
        reason=f"k-FED is {np.mean(over[IFCA]):+.2f} against IFCA ({paper[KFED] - paper[IFCA]:+.1f} in the paper), "
        f"{np.mean(over[GLOBAL]):+.2f} against one model ({paper[KFED] - paper[GLOBAL]:+.1f}); "
        f"the true rotations would give {np.mean(trained.values(results, place, TRUTH)):.2f}",
    )


def plot(results: list[Result], figure: Figure) -> None:
    """Draw the accuracies of each setting as points with their spread."""
    settings = values_of(results, "setting")
    ax = figure.add_subplot()
    for position, (method, color) in enumerate(zip(WAYS, ("0.55", "C0", "C3", "C2"), strict=True)):
        every = [
            trained.values(own, (LAYOUT, N_DEVICES), method) for own in (select(results, setting=s) for s in settings)
        ]
        places = np.arange(len(settings)) + 0.12 * (position - 1.5)
        means, deviations = [np.mean(own) for own in every], [deviation(own) for own in every]
        ax.errorbar(places, means, deviations, fmt="o", color=color, capsize=3, markersize=7, label=method)
    paper = trained.printed((LAYOUT, N_DEVICES))
    for at in range(len(settings)):
        for position, method in enumerate(METHODS):
            place = at + 0.12 * (position - 1.5)
            ax.plot(place, paper[method], "_k", markersize=13, markeredgewidth=2, label="the paper's")
    names = [fill(_named(select(results, setting=setting), setting), 44) for setting in settings]
    ax.set_xticks(range(len(settings)), names)
    ax.set_xlim(-0.5, len(settings) - 0.5)
    finish(ax, f"Table 2 in other settings: {N_DEVICES} devices, {LAYOUT}", "", "test accuracy in percent")


def _runs(rounds: dict[str, int], share: float, n_runs: int) -> tuple[Axes, ...]:
    usual = {"layout": LAYOUT, "devices": N_DEVICES, "shared": 0.0, "share": share}
    return tuple(
        {"setting": setting, **usual, **SETTINGS[setting], "rounds": rounds[setting], **axes}
        for setting in SETTINGS
        for axes in grid(run=range(n_runs), method=WAYS)
    )


EXPERIMENT = Experiment.of(
    __name__,
    "Personalised federated learning in other settings",
    "Table 2, section 4.2, and its details in the appendix",
    claim="The paper's claim that k-FED does better than IFCA where a device holds two rotations, tried with the CNN "
    "that the paper names, and with all devices in every round.",
    measure="Test accuracy over all images of all devices, in percent.",
    setup_differs="Data and devices are those of Table 2's row 'all pairs' on 100 devices. The CNN has eight "
    "filters of 5 x 5 with a stride of 2 and a hidden layer of 200; otherwise its training is that of Table 2, in "
    "fewer rounds. IFCA's published settings are a perceptron with 200 hidden units, all devices in every round, "
    "ten local steps and a rate of 0.1; its devices have 100 images and use all of them in a step, where these "
    "have 2,400 and use 100; the rounds are fewer, as the row says.",
    quick=_runs({"CNN": 6, "all devices in every round, IFCA's settings": 2}, 0.08, 1),
    full=_runs({"CNN": 200, "all devices in every round, IFCA's settings": 40}, 1.0, 5),
    **trained.ON_MNIST,
    figure_size=(9.0, 4.8),
    legend={"ncols": 5, "fontsize": "small"},
    minutes=(0.5, 20),
)
