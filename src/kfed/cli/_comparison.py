"""`kfed aggregate -k 2-12` and `-k auto`: several numbers of clusters as one table."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import typer
from rich.markup import escape

from kfed.cli._report import on_terminal
from kfed.cli._terminal import claim, note, print_json, say
from kfed.server import Aggregation, KComparison, aggregate, compare_k
from kfed.wire import DeviceMessage


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
    rule: str,
    plot: Path | None,
    inputs: Sequence[Path],
    *,
    min_devices: int | None,
    force: bool,
    as_json: bool,
) -> None:
    """Compare numbers of clusters; nothing is written but the picture."""
    claim([plot] if plot else [], inputs=inputs, force=force)
    found = compare_k(messages, values, rule=rule, min_devices=min_devices)
    show_comparison(found, plot, as_json=as_json)
    if not as_json:
        chosen = f"-k {found.recommended}" if found.recommended else "-k and the number that you choose"
        by = "" if found.rule == "paper" else f" --rule {found.rule}"
        note(f"no clusters were written; run this again with {chosen}{by}")


def aggregate_auto(
    messages: Sequence[DeviceMessage], rule: str, plot: Path | None, *, sure: bool, as_json: bool, **how: Any
) -> Aggregation:
    """Aggregate with the number that the centers show, or that stands out among those compared.

    If none does, the best of them is taken, unless an answer that is not sure is to be refused (`sure`): then the
    command ends with 1.
    """
    result = aggregate(messages, rule=rule, **how)
    found = result.k_comparison
    if found is None:
        return result
    if sure and found.recommended is None:
        show_comparison(found, plot, as_json=as_json)
        note("no clusters were written; choose a number from the table, and give it with -k")
        raise typer.Exit(1)
    if not as_json:
        say(*on_terminal(found.blocks()))
    return result
