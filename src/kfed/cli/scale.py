"""`kfed scale`: what a million devices would cost, computed from what one costs on this machine."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer
from rich.markdown import Markdown

from kfed._base import files
from kfed.cli._terminal import Force, Json, claim, print_json, say


def register(app: typer.Typer) -> None:
    """Add the commands of this file."""
    app.command(epilog="`kfed scale`\n\n`kfed scale --markdown scale.md`")(scale)


def scale(
    quick: Annotated[bool, typer.Option("--quick", help="Fewer devices, for a first look.")] = False,
    markdown: Annotated[Path | None, typer.Option(metavar="FILE", help="Write the page here.")] = None,
    force: Force = False,
    as_json: Json = False,
) -> None:
    """Measure what one device costs the server, and compute what a million would, flat and by tree."""
    from kfed.bench.scale import measure_differences, measure_units, page

    claim([markdown] if markdown else [], force=force)
    units, differences = measure_units(quick), list(measure_differences(quick))
    text = page(units, differences)
    if markdown is not None:
        files.write(markdown, text.encode(), overwrite=force)
    if as_json:
        print_json({"units": asdict(units), "differences": [asdict(one) for one in differences]})
    elif markdown is None:
        say(Markdown(text))
