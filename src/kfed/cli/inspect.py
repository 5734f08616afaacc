"""`kfed inspect`: what a kfed file holds, in plain words, for the person who is asked to send it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import numpy as np
import typer
from rich.markup import escape
from rich.table import Table

from kfed.cli._descriptions import Description, describe
from kfed.cli._terminal import Json, about, print_json, printable, say, table
from kfed.errors import InvalidInputError
from kfed.server import Aggregation, ClusterModel
from kfed.site import LocalFile, read_scale, unscaled
from kfed.wire import DeviceMessage, Identity, load


def register(app: typer.Typer) -> None:
    """Add the commands of this file."""
    app.command(
        epilog="`kfed inspect site7.kfed`\n\n`kfed inspect site7.kfed --centers`\n\n"
        "`kfed inspect clusters.kfed --centers --scale scale.json`   in the units of the tables"
    )(inspect)


def inspect(
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="A message, local file, aggregation, identity or model.")
    ],
    centers: Annotated[bool, typer.Option("--centers", help="Show the centers, too.")] = False,
    scale: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="JSON with the shift and scale of each column, to show centers in original units."
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """Show what a file holds, what it does not hold, and who may have it."""
    if scale is not None and not centers:
        raise InvalidInputError("--scale applies to the centers; add --centers to show them")
    found = describe(load(file, DeviceMessage, Aggregation, Identity, ClusterModel, LocalFile))
    if scale is not None:
        found = _in_units(found, scale)
    facts = {"file": str(file), "bytes": file.stat().st_size, **found.facts}
    if as_json:
        shown = np.where(np.isnan(found.centers), None, found.centers)  # type: ignore[call-overload]
        print_json(facts | {"centers": shown.tolist()} if centers else facts)
        return
    say(f"[bold]{escape(str(file))}[/] ({facts['bytes']:,} bytes) is {escape(found.title)}")
    say("", "It holds:", *(f"  - {escape(line)}" for line in found.holds))
    say("", "It does not hold:", *(f"  - {escape(line)}" for line in found.lacks))
    say(*(f"\n[bold red]Warning:[/] {escape(line)}" for line in found.warnings))
    if centers:
        say("", _centers_table(found))


def _in_units(found: Description, scale: Path) -> Description:
    """The same, with the centers in the original units of the columns."""
    names = found.names or [str(position) for position in range(found.centers.shape[1])]
    agreed = read_scale(scale)
    with about(scale):
        return replace(found, centers=unscaled(found.centers, names, agreed))


def _centers_table(found: Description) -> Table:
    """A table with a line for each feature and a column for each center."""
    n_centers, n_features = found.centers.shape
    names = found.names or [f"feature {position}" for position in range(n_features)]
    lines = [
        (escape(printable(name)), *(f"{value:.6g}" for value in column.tolist()))
        for name, column in zip(names, found.centers.T, strict=True)
    ]
    return table("Centers", ["", *map(str, range(n_centers))], lines)
