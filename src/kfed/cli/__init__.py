"""The command line: parse, call one library function, render."""

from __future__ import annotations

import warnings
from typing import Annotated, Any

import typer

from kfed._version import __version__
from kfed.cli import (  # noqa: F401 - to import a file is to add its commands
    assign,
    backup,
    coordinator,
    demo,
    diagnose,
    export,
    federation,
    inspect,
    invitations,
    join,
    refine,
    report,
    reproduce,
    results,
    schema,
    server,
    site,
)
from kfed.cli._app import app
from kfed.errors import AggregationWarning, DeviceWarning, TableWarning

app.add_typer(backup.app, name="coordinator")
app.add_typer(federation.app, name="federation")

PANELS = {
    "At a site": ("device", "label", "inspect", "join", "leave", "refine", "summarize"),
    "At the server": ("aggregate", "assign", "agree", "diagnose", "report", "export"),
    "A coordinator": ("serve", "federation", "coordinator"),
    "Demo and research": ("demo", "reproduce"),
}
"""Who uses which command, in the order of `kfed --help`."""


def _grouped() -> None:
    """Put every command into its panel."""
    panels = {command: panel for panel, commands in PANELS.items() for command in commands}
    registered: list[Any] = [*app.registered_commands, *app.registered_groups]
    for info in registered:
        info.rich_help_panel = panels[_name(info)]
    app.registered_commands.sort(key=lambda info: list(panels).index(_name(info)))


def _name(info: Any) -> str:
    return str(info.name or (info.callback or info.typer_instance.info.callback).__name__)


_grouped()


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"kfed {__version__}")
        raise typer.Exit


@app.callback(
    epilog="A consortium in three commands, with nothing to install but kfed:\n\n"
    "`kfed device site7.csv`   at every site; send site7.kfed, keep site7.local\n\n"
    "`kfed aggregate *.kfed`   at the server; send clusters.kfed back\n\n"
    "`kfed label site7.local --clusters clusters.kfed`   at every site"
)
def _kfed(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_print_version, is_eager=True, help="Show the version and exit."),
    ] = False,
) -> None:
    """k-FED: find the groups in data that never leaves its devices, in one round."""


def main() -> None:
    """Run the command line; it prints the notices of an aggregation, a device and a table itself."""
    for printed in (AggregationWarning, DeviceWarning, TableWarning):
        warnings.simplefilter("ignore", printed)
    app()
