"""`kfed reproduce`: the paper's tables and figures, each as one command."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from shutil import get_terminal_size
from textwrap import fill
from typing import Annotated, Any

import typer
from rich.markup import escape

from kfed._base.report import Findings, Paragraph, TextTable
from kfed.cli._app import app
from kfed.cli._report import on_terminal
from kfed.cli._terminal import Json, claim, flag, note, option, print_json, say
from kfed.errors import InvalidInputError

DEFAULT_FOLDER = Path("kfed-reproduction")


@app.command(
    epilog="`kfed reproduce --list`\n\n`kfed reproduce table1 --quick`\n\n`kfed reproduce all --report -o results`"
    "\n\n`kfed reproduce my_experiment.py --report`"
    "\n\n`kfed reproduce all --repeat 3 -o results`   do results of an earlier version still hold?"
)
def reproduce(
    names: Annotated[
        list[str] | None,
        typer.Argument(metavar="NAME...", help="Experiments, `all`, or Python files with experiments of your own."),
    ] = None,
    list_all: Annotated[
        bool, flag("--list", "List the experiments, with durations from results in the folder, and exit.")
    ] = False,
    quick: Annotated[bool, flag("--quick", "Fewer and smaller runs, for a first look.")] = False,
    report: Annotated[bool, flag("--report", "Also write report.html, one file with everything.")] = False,
    output: Annotated[
        Path, option("DIR", "Folder for results; finished runs there are reused.", "-o", "--output")
    ] = DEFAULT_FOLDER,
    markdown: Annotated[Path | None, option("FILE", "Also write a Markdown page, with its pictures beside it.")] = None,
    seed: Annotated[int, option("N", "Random seed.", min=0)] = 0,
    fresh: Annotated[bool, flag("--fresh", "Repeat finished runs.")] = False,
    stored: Annotated[bool, flag("--stored", "Run nothing: show again what the folder holds.")] = False,
    repeated: Annotated[
        int, option("N", "Repeat N stored runs where code has changed, and compare them.", "--repeat", min=0)
    ] = 0,
    csv: Annotated[bool, flag("--csv", "Also write NAME.csv: one line for each run.")] = False,
    as_json: Json = False,
) -> None:
    """Reproduce tables and figures of the paper, with its numbers beside ours.

    Every finished run is kept in the folder, so an interrupted command continues where it stopped. Data sets are
    looked up in the folder named by `KFED_DATA`, then in the cache, and downloaded if missing.
    """
    from kfed.experiments import EXPERIMENTS, get, repeat, stored_in, tidy
    from kfed.experiments import reproduce as run

    if list_all:
        _print_list(as_json, output)
        return
    if not names:
        raise InvalidInputError(f"name at least one experiment, or all; the experiments are {', '.join(EXPERIMENTS)}")
    if (stored or repeated) and (quick or fresh or seed):
        raise InvalidInputError(
            "--stored and --repeat take preset and seed from the folder: leave out --quick, --fresh, --seed"
        )
    everything = "all" in names
    chosen = list(EXPERIMENTS.values()) if everything else [get(name) for name in dict.fromkeys(names)]
    claim([markdown] if markdown else [], force=True)
    outcomes = []
    if repeated:
        found = repeat(chosen, output, repeated)
    elif stored:
        found = stored_in(output, chosen)
    else:
        found = run(chosen, output, quick=quick, seed=seed, fresh=fresh, skip_missing=everything)
    for outcome in found:
        outcomes.append(outcome)
        if csv and not outcome.not_written:
            tidy(outcome.results).to_csv(output / f"{outcome.experiment.name}.csv")
        if not as_json:
            say(*_text(outcome))
    if not outcomes:
        what = ", ".join(names)
        if not output.is_dir():
            raise InvalidInputError(f"{output}: no such folder; run without --stored and --repeat, or name it with -o")
        raise InvalidInputError(
            f"{output}: no results of {what} that fit this version; run without --stored and --repeat"
        )
    written = _write_pages(outcomes, output, report, markdown)
    if as_json:
        print_json([outcome.to_dict() for outcome in outcomes])
    else:
        say(*(f"  [green]wrote[/]  {escape(str(path))}" for path in [output, *written]))


def _print_list(as_json: bool, folder: Path) -> None:
    from kfed.experiments import EXPERIMENTS, ExperimentOutcome

    minutes = {}
    for name, experiment in EXPERIMENTS.items():
        stored = ExperimentOutcome.stored(experiment, folder)
        measured = (stored.preset, stored.seconds / 60) if stored else ("", 0.0)
        minutes[name] = _measured(experiment.minutes, *measured)
    if as_json:
        about = ("name", "title", "paper", "claim", "data_sets")
        every = [(name, {part: getattr(own, part) for part in about}) for name, own in EXPERIMENTS.items()]
        print_json([{**own, "minutes": minutes[name]} for name, own in every])
        return
    width = get_terminal_size().columns
    for experiment in EXPERIMENTS.values():
        needs = f" Data: {', '.join(experiment.data_sets)}." if experiment.data_sets else ""
        words = f"{experiment.title}. {experiment.claim}{needs}"
        words = fill(words, width, initial_indent="  ", subsequent_indent="  ", break_on_hyphens=False)
        say(f"[bold]{experiment.name}[/] [dim]({_duration(minutes[experiment.name])})[/]", escape(words))


def _measured(stated: tuple[float, float] | None, preset: str = "", minutes: float = 0.0) -> tuple[float, float] | None:
    """How long the presets take: as stated, but as measured where results are at hand.

    Examples
    --------
    >>> _measured((0.2, 5.0), "full", 7.0), _measured((0.2, 5.0)), _measured(None, "full", 7.0)
    ((0.2, 7.0), (0.2, 5.0), None)
    """
    if stated is None or not preset:
        return stated
    return (minutes, stated[1]) if preset == "quick" else (stated[0], minutes)


def _duration(minutes: tuple[float, float] | None) -> str:
    """Say how long the quick and the full preset take.

    Examples
    --------
    >>> _duration((0.2, 5.0)), _duration(None)
    ('quick 12 s, full 5 min', 'duration not measured')
    """
    if minutes is None:
        return "duration not measured"
    quick, full = (f"{60 * own:.0f} s" if own < 1 else f"{own:.0f} min" for own in minutes)
    return f"quick {quick}, full {full}"


def _text(outcome: Any) -> Iterator[Any]:
    """Render one experiment: its tables, then its claims."""
    from kfed.experiments import section_of

    experiment, section = outcome.experiment, section_of(outcome)
    yield f"[bold]{experiment.name}[/]: {escape(experiment.title)} ({escape(experiment.paper)})"
    if outcome.skipped:
        note(f"{experiment.name} is skipped: {outcome.skipped}")
        yield "[yellow]skipped[/]"
    if outcome.not_written:
        note(outcome.not_written)
    if outcome.left_out:
        note(f"some runs of {experiment.name} are left out: {outcome.left_out}")
    if outcome.summary.headline:
        yield from on_terminal([Paragraph(outcome.summary.headline)])
    for kind in (TextTable, Findings):
        yield from on_terminal(block for block in section.blocks if isinstance(block, kind))
    yield ""


def _write_pages(outcomes: list[Any], folder: Path, report: bool, markdown: Path | None) -> list[Path]:
    """Write the pages that are asked for; they keep what earlier commands left in the folder."""
    from kfed.experiments import left_out_of, with_earlier, write_documentation, write_html

    page = folder / "report.html" if report else None
    every = with_earlier(outcomes, folder) if report or markdown else outcomes
    left_out = left_out_of(every, folder) if report or markdown else {}
    for name, why in left_out.items():
        note(f"{name} is left out of the page: {why}")
    if page is not None:
        write_html(every, page, left_out=left_out)
    if markdown is not None:
        write_documentation(every, markdown, folder=folder, left_out=left_out)
    return [path for path in (page, markdown) if path]
