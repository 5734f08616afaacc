"""The command line: parse, call one library function, render."""

from __future__ import annotations

import warnings
from typing import Annotated

import typer

from kfed._version import __version__
from kfed.cli import (
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
from kfed.cli._terminal import Commands
from kfed.errors import AggregationWarning

app = typer.Typer(
    name="kfed",
    cls=Commands,
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="markdown",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
for module in (
    demo,
    site,
    server,
    refine,
    inspect,
    schema,
    diagnose,
    report,
    export,
    coordinator,
    backup,
    federation,
    invitations,
    results,
    join,
    reproduce,
):
    module.register(app)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"kfed {__version__}")
        raise typer.Exit


@app.callback(
    epilog="A consortium in three commands, with nothing to install but kfed:\n\n"
    "`kfed device site7.csv -k 4`   at every site; send site7.kfed, keep site7.local\n\n"
    "`kfed aggregate *.kfed -k 16`   wherever the files meet; send clusters.kfed back\n\n"
    "`kfed label site7.local --clusters clusters.kfed`   at every site"
)
def _kfed(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_print_version, is_eager=True, help="Show the version and exit."),
    ] = False,
) -> None:
    """Find the groups in data that never leaves its devices, in one round: k-FED."""


def main() -> None:
    """Run the command line; it prints the warnings of an aggregation itself."""
    warnings.simplefilter("ignore", AggregationWarning)
    app()
