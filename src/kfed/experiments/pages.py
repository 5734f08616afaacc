"""The report of experiments: one self-contained HTML file, and a page of the documentation."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from kfed._base import files
from kfed._base.report import VERDICTS, Block, Finding, Findings, ImageFile, Origin, Paragraph, Report, Section
from kfed._base.text import plural
from kfed._version import __version__
from kfed.experiments.outcome import ExperimentOutcome
from kfed.experiments.registry import EXPERIMENTS
from kfed.insight import to_html
from kfed.insight import write_markdown as write_page

PAPER = "Dennis, Li and Smith, Heterogeneity for the Win: One-Shot Federated Clustering (ICML 2021)"
PAPER_ADDRESS = "https://arxiv.org/abs/2103.00697"
TITLE = "The paper's experiments, reproduced"
PREFACE = (
    "Written by `kfed reproduce`, not by hand, from the runs in {files}; the same command does what is missing there "
    "and writes it again, with `--stored` it only writes it. *Reproduced* means the same everywhere: the direction of "
    "the claim, beyond the noise of our runs, and at least half of the paper's effect where it gives one; *direction "
    "only* is less than half. *Exceeded* is only a number that the paper gives, in the paper's setting. Claims of kfed "
    "that go beyond the paper are counted apart."
)
SOURCE = "What the claims are of:"

KEPT = "*Of an earlier version of kfed: the results behind it are not at hand, and `kfed reproduce` makes new ones.*"
"""What a section says whose experiment has no results in the folder."""

SKIPPED = "Skipped"
"""The first word of a section whose experiment was not done."""


def write_html(
    outcomes: Sequence[ExperimentOutcome], path: str | Path, *, left_out: Mapping[str, str] | None = None
) -> None:
    """Write one HTML file that holds everything, pictures too, and loads nothing from a network.

    `left_out` names files that cannot be shown, and says why.
    """
    files.write(path, to_html(report_of(outcomes, left_out)))


def write_documentation(
    outcomes: Sequence[ExperimentOutcome],
    path: str | Path,
    *,
    folder: str | Path | None = None,
    left_out: Mapping[str, str] | None = None,
) -> None:
    """Write a page of the documentation; pictures go to a folder beside it that has the page's name.

    Sections of the page that is there are kept where an experiment has no results to write them from, and say so;
    also where it was skipped now.
    `folder` holds the results; `left_out` is as in `write_html`.
    """
    kept = _without_results(Path(path), {outcome.experiment.name for outcome in outcomes if not outcome.skipped})
    outcomes = [outcome for outcome in outcomes if outcome.experiment.name not in kept]
    preface = PREFACE.format(files=_where(folder, Path(path).parent))
    write_page(report_of(outcomes, left_out), path, " ".join([preface, *_about_kept(kept), SOURCE]))
    if kept:
        files.write(path, "\n".join([Path(path).read_text(encoding="utf-8"), *kept.values()]).encode())


def _where(folder: str | Path | None, beside: Path) -> str:
    """Say where the results are, as seen from the page: it can be read elsewhere."""
    if folder is None:
        return "JSON files"
    return f"the JSON files of the folder `{Path(os.path.relpath(folder, beside)).as_posix()}`"


def _about_kept(kept: Mapping[str, str]) -> Iterator[str]:
    if kept:
        links = ", ".join(f"[{name}](#{name})" for name in kept)
        yield f"The last sections are of an earlier version, and not counted: {links}."


def _without_results(page: Path, written: Collection[str]) -> dict[str, str]:
    """Sections of a page about experiments that are not written anew, by name; none that says it was skipped."""
    sections = page.read_text(encoding="utf-8").split("\n## ")[1:] if page.exists() else []
    sections = [text for text in sections if f"\n{SKIPPED}: " not in text]
    named = {text.partition("\n")[0]: text.partition("\n")[2].removeprefix(f"\n{KEPT}\n").strip() for text in sections}
    missing = [name for name in EXPERIMENTS if name in named and name not in written]
    return {name: f"## {name}\n\n{KEPT}\n\n{named[name]}\n" for name in missing}


def report_of(outcomes: Sequence[ExperimentOutcome], left_out: Mapping[str, str] | None = None) -> Report:
    """Describe what became of some experiments."""
    sections = tuple(map(section_of, outcomes))
    named = (f"{name} is left out: {why}" for name, why in (left_out or {}).items())
    summary = "; ".join([verdict_counts(outcomes), *named])
    return Report(TITLE, sections, (PAPER, PAPER_ADDRESS), summary, _facts(outcomes))


def section_of(outcome: ExperimentOutcome) -> Section:
    """Describe what became of one experiment: what a reader must know comes before the claim."""
    about, headline = outcome.experiment, outcome.summary.headline
    claim = f"{headline} The claim: {about.claim}" if headline else about.claim
    return Section(about.title, tuple(_blocks(outcome)), about.name, about.paper, claim)


def _blocks(outcome: ExperimentOutcome) -> Iterator[Block]:
    experiment = outcome.experiment
    if outcome.skipped:
        yield Paragraph(f"{SKIPPED}: {outcome.skipped}.", is_aside=True)
        return
    if outcome.left_out:
        yield Paragraph(f"Some runs are left out: {outcome.left_out}.", is_aside=True)
    n_runs, seconds = len(outcome.results), f"{outcome.seconds:.0f}"
    yield Findings(findings_of(outcome), f"{n_runs} runs ({outcome.n_found} found), {seconds} s")
    if outcome.picture is not None:
        yield ImageFile(experiment.title, outcome.picture)
    yield from outcome.summary.tables
    yield Paragraph(experiment.measure, label="Measure")
    yield Paragraph(experiment.setup_differs, label="How the setup differs")
    yield _origin(outcome, n_runs, seconds)


def _origin(outcome: ExperimentOutcome, n_runs: int, seconds: str) -> Origin:
    """Say how the numbers of a section came about, and how to make them again."""
    is_quick = outcome.preset == "quick"
    made = f"{n_runs} runs{' of the quick preset' if is_quick else ''}, {seconds} seconds"
    own = "FILE.py" if outcome.shown_from else outcome.experiment.name
    command = f"kfed reproduce {own}{' --quick' if is_quick else ''}"
    if outcome.shown_from:
        made = f"{made}, as {outcome.shown_from} has it"
    if outcome.is_current:
        return Origin(made, command)
    if not (repeated := outcome.repeated_now):
        return Origin(f"{made}, by earlier code: run again with `{command}`", command)
    made = f"{made}, by earlier code; the present code repeated {_compared(repeated)}"
    return Origin(f"{made}: run all again with `{command}`", command)


def _compared(repeated: Mapping[str, Any]) -> str:
    """Say how many runs were repeated, and what came out.

    Examples
    --------
    >>> _compared({"runs": 3, "differing": 0}), _compared({"runs": 2, "differing": 1, "other_data": 1})
    ('3 of them, with the same results', '2 of them, of which 1 differ, and 1 on other data, not compared')
    >>> _compared({"runs": 0, "differing": 0, "other_data": 3})
    '3 on other data, not compared'
    """
    others = f"{repeated.get('other_data', 0)} on other data, not compared"
    if not repeated["runs"]:
        return others
    found = f"of which {repeated['differing']} differ" if repeated["differing"] else "with the same results"
    told = f"{repeated['runs']} of them, {found}"
    return f"{told}, and {others}" if repeated.get("other_data") else told


def findings_of(outcome: ExperimentOutcome) -> tuple[Finding, ...]:
    """What an experiment found; all its claims are ours if it goes beyond the paper."""
    beyond = not outcome.experiment.is_of_paper
    return tuple(replace(finding, is_ours=finding.is_ours or beyond) for finding in outcome.summary.findings)


def verdict_counts(outcomes: Sequence[ExperimentOutcome]) -> str:
    """Say how many claims got which verdict, the paper's and ours apart, and how many experiments were skipped."""
    findings = [finding for outcome in outcomes for finding in findings_of(outcome)]
    n_skipped = sum(bool(outcome.skipped) for outcome in outcomes)
    parts = []
    for whose, is_ours in (("of the paper", False), ("of kfed", True)):
        counts = Counter(finding.verdict for finding in findings if finding.is_ours is is_ours)
        listed = ", ".join(f"{counts[verdict]} {verdict}" for verdict in reversed(VERDICTS) if counts[verdict])
        if counts:
            parts.append(f"{plural(counts.total(), 'claim')} {whose}: {listed}")
    return "; ".join([*parts, *([f"experiments skipped: {n_skipped}"] if n_skipped else [])])


def _facts(outcomes: Sequence[ExperimentOutcome]) -> str:
    """Say how the numbers came about."""
    presets, seeds = {outcome.preset for outcome in outcomes}, {outcome.seed for outcome in outcomes}
    minutes = sum(outcome.seconds for outcome in outcomes) / 60
    cores = sorted({outcome.cores for outcome in outcomes})
    earlier_ones = [outcome for outcome in outcomes if not outcome.is_current]
    earlier = f"; {len(earlier_ones)} of {plural(len(outcomes), 'experiment')} by earlier code" if earlier_ones else ""
    repeated = [own.repeated_now for own in earlier_ones]
    if earlier_ones and all(own.get("runs") and not own["differing"] for own in repeated):
        earlier += ", of which the present code repeated some runs with the same results"
    return (
        f"kfed {__version__}, {' and '.join(sorted(presets))} preset, seed {', '.join(map(str, sorted(seeds)))}, "
        f"{minutes:.1f} minutes of runs, {' and '.join(map(str, cores))} cores{earlier}"
    )
