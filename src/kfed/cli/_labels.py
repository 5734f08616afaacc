"""How `kfed label` and `kfed join` report the cluster of each row."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import typer
from rich.markup import escape

from kfed._base import files
from kfed._base.array import Array
from kfed.cli._terminal import note, plural, print_json, rich_table, say
from kfed.errors import InvalidInputError
from kfed.server import Aggregation, HasCenters
from kfed.site import LabelledRows, LocalFile
from kfed.wire import Identity, Notice


def tell_of(notices: Iterable[Notice]) -> None:
    """Say what to look at, on stderr."""
    for notice in notices:
        note(f"warning: {notice.text}")


def about_hidden_centers(answer: HasCenters) -> list[Notice]:
    """Say that new rows are never in clusters whose centers a coordinator does not show."""
    shown = answer.shown if isinstance(answer, Identity) else np.ones(1, bool)
    if not shown.any():
        raise InvalidInputError(
            "the centers of all clusters are hidden, because too few devices contributed to each: new rows cannot be "
            "compared with them; ask the administrator for the aggregation or a model, or for --min-devices-shown 1"
        )
    if shown.all():
        return []
    n_hidden = int(np.count_nonzero(~shown))
    are, each = ("is", "it") if n_hidden == 1 else ("are", "each")
    text = (
        f"{n_hidden:,} of {plural(len(shown), 'cluster center')} {are} hidden, because too few devices contributed to "
        f"{each}; new rows get the nearest of the others"
    )
    return [Notice("hidden centers", text)]


def about_hidden(
    kept: LocalFile, answer: Aggregation | Identity, rows: Array | None, least: int | None
) -> list[Notice]:
    """Say that labels depend on centers that a coordinator does not show, where `least` devices are not behind them."""
    n_hidden = int(np.count_nonzero(~answer.shown)) if isinstance(answer, Identity) else 0
    if not n_hidden or (rows is None and not kept.n_withheld):
        return []
    few = "too few" if least is None else f"fewer than {least}"
    are, each, them = ("is", "it", "it") if n_hidden == 1 else ("are", "each", "them")
    text = (
        f"{n_hidden:,} of {plural(answer.n_clusters, 'cluster center')} {are} hidden, because {few} devices "
        f"contributed to {each}. Rows near {them} are labelled by this site's own centers, or with another cluster if "
        "this site sent none, so labels may differ from `kfed label` with the aggregation"
    )
    return [Notice("hidden centers", text)]


def tell_labels(
    kept: LocalFile,
    answer: Aggregation | Identity,
    labels: Array,
    output: Path,
    notices: Sequence[Notice] = (),
    *,
    as_json: bool,
    found: Mapping[str, Any] | None = None,
) -> None:
    """Say how many rows are in which cluster, where their labels were written, and what a coordinator found."""
    facts = label_facts(kept, answer, labels) | {"output": str(output), **(found or {})}
    facts["warnings"] = [notice._asdict() for notice in notices]
    print_json(facts) if as_json else say(*_label_text(facts))


def write_new_labels(
    rows: LabelledRows, text: str, output: Path | None, *, with_distances: bool, force: bool, as_json: bool
) -> None:
    """Write the clusters of new rows to a file, or to stdout."""
    empty = [_empty_text(rows.n_empty, with_distances)] if rows.n_empty else []
    if output is not None:
        files.write(output, text.encode(), overwrite=force)
    if not as_json:
        tell_of(rows.notices)
    if output is None and not as_json:
        typer.echo(text, nl=False)
        for line in empty:
            note(line)
        return
    facts = {
        "n_rows": len(rows.labels),
        "rows_in_cluster": np.bincount(rows.labels, minlength=rows.n_clusters).tolist(),
        "median_distance": float(np.nanmedian(rows.distances)) if rows.n_empty < len(rows.labels) else None,
        "n_empty_rows": rows.n_empty,
        "warnings": [notice._asdict() for notice in rows.notices],
    }
    if as_json:
        far = [None if np.isnan(distance) else distance for distance in rows.distances.tolist()]
        each = {} if output else {"labels": rows.labels.tolist(), "distances": far}
        print_json(facts | each | {"output": None if output is None else str(output)})
        return
    counts = [(str(cluster), f"{count:,}") for cluster, count in enumerate(facts["rows_in_cluster"]) if count]
    say(
        f"{plural(facts['n_rows'], 'new row')} of {escape(rows.path)}",
        rich_table(None, ["cluster", "rows"], counts),
        *(f"  [yellow]note[/]  {line}" for line in empty),
        f"  [green]wrote[/]  {escape(str(output))}",
    )


def _empty_text(n_rows: int, with_distances: bool) -> str:
    has, their = ("has", "its") if n_rows == 1 else ("have", "their")
    distance = ", and the distance is empty" if with_distances else ""
    return f"{plural(n_rows, 'row')} {has} no filled cell: {their} cluster is arbitrary{distance}"


def label_facts(kept: LocalFile, answer: Aggregation | Identity, labels: Array) -> dict[str, Any]:
    """How many rows are in which cluster."""
    facts: dict[str, Any] = {
        "device_id": kept.device_id,
        "n_rows": len(labels),
        "rows_in_cluster": np.bincount(labels, minlength=answer.n_clusters).tolist(),
    }
    return facts | ({"late": kept.device_id not in answer} if isinstance(answer, Aggregation) else {})


def _label_text(facts: dict[str, Any]) -> list[Any]:
    rows = [(str(cluster), f"{count:,}") for cluster, count in enumerate(facts["rows_in_cluster"]) if count]
    came_late = ", which came after the aggregation" if facts.get("late") else ""
    return [
        f"{plural(facts['n_rows'], 'row')} of {escape(repr(facts['device_id']))}{came_late}",
        rich_table(None, ["cluster", "rows"], rows),
        *([f"  [green]found[/]  {escape(_found_text(facts))}"] if "n_clusters" in facts else []),
        f"  [green]wrote[/]  {escape(facts['output'])}",
    ]


def _found_text(facts: dict[str, Any]) -> str:
    """How many clusters there are, and by which rule; how their number was found, unless a warning says so."""
    again = ", refined by second messages" if facts.get("rounds") == 2 else ""
    rule = f" (rule: {facts['answered_by']}{again})" if facts["answered_by"] else ""
    is_said = any(facts["found"] in warning["text"] for warning in facts["warnings"])
    found = "" if is_said else facts["found"]
    return f"{found or plural(facts['n_clusters'], 'cluster')}{rule}"
