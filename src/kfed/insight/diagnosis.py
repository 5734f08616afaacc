"""`kfed diagnose`: how far clusters can be relied upon, the verdict first, then what it rests on.

`diagnose` judges an aggregation by its messages alone, `diagnose_data` a clustering of points that one has. What they
give is the same kind of thing, so that a terminal, a page and a program show it alike.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from kfed._base import text
from kfed._base.report import Block, Conclusion, Notes, Plot, Report, Section, TextTable, fact_table
from kfed._version import __version__
from kfed.insight.assessment import Assessment
from kfed.insight.html import to_html
from kfed.insight.warned import on_average, warnings_of
from kfed.server import Aggregation, KChoice, find_k, plot_centers, plot_k_choice
from kfed.theory import Certificate, Judgement

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from kfed.separation import SeparationReport

MEANINGS = {
    True: "Every condition of the paper's main theorem holds. Another run, with other random choices or from another "
    "device, gives these clusters again but for a vanishing share of the points.",
    False: "The paper's main theorem does not vouch for these clusters. That does not make them wrong: its conditions "
    "are sufficient, not necessary, and few real data sets meet them. Look at what is named before you rely on it.",
    None: "It is open whether the paper's main theorem vouches for these clusters. The verdict says what is missing.",
}
N_DEVICES_NAMED = 10

_OF_DISTANCES = (
    "How far each further center is from those picked before it. Clusters that lie well apart show as a drop after the "
    "last of them."
)
_OF_COMPARISON = (
    "How well clusters come back when devices are left out or drawn anew, and how clear they are beside slices of one "
    "cloud, for each number of clusters that was compared."
)


@dataclass(frozen=True)
class Diagnosis:
    """What to make of a clustering.

    Attributes
    ----------
    verdict : str
        The conclusion: "guaranteed", or "not guaranteed: ..." or "unknown: ..." and why.
    is_guaranteed : bool or None
        The same as a value.
    evidence : str
        What the device centers themselves show, theorem or not; nothing if `warnings` say it.
    warnings : tuple of str
        What to look at before relying on the clusters.
    facts : tuple of (str, str)
        The numbers behind the verdict, each with its name.
    tables, plots, notes
        Tables of pairs, clusters and devices; pictures; and remarks on the verdict.
    details : dict
        Everything in types that JSON knows.
    assessment : Assessment or None
        How good the clusters are for those who use them; None where rows are judged by the theorem alone.
    """

    verdict: str
    is_guaranteed: bool | None
    evidence: str
    warnings: tuple[str, ...]
    facts: tuple[tuple[str, str], ...]
    tables: tuple[TextTable, ...]
    plots: tuple[Plot, ...]
    notes: tuple[str, ...]
    details: dict[str, Any] = field(repr=False)
    assessment: Assessment | None = field(default=None, repr=False)

    @property
    def meaning(self) -> str:
        """The verdict in a few plain sentences."""
        return MEANINGS[self.is_guaranteed]

    def figure(self) -> Figure:
        """Draw all plots, one below the other."""
        from kfed._base.figures import new_figure

        figure = new_figure(8.5, 4.4 * len(self.plots))
        for ax, plot in zip(figure.subplots(len(self.plots), squeeze=False)[:, 0], self.plots, strict=True):
            plot.draw(ax)
        return figure

    def report(self, title: str) -> Report:
        """Describe the diagnosis for any output: what people ask first, and the theorem's conditions last."""
        theorem = [Conclusion(self.verdict, self.is_guaranteed, (self.meaning,))]
        numbers: list[Block] = [fact_table(list(self.facts)), *self.tables, Notes(self.notes)]
        heading = "The paper's guarantee"
        sections = [
            *self._quality(),
            *(Section(plot.title, (plot,)) for plot in self.plots[:-1] if self.assessment),
            Section(heading if self.assessment else "", tuple(theorem)),
            *(Section(plot.title, (plot,)) for plot in (self.plots[-1:] if self.assessment else self.plots)),
            Section("The numbers of the theorem", tuple(numbers)),
        ]
        return Report(title, tuple(sections), foot=f"Written by kfed {__version__} on the device it was run on.")

    def _quality(self) -> Iterator[Section]:
        """The sections about quality."""
        found = self.assessment
        if found is None:
            return
        conclusion = found.conclusion()
        yield Section("", (replace(conclusion, meaning=(*conclusion.meaning, *filter(None, [self.evidence]))),))
        about_data = (warning for warning in self.warnings if "corollary" not in warning)  # the notes say it, too
        todo = (*found.advice(), *about_data)
        if todo:
            yield Section("Look at this first", (Notes(todo, "warning"),))
        tables = tuple(found.tables())
        if tables:
            yield Section("How good the clusters are", tables)

    def to_html(self, title: str) -> bytes:
        """Render a page that holds everything, pictures too, and opens without a network."""
        return to_html(self.report(title))


