"""`kfed assign`: the shared clusters of a site that came after the aggregation."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer
from rich.markup import escape

from kfed._base.files import write
from kfed.cli._app import app
from kfed.cli._terminal import Force, Json, about, claim, note, option, print_json, rich_table, say
from kfed.server import Aggregation, late_advice
from kfed.wire import DeviceMessage, Identity, load

IdentityFile = Annotated[Path | None, option("FILE", "Where to write the identity of this site.", "-o", "--output")]


@app.command(
    epilog="`kfed assign late.kfed --clusters clusters.kfed`\n\n"
    "`kfed assign late.kfed --clusters clusters.kfed -o late.identity`   the answer to send back"
)
def assign(
    message: Annotated[Path, typer.Argument(metavar="MESSAGE", help="The .kfed file that a late site sent.")],
    clusters: Annotated[Path, option("FILE", "The aggregation, from `kfed aggregate`.", "--clusters")],
    output: IdentityFile = None,
    force: Force = False,
    as_json: Json = False,
) -> None:
    """Find the shared clusters of a site that came after the aggregation; nothing changes for the others."""
    claim([output] if output else [], inputs=[message, clusters], force=force)
    late: DeviceMessage = load(message, DeviceMessage)
    result: Aggregation = load(clusters, Aggregation)
    with about(message):
        identity = result.answer(late)
    if output is not None:
        write(output, identity.to_bytes(), overwrite=force)
    facts = _facts(late, result, identity, output)
    for warning in facts["warnings"]:
        note(f"warning: {warning['text']}")
    print_json(facts) if as_json else say(*_text(facts))


def _facts(late: DeviceMessage, result: Aggregation, identity: Identity, output: Path | None) -> dict[str, Any]:
    is_late = late.device_id not in result
    notices = late_advice(result, result.messages, late) if is_late else []
    return {
        "device_id": late.device_id,
        "late": is_late,
        "cluster_ids": identity.cluster_ids.tolist(),
        "counts": late.counts.tolist(),
        "output": None if output is None else str(output),
        "warnings": [notice._asdict() for notice in notices],
    }


def _text(facts: dict[str, Any]) -> list[Any]:
    pairs = zip(facts["cluster_ids"], facts["counts"], strict=True)
    rows = [(str(local), f"{count:,}", str(cluster)) for local, (cluster, count) in enumerate(pairs)]
    came = "came after the aggregation" if facts["late"] else "was aggregated"
    lines: list[Any] = [
        f"{escape(repr(facts['device_id']))} {came}; its local clusters, in the order it sent them:",
        rich_table(None, ["local cluster", "rows", "shared cluster"], rows),
    ]
    if facts["output"]:
        lines.append(f"  [green]wrote[/]  {escape(facts['output'])}  (send it back, for `kfed label`)")
    return lines
