"""`kfed aggregate -k 2-12` and `-k auto`: several numbers of clusters as one table."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import typer
from rich.markup import escape

from kfed.cli._report import on_terminal
from kfed.cli._terminal import claim, note, print_json, say
from kfed.errors import NoReliableKError
from kfed.server import Aggregation, KComparison, aggregate, compare_k
from kfed.wire import DeviceMessage

COMPARED_BY = "robust"
"""The rule for comparing numbers of clusters, unless one is given: it finds the best clusters of each number."""


def show_comparison(found: KComparison, plot: Path | None, *, as_json: bool) -> None:
    """Print a comparison, and draw it."""
    if plot is not None:
        found.plot(plot)
    if as_json:
        print_json(found.to_dict() | {"plot": None if plot is None else str(plot)})
        return
    say(*on_terminal(found.blocks()))
    if plot is not None:
        say(f"  [green]wrote[/]  {escape(str(plot))}")


def compare(
    messages: Sequence[DeviceMessage],
    values: range,
    rule: str | None,
    plot: Path | None,
    inputs: Sequence[Path],
    *,
    min_devices: int | None,
    force: bool,
    as_json: bool,
) -> None:
    """Compare numbers of clusters; nothing is written but the picture."""
    claim([plot] if plot else [], inputs=inputs, force=force)
    found = compare_k(messages, values, rule=rule or COMPARED_BY, min_devices=min_devices)
    show_comparison(found, plot, as_json=as_json)
    if not as_json:
        chosen = f"-k {found.recommended}" if found.recommended else "-k and the number that you choose"
        by = "" if found.rule == "paper" else f" --rule {found.rule}"
        note(f"no clusters were written; run this again with {chosen}{by}")


def aggregate_auto(
    messages: Sequence[DeviceMessage], rule: str | None, plot: Path | None, *, as_json: bool, **how: Any
) -> Aggregation:
    """Aggregate with the number that the centers show, or that stands out among 2 to 12; exit with 1 if none does."""
    try:
        return aggregate(messages, "auto", rule=rule or "paper", **how)
    except NoReliableKError:
        found = compare_k(messages, rule=rule or COMPARED_BY, min_devices=how["min_devices"])
    if found.recommended is None:
        show_comparison(found, plot, as_json=as_json)
        note("no clusters were written; choose a number from the table, and give it with -k")
        raise typer.Exit(1)
    if not as_json:
        say(*on_terminal(found.blocks()))
    return aggregate(messages, found.recommended, rule=found.rule, **how)