def diagnose(aggregation: Aggregation, required_ratio: float = 100.0) -> Diagnosis:
    """Judge an aggregation by what devices sent.

    Parameters
    ----------
    aggregation : Aggregation
    required_ratio : float
        c of the main theorem.

    Examples
    --------
    >>> places = np.array([[0.0, 0.0], [90.0, 0.0], [0.0, 90.0]])
    >>> sent = [kfed.DeviceMessage(f"{i}", places + i, [20] * 3, [40.0] * 3, 8.0) for i in range(3)]
    >>> found = diagnose(kfed.aggregate(sent, n_clusters=3))
    >>> found.verdict
    'not guaranteed: 3 of 3 pairs of clusters are nearer than the main theorem requires: ...'
    >>> found.details["k_choice"]["n_clusters"], found.details["k_choice"]["is_reliable"]
    (3, True)
    """
    certificate = aggregation.certificate(required_ratio)
    choice = aggregation.k_choice or _shown(aggregation)
    shows_k = choice.is_reliable or aggregation.settings.rounds == 1  # second messages have one center for each cluster
    doubts = tuple(_doubts_about_k(aggregation, choice)) if shows_k else ()
    assessment = Assessment.of(aggregation, choice if shows_k else None)
    is_said = any(notice.code == "unsure k" for notice in aggregation.notices)
    warnings = [notice.text for notice in aggregation.notices]
    return Diagnosis(
        certificate.verdict,
        certificate.is_guaranteed,
        _evidence(choice, assessment) if shows_k and not (doubts or is_said or assessment.has_too_few_centers) else "",
        (*warnings_of(aggregation, assessment), *doubts),
        tuple(certificate.facts()),
        (*_pairs(certificate), _clusters(aggregation, certificate)),
        tuple(_plots(aggregation, certificate, choice)),
        (*certificate.notes, *_other_measure(assessment)),
        {
            "certificate": certificate.to_dict(),
            "k_choice": text.plain(
                {**choice.facts(), "certainty": choice.certainty}
                | {"distances": choice.distances, "ratios": choice.ratios}
                | {"comparison": None if choice.comparison is None else choice.comparison.to_dict()}
            ),
            "warnings": warnings,
            "quality": assessment.to_dict(),
        },
        assessment,
    )


def diagnose_data(report: SeparationReport) -> Diagnosis:
    """Judge a clustering of points by the paper's conditions, which `separation_report` measured."""
    return Diagnosis(
        report.verdict,
        report.is_guaranteed,
        "",
        (),
        tuple(report.facts()),
        (*_pairs(report), *_failing_devices(report)),
        tuple(_ratio_plot(report) for _ in range(report.n_clusters > 1)),
        report.notes,
        report.to_dict(),
    )


def _evidence(choice: KChoice, assessment: Assessment) -> str:
    return on_average(f"the centers show {choice}" if choice.is_reliable else str(choice), choice, assessment)


def _other_measure(assessment: Assessment) -> Iterator[str]:
    """Say why the nearest clusters of the theorem may be others than those by standard deviations."""
    if assessment.has_squares and assessment.aggregation.n_clusters > 2:
        yield (
            "the ratio c_rs uses the spread of the rows in all directions; standard deviations, only that along the "
            "line between two clusters. Clusters that differ in one yes/no column alone therefore look close by c_rs "
            "and far by standard deviations"
        )


