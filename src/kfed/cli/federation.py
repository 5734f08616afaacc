"""`kfed federation`: what an administrator tells a coordinator."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import quote

import typer
from rich.markup import escape

from kfed._base import files
from kfed.cli._options import CaFile, Insecure
from kfed.cli._terminal import Force, Json, claim, plural, print_json, say, table
from kfed.cli.coordinator import ADMIN_TOKEN_FILE
from kfed.errors import InvalidInputError

DEFAULT_URL = "http://127.0.0.1:8765"

Name = Annotated[str, typer.Argument(metavar="NAME", help="The federation.")]
Url = Annotated[str, typer.Option("--url", metavar="URL", help="Where the coordinator is.")]
AdminTokenFile = Annotated[
    Path, typer.Option("--admin-token-file", metavar="FILE", help="Holds the admin token; else KFED_ADMIN_TOKEN does.")
]
AdminToken = Annotated[str | None, typer.Option(envvar="KFED_ADMIN_TOKEN", hidden=True)]

app = typer.Typer(help="Create, list, show, close and aggregate federations of a coordinator.", no_args_is_help=True)


def register(commands: typer.Typer) -> None:
    """Add the commands of this file."""
    commands.add_typer(app, name="federation")


@app.command(
    epilog="`kfed federation create clinics --features age,glucose -k 4 --quorum 3`\n\n"
    "`kfed federation create phones --n-features 64 -k auto --deadline 2026-12-01T18:00`"
)
def create(
    name: Name,
    features: Annotated[
        str | None, typer.Option(metavar="A,B,...", help="Names of the features, in the order that all devices use.")
    ] = None,
    n_features: Annotated[int | None, typer.Option(metavar="N", min=1, help="Or how many there are.")] = None,
    n_clusters: Annotated[
        str, typer.Option("-k", "--n-clusters", metavar="N", help="Shared clusters, or auto.")
    ] = "auto",
    rule: Annotated[
        str, typer.Option(metavar="NAME", help="How centers are grouped: paper, robust, or regions if such join.")
    ] = "paper",
    quorum: Annotated[
        int | None, typer.Option(metavar="N", min=1, help="Aggregate once this many devices have joined.")
    ] = None,
    deadline: Annotated[
        str | None, typer.Option(metavar="TIME", help="Aggregate at this time, such as 2026-12-01T18:00.")
    ] = None,
    max_devices: Annotated[
        int | None, typer.Option(metavar="N", min=1, help="Turn away more devices than this.")
    ] = None,
    max_centers: Annotated[int | None, typer.Option(metavar="N", min=1, help="Centers that a device may send.")] = None,
    join_token_file: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Where to write the join token; by default NAME.token, here."),
    ] = None,
    url: Url = DEFAULT_URL,
    admin_token_file: AdminTokenFile = ADMIN_TOKEN_FILE,
    admin_token: AdminToken = None,
    cafile: CaFile = None,
    insecure: Insecure = False,
    force: Force = False,
    as_json: Json = False,
) -> None:
    """Create a federation, and write its join token to a file to hand to the devices.

    Without a quorum and a deadline it is aggregated by hand: `kfed federation aggregate`.
    """
    token_path = Path(f"{name}.token") if join_token_file is None else join_token_file
    claim([token_path], force=force)
    names = None if features is None else [feature.strip() for feature in features.split(",")]
    if (names is None) == (n_features is None):
        raise InvalidInputError("give either the names of the features (--features a,b,...) or --n-features N")
    terms = {
        "name": name,
        "n_features": n_features if names is None else len(names),
        "feature_names": names,
        "n_clusters": _number_or_auto(n_clusters),
        "rule": rule,
        "quorum": quorum,
        "deadline": None if deadline is None else _seconds(deadline),
        "max_devices": max_devices,
        "max_centers": max_centers,
    }
    given = {key: value for key, value in terms.items() if value is not None}
    asked = _asking(url, admin_token, admin_token_file, cafile, insecure)
    answer = asked("POST", "", json=given)
    files.write(token_path, f"{answer['join_token']}\n".encode(), overwrite=force, private=True)
    facts = {"federation": answer["federation"], "join_token_file": str(token_path)}
    say_token = f"  [green]wrote[/]  {escape(str(token_path))}  (the join token: hand it to the devices)"
    print_json(facts) if as_json else say(*_state_text(answer["federation"]), say_token)


@app.command("list")
def list_federations(
    url: Url = DEFAULT_URL,
    admin_token_file: AdminTokenFile = ADMIN_TOKEN_FILE,
    admin_token: AdminToken = None,
    cafile: CaFile = None,
    insecure: Insecure = False,
    as_json: Json = False,
) -> None:
    """List the federations of a coordinator."""
    found = _asking(url, admin_token, admin_token_file, cafile, insecure)("GET", "")
    rows = [
        (one["name"], one["state"], f"{one['n_devices']:,}", f"{one['n_bytes']:,}", str(one["version"]))
        for one in found
    ]
    headings = ["federation", "state", "devices", "bytes", "clusterings"]
    print_json(found) if as_json else say(table(None, headings, rows, left=2))


@app.command()
def show(
    name: Name,
    url: Url = DEFAULT_URL,
    admin_token_file: AdminTokenFile = ADMIN_TOKEN_FILE,
    admin_token: AdminToken = None,
    cafile: CaFile = None,
    insecure: Insecure = False,
    as_json: Json = False,
) -> None:
    """Show a federation."""
    _print(_asking(url, admin_token, admin_token_file, cafile, insecure)("GET", name), as_json)


@app.command()
def close(
    name: Name,
    url: Url = DEFAULT_URL,
    admin_token_file: AdminTokenFile = ADMIN_TOKEN_FILE,
    admin_token: AdminToken = None,
    cafile: CaFile = None,
    insecure: Insecure = False,
    as_json: Json = False,
) -> None:
    """Turn new devices away from a federation; those that have joined are served still."""
    _print(_asking(url, admin_token, admin_token_file, cafile, insecure)("POST", name, "close"), as_json)


@app.command()
def aggregate(
    name: Name,
    n_clusters: Annotated[
        int | None,
        typer.Option("-k", "--n-clusters", metavar="N", min=1, help="Shared clusters, if other than agreed on."),
    ] = None,
    url: Url = DEFAULT_URL,
    admin_token_file: AdminTokenFile = ADMIN_TOKEN_FILE,
    admin_token: AdminToken = None,
    cafile: CaFile = None,
    insecure: Insecure = False,
    as_json: Json = False,
) -> None:
    """Cluster the centers of all devices that have joined by now; clusters keep their ids."""
    asked = _asking(url, admin_token, admin_token_file, cafile, insecure)
    _print(asked("POST", name, "aggregate", json={"n_clusters": n_clusters}), as_json)


def _asking(url: str, token: str | None, token_file: Path, cafile: Path | None, insecure: bool) -> Callable[..., Any]:
    """A function that asks a coordinator in the name of its administrator."""
    from kfed.coordinator.client import CLUSTERING_SECONDS, Line

    token = token if token is not None else token_file.read_text(encoding="utf-8").strip()

    def ask(method: str, *names: str, **options: Any) -> Any:
        path = "/".join(["/v1/federations", *(quote(name, safe="") for name in names if name)])
        with Line(url, cafile=cafile, insecure=insecure, patience=30, timeout=CLUSTERING_SECONDS) as line:
            return line.request(method, path, token=token, **options).json()

    return ask


def _print(state: dict[str, Any], as_json: bool) -> None:
    print_json(state) if as_json else say(*_state_text(state))


def _state_text(state: dict[str, Any]) -> list[Any]:
    when = [f"at a quorum of {state['quorum']:,}"] if state["quorum"] else []
    when += [f"by {time.strftime('%Y-%m-%d %H:%M', time.localtime(state['deadline']))}"] if state["deadline"] else []
    lines: list[Any] = [
        f"[bold]{escape(state['name'])}[/]: {state['state']}{', closed' if state['closed'] else ''}; "
        f"{plural(state['n_devices'], 'device')}, {plural(state['n_centers'], 'center')}, {state['n_bytes']:,} bytes",
        f"  {plural(state['n_features'], 'feature')}, n_clusters {state['n_clusters']}, rule {state['rule']}; "
        f"aggregates {' or '.join(when) or 'by hand'}",
    ]
    if state["remark"]:
        lines.append(f"  [yellow]not aggregated:[/] {escape(state['remark'])}")
    if state["cluster_sizes"] is not None:
        rows = [(str(cluster), f"{size:,g}") for cluster, size in enumerate(state["cluster_sizes"])]
        lines.append(table(None, ["cluster", "points"], rows))
    return lines


def _number_or_auto(text: str) -> int | str:
    return int(text) if text.isdigit() else text


def _seconds(text: str) -> float:
    """A time of day as seconds since 1970."""
    try:
        return datetime.fromisoformat(text).timestamp()
    except ValueError as error:
        raise InvalidInputError(f"deadline must be a time such as 2026-12-01T18:00, and is {text!r}") from error
