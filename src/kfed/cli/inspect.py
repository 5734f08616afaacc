"""`kfed inspect`: what a kfed file holds, in plain words, for the person who is asked to send it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import numpy as np
import typer
from rich.markup import escape

from kfed._base.array import Array
from kfed._base.dates import date_of
from kfed._base.report import TextTable
from kfed.cli._agreed_files import agreed_file
from kfed.cli._app import app
from kfed.cli._descriptions import Description, description_of
from kfed.cli._report import on_terminal
from kfed.cli._terminal import Json, about, flag, option, print_json, printable, say
from kfed.errors import InvalidInputError
from kfed.server import Aggregation, ClusterModel
from kfed.site import LocalFile, read_scale, unscaled
from kfed.wire import DeviceMessage, Identity, load


@app.command(
    epilog="`kfed inspect site7.kfed`\n\n`kfed inspect site7.kfed --centers`\n\n"
    "`kfed inspect clusters.kfed --centers --scale scale.json`   in the units of the tables"
)
def inspect(
    file: Annotated[
        Path,
        typer.Argument(metavar="FILE", help="A message, local file, aggregation, identity, model, summary or schema."),
    ],
    centers: Annotated[bool, flag("--centers", "Show the centers, too.")] = False,
    scale: Annotated[
        Path | None, option("FILE", "JSON with the shift and scale of each column, to show centers in original units.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Show what a file holds, what it does not hold, and who may receive it."""
    if scale is not None and not centers:
        raise InvalidInputError("--scale applies to the centers; add --centers to show them")
    agreed = agreed_file(file)
    found = description_of(agreed or load(file, DeviceMessage, Aggregation, Identity, ClusterModel, LocalFile))
    if scale is not None:
        found = _in_units(found, scale)
    facts = {"file": str(file), "bytes": file.stat().st_size, **found.facts}
    if as_json:
        print_json(facts | {"centers": _told_centers(found)} if centers else facts)
        return
    say(f"[bold]{escape(str(file))}[/] ({facts['bytes']:,} bytes) is {escape(found.title)}")
    say("", "It holds:", *(f"  - {escape(line)}" for line in found.holds))
    say("", "It does not hold:", *(f"  - {escape(line)}" for line in found.lacks))
    if found.not_promised:
        say("", "The promise does not cover:", *(f"  - {escape(line)}" for line in found.not_promised))
    say(*(f"\n[bold red]Warning:[/] {escape(line)}" for line in found.warnings))
    if centers:
        say("", *on_terminal([_centers_table(found)]))


def _in_units(found: Description, scale: Path) -> Description:
    """The same, with the centers in the original units of the columns."""
    names = found.names or [str(position) for position in range(found.centers.shape[1])]
    agreed = read_scale(scale)
    with about(scale):
        return replace(found, centers=unscaled(found.centers, names, agreed))


def _told_centers(found: Description) -> list[list[float | None]]:
    """The centers, with nothing where nothing is told."""
    pairs = zip(found.centers.tolist(), _is_told(found).tolist(), strict=True)
    return [[value if told else None for value, told in zip(*pair, strict=True)] for pair in pairs]


def _is_told(found: Description) -> Array:
    is_known = ~np.isnan(found.centers)
    return is_known if found.is_told is None else is_known & found.is_told


def _centers_table(found: Description) -> TextTable:
    """A table with a line for each feature and a column for each center."""
    n_centers, n_features = found.centers.shape
    names = found.names or [f"feature {position}" for position in range(n_features)]
    lines = tuple(
        (printable(name), *(_value(*pair, name in found.dates) for pair in zip(column, told, strict=True)))
        for name, column, told in zip(names, found.centers.T.tolist(), _is_told(found).T.tolist(), strict=True)
    )
    return TextTable("Centers", ("", *map(str, range(n_centers))), lines)


def _value(value: float, is_told: bool, is_date: bool) -> str:
    """A value of a center: a date as one, and a dash if nothing is told of it."""
    if not is_told:
        return "-"
    return (date_of(value) if is_date else None) or f"{value:.6g}"
