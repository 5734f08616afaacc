"""`kfed federation invite`, `invitations`, `revoke`, `rotate` and `delete`: who may join."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated
from urllib.parse import quote, urlencode

import typer
from rich.markup import escape

from kfed._base import files
from kfed.cli._options import with_option_groups
from kfed.cli._terminal import Force, Json, Yes, claim, option, print_json, rich_table, say
from kfed.cli.federation import Ask, Name, app
from kfed.errors import InvalidInputError

Device = Annotated[str, typer.Argument(metavar="DEVICE", help="The id of the device.")]
TokenFile = Annotated[Path | None, option("FILE", "File for the token.", "--token-file")]


@app.command(
    epilog="`kfed federation invite clinics north`   writes clinics-north.token\n\n"
    "`kfed join URL --federation clinics --token-file clinics-north.token --id north ...`   run at the site"
)
@with_option_groups
def invite(
    name: Name,
    device: Device,
    token_file: TokenFile = None,
    link_file: Annotated[
        Path | None, option("FILE", "Also write a link by which the site can join from a browser.")
    ] = None,
    force: Force = False,
    as_json: Json = False,
    *,
    ask: Ask,
) -> None:
    """Invite a device: write a token by which it can join once, under its own id.

    Inviting a device again replaces its invitation.
    """
    path = _path(token_file, f"{name}-{device}.token")
    claim([path, *([] if link_file is None else [link_file])], force=force)
    answer = ask("POST", name, "invitations", json={"device_id": device})
    if link_file is not None:  # the token stands behind the #, which browsers send to nobody
        said = urlencode({"federation": name, "device": device, "token": answer["token"]}, quote_via=quote)
        files.write(link_file, f"{ask.url.rstrip('/')}/join#{said}\n".encode(), overwrite=force, private=True)
    _write(path, answer["token"], force, {"device_id": device}, "the invitation: hand it to the device", as_json)


@app.command(epilog="`kfed federation invitations clinics`")
@with_option_groups
def invitations(name: Name, as_json: Json = False, *, ask: Ask) -> None:
    """List the invitations to a federation, and when each was used."""
    found = ask("GET", name, "invitations")
    rows = [(one["device_id"], _when(one["created_at"]), _when(one["used_at"])) for one in found]
    print_json(found) if as_json else say(rich_table(None, ["device", "invited", "joined"], rows, left=3))


@app.command(epilog="`kfed federation revoke clinics north`")
@with_option_groups
def revoke(name: Name, device: Device, as_json: Json = False, *, ask: Ask) -> None:
    """Revoke an invitation; a device that has joined by it stays until it is removed."""
    answer = ask("DELETE", name, "invitations", device)
    print_json(answer) if as_json else say(f"{escape(device)} is no longer invited to {escape(name)}")


@app.command(epilog="`kfed federation rotate clinics --force`   writes clinics.token anew")
@with_option_groups
def rotate(name: Name, token_file: TokenFile = None, force: Force = False, as_json: Json = False, *, ask: Ask) -> None:
    """Give a federation a new join token; the old one stops working at once, and devices that have joined stay."""
    path = _path(token_file, f"{name}.token")
    claim([path], force=force)
    answer = ask("POST", name, "join-token")
    _write(path, answer["join_token"], force, {"name": name}, "the join token: hand it to the devices", as_json)


@app.command(epilog="`kfed federation delete clinics --yes`")
@with_option_groups
def delete(name: Name, yes: Yes = False, as_json: Json = False, *, ask: Ask) -> None:
    """Delete a federation with its devices, clusters and invitations; this cannot be undone."""
    if not yes:
        typer.confirm(f"Delete {name} with all its devices and clusters?", abort=True)
    answer = ask("DELETE", name)
    print_json(answer) if as_json else say(f"deleted {escape(name)}")


def _path(given: Path | None, default: str) -> Path:
    if given is None and Path(default).name != default:
        raise InvalidInputError("the id of this device cannot be a file name; give one with --token-file")
    return Path(default) if given is None else given


def _write(path: Path, token: str, force: bool, facts: dict[str, str], what: str, as_json: bool) -> None:
    files.write(path, f"{token}\n".encode(), overwrite=force, private=True)
    written = {**facts, "token_file": str(path)}
    print_json(written) if as_json else say(f"  [green]wrote[/]  {escape(str(path))}  ({what})")


def _when(seconds: float | None) -> str:
    return "" if seconds is None else time.strftime("%Y-%m-%d %H:%M", time.localtime(seconds))
