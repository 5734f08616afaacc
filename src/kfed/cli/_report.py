"""Reports on a terminal."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import singledispatch
from typing import Any

from rich.markup import escape

from kfed._base.report import Block, Conclusion, Findings, Notes, Paragraph, Report, TextTable
from kfed.cli._terminal import table

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
    rows = (tuple(map(escape, row)) for row in block.rows)
    yield table(escape(block.title) or None, list(map(escape, block.headings)), rows, left=block.n_words)


@_rendered.register
def _(block: Findings) -> Iterator[Any]:
    rows = [
        (*map(escape, (one.claim, one.paper, one.ours)), f"[{_VERDICT_COLORS[one.verdict]}]{one.verdict}[/]")
        for one in block.findings
    ]
    yield table(block.basis, ["claim", "paper", "ours", "verdict"], rows, left=4)
    yield from (f"  {escape(one.claim)}: {escape(one.reason)}" for one in block.findings if one.reason)
