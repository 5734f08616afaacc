"""`kfed aggregate -k 2-12`: several numbers of clusters as one table."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from rich.markup import escape

from kfed.cli._report import on_terminal
from kfed.cli._terminal import claim, note, print_json, say
from kfed.server import Aggregation, ComparisonWords, KComparison, aggregate, compare_k
from kfed.wire import DeviceMessage

ABOUT_CLUSTERS = ("set aside", "empty clusters", "single center", "mixtures", "alike", "unsure k")
"""Codes of notices that hold for one number of clusters."""


def show_comparison(found: KComparison, result: Aggregation, plot: Path | None, *, as_json: bool) -> None:
    """Print a comparison, and what to look at in the messages of a result; draw the comparison."""
    if plot is not None:
        found.plot(plot)
    notices = [notice for notice in result.notices if notice.code not in ABOUT_CLUSTERS]
    if as_json:
        facts = {"plot": None if plot is None else str(plot), "warnings": [notice._asdict() for notice in notices]}
        print_json(found.to_dict() | facts)
    else:
        say(*on_terminal(ComparisonWords(found).blocks()))
        if plot is not None:
            say(f"  [green]wrote[/]  {escape(str(plot))}")
    for notice in notices:
        note(f"warning: {notice.text}")


def compare_and_show(
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
    result = aggregate(messages, found.recommended or values[0], rule=found.rule, min_devices=min_devices)
    show_comparison(found, result, plot, as_json=as_json)
    if not as_json:
        chosen = f"-k {found.recommended}" if found.recommended else "-k N"
        by = "" if found.rule == "paper" else f" --rule {found.rule}"
        n = "" if found.recommended else ", N the number that you choose"
        note(f"no clusters were written; run this again with {chosen}{by}{n}")
