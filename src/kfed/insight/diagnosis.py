"""`kfed diagnose`: how far clusters can be relied upon, the verdict first, then what it rests on.

`diagnose` judges an aggregation by its messages alone, `diagnose_data` a clustering of points that one has. What they
give is the same kind of thing, so that a terminal, a page and a program show it alike.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from kfed._base import text
from kfed._version import __version__
from kfed.insight import page
from kfed.server import Aggregation, KChoice, choose_k
from kfed.theory import Certificate

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from kfed.separation import SeparationReport

MEANINGS = {
    True: "Every condition of the paper's main theorem holds. Another run, with other random choices or from another "
    "device, gives these clusters again but for a vanishing share of the points.",
    False: "The paper's main theorem does not vouch for these clusters. That does not make them wrong: its conditions "
    "are sufficient, not necessary, and few real data sets meet them. Look at what is named before you rely on it.",
    None: "What the devices sent leaves open whether the paper's main theorem vouches for these clusters.",
}
_KINDS = {True: "good", False: "bad", None: "open"}
N_DEVICES_NAMED = 10


@dataclass(frozen=True)
class Grid:
    """Rows of text under headings."""

    title: str
    headings: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


@dataclass(frozen=True)
class Picture:
    """Something to draw on axes, and what it shows."""

    title: str
    caption: str
    draw: Callable[[Axes], object] = field(repr=False)


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
        What the device centers themselves show, theorem or not; nothing if there are none.
    warnings : tuple of str
        What to look at before relying on the clusters.
    facts : tuple of (str, str)
        The numbers behind the verdict, each with its name.
    grids, pictures, notes
        What else there is to see and to know.
    details : dict
        Everything in types that JSON knows.
    """

    verdict: str
    is_guaranteed: bool | None
    evidence: str
    warnings: tuple[str, ...]
    facts: tuple[tuple[str, str], ...]
    grids: tuple[Grid, ...]
    pictures: tuple[Picture, ...]
    notes: tuple[str, ...]
    details: dict[str, Any] = field(repr=False)

    @property
    def meaning(self) -> str:
        """The verdict in a few plain sentences."""
        return MEANINGS[self.is_guaranteed]

    def figure(self) -> Figure:
        """All pictures, one below the other."""
        from kfed._base.figures import new_figure

        figure = new_figure(8.5, 4.4 * len(self.pictures))
        for ax, picture in zip(figure.subplots(len(self.pictures), squeeze=False)[:, 0], self.pictures, strict=True):
            picture.draw(ax)
        return figure

    def to_html(self, title: str) -> bytes:
        """A page that holds everything, pictures too, and opens without a network."""
        return page.page(title, self._blocks(), f"Written by kfed {__version__} on the device it was run on.")

    def _blocks(self) -> Iterator[str]:
        from kfed._base.figures import new_figure

        conclusion, _, reason = self.verdict.partition(": ")
        reasons = [_sentence(text) for text in (reason, self.meaning, self.evidence) if text]
        yield page.verdict(_sentence(conclusion), reasons, _KINDS[self.is_guaranteed])
        if self.warnings:
            yield page.heading("Look at this first")
            yield page.bullets(list(map(_sentence, self.warnings)))
        for picture in self.pictures:
            figure = new_figure(8.5, 4.4)
            picture.draw(figure.add_subplot())
            yield page.heading(picture.title)
            yield page.picture(page.png_of(figure), picture.caption)
        yield page.heading("The numbers")
        yield page.table(["", ""], self.facts)
        for grid in self.grids:
            yield page.table(grid.headings, grid.rows, grid.title)
        yield page.bullets(list(map(_sentence, self.notes)))


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
    'not guaranteed: 3 of 3 pairs of clusters are nearer than the main theorem asks: ...'
    >>> found.details["k_choice"]["n_clusters"], found.details["k_choice"]["is_reliable"]
    (3, True)
    """
    certificate = aggregation.certificate(required_ratio)
    choice = aggregation.k_choice or choose_k(aggregation.messages)
    return Diagnosis(
        certificate.verdict,
        certificate.is_guaranteed,
        f"the centers show {choice}",
        (*aggregation.warnings, *_doubts_about_k(aggregation, choice)),
        tuple(certificate.facts()),
        (*_pairs(certificate), _clusters(aggregation, certificate)),
        tuple(_pictures(aggregation, certificate, choice)),
        certificate.notes,
        {
            "certificate": certificate.to_dict(),
            "k_choice": text.plain({**choice.facts(), "distances": choice.distances, "ratios": choice.ratios}),
            "warnings": list(aggregation.warnings),
        },
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
        tuple(_ratio_picture(report) for _ in range(report.n_clusters > 1)),
        report.notes,
        report.to_dict(),
    )


def _sentence(text: str) -> str:
    first = text[:1] if text.startswith("k'") else text[:1].upper()
    return f"{first}{text[1:]}{'' if text.endswith('.') else '.'}"


def _doubts_about_k(aggregation: Aggregation, choice: KChoice) -> Iterator[str]:
    """Say where the centers themselves show another number of clusters than was asked for."""
    if choice.n_clusters == aggregation.n_clusters:
        return
    shown = f"{choice.n_clusters:,} cluster{'s' * (choice.n_clusters != 1)}"
    asked = f"{aggregation.n_clusters:,} clusters were asked for, and the centers"
    most = len(choice.ratios) + 1
    if aggregation.n_clusters > most:
        yield f"{asked} are too few to tell: they could show {most:,} at most"
        return
    if choice.is_reliable:
        yield f"{asked} clearly show {shown}: {choice.reason}"
    else:
        yield f"{asked} show them no more clearly than any other number ({shown} at best): {choice.reason}"


def _pairs(judged: Certificate | SeparationReport) -> Iterator[Grid]:
    headings, *rows = judged.pair_table()
    if rows:
        yield Grid("How far apart the clusters are", headings, tuple(rows))


def _clusters(aggregation: Aggregation, certificate: Certificate) -> Grid:
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
    headings = ("cluster", "points", "device centers", "devices", "least apart from", "c_rs at least")
    return Grid("The clusters", headings, rows)


def _failing_devices(report: SeparationReport) -> Iterator[Grid]:
    failing = np.flatnonzero(report.local_failures)
    if len(failing):
        worst = failing[np.argsort(-report.local_failures[failing], kind="stable")][:N_DEVICES_NAMED]
        rows = tuple((report.device_ids[i], f"{report.local_failures[i]:,}") for i in worst)
        yield Grid("Devices with most points that fail the proximity condition", ("device", "points"), rows)


def _pictures(aggregation: Aggregation, certificate: Certificate, choice: KChoice) -> Iterator[Picture]:
    from kfed.insight import plots

    if len(choice.distances):
        yield Picture(
            "How many clusters the centers show",
            "How far each further center is from those picked before it. Clusters that lie well apart show as a drop "
            "after the last of them.",
            lambda ax: plots.plot_traversal(choice, aggregation.n_clusters, ax=ax),
        )
    if aggregation.n_clusters > 1:
        yield _ratio_picture(certificate)
    yield Picture(
        "The device centers",
        "Every dot is a center that a device sent, its area the number of points; rings are the clusters found.",
        lambda ax: plots.plot_centers(aggregation, ax=ax),
    )


def _ratio_picture(judged: Certificate | SeparationReport) -> Picture:
    return Picture(
        "How far apart the clusters are",
        "Pairs of clusters by their separation ratio, the distance of their means over how far points spread. Active "
        "pairs meet on a device, and need far more. The dashed lines are what the main theorem asks for.",
        lambda ax: judged.plot(ax=ax),
    )
