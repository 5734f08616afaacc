"""`kfed federation`: create, show, close and aggregate the federations of a coordinator.

`cli.invitations` has its commands about who may join.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from inspect import Signature, signature
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import quote

import typer
from rich.markup import escape

from kfed._base import files
from kfed.cli._options import CaFile, Insecure
from kfed.cli._states import print_state, state_text
from kfed.cli._terminal import Force, Json, claim, note, number_or_auto, option, print_json, say, table
from kfed.cli.coordinator import ADMIN_TOKEN_FILE
from kfed.errors import InvalidInputError

DEFAULT_URL = "http://127.0.0.1:8765"

Name = Annotated[str, typer.Argument(metavar="NAME", help="The federation.")]
Url = Annotated[str, typer.Option("--url", metavar="URL", help="Address of the coordinator.")]
AdminTokenFile = Annotated[
    Path,
    typer.Option(
        "--admin-token-file", metavar="FILE", help="File with the admin token, unless KFED_ADMIN_TOKEN is set."
    ),
]
AdminToken = Annotated[str | None, typer.Option(envvar="KFED_ADMIN_TOKEN", hidden=True)]

app = typer.Typer(
    help="Create, show, aggregate, close and delete federations of a coordinator, invite and remove devices, compare "
    "numbers of clusters, and download what was found.",
    no_args_is_help=True,
)


@dataclass(frozen=True)
class Ask:
    """Sends requests to a coordinator as its administrator."""

    url: str
    token: Callable[[], str]
    cafile: Path | None
    insecure: bool

    def __call__(self, method: str, *names: str, raw: bool = False, **options: Any) -> Any:
        """The answer in JSON, or its bytes, to a request about what these names lead to."""
        from kfed.coordinator.client import CLUSTERING_SECONDS, Line

        path = "/".join(["/v1/federations", *(quote(name, safe="") for name in names)])
        how: dict[str, Any] = {"patience": 30, "timeout": CLUSTERING_SECONDS, "tell": note}
        with Line(self.url, cafile=self.cafile, insecure=self.insecure, **how) as line:
            answer = line.request(method, path, token=self.token(), **options)
            return answer.content if raw else answer.json()


def _asking(
    url: Url = DEFAULT_URL,
    admin_token_file: AdminTokenFile = ADMIN_TOKEN_FILE,
    admin_token: AdminToken = None,
    cafile: CaFile = None,
    insecure: Insecure = False,
) -> Ask:
    """What sends requests to a coordinator, by the options of a command."""

    def token() -> str:
        return admin_token if admin_token is not None else admin_token_file.read_text(encoding="utf-8").strip()

    return Ask(url, token, cafile, insecure)


def administers(command: Callable[..., None]) -> Callable[..., None]:
    """Add the options of `_asking` to a command, and pass it the function as `ask`."""
    shared = signature(_asking, eval_str=True).parameters
    own = {name: one for name, one in signature(command, eval_str=True).parameters.items() if name != "ask"}

    def run(**given: Any) -> None:
        ask = _asking(**{name: given.pop(name) for name in shared})
        command(ask=ask, **given)

    parameters = {**own, **shared}
    run.__name__, run.__doc__ = command.__name__, command.__doc__
    run.__annotations__ = {name: one.annotation for name, one in parameters.items()}
    run.__signature__ = Signature(list(parameters.values()))  # type: ignore[attr-defined]
    return run


@app.command(
    epilog="`kfed federation create clinics --columns age,glucose,ward -k 4 --quorum 3`\n\n"
    "`kfed federation create sensors --features x,y,z -k 4 --quorum 3`\n\n"
    "`kfed federation create phones --n-features 64 -k auto --deadline 2026-12-01T18:00`"
)
@administers
def create(
    ask: Ask,
    name: Name,
    features: Annotated[
        str | None, option("A,B,...", "Names of the features, in the order that all devices use.")
    ] = None,
    columns: Annotated[
        str | None, option("A,B,...", "Or the columns of tables, in any order: of numbers, categories, dates.")
    ] = None,
    n_features: Annotated[int | None, option("N", "Or the number of features, without names.", min=1)] = None,
    n_clusters: Annotated[
        Any, option("N|auto", "Shared clusters, or auto.", "-k", "--n-clusters", parser=number_or_auto)
    ] = "auto",
    rule: Annotated[
        str,
        option(
            "NAME",
            "How centers are grouped: default is pooled if sites send summaries and else paper; robust tolerates "
            "stray centers, and regions is for servers of regions that join.",
        ),
    ] = "default",
    quorum: Annotated[int | None, option("N", "Aggregate once this many devices have joined.", min=1)] = None,
    deadline: Annotated[str | None, option("TIME", "Aggregate at this time, such as 2026-12-01T18:00.")] = None,
    max_devices: Annotated[int | None, option("N", "Largest number of devices.", min=1)] = None,
    max_centers: Annotated[int | None, option("N", "Largest number of centers of a device.", min=1)] = None,
    max_count: Annotated[float | None, option("N", "Largest number of rows behind a center of a device.")] = None,
    max_value: Annotated[float | None, option("X", "Largest size of a number in a center of a device.")] = None,
    min_devices: Annotated[
        int | None, option("N", "Devices that every cluster must rest on; centers of fewer are set aside.", min=1)
    ] = None,
    min_devices_shown: Annotated[
        int | None,
        option(
            "N",
            "Devices that a cluster must rest on for devices to see its center; 1 shows all.",
            min=1,
            show_default="3",
        ),
    ] = None,
    max_epsilon: Annotated[
        float | None, option("E", "Refuse messages that are not differentially private with this epsilon.")
    ] = None,
    invited_only: Annotated[
        bool, typer.Option("--invited-only", help="Devices join by `kfed federation invite` alone.")
    ] = False,
    rounds: Annotated[
        int | None, option("1|2", "2 asks devices for a second message, for better clusters.", min=1, max=2)
    ] = None,
    join_token_file: Annotated[Path | None, option("FILE", "File for the join token; default NAME.token.")] = None,
    force: Force = False,
    as_json: Json = False,
) -> None:
    """Create a federation, and write the join token for its devices to a file.

    Without a quorum and a deadline, run `kfed federation aggregate` when all devices have joined.
    """
    token_path = Path(f"{name}.token") if join_token_file is None else join_token_file
    claim([token_path], force=force)
    if [features, columns, n_features].count(None) != 2:
        raise InvalidInputError(
            "give the columns of tables (--columns a,b,...), the names of features that are taken as they are "
            "(--features a,b,...), or --n-features N"
        )
    named = features if columns is None else columns
    names = None if named is None else [one.strip() for one in named.split(",")]
    terms = {
        "name": name,
        "n_features": n_features if names is None else len(names),
        "feature_names": names,
        "n_clusters": n_clusters,
        "rule": rule,
        "quorum": quorum,
        "deadline": None if deadline is None else _seconds(deadline),
        "max_devices": max_devices,
        "max_centers": max_centers,
        "max_count": max_count,
        "max_value": max_value,
        "min_devices": min_devices,
        "min_devices_shown": min_devices_shown,
        "max_epsilon": max_epsilon,
        "by_column": True if columns is not None else None,
        "invited_only": invited_only or None,
        "rounds": rounds,
    }
    given = {key: value for key, value in terms.items() if value is not None}
    answer = ask("POST", json=given)
    files.write(token_path, f"{answer['join_token']}\n".encode(), overwrite=force, private=True)
    facts = {"federation": answer["federation"], "join_token_file": str(token_path)}
    say_token = f"  [green]wrote[/]  {escape(str(token_path))}  (the join token: hand it to the devices)"
    print_json(facts) if as_json else say(*state_text(answer["federation"]), say_token)


@app.command("list")
@administers
def list_federations(
    ask: Ask,
    as_json: Json = False,
) -> None:
    """List the federations of a coordinator."""
    found = ask("GET")
    rows = [
        (one["name"], one["state"], f"{one['n_devices']:,}", f"{one['n_bytes']:,}", str(one["version"]))
        for one in found
    ]
    headings = ["federation", "state", "devices", "bytes", "clusterings"]
    print_json(found) if as_json else say(table(None, headings, rows, left=2))


@app.command()
@administers
def show(
    ask: Ask,
    name: Name,
    as_json: Json = False,
) -> None:
    """Show a federation."""
    print_state(ask("GET", name), as_json)


@app.command()
@administers
def close(
    ask: Ask,
    name: Name,
    as_json: Json = False,
) -> None:
    """Turn new devices away from a federation; those that have joined are still served."""
    print_state(ask("POST", name, "close"), as_json)


@app.command()
@administers
def aggregate(
    ask: Ask,
    name: Name,
    n_clusters: Annotated[
        int | None, option("N", "Shared clusters, if other than the federation's own.", "-k", "--n-clusters", min=1)
    ] = None,
    as_json: Json = False,
) -> None:
    """Cluster the centers of all devices that have joined by now; clusters keep their ids."""
    print_state(ask("POST", name, "aggregate", json={"n_clusters": n_clusters}), as_json)


def _seconds(text: str) -> float:
    """A date and time as seconds since 1970."""
    try:
        return datetime.fromisoformat(text).timestamp()
    except ValueError as error:
        raise InvalidInputError(f"deadline must be a time such as 2026-12-01T18:00; got {text!r}") from error
