"""`kfed report`: what the clusters are."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from rich.markup import escape

from kfed._base import files
from kfed._base.report import Block, Notes, Report
from kfed.cli._app import app
from kfed.cli._options import Clusters
from kfed.cli._report import sections_on_terminal
from kfed.cli._terminal import Force, Json, about, claim, csv_path, option, print_json, say
from kfed.errors import InvalidInputError
from kfed.insight import check_names, cluster_report, profile_csv, to_html
from kfed.server import Aggregation, Profile
from kfed.site import read_scale, unscaled
from kfed.wire import load


def image_shape(text: str) -> tuple[int, int]:
    """Read the height and width of an image."""
    height, _, width = text.partition("x")
    if not all(part.isascii() and part.isdigit() and int(part) > 0 for part in (height, width)):
        raise typer.BadParameter(f"must be a height and a width such as 28x28; got {text!r}")
    return int(height), int(width)


@app.command(
    epilog="`kfed report clusters.kfed --html report.html`   a page to read and to send around\n\n"
    "`kfed report clusters.kfed --html report.html --names names.json --csv profiles.csv`\n\n"
    'where names.json says `{"0": "young", "1": "retired"}`\n\n'
    "`kfed report clusters.kfed --html report.html --scale scale.json`   if `kfed device` was run with --scale\n\n"
    "`kfed report clusters.kfed --html digits.html --image 28x28`   if the features are pixels"
)
def report(
    clusters: Clusters,
    page: Annotated[
        Path | None, option("FILE", "Also write a page: one file that loads nothing else.", "--html")
    ] = None,
    table: Annotated[
        Path | None,
        option("FILE", "Also write centers and profiles, a line for each column.", "--csv", parser=csv_path),
    ] = None,
    names: Annotated[Path | None, option("FILE", "JSON with names of clusters.")] = None,
    image: Annotated[Any, option("HxW", "Show features as an image of this size.", parser=image_shape)] = None,
    scale: Annotated[
        Path | None, option("FILE", "The scale that rows were clustered on, to show columns in original units.")
    ] = None,
    title: Annotated[str | None, typer.Option(help="The title of the page.")] = None,
    force: Force = False,
    as_json: Json = False,
) -> None:
    """Describe the clusters: size, devices, and the columns that set each apart, in the units of the tables."""
    outputs = [path for path in (page, table) if path is not None]
    claim(outputs, inputs=[path for path in (clusters, names, scale) if path is not None], force=force)
    result = load(clusters, Aggregation)
    called = {} if names is None else _names(names)
    profile = result.profile() if scale is None else _in_units(result, scale)
    found = cluster_report(result, title or f"The clusters of {clusters.name}", called, image, profile)
    if page is not None:
        files.write(page, to_html(found), overwrite=force)
    if table is not None:
        files.write(table, profile_csv(profile, called).encode(), overwrite=force)
    if as_json:
        facts = {"sizes": profile.sizes.tolist(), "profiles": list(profile.rows()), "names": called}
        print_json(facts | {"about_shares": profile.about_shares})
        return
    say(*sections_on_terminal(_in_brief(found) if outputs else found))
    say(*(f"  [green]wrote[/]  {escape(str(path))}" for path in outputs))


def _in_brief(found: Report) -> Report:
    """The summary and the warnings, where a file has all the rest."""
    first, *others = found.sections
    warnings = (section for section in others if any(_warns(block) for block in section.blocks))
    return replace(found, sections=(first, *warnings))


def _warns(block: Block) -> bool:
    return isinstance(block, Notes) and block.label == "warning"


def _in_units(result: Aggregation, path: Path) -> Profile:
    """The profile of clusters that were found on a scale, in the units of the tables."""
    agreed = read_scale(path)
    ends = np.array([np.zeros(result.schema.n_features), np.ones(result.schema.n_features)])
    names = result.schema.names or [str(position) for position in range(result.schema.n_features)]
    with about(path):
        shifts, shifted = unscaled(ends, names, agreed)
    return result.profile().in_units(shifts, shifted - shifts)


def _names(path: Path) -> dict[int, str]:
    """Names of clusters by number."""
    try:
        content = json.loads(path.read_text(encoding="utf-8-sig"))
    except (UnicodeDecodeError, json.JSONDecodeError, RecursionError) as error:
        raise InvalidInputError(f"{path}: names must be JSON; this file is not") from error
    if not isinstance(content, dict) or not all(key.isdecimal() and isinstance(content[key], str) for key in content):
        raise InvalidInputError(f'{path}: names must look like {{"0": "young", "1": "retired"}}')
    names = {int(key): value.strip() for key, value in content.items()}
    with about(path):
        check_names(names)
    return names
