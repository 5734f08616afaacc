"""Pages that show experiments: one self-contained HTML file, and a page of the documentation."""

from __future__ import annotations

import base64
import html
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path

import kfed
from kfed import _files, _pool
from kfed.experiments.experiment import Finding, Table
from kfed.experiments.runner import Outcome

LINK = "https://arxiv.org/abs/2103.00697"
FINDING_HEADINGS = ("claim", "paper", "ours", "verdict", "why")


def write_markdown(outcomes: Sequence[Outcome], path: str | Path) -> None:
    """Write a page of the documentation; pictures go to a folder beside it that has the page's name."""
    page = Path(path)
    pictures = page.with_suffix("")
    pictures.mkdir(parents=True, exist_ok=True)
    for outcome in outcomes:
        if outcome.picture is not None:
            shutil.copyfile(outcome.picture, pictures / outcome.picture.name)
    _files.write(page, "\n".join(_markdown(outcomes, pictures.name)).encode() + b"\n")


def write_html(outcomes: Sequence[Outcome], path: str | Path) -> None:
    """Write one HTML file that holds everything, pictures too, and asks nothing of a network."""
    body = "\n".join(_html(outcomes))
    page = (
        f"<!doctype html>\n<html lang=en><head><meta charset=utf-8><title>kfed</title></head><body>{body}</body></html>"
    )
    _files.write(path, page.encode())


def _markdown(outcomes: Sequence[Outcome], pictures: str) -> Iterator[str]:
    yield "# Reproduction of the paper's experiments"
    yield ""
    yield f"Written by `kfed reproduce` (kfed {kfed.__version__}, {_pool.available_cores()} cores)."
    yield ""
    for outcome in outcomes:
        yield f"## {outcome.experiment.name}: {outcome.experiment.title}"
        yield ""
        rows = tuple(_cells(finding) for finding in outcome.summary.findings)
        for table in (Table("", FINDING_HEADINGS, rows), *outcome.summary.tables):
            yield from _markdown_table(table)
        if outcome.picture is not None:
            yield f"![{outcome.experiment.title}]({pictures}/{outcome.picture.name})"
            yield ""


def _cells(finding: Finding) -> tuple[str, ...]:
    return finding.claim, finding.paper, finding.ours, finding.verdict, finding.reason


def _markdown_table(table: Table) -> Iterator[str]:
    for row in (table.headings, ["---"] * len(table.headings), *table.rows):
        yield f"| {' | '.join(row)} |"
    yield ""


def _html(outcomes: Sequence[Outcome]) -> Iterator[str]:
    for outcome in outcomes:
        yield f"<h2>{html.escape(outcome.experiment.title)}</h2>"
        for finding in outcome.summary.findings:
            yield f"<p>{html.escape('; '.join(_cells(finding)))}</p>"
        if outcome.picture is not None:
            data = base64.b64encode(outcome.picture.read_bytes()).decode()
            yield f'<img src="data:image/png;base64,{data}">'
