"""The command line: ``python -m benchmarks speed``, ``soak``, ``scaling``, ``scale`` and ``groups``."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.markdown import Markdown
from rich.markup import escape
from rich.table import Table

from benchmarks import groups as grouped
from benchmarks import run
from benchmarks import scale as scales
from benchmarks import scaling as curves
from benchmarks import soak as soaks
from benchmarks.figures import Figure
from kfed import KFedError

app = typer.Typer(name="benchmarks", no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False)

Quick = Annotated[bool, typer.Option("--quick", help="Use smaller shapes, for a first look.")]
Page = Annotated[Path | None, typer.Option("--markdown", metavar="FILE", help="Write a page of the documentation.")]
Json = Annotated[bool, typer.Option("--json", help="Print the figures as JSON and nothing else.")]


@app.command()
def speed(
    names: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="WORKLOAD", help=f"{', '.join(run.WORKLOADS)} (the default), or {', '.join(run.SERVICES)}."
        ),
    ] = None,
    quick: Quick = False,
    markdown: Page = None,
    as_json: Json = False,
) -> None:
    """Measure kfed and its competitors on the same work in the same run."""
    figures = run.run(names or [], quick=quick)
    if markdown is not None:
        soaked = soaks.section_of(markdown.read_text(encoding="utf-8")) if markdown.exists() else ""
        markdown.write_text(soaks.with_section(f"{run.as_markdown(figures)}\n", soaked), encoding="utf-8")
    _print(figures, as_json)


@app.command()
def soak(
    minutes: Annotated[float, typer.Option(metavar="N", min=0.1, help="How long.")] = 20,
    rate: Annotated[int, typer.Option(metavar="N", min=1, help="Messages a second.")] = 200,
    markdown: Page = None,
    as_json: Json = False,
) -> None:
    """Run a coordinator for many minutes: devices come, replace their messages, leave, and somebody watches."""
    figures = soaks.soak(minutes, rate, lambda words: typer.echo(words, err=True))
    _print(figures, as_json)
    if markdown is not None:
        section = "\n".join(["", *soaks.ABOUT, "", *run.table(figures), ""])
        page = markdown.read_text(encoding="utf-8") if markdown.exists() else ""
        markdown.write_text(soaks.with_section(page, section), encoding="utf-8")


@app.command()
def scale(quick: Quick = False, markdown: Page = None, as_json: Json = False) -> None:
    """Measure what one device costs the server, and compute what a million would, flat and by tree."""
    units, differences = scales.measure_units(quick), list(scales.measure_differences(quick))
    page = scales.page(units, differences)
    if markdown is not None:
        markdown.write_text(page, encoding="utf-8")
    if as_json:
        found = {"units": asdict(units), "differences": [asdict(one) for one in differences]}
        typer.echo(json.dumps(found, indent=2))
    elif markdown is None:
        Console().print(Markdown(page))


@app.command()
def groups(quick: Quick = False, markdown: Page = None) -> None:
    """Train in groups of clients, and see whether there is a warning where these do not matter. Needs PyTorch."""
    page = ""
    for page in grouped.pages(quick):
        if markdown is not None:
            markdown.write_text(page, encoding="utf-8")
    if markdown is None:
        Console().print(Markdown(page))


@app.command()
def scaling(
    picture: Annotated[Path, typer.Option(metavar="FILE", help="The picture to write.")] = Path("scaling.png"),
    quick: Quick = False,
    as_json: Json = False,
) -> None:
    """Draw time against points, features, clusters and devices, beside scikit-learn and faiss."""
    measured = curves.measure(quick)
    curves.save_picture(measured, picture)
    if as_json:
        typer.echo(json.dumps([one.facts() for one in measured], indent=2))


def _print(figures: list[Figure], as_json: bool) -> None:
    if as_json:
        typer.echo(run.as_json(figures))
    else:
        Console(highlight=False, emoji=False, soft_wrap=True).print(_table(figures))


def _table(figures: list[Figure]) -> Table:
    table = Table(header_style="bold")
    for position, heading in enumerate(("workload", "measure", "detail", "measured", "must be", "")):
        table.add_column(heading, justify="left" if position < 3 else "right", overflow="fold")
    for figure in figures:
        table.add_row(*_row(figure))
    return table


def _row(figure: Figure) -> tuple[str, ...]:
    bound = f"{'≥' if figure.higher_is_better else '≤'} {figure.target:g}"
    verdict = "[green]reached[/]" if figure.reached else "[red]missed[/]"
    return figure.workload, figure.measure, escape(figure.detail), f"{figure.value:,.4g}", bound, verdict


if __name__ == "__main__":
    try:
        app()
    except KFedError as error:
        sys.exit(f"benchmarks: {error}")
