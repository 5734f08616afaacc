"""`kfed federation`: create, show, close and aggregate the federations of a coordinator.

`cli.invitations` has its commands about who may join.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import quote

import typer
from rich.markup import escape

from kfed._base import files
from kfed.cli._options import CaFile, Insecure, Rule, split_names, with_option_groups
from kfed.cli._states import print_state, state_text
from kfed.cli._terminal import Force, Json, claim, flag, note, number_or_auto, option, print_json, rich_table, say
from kfed.cli.coordinator import ADMIN_TOKEN_FILE
from kfed.errors import InvalidInputError
from kfed.server import DEFAULT
from kfed.site import about_scale, read_schema

NOT_FOUND = 404
DEFAULT_URL = "http://127.0.0.1:8765"

Name = Annotated[str, typer.Argument(metavar="NAME", help="The federation.")]
Url = Annotated[str, option("URL", "Address of the coordinator.", "--url")]
AdminTokenFile = Annotated[
    Path, option("FILE", "File with the admin token, unless KFED_ADMIN_TOKEN is set.", "--admin-token-file")
]
AdminToken = Annotated[str | None, typer.Option(envvar="KFED_ADMIN_TOKEN", hidden=True)]

app = typer.Typer(
    help="Manage the federations of a coordinator: create and delete them, invite and remove devices, aggregate, "
    "compare numbers of clusters, and download results.",
    no_args_is_help=True,
)


@dataclass(frozen=True)
class Ask:
    """Sends requests to a coordinator as its administrator; its fields are options of every command here."""

    url: Url = DEFAULT_URL
    admin_token_file: AdminTokenFile = ADMIN_TOKEN_FILE
    admin_token: AdminToken = None
    cafile: CaFile = None
    insecure: Insecure = False

    def __call__(self, method: str, *names: str, raw: bool = False, **options: Any) -> Any:
        """The answer in JSON, or its bytes, to a request about what these names lead to."""
        from kfed.coordinator.client import CLUSTERING_SECONDS, Line, json_of

        path = "/".join(["/v1/federations", *(quote(name, safe="") for name in names)])
        how: dict[str, Any] = {"patience": 30, "timeout": CLUSTERING_SECONDS, "tell": note}
        with Line(self.url, cafile=self.cafile, insecure=self.insecure, **how) as line:
            answer = line.request(method, path, token=self._token(), **options)
            return answer.content if raw else json_of(answer)

    def _token(self) -> str:
        given = self.admin_token
        return given if given is not None else self.admin_token_file.read_text(encoding="utf-8").strip()


@app.command(
    epilog="`kfed federation create clinics --columns age,glucose,ward --quorum 3`\n\n"
    "`kfed federation create clinics --schema known-beforehand.json --quorum 3 --max-epsilon 1`\n\n"
    "`kfed federation create sensors --features x,y,z -k 4 --quorum 3`\n\n"
    "`kfed federation create phones --n-features 64 -k auto --deadline 2026-12-01T18:00`"
)
@with_option_groups
def create(
    name: Name,
    features: Annotated[
        str | None, option("A,B,...", "Names of the features, in the order that all devices use.")
    ] = None,
    columns: Annotated[str | None, option("A,B,...", "Column names of tables, in any order.")] = None,
    n_features: Annotated[int | None, option("N", "Number of features, without names.", min=1)] = None,
    schema: Annotated[
        Path | None,
        option("FILE", "A schema of all sites: columns, kinds, levels and scale; `kfed join` fetches it."),
    ] = None,
    n_clusters: Annotated[
        Any,
        option(
            "N|auto",
            "Number of shared clusters. Default: the best number. auto: aggregate only if one stands out.",
            "-k",
            "--n-clusters",
            parser=number_or_auto,
        ),
    ] = None,
    rule: Rule = DEFAULT,
    quorum: Annotated[int | None, option("N", "Aggregate once this many devices have joined.", min=1)] = None,
    deadline: Annotated[str | None, option("TIME", "Aggregate at this time, such as 2026-12-01T18:00.")] = None,
    max_devices: Annotated[int | None, option("N", "Largest number of devices.", min=1)] = None,
    max_centers: Annotated[int | None, option("N", "Largest number of centers of a device.", min=1)] = None,
    max_count: Annotated[float | None, option("N", "Largest number of rows behind a center of a device.")] = None,
    max_value: Annotated[float | None, option("X", "Largest absolute value in a center of a device.")] = None,
    min_devices: Annotated[
        int | None,
        option("N", "Number of devices that every cluster must rest on; centers of fewer are set aside.", min=1),
    ] = None,
    min_devices_shown: Annotated[
        int | None,
        option(
            "N",
            "Number of devices that a cluster must rest on before devices see its center; 1 shows all.",
            min=1,
            show_default="3",
        ),
    ] = None,
    max_epsilon: Annotated[
        float | None, option("E", "Refuse messages that are not differentially private with this epsilon.")
    ] = None,
    invited_only: Annotated[
        bool, flag("--invited-only", "Only devices from `kfed federation invite` can join.")
    ] = False,
    rounds: Annotated[
        int | None, option("1|2", "2 asks devices for a second message, for better clusters.", min=1, max=2)
    ] = None,
    join_token_file: Annotated[Path | None, option("FILE", "File for the join token; default NAME.token.")] = None,
    force: Force = False,
    as_json: Json = False,
    *,
    ask: Ask,
) -> None:
    """Create a federation, and write the join token for its devices to a file.

    One of --features, --columns, --n-features and --schema is required. Without a quorum and a deadline, run
    `kfed federation aggregate` when all devices have joined.
    """
    token_path = Path(f"{name}.token") if join_token_file is None else join_token_file
    _check_name(name)
    if token_path.exists() and not force:
        _check_new(ask, name)
    claim([token_path], force=force)
    if [features, columns, n_features, schema].count(None) != 3:
        raise InvalidInputError(
            "give the columns of tables (--columns a,b,...), a schema that all sites agreed on (--schema FILE), the "
            "names of features that are taken as they are (--features a,b,...), or --n-features N"
        )
    named = features if columns is None else columns
    names = None if named is None else _names(named)
    terms = {
        "name": name,
        "n_features": n_features if names is None else len(names),
        "feature_names": names,
        "agreed_schema": None if schema is None else read_schema(schema).facts(),
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
    for notice in about_scale(schema, max_epsilon):
        note(notice.text)
    given = {key: value for key, value in terms.items() if value is not None}
    answer = ask("POST", json=given)
    files.write(token_path, f"{answer['join_token']}\n".encode(), overwrite=force, private=True)
    facts = {"federation": answer["federation"], "join_token_file": str(token_path)}
    say_token = f"  [green]wrote[/]  {escape(str(token_path))}  (the join token: hand it to the devices)"
    print_json(facts) if as_json else say(*state_text(answer["federation"]), say_token)


def _check_name(name: str) -> None:
    from kfed.coordinator.federation import NAME_IN_WORDS, NAME_PATTERN

    if not re.fullmatch(NAME_PATTERN, name):
        raise InvalidInputError(f"name must be {NAME_IN_WORDS}; got {name!r}")


def _check_new(ask: Ask, name: str) -> None:
    """Raise if there is a federation of this name; the token in the file may be its own."""
    from kfed.coordinator.client import CoordinatorError

    try:
        ask("GET", name)
    except CoordinatorError as error:
        if error.status != NOT_FOUND:
            raise
        return
    raise InvalidInputError(
        f"there is a federation {name!r} already; `kfed federation show {name}` shows it. Choose another name, or "
        "delete it first"
    )


def _names(named: str) -> list[str]:
    names = [one.strip() for one in split_names(named)]
    if not all(names) or not names:
        raise InvalidInputError(f"every column or feature must have a name; got {named!r}")
    return names


@app.command("list")
@with_option_groups
def list_federations(as_json: Json = False, *, ask: Ask) -> None:
    """List the federations of a coordinator."""
    found = ask("GET")
    rows = [
        (one["name"], one["state"], f"{one['n_devices']:,}", f"{one['n_bytes']:,}", str(one["version"]))
        for one in found
    ]
    headings = ["federation", "state", "devices", "bytes", "clusterings"]
    print_json(found) if as_json else say(rich_table(None, headings, rows, left=2, whole=True))


@app.command()
@with_option_groups
def show(name: Name, as_json: Json = False, *, ask: Ask) -> None:
    """Show a federation."""
    print_state(ask("GET", name), as_json)


@app.command()
@with_option_groups
def close(name: Name, as_json: Json = False, *, ask: Ask) -> None:
    """Turn new devices away from a federation; those that have joined are still served."""
    print_state(ask("POST", name, "close"), as_json)


@app.command()
@with_option_groups
def aggregate(
    name: Name,
    n_clusters: Annotated[
        int | None, option("N", "Number of shared clusters, if not the federation's own.", "-k", "--n-clusters", min=1)
    ] = None,
    as_json: Json = False,
    *,
    ask: Ask,
) -> None:
    """Cluster the centers of all devices that have joined by now; clusters keep their ids."""
    print_state(ask("POST", name, "aggregate", json={"n_clusters": n_clusters}), as_json)


def _seconds(text: str) -> float:
    """A date and time as seconds since 1970."""
    try:
        return datetime.fromisoformat(text).timestamp()
    except ValueError as error:
        raise InvalidInputError(f"deadline must be a time such as 2026-12-01T18:00; got {text!r}") from error
