"""The program `kfed`, to which every file of this folder adds its commands."""

from __future__ import annotations

import typer

from kfed.cli._terminal import Commands

app = typer.Typer(
    name="kfed",
    cls=Commands,
    no_args_is_help=True,
    rich_markup_mode="markdown",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
