"""Pages that show experiments: one self-contained HTML file, and a page of the documentation."""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Iterator, Sequence
from html import escape
from pathlib import Path

from kfed._base import files, pool
from kfed._version import __version__
from kfed.experiments.experiment import Finding, Table, Verdict
from kfed.experiments.runner import Outcome
from kfed.insight import page

PAPER = "Dennis, Li and Smith, Heterogeneity for the Win: One-Shot Federated Clustering (ICML 2021)"
PAPER_ADDRESS = "https://arxiv.org/abs/2103.00697"
VERDICTS: tuple[Verdict, ...] = ("reproduced", "exceeded", "not reproduced")
TITLE = "The paper's experiments, reproduced"

STYLE = """
.tally { font-size: 1.1rem; font-weight: 600; }
nav { display: flex; flex-wrap: wrap; gap: .4rem .5rem; margin: 1.2rem 0; }
nav a { background: var(--card); border: 1px solid var(--line); border-radius: 2rem; padding: .25rem .75rem;
  text-decoration: none; color: var(--text); font-size: .9rem; }
.dot { display: inline-block; width: .6rem; height: .6rem; border-radius: 50%; margin-right: .45rem; }
.dot.good { background: var(--good); } .dot.bad { background: var(--bad); } .dot.skipped { background: var(--open); }
.dot.mixed { background: linear-gradient(90deg, var(--good) 50%, var(--bad) 50%); }
section { border-top: 1px solid var(--line); margin: 2.5rem 0 0; }
article { border-left: 3px solid var(--line); padding: .1rem 0 .1rem .9rem; margin: 1rem 0; }
article p { margin: .25rem 0; }
.mark { display: inline-block; font-size: .8rem; font-weight: 600; border: 1px solid currentColor; border-radius: .3rem;
  padding: 0 .4rem; margin-right: .5rem; color: var(--good); }
.mark.not-reproduced { color: var(--bad); }
dl { display: grid; grid-template-columns: repeat(auto-fit, minmax(15rem, 1fr)); gap: .2rem 1rem; margin: .3rem 0; }
dt { color: var(--soft); font-size: .9rem; }
dd { margin: 0; }
"""


def write_html(outcomes: Sequence[Outcome], path: str | Path) -> None:
    """Write one HTML file that holds everything, pictures too, and asks nothing of a network."""
    files.write(path, page.page(TITLE, _html(outcomes), _facts(outcomes), STYLE))


def write_markdown(outcomes: Sequence[Outcome], path: str | Path) -> None:
    """Write a page of the documentation; pictures go to a folder beside it that has the page's name."""
    page = Path(path)
    pictures = page.with_suffix("")
    pictures.mkdir(parents=True, exist_ok=True)
    for outcome in outcomes:
        if outcome.picture is not None:
            shutil.copyfile(outcome.picture, pictures / outcome.picture.name)
    files.write(page, "\n".join(_markdown(outcomes, pictures.name)).encode() + b"\n")


def tally(outcomes: Sequence[Outcome]) -> str:
    """Say how many claims got which verdict, and how many experiments were skipped."""
    counts = Counter(finding.verdict for outcome in outcomes for finding in outcome.summary.findings)
    n_skipped = sum(bool(outcome.skipped) for outcome in outcomes)
    parts = [f"{counts[verdict]} {verdict}" for verdict in VERDICTS]
    return f"{counts.total()} claims: {', '.join(parts)}" + (f"; experiments skipped: {n_skipped}" if n_skipped else "")


def _facts(outcomes: Sequence[Outcome]) -> str:
    """Say how the numbers came about."""
    presets, seeds = {outcome.preset for outcome in outcomes}, {outcome.seed for outcome in outcomes}
    minutes = sum(outcome.seconds for outcome in outcomes) / 60
    return (
        f"kfed {__version__}, {' and '.join(sorted(presets))} preset, seed {', '.join(map(str, sorted(seeds)))}, "
        f"{minutes:.1f} minutes of runs, {pool.available_cores()} cores"
    )


def _markdown(outcomes: Sequence[Outcome], pictures: str) -> Iterator[str]:
    yield f"# {TITLE}"
    yield ""
    yield "Written by `kfed reproduce`, not by hand; `make reproduce` writes it again. What the claims are of:"
    yield f"[{PAPER}]({PAPER_ADDRESS})."
    yield ""
    yield f"{tally(outcomes)}. {_facts(outcomes)}."
    yield ""
    rows = [_finding_cells(outcome, finding) for outcome in outcomes for finding in outcome.summary.findings]
    yield from _markdown_table(Table("", ("experiment", "claim", "paper", "ours", "verdict"), tuple(rows)))
    for outcome in outcomes:
        yield from _markdown_section(outcome, pictures)


