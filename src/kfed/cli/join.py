"""`kfed join` and `kfed leave`: a site of a coordinator, from its first message until it leaves."""

from __future__ import annotations

import random
import time
from collections.abc import Sequence
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.markup import escape

from kfed._base import files
from kfed.cli._app import app
from kfed.cli._labels import rows_again, tell_of, write_labels
from kfed.cli._options import TABLE_HELP, CaFile, Insecure, Patience, SiteOptions, with_option_groups
from kfed.cli._second import send_second
from kfed.cli._terminal import Force, Json, claim, note, print_json, say
from kfed.errors import InvalidInputError
from kfed.site import LocalFile
from kfed.wire import Identity, Notice

if TYPE_CHECKING:
    from kfed.coordinator.client import DeviceClient, StillGathering

TokenFile = Annotated[
    Path | None,
    typer.Option("--token-file", metavar="FILE", help="File with the join token; by default it is in KFED_JOIN_TOKEN."),
]


@app.command(
    epilog="`kfed join https://clinics.example --federation clinics --data north.csv -k 4 -o labels.csv`\n\n"
    "`kfed join ... --no-wait`, and later `kfed label north.local --clusters north.ticket -o labels.csv`"
)
@with_option_groups
def join(
    url: Annotated[str, typer.Argument(metavar="URL", help="Where the coordinator is.")],
    federation: Annotated[str, typer.Option(metavar="NAME", help="The federation to join.")],
    data: Annotated[Path, typer.Option(metavar="TABLE", help=TABLE_HELP)],
    site: SiteOptions,
    output: Annotated[
        Path | None, typer.Option("-o", "--output", metavar="FILE", help="CSV file to write: the cluster of each row.")
    ] = None,
    token_file: TokenFile = None,
    token: Annotated[str | None, typer.Option(envvar="KFED_JOIN_TOKEN", hidden=True)] = None,
    ticket_file: Annotated[
        Path | None,
        typer.Option(
            "--ticket",
            metavar="FILE",
            help="Where to keep the proof that this site joined; by default named like the table.",
        ),
    ] = None,
    wait: Annotated[bool, typer.Option("--wait/--no-wait", help="Whether to wait for the clusters.")] = True,
    timeout: Annotated[
        float | None,
        typer.Option(metavar="SECONDS", min=0, help="How long to wait for the clusters; by default for ever."),
    ] = None,
    patience: Patience = 300.0,
    replace: Annotated[
        bool,
        typer.Option("--replace", help="Replace what this site sent before; the difference can reveal single rows."),
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", help="With --replace, do not ask.")] = False,
    cafile: CaFile = None,
    insecure: Insecure = False,
    force: Force = False,
    as_json: Json = False,
) -> None:
    """Cluster the rows of this site, send a few centers to a coordinator, wait, and label the rows.

    No row is sent as such. What is sent says something about groups of rows, each of at least --min-cluster-size: their
    mean and how many they are; `kfed device` and `kfed inspect` show it first. The command may be stopped and run again
    at any time: nothing is sent twice.
    """
    from kfed.coordinator.client import DeviceClient, Ticket

    ticket_path = Path(f"{data.stem}.ticket") if ticket_file is None else ticket_file
    local_path = ticket_path.with_suffix(".local")
    if wait and output is None:
        raise InvalidInputError("give a file for the labels with -o, or do not wait for them (--no-wait)")
    if replace and not yes:
        _ask_to_replace()
    inputs = [path for path in (data, site.scale, token_file, cafile) if path is not None]
    claim([output] if output is not None else [], inputs=inputs, force=force)
    claim([ticket_path], inputs=inputs, force=True)
    before = None if replace else site.released_before(data, local_path)
    keeps_local = not wait or site.epsilon is not None
    is_again = force or ticket_path.exists() or before is not None
    claim([local_path] if keeps_local else [], inputs=inputs, force=is_again)
    join_token = _token(token, token_file)
    asked = Ticket.new(url, federation, site.name(data), cafile, insecure)
    with asked.line(patience, tell=note) as line:
        device = DeviceClient(line, federation, site.name(data), "")
        terms = device.terms(join_token)
        if terms.rounds > 1 and site.epsilon is not None:
            raise InvalidInputError(
                "this federation asks for a second message, which is never private; leave out --epsilon"
            )
        kept = before or site.cluster(data, as_is=None if terms.takes_tables else True)
        if site.epsilon is not None:  # before it is sent: if that fails, the same release is sent the next time
            files.write(local_path, kept.to_bytes(), private=True)
        with Ticket.for_device(ticket_path, asked, force=force) as ticket:
            client = ticket.client(line)
            answer = client.send(kept.to_message(), join_token, replace=replace)
        if not wait:
            files.write(local_path, kept.to_bytes(), private=True)
        elif not isinstance(answer, Identity):
            answer = _wait(client, answer, timeout)
        again = None
        if terms.rounds > 1 and wait and isinstance(answer, Identity):
            answer, again = send_second(client, kept, ticket_path, data, site.scale, timeout)
    notices = [*kept.notices, *client.notices]
    tell_of(notices)
    if isinstance(answer, Identity) and output is not None:
        rows = None if again is None else again.values
        if kept.clustering.is_summary and rows is None:
            rows = rows_again(kept, data, site.scale)
        write_labels(kept, answer, kept.labels(answer, rows), output, notices, force=force, as_json=as_json)
    else:
        _say_sent(kept, answer, ticket_path, local_path, notices, as_json=as_json)


@app.command(epilog="`kfed leave north.ticket`")
def leave(
    ticket: Annotated[Path, typer.Argument(metavar="TICKET", help="The .ticket that `kfed join` kept.")],
    patience: Patience = 300.0,
    as_json: Json = False,
) -> None:
    """Leave a federation: the clusters become what they would be had this site never joined."""
    from kfed.coordinator.client import CLUSTERING_SECONDS, Ticket

    kept = Ticket.load(ticket)
    with kept.line(patience, CLUSTERING_SECONDS, note) as line:
        kept.leave(ticket, line)
    facts = {"device_id": kept.device_id, "federation": kept.federation, "left": True}
    print_json(facts) if as_json else say(f"{escape(kept.device_id)} has left {escape(kept.federation)}")


def _ask_to_replace() -> None:
    """Say what a second message may reveal, and stop unless the caller agrees."""
    note(
        "whoever has the message from before can subtract it from the new one: if few rows were added, changed or "
        "removed since, the difference of the means and counts is about those rows"
    )
    try:
        agreed = typer.confirm("Replace the message?", default=False, err=True)
    except typer.Abort:  # nobody to ask
        agreed = False
    if not agreed:
        raise InvalidInputError("nothing was sent; pass --yes to replace without being asked")


def _token(token: str | None, file: Path | None) -> str:
    if file is not None:
        return file.read_text(encoding="utf-8").strip()
    if token is None:
        raise InvalidInputError("a join token is needed; give its file with --token-file, or set KFED_JOIN_TOKEN")
    return token


def _wait(client: DeviceClient, answer: StillGathering, timeout: float | None) -> Identity:
    """Ask again until there are clusters, as often as the coordinator allows."""
    from kfed.coordinator.client import CoordinatorError

    given_up_at = None if timeout is None else time.monotonic() + timeout
    said = ""
    while True:
        if answer.in_words != said:
            said = answer.in_words
            note(f"sent; {said}")
        if given_up_at is not None and time.monotonic() > given_up_at:
            raise CoordinatorError(f"{answer.in_words}; the message has arrived, so run the same command again later")
        time.sleep(max(0.5, answer.retry_after) * random.uniform(0.8, 1.2))
        asked = client.identity()
        if isinstance(asked, Identity):
            return asked
        answer = asked


def _say_sent(
    kept: LocalFile, answer: Any, ticket: Path, local: Path, notices: Sequence[Notice], *, as_json: bool
) -> None:
    state = "aggregated" if isinstance(answer, Identity) else "gathering"
    if as_json:
        facts = {"device_id": kept.device_id, "state": state, "ticket": str(ticket), "local_file": str(local)}
        print_json(facts | {"warnings": [notice._asdict() for notice in notices]})
        return
    later = f"kfed label {quote(str(local))} --clusters {quote(str(ticket))} -o labels.csv"
    words = "there are clusters already" if isinstance(answer, Identity) else answer.in_words
    say(
        f"sent the centers of {escape(repr(kept.device_id))}; {escape(words)}",
        f"  [yellow]later[/]  {escape(later)}",
    )
