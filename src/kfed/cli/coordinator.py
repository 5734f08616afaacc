"""`kfed serve`: run a coordinator."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape

from kfed.cli._terminal import Json, note, print_json, say

DEFAULT_STORE = "kfed.db"
ADMIN_TOKEN_FILE = Path("admin.token")


def register(app: typer.Typer) -> None:
    """Add the commands of this file."""
    app.command(
        epilog="`kfed serve`   for this machine only, with its data in kfed.db\n\n"
        "`kfed serve --host 0.0.0.0 --certfile cert.pem --keyfile key.pem`   for other machines\n\n"
        "`kfed serve --store postgresql://kfed@db/kfed`   in PostgreSQL; the password may be in PGPASSWORD"
    )(serve)


def serve(
    store: Annotated[
        str, typer.Option(metavar="FILE|URL", help="A file for SQLite, or a postgresql:// address.")
    ] = DEFAULT_STORE,
    host: Annotated[str, typer.Option(metavar="ADDRESS", help="Address to listen at.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port to listen at; 0 takes any free port.")] = 8765,
    certfile: Annotated[Path | None, typer.Option(metavar="FILE", help="TLS certificate.")] = None,
    keyfile: Annotated[Path | None, typer.Option(metavar="FILE", help="Private key of the certificate.")] = None,
    insecure: Annotated[
        bool, typer.Option("--insecure", help="Listen to other machines without TLS; tokens can be intercepted.")
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
    verbose: Annotated[bool, typer.Option("--verbose", help="Log more than warnings.")] = False,
    as_json: Json = False,
) -> None:
    """Run a coordinator: each device sends it one message, at any time, and learns its clusters.

    Its data is in the store and survives a restart. Open its address in a browser to watch. KFED_ADMIN_TOKEN, if set,
    is the admin token.
    """
    from kfed.coordinator import http

    address = http.Address(host, port, certfile, keyfile, insecure)
    token_hash, is_new = http.admin_token(store, admin_token, admin_token_file)
    if is_new:
        note(f"wrote a new admin token to {admin_token_file}; whoever has it can create federations")

    def ready(url: str) -> None:
        if as_json:
            print_json({"url": url, "store": store})
        else:
            say(f"serving at [bold]{escape(url)}[/]   (store: {escape(_without_password(store))}; stop with Ctrl+C)")

    if audit_log is not None:
        http.log_to(audit_log)
    level = "info" if verbose else "warning"
    http.run(address, store, token_hash, max_body_bytes=max_body_bytes, log_level=level, ready=ready)


def _without_password(store: str) -> str:
    if "://" not in store:
        return store
    from sqlalchemy.engine import make_url

    return make_url(store).render_as_string(hide_password=True)
