"""`kfed demo`: the whole method on bundled data, what was sent, and how good the clusters are."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

from rich.markup import escape

from kfed.cli._app import app
from kfed.cli._terminal import Force, Json, claim, note, option, print_json, rich_table, say
from kfed.errors import MissingExtraError

DEFAULT_PICTURE = Path("kfed-demo.png")


@app.command(epilog="`kfed demo`\n\n`kfed demo --seed 1 -o digits.png`")
def demo(
    output: Annotated[
        Path | None,
        option("FILE", f"The picture; by default {DEFAULT_PICTURE}, which is overwritten.", "-o", "--output"),
    ] = None,
    seed: Annotated[int, option("N", "Decides the split and every random choice.", min=0)] = 0,
    force: Force = False,
    as_json: Json = False,
) -> None:
    """Cluster handwritten digits on 100 simulated devices in one round, and compare with central k-means.

    Every device holds images of two digits. It takes a few seconds and downloads nothing.
    """
    from kfed._base.figures import check_format
    from kfed.experiments import run_demo

    picture = DEFAULT_PICTURE if output is None else output
    check_format(picture)
    claim([picture], force=force or output is None)
    result = run_demo(seed)
    facts = _facts(result)
    try:
        result.plot(picture)
        facts["picture"] = str(picture)
    except MissingExtraError as error:
        note(f"no picture: {error}")
    print_json(facts) if as_json else say(*_text(facts))


def _facts(result: Any) -> dict[str, Any]:
    return {
        "n_devices": result.aggregation.messages.n_devices,
        "n_points": result.n_points,
        "n_features": result.n_features,
        "rounds": 1,
        "rule": result.aggregation.rule,
        "seconds": round(result.seconds, 3),
        "n_messages": len(result.message_bytes),
        "n_device_centers": len(result.aggregation.messages.centers),
        "n_withheld": result.n_withheld,
        "largest_message_bytes": max(result.message_bytes),
        "all_messages_bytes": sum(result.message_bytes),
        "raw_data_bytes": result.raw_bytes,
        "quality": [asdict(quality) for quality in result.qualities],
        "picture": None,
    }


def _text(facts: dict[str, Any]) -> list[Any]:
    share = facts["all_messages_bytes"] / facts["raw_data_bytes"]
    sent = [
        ("rounds", "1"),
        ("rule that answered", f"{facts['rule']}, the default for such messages"),
        ("messages", f"{facts['n_messages']} devices, one each"),
        ("bytes per device", f"at most {facts['largest_message_bytes']:,}"),
        (
            "bytes in all",
            f"{facts['all_messages_bytes']:,} ({share:.0%} of the {facts['raw_data_bytes']:,} of the rows)",
        ),
        (
            "centers",
            f"{facts['n_device_centers']:,} sent, {facts['n_withheld']} withheld (too few images)",
        ),
        ("time", f"{facts['seconds']:.2f} s for all devices and the server"),
    ]
    return [
        f"{facts['n_points']:,} handwritten digits of {facts['n_features']} pixels on {facts['n_devices']} "
        "devices, two digits on each; no image leaves its device",
        "",
        rich_table("What was sent", ["", ""], sent, left=2),
        "",
        rich_table("How good the clusters are", _HEADINGS, [_row(q, facts["quality"][-1]) for q in facts["quality"]]),
        "Cost is that of all images, each at its nearest center, relative to the last line; lower is better. "
        "In the other columns 1.000 means that the labels are exactly the true digits.",
        *([f"  [green]wrote[/]  {escape(facts['picture'])}"] if facts["picture"] else []),
    ]


_HEADINGS = ["", "k-means cost", "ARI", "NMI", "accuracy", "what leaves"]


def _row(quality: dict[str, Any], pooled: dict[str, Any]) -> tuple[str, ...]:
    return (
        quality["method"],
        f"{quality['kmeans_cost'] / pooled['kmeans_cost']:.3f}",
        f"{quality['adjusted_rand_index']:.3f}",
        f"{quality['normalized_mutual_information']:.3f}",
        f"{quality['matched_accuracy']:.3f}",
        "centers" if quality["rounds"] else "all rows",
    )
