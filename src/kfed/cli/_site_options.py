"""Options of the commands that cluster a site's rows: `kfed device` and `kfed join`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from kfed.cli._terminal import number_or_auto

LocalClusters = Annotated[
    Any,
    typer.Option(
        "-k",
        "--n-local-clusters",
        metavar="N|auto",
        parser=number_or_auto,
        help="Clusters to look for here; auto finds how many there are.",
    ),
]
DeviceId = Annotated[
    str | None, typer.Option("--id", metavar="NAME", help="Name of this site; by default that of the file.")
]
Columns = Annotated[str | None, typer.Option(metavar="A,B,...", help="Columns to cluster; by default all.")]
IdColumn = Annotated[
    str | None, typer.Option(metavar="NAME", help="Column that says which row this is; it stays here.")
]
WeightColumn = Annotated[str | None, typer.Option(metavar="NAME", help="Column that says how much a row counts.")]
Scale = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="JSON with the shift and scale of each column that all sites agreed on."),
]
MinClusterSize = Annotated[int, typer.Option(metavar="N", min=1, help="Clusters of fewer rows than this are not sent.")]
Seed = Annotated[
    int, typer.Option(metavar="N", help="Decides every random choice, together with the name of the site.")
]
Header = Annotated[
    bool | None, typer.Option("--header/--no-header", help="Whether the first line of a CSV file holds names.")
]
Float32 = Annotated[bool, typer.Option("--float32", help="Compute and send in single precision.")]
