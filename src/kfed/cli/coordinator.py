"""`kfed serve`: run a coordinator."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.markup import escape

from kfed.cli._app import app
from kfed.cli._terminal import Json, flag, note, option, print_json, say
from kfed.errors import InvalidInputError

DEFAULT_STORE = "kfed.db"
ADMIN_TOKEN_FILE = Path("admin.token")


@app.command(
    epilog="`kfed serve`   for this machine only, with its data in kfed.db\n\n"
    "`kfed serve --host 0.0.0.0 --host-name clinics.example --certfile cert.pem --keyfile key.pem`   for other "
    "machines\n\n"
    "`kfed serve --store postgresql://kfed@db/kfed`   in PostgreSQL; the password may be in PGPASSWORD"
)
def serve(
    store: Annotated[str, option("FILE|URL", "A file for SQLite, or a postgresql:// address.")] = DEFAULT_STORE,
    host: Annotated[str, option("ADDRESS", "Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port to listen on; 0 takes any free port.")] = 8765,
    host_names: Annotated[
        list[str] | None,
        option(
            "NAME",
            "Name by which others reach it; may be repeated. Requests to other names are refused.",
            "--host-name",
        ),
    ] = None,
    certfile: Annotated[Path | None, option("FILE", "TLS certificate.")] = None,
    keyfile: Annotated[Path | None, option("FILE", "Private key of the certificate.")] = None,
    insecure: Annotated[
        bool, flag("--insecure", "Listen to other machines without TLS; tokens can be intercepted.")
    ] = False,
    open_on_loopback: Annotated[
        bool,
        flag(
            "--open-on-loopback",
            "Let everybody on this machine watch without a token; requests through a proxy still need one.",
        ),
    ] = False,
    admin_token_file: Annotated[
        Path, option("FILE", "File with the admin token; written at the first start.")
    ] = ADMIN_TOKEN_FILE,
    admin_token: Annotated[str | None, typer.Option(envvar="KFED_ADMIN_TOKEN", hidden=True, show_envvar=False)] = None,
    max_body_bytes: Annotated[int, option("N", "Largest body of a request.", min=1024)] = 2**24,
    audit_log: Annotated[
        Path | None, option("FILE", "File for a log of who did what and when, in lines of JSON; - is stderr.")
    ] = None,
    connections_per_address: Annotated[
        int, option("N", "Largest number of connections from one address; a reverse proxy needs more.", min=1)
    ] = 256,
    verbose: Annotated[bool, flag("--verbose", "Log more than warnings.")] = False,
    as_json: Json = False,
) -> None:
    """Run a coordinator: each device sends it one message, at any time, and learns its clusters.

    Its data is in the store and survives a restart. To watch in a browser, open the one-time link that it prints on a
    terminal; or open its address, and enter the admin token. KFED_ADMIN_TOKEN, if set, is the admin token.
    """
    from kfed.coordinator import http

    address = http.Address(host, port, certfile, keyfile, insecure, tuple(host_names or ()))
    if open_on_loopback and not address.is_loopback:
        raise InvalidInputError(f"--open-on-loopback requires a loopback address; got --host {host}")
    if address.host_names.any_address and not host_names:
        note("the coordinator answers to IP addresses only; if others reach it by a name, add --host-name NAME")
    listening = address.listen()  # before anything is written
    token_hash, is_new = http.admin_token(store, admin_token, admin_token_file)
    if is_new:
        note(f"wrote a new admin token to {admin_token_file}; whoever has it can create federations")

    def ready(url: str, code: str) -> None:
        if as_json:
            print_json({"url": url, "store": _without_password(store)})
            return
        say(f"serving at [bold]{escape(url)}[/]   (store: {escape(_without_password(store))}; stop with Ctrl+C)")
        if sys.stdout.isatty():  # a link in a log file would let its readers in
            say(f"  [green]watch[/]  {escape(url)}/#/link={code}   (works once, within 10 minutes)")

    if audit_log is not None:
        http.log_to(audit_log)
    settings = http.ServiceSettings(store, token_hash, open_on_loopback, max_body_bytes, address.host_names)
    limits = http.Limits(per_address=connections_per_address)
    how: dict[str, Any] = {"listening": listening, "limits": limits, "ready": ready}
    http.run(address, settings, log_level="info" if verbose else "warning", **how)


def _without_password(store: str) -> str:
    if "://" not in store:
        return store
    from sqlalchemy.engine import make_url

    return make_url(store).render_as_string(hide_password=True)
