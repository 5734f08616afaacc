"""`kfed serve`: run a coordinator."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape

from kfed.cli._app import app
from kfed.cli._terminal import Json, note, print_json, say
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
    store: Annotated[
        str, typer.Option(metavar="FILE|URL", help="A file for SQLite, or a postgresql:// address.")
    ] = DEFAULT_STORE,
    host: Annotated[str, typer.Option(metavar="ADDRESS", help="Address to listen at.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port to listen at; 0 takes any free port.")] = 8765,
    host_names: Annotated[
        list[str] | None,
        typer.Option(
            "--host-name", metavar="NAME", help="Name under which others reach it; may be repeated. Others are refused."
        ),
    ] = None,
    certfile: Annotated[Path | None, typer.Option(metavar="FILE", help="TLS certificate.")] = None,
    keyfile: Annotated[Path | None, typer.Option(metavar="FILE", help="Private key of the certificate.")] = None,
    insecure: Annotated[
        bool, typer.Option("--insecure", help="Listen to other machines without TLS; tokens can be intercepted.")
    ] = False,
    open_on_loopback: Annotated[
        bool,
        typer.Option(
            "--open-on-loopback",
            help="Let everybody on this machine watch without a token; requests through a proxy still need one.",
        ),
    ] = False,
    admin_token_file: Annotated[
        Path,
        typer.Option(metavar="FILE", help="File with the admin token; written at the first start."),
    ] = ADMIN_TOKEN_FILE,
    admin_token: Annotated[str | None, typer.Option(envvar="KFED_ADMIN_TOKEN", hidden=True, show_envvar=False)] = None,
    max_body_bytes: Annotated[int, typer.Option(metavar="N", min=1024, help="Largest body of a request.")] = 2**24,
    audit_log: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="File to append who did what and when, in lines of JSON; - for stderr."),
    ] = None,
    connections_per_address: Annotated[
        int, typer.Option(metavar="N", min=1, help="Most connections of one address; a reverse proxy needs more.")
    ] = 256,
    verbose: Annotated[bool, typer.Option("--verbose", help="Log more than warnings.")] = False,
    as_json: Json = False,
) -> None:
    """Run a coordinator: each device sends it one message, at any time, and learns its clusters.

    Its data is in the store and survives a restart. To watch in a browser, open the link that it prints on a terminal,
    which works once, or its address with the admin token. KFED_ADMIN_TOKEN, if set, is the admin token.
    """
    from kfed.coordinator import http

    address = http.Address(host, port, certfile, keyfile, insecure, tuple(host_names or ()))
    if open_on_loopback and not address.is_loopback:
        raise InvalidInputError(f"--open-on-loopback requires a loopback address; got --host {host}")
    if address.host_names.any_address and not host_names:
        note("it answers to IP addresses only; give the name under which others reach it with --host-name")
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
    http.run(address, settings, limits=limits, log_level="info" if verbose else "warning", ready=ready)


def _without_password(store: str) -> str:
    if "://" not in store:
        return store
    from sqlalchemy.engine import make_url

    return make_url(store).render_as_string(hide_password=True)
