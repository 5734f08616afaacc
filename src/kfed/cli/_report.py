"""Reports on a terminal."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import singledispatch
from textwrap import wrap
from typing import Any

from rich.console import Console
from rich.markup import escape

from kfed._base.report import Block, Conclusion, Findings, HeatTable, Notes, Paragraph, Report, TextTable
from kfed.cli._terminal import rich_table

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
            shown = _without_blank_start(shown)
        yield from shown


def _without_blank_start(shown: list[Any]) -> list[Any]:
    """The parts without empty lines before the first: its heading has one already."""
    first = shown[0].lstrip("\n") if isinstance(shown[0], str) else shown[0]
    return shown[1:] if first == "" else [first, *shown[1:]]


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
    is_wide = sum(_widths(block, lambda heading: [heading])) >= Console().width
    for part in _fitting(block, Console().width) if is_wide else [block]:
        rows = (tuple(map(escape, row)) for row in part.rows)
        headings = list(map(escape, part.headings))
        yield rich_table(escape(part.title) or None, headings, rows, left=part.n_words, whole=is_wide)
    if isinstance(block, HeatTable) and block.caption:
        yield f"[dim]{escape(block.caption)}[/]"


def _widths(block: TextTable, broken: Callable[[str], list[str]]) -> list[int]:
    """Characters that each column takes, with the lines between them, if its heading is broken into parts."""
    columns = zip(block.headings, *block.rows, strict=True)
    return [max(map(len, (*broken(heading), *cells, ""))) + 3 for heading, *cells in columns]


def _fitting(block: TextTable, width: int) -> Iterator[TextTable]:
    """Cut a table whose numbers are wider than the terminal into several, each with the words."""
    needs, kept = _widths(block, str.split), max(1, block.n_words)
    left = width - 1 - sum(min(need, MOST_FOR_WORDS) for need in needs[:kept])
    parts: list[list[int]] = [[]]
    for column in range(kept, len(needs)):
        if parts[-1] and sum(needs[at] for at in (*parts[-1], column)) > left:
            parts.append([])
        parts[-1].append(column)
    for number, part in enumerate(parts):
        chosen = (*range(kept), *part)
        rows = tuple(tuple(row[at] for at in chosen) for row in block.rows)
        headings = tuple("\n".join(wrap(block.headings[at], needs[at] - 3)) for at in chosen)
        yield TextTable("" if number else block.title, headings, rows, block.n_words)


@_rendered.register
def _(block: Findings) -> Iterator[Any]:
    rows = [
        (*map(escape, (one.claim, one.paper, one.ours)), f"[{_VERDICT_COLORS[one.verdict]}]{one.verdict}[/]")
        for one in block.findings
    ]
    yield rich_table(block.basis, ["claim", "paper", "ours", "verdict"], rows, left=4)
    yield from (f"  {escape(one.claim)}: {escape(one.reason)}" for one in block.findings if one.reason)