def _shown(aggregation: Aggregation) -> KChoice:
    """The number of clusters that the messages show, found as `kfed.aggregate` would find it."""
    return find_k(aggregation.messages, aggregation.rule, None, aggregation.settings.min_devices)


def _doubts_about_k(aggregation: Aggregation, choice: KChoice) -> Iterator[str]:
    """Say where the centers themselves show another number of clusters than was asked for."""
    if choice.n_clusters == aggregation.n_clusters:
        return
    shown = text.plural(choice.n_clusters, "cluster")
    asked = text.plural(aggregation.n_clusters, "cluster was asked for", "clusters were asked for")
    most = max(len(choice.ratios) + 1, choice.n_clusters)
    if aggregation.n_clusters > most:
        yield f"{asked}, but the centers are too few to tell: they can show at most {most:,}"
        return
    if choice.is_reliable:
        yield f"{asked}, but the centers clearly show {shown}: {choice.reason}"
    elif choice.stands_out:
        yield f"{asked}; {choice.finding}: {choice.reason}"
    elif aggregation.n_clusters > 1:  # that no number stands out is what one cluster looks like
        yield f"{asked}, and {choice.finding}: {choice.reason}"


def _pairs(judged: Judgement) -> Iterator[TextTable]:
    if judged.conditions:
        yield replace(judged.condition_table(), title="What the proofs ask for")
    table = judged.pair_table()
    if table.rows:
        yield replace(table, title="How far apart the clusters are for the theorem")


def _clusters(aggregation: Aggregation, certificate: Certificate) -> TextTable:
    """Say of each cluster how much stands behind it, and which other is nearest."""
    n_centers = np.bincount(aggregation.center_labels, minlength=aggregation.n_clusters)
    owners = [np.unique(aggregation.messages.owners[aggregation.center_labels == r]) for r in range(len(n_centers))]
    lower = np.where(np.isnan(certificate.separation_ratios.lower), np.inf, certificate.separation_ratios.lower)
    rows = tuple(
        (
            str(cluster),
            f"{size:,}",
            f"{n_centers[cluster]:,}",
            f"{len(owners[cluster]):,}",
            *((str(near), f"{lower[cluster, near]:.3g}") if lower.shape[0] > 1 else ("", "")),
        )
        for cluster, (size, near) in enumerate(zip(aggregation.cluster_sizes, lower.argmin(axis=1), strict=True))
    )
    headings = ("cluster", "points", "device centers", "devices", "least c_rs to", "c_rs at least")
    return TextTable("The clusters", headings, rows, n_words=0)


def _failing_devices(report: SeparationReport) -> Iterator[TextTable]:
    failing = np.flatnonzero(report.local_failures)
    if len(failing):
        worst = failing[np.argsort(-report.local_failures[failing], kind="stable")][:N_DEVICES_NAMED]
        rows = tuple((report.device_ids[i], f"{report.local_failures[i]:,}") for i in worst)
        yield TextTable("Devices with most points that fail the proximity condition", ("device", "points"), rows)


def _plots(aggregation: Aggregation, certificate: Certificate, choice: KChoice) -> Iterator[Plot]:
    if choice.comparison is not None or len(choice.distances):
        yield Plot(
            "How many clusters the centers show",
            _OF_DISTANCES if choice.comparison is None else _OF_COMPARISON,
            lambda ax: plot_k_choice(choice, aggregation.n_clusters, ax=ax),
        )
    yield Plot(
        "The device centers",
        "Every dot is a center that a device sent, its area the number of points; rings are the clusters found.",
        lambda ax: plot_centers(aggregation, ax=ax),
    )
    if aggregation.n_clusters > 1:
        yield _ratio_plot(certificate)


def _ratio_plot(judged: Judgement) -> Plot:
    return Plot(
        "How far apart the clusters are",
        "Pairs of clusters by their separation ratio, the distance of their means over how far points spread. Active "
        "pairs meet on a device, and need far more. The dashed lines are what the main theorem asks for.",
        lambda ax: judged.plot(ax=ax),
    )
