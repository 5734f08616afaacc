"""The directive `{kfed-commands}`: every command with its options and examples, from the commands themselves."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import typer
from docutils import nodes
from docutils.parsers.rst import Directive
from docutils.statemachine import StringList

from kfed.cli import app


def pages(command: Any, name: str) -> Iterator[str]:
    """Lines of Markdown for a command, or for all commands of a group."""
    for part, inner in sorted(getattr(command, "commands", {}).items()):
        yield from pages(inner, f"{name} {part}")
    if hasattr(command, "commands"):
        return
    context = command.make_context("kfed", [], resilient_parsing=True)
    usage = " ".join([name, *command.collect_usage_pieces(context)])
    yield from (f"## {name}", "", *(command.help or "").splitlines(), "", "```console", f"$ {usage}", "```", "")
    described = [record for option in command.params if (record := option.get_help_record(context))]
    yield from ("| | |", "|---|---|")
    yield from (f"| `{_cell(option)}` | {_cell(text)} |" for option, text in described)
    if command.epilog:
        yield from ("", "Examples:", "", *command.epilog.splitlines())
    yield ""


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("<", "&lt;") if "`" in text else text.replace("|", "\\|")


class Commands(Directive):
    """All commands, one section each."""

    def run(self) -> list[nodes.Node]:
        """Give the sections."""
        lines = StringList(list(pages(typer.main.get_command(app), "kfed")), source="kfed.cli")
        holder = nodes.section()
        holder.document = self.state.document
        self.state.nested_parse(lines, self.content_offset, holder, match_titles=True)
        return holder.children


def setup(app: Any) -> dict[str, Any]:
    """Add this extension to Sphinx."""
    app.add_directive("kfed-commands", Commands)
    return {"parallel_read_safe": True}
