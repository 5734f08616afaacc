"""`kfed bench`: the speed of kfed beside that of others, measured on this machine."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer
from rich.markup import escape

from kfed._base import files
from kfed.cli._terminal import Force, Json, claim, say, table


def register(app: typer.Typer) -> None:
    """Add the commands of this file."""
    app.command(epilog="`kfed bench`\n\n`kfed bench W1 S1 --quick`\n\n`kfed bench coordinator dask`")(bench)


def bench(
    names: Annotated[
        list[str] | None, typer.Argument(metavar="WORKLOAD", help="Or coordinator, dask; by default all others.")
    ] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Smaller shapes, for a first look.")] = False,
    markdown: Annotated[Path | None, typer.Option(metavar="FILE", help="Also write the table here.")] = None,
    force: Force = False,
    as_json: Json = False,
) -> None:
    """Measure kfed and its competitors on the same work, in the same run."""
    from kfed.bench.run import as_json as figures_as_json
    from kfed.bench.run import as_markdown, run

    claim([markdown] if markdown else [], force=force)
    figures = run(names or [], quick=quick)
    if markdown is not None:
        files.write(markdown, f"{as_markdown(figures)}\n".encode(), overwrite=force)
    if as_json:
        typer.echo(figures_as_json(figures))
    else:
        headings = ["workload", "measure", "detail", "measured", "must be", ""]
        say(table(None, headings, map(_row, figures), left=3))


def _row(figure: Any) -> tuple[str, ...]:
    bound = f"{'≥' if figure.higher_is_better else '≤'} {figure.target:g}"
    verdict = "[green]reached[/]" if figure.reached else "[red]missed[/]"
    return figure.workload, figure.measure, escape(figure.detail), f"{figure.value:,.4g}", bound, verdict