def _finding_cells(outcome: Outcome, finding: Finding) -> tuple[str, ...]:
    name = outcome.experiment.name
    verdict = f"**{finding.verdict}**" if finding.verdict == "not reproduced" else finding.verdict
    return f"[{name}](#{name})", _cell(finding.claim), _cell(finding.paper), _cell(finding.ours), verdict


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("*", "\\*")


def _markdown_table(table: Table) -> Iterator[str]:
    if table.title:
        yield f"{_cell(table.title)}:"
        yield ""
    for row in (table.headings, ["---"] * len(table.headings), *table.rows):
        yield f"| {' | '.join(row)} |"
    yield ""


def _markdown_section(outcome: Outcome, pictures: str) -> Iterator[str]:
    experiment = outcome.experiment
    yield f"## {experiment.name}"
    yield ""
    yield f"{experiment.title} ({experiment.paper}). {experiment.claim}"
    yield ""
    if outcome.skipped:
        yield f"Skipped: {outcome.skipped}."
        yield ""
        return
    if outcome.left_out:
        yield f"Some runs are left out: {outcome.left_out}."
        yield ""
    for finding in outcome.summary.findings:
        reason = f" ({_cell(finding.reason)})" if finding.reason else ""
        yield f"- {_cell(finding.claim)}: **{finding.verdict}**{reason}"
    yield ""
    if outcome.picture is not None:
        yield f"![{experiment.title}]({pictures}/{outcome.picture.name})"
        yield ""
    for table in outcome.summary.tables:
        yield from _markdown_table(Table(table.title, table.headings, tuple(tuple(map(_cell, r)) for r in table.rows)))
    yield f"Measure: {_cell(experiment.measure)}"
    yield ""
    yield f"How the setup differs: {_cell(experiment.setup_differs)}"
    yield ""
    yield f"{len(outcome.results)} runs, {outcome.seconds:.0f} seconds."
    yield ""


def _html(outcomes: Sequence[Outcome]) -> Iterator[str]:
    yield f'<p><a href="{PAPER_ADDRESS}">{escape(PAPER)}</a></p><p class=tally>{escape(tally(outcomes))}</p>'
    yield f"<nav>{' '.join(_link(outcome) for outcome in outcomes)}</nav>"
    for outcome in outcomes:
        yield from _html_section(outcome)


def _link(outcome: Outcome) -> str:
    verdicts = {finding.verdict for finding in outcome.summary.findings}
    failed = "not reproduced" in verdicts
    kind = "skipped" if not verdicts else "mixed" if failed and len(verdicts) > 1 else "bad" if failed else "good"
    name = escape(outcome.experiment.name)
    return f'<a href="#{name}"><i class="dot {kind}"></i>{name}</a>'


def _html_section(outcome: Outcome) -> Iterator[str]:
    experiment = outcome.experiment
    yield f'<section id="{escape(experiment.name)}"><h2>{escape(experiment.title)}</h2>'
    yield f"<p class=soft>{escape(experiment.paper)}</p><p>{escape(experiment.claim)}</p>"
    if outcome.skipped:
        yield f"<p class=soft>Skipped: {escape(outcome.skipped)}.</p></section>"
        return
    if outcome.left_out:
        yield f"<p class=soft>Some runs are left out: {escape(outcome.left_out)}.</p>"
    yield from map(_html_finding, outcome.summary.findings)
    if outcome.picture is not None:
        yield page.picture(outcome.picture.read_bytes(), experiment.title, captioned=False)
    for table in outcome.summary.tables:
        yield page.table(table.headings, table.rows, table.title)
    yield f"<p><b>Measure.</b> {escape(experiment.measure)}</p>"
    yield f"<p><b>How the setup differs.</b> {escape(experiment.setup_differs)}</p>"
    about = f"{len(outcome.results)} runs, {outcome.seconds:.0f} seconds"
    yield f"<p class=soft>{about}: <code>kfed reproduce {escape(experiment.name)}</code></p></section>"


def _html_finding(finding: Finding) -> str:
    reason = f"<p class=soft>{escape(finding.reason)}</p>" if finding.reason else ""
    verdict = f'<span class="mark {_class(finding.verdict)}">{finding.verdict}</span>'
    return (
        f"<article><p>{verdict}{escape(finding.claim)}</p>"
        f"<dl><div><dt>paper</dt><dd>{escape(finding.paper)}</dd></div>"
        f"<div><dt>ours</dt><dd>{escape(finding.ours)}</dd></div></dl>{reason}</article>"
    )


def _class(verdict: str) -> str:
    return verdict.replace(" ", "-")
