"""Reports on a terminal."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import singledispatch
from typing import Any

from rich.console import Console
from rich.markup import escape

from kfed._base.report import Block, Conclusion, Findings, Notes, Paragraph, Report, TextTable
from kfed.cli._terminal import table

NO_BREAK = "\u00a0"
MOST_FOR_WORDS = 30
"""Columns of the terminal that words get where numbers need the rest."""

_COLORS = {True: "green", False: "yellow", None: "cyan"}
_VERDICT_COLORS = {"exceeded": "green", "reproduced": "green", "direction only": "yellow", "not reproduced": "red"}


def on_terminal(blocks: Iterable[Block]) -> Iterator[Any]:
    """Render blocks for `say`. Pictures, and what only a page shows, are left out."""
    for block in blocks:
        yield from _rendered(block)


def sections_on_terminal(report: Report) -> Iterator[Any]:
    """Render a report for `say`, with the titles of its sections."""
    for section in report.sections:
        shown = list(on_terminal(section.blocks))
        if section.title and shown:
            yield f"\n[bold underline]{escape(section.title)}[/]\n"
        yield from shown


@singledispatch
def _rendered(block: Block) -> Iterator[Any]:  # noqa: ARG001
    return iter(())


@_rendered.register
def _(block: Conclusion) -> Iterator[Any]:
    yield f"[bold {_COLORS[block.is_good]}]{escape(block.text)}[/]"
    for text in block.meaning:
        yield f"\n{escape(text)}"


@_rendered.register
def _(block: Paragraph) -> Iterator[Any]:
    yield escape(f"{block.label}: {block.text}" if block.label else block.text)


@_rendered.register
def _(block: Notes) -> Iterator[Any]:
    for text in block.texts:
        if block.label == "note":
            yield f"[dim]note: {escape(text)}[/]"
        else:
            yield f"\n[bold]{block.label}:[/] {escape(text)}" if block.label else f"  - {escape(text)}"


@_rendered.register
def _(block: TextTable) -> Iterator[Any]:
    if not block.has_headings:
        yield ""
    for part in _fitting(block, Console().width):
        rows = (tuple(map(escape, row)) for row in part.rows)
        yield table(escape(part.title) or None, list(map(escape, part.headings)), rows, left=part.n_words)


def _fitting(block: TextTable, width: int) -> Iterator[TextTable]:
    """Cut a table whose numbers are wider than the terminal into several, each with the words; no number is broken."""
    whole = [
        tuple(cell if at < block.n_words else cell.replace(" ", NO_BREAK) for at, cell in enumerate(row))
        for row in block.rows
    ]
    needs = [
        max(map(len, [*(row[at] for row in whole), *heading.split(), ""])) + 3
        for at, heading in enumerate(block.headings)
    ]
    kept = max(1, block.n_words)
    left = width - 1 - sum(min(need, MOST_FOR_WORDS) for need in needs[:kept])
    parts: list[list[int]] = [[]]
    for column in range(kept, len(needs)):
        if parts[-1] and sum(needs[at] for at in (*parts[-1], column)) > left:
            parts.append([])
        parts[-1].append(column)
    for number, part in enumerate(parts):
        chosen = (*range(kept), *part)
        rows = tuple(tuple(row[at] for at in chosen) for row in whole)
        yield TextTable("" if number else block.title, tuple(block.headings[at] for at in chosen), rows, block.n_words)


@_rendered.register
def _(block: Findings) -> Iterator[Any]:
    rows = [
        (*map(escape, (one.claim, one.paper, one.ours)), f"[{_VERDICT_COLORS[one.verdict]}]{one.verdict}[/]")
        for one in block.findings
    ]
    yield table(block.basis, ["claim", "paper", "ours", "verdict"], rows, left=4)
    yield from (f"  {escape(one.claim)}: {escape(one.reason)}" for one in block.findings if one.reason)
