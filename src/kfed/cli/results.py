"""`kfed federation compare`, `rename`, `download`, `remove` and `refine`: what the coordinator's page can do, too."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer
from rich.markup import escape

from kfed._base import files
from kfed._base.report import Notes, TextTable
from kfed.cli._options import with_option_groups
from kfed.cli._report import on_terminal
from kfed.cli._states import print_state
from kfed.cli._terminal import Force, Json, Yes, claim, number_range_or_auto, option, print_json, say
from kfed.cli.federation import Ask, Name, app
from kfed.cli.invitations import Device
from kfed.errors import InvalidInputError


@app.command(epilog="`kfed federation compare clinics -k 2-12`")
@with_option_groups
def compare(
    name: Name,
    n_clusters: Annotated[
        Any, option("A-B", "Numbers to compare.", "-k", "--n-clusters", parser=number_range_or_auto)
    ] = "2-12",
    as_json: Json = False,
    *,
    ask: Ask,
) -> None:
    """Compare numbers of clusters by what devices have sent: how stable clusters are, and which number stands out."""
    if not isinstance(n_clusters, range):
        raise InvalidInputError("the numbers to compare must be a range such as 2-12")
    which = {"first": n_clusters[0], "last": n_clusters[-1]}
    found = ask("POST", name, "comparison", json=which)
    print_json(found) if as_json else say(*_compared(found))


@app.command(epilog="`kfed federation rename clinics 0=young 1=retired`   and `0=` takes the name away")
@with_option_groups
def rename(
    name: Name,
    names: Annotated[list[str], typer.Argument(metavar="NUMBER=NAME", help="Names of clusters by their numbers.")],
    as_json: Json = False,
    *,
    ask: Ask,
) -> None:
    """Name clusters; a cluster keeps its name as long as its number."""
    print_state(ask("PUT", name, "cluster-names", json={"names": dict(map(_named, names))}), as_json)


@app.command(
    epilog="`kfed federation download clinics -o clusters.kfed`\n\n"
    "`kfed federation download clinics --report report.html --aggregation clusters.kfed`"
)
@with_option_groups
def download(
    name: Name,
    aggregation: Annotated[Path | None, option("FILE", "Write the aggregation here.")] = None,
    report: Annotated[Path | None, option("FILE", "Write the report here.")] = None,
    centers: Annotated[Path | None, option("FILE", "Write the centers and profiles here.")] = None,
    output: Annotated[
        Path | None,
        option("FILE", "Write what the ending says: .kfed, .html or .csv.", "-o", "--output"),
    ] = None,
    force: Force = False,
    as_json: Json = False,
    *,
    ask: Ask,
) -> None:
    """Download what was found: the aggregation (.kfed), a report (.html), or centers and profiles (.csv)."""
    wanted = {"aggregation": aggregation, "report": report, "centers": centers}
    if output is not None:
        which = _by_ending(output)
        if wanted[which] is not None:
            raise InvalidInputError(f"--output {output} and --{which} name the same download; use only one of them")
        wanted[which] = output
    outputs = {which: path for which, path in wanted.items() if path is not None}
    if not outputs:
        raise InvalidInputError("say what to download: -o FILE, --aggregation FILE, --report FILE or --centers FILE")
    claim(list(outputs.values()), force=force)
    for which, path in outputs.items():
        files.write(path, ask("GET", name, "download", which, raw=True), overwrite=force, private=True)
    written = {which: str(path) for which, path in outputs.items()}
    print_json(written) if as_json else say(*(f"  [green]wrote[/]  {escape(path)}" for path in written.values()))


@app.command(epilog="`kfed federation remove clinics north --yes`")
@with_option_groups
def remove(name: Name, device: Device, yes: Yes = False, as_json: Json = False, *, ask: Ask) -> None:
    """Remove a device; the others are clustered as if it had never joined, under the same numbers."""
    if not yes:
        typer.confirm(f"Remove {device} from {name}, with all that it sent?", abort=True)
    answer = ask("DELETE", name, "devices", device)
    print_json(answer) if as_json else say(f"removed {escape(device)} from {escape(name)}")


@app.command(epilog="`kfed federation refine clinics`")
@with_option_groups
def refine(name: Name, as_json: Json = False, *, ask: Ask) -> None:
    """Refine the clusters by the second messages that have arrived, without waiting for more."""
    print_state(ask("POST", name, "refine"), as_json)


def _by_ending(path: Path) -> str:
    found = {".kfed": "aggregation", ".html": "report", ".csv": "centers"}.get(path.suffix.lower())
    if found is None:
        raise InvalidInputError(f"--output must end with .kfed, .html or .csv; got {path}")
    return found


def _named(text: str) -> tuple[str, str]:
    number, equals, name = text.partition("=")
    if not equals or not number.strip().isdecimal():
        raise InvalidInputError(f"a name must look like 0=young; got {text!r}")
    return number.strip(), name.strip()


def _compared(found: dict[str, Any]) -> list[Any]:
    """The table and the notes of `kfed aggregate -k 2-12`; a coordinator from before there was a table says less."""
    said: dict[str, Any] = found.get("table", {"headings": [], "rows": []})
    table = TextTable("", tuple(said["headings"]), tuple(map(tuple, said["rows"])))
    return [escape(found["conclusion"]), *on_terminal([table, Notes(tuple(found["notes"]))])]
