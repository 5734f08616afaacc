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
from kfed.cli._agreed import about_fetched_scale, by_columns_of, by_schema_of, check_identifiers
from kfed.cli._app import app
from kfed.cli._labels import about_hidden, tell_labels, tell_of
from kfed.cli._options import TABLE_HELP, CaFile, Insecure, Patience, SiteOptions, with_option_groups
from kfed.cli._second import not_sent, send_second
from kfed.cli._terminal import Force, Json, claim, csv_path, flag, note, option, print_json, say
from kfed.errors import InvalidInputError
from kfed.site import LocalFile, cluster_file, release_file, rows_if_there, table_stem
from kfed.wire import Identity, Notice

if TYPE_CHECKING:
    from kfed.coordinator.client import DeviceClient, StillGathering, Terms

TokenFile = Annotated[
    Path | None, option("FILE", "File with the join token; by default it is in KFED_JOIN_TOKEN.", "--token-file")
]


@app.command(
    epilog="`kfed join https://clinics.example --federation clinics --data north.csv -k 4 -o labels.csv`\n\n"
    "`kfed join ... --no-wait`, and later `kfed label north.local --clusters north.ticket -o labels.csv`"
)
@with_option_groups
def join(
    url: Annotated[str, typer.Argument(metavar="URL", help="Where the coordinator is.")],
    federation: Annotated[str, option("NAME", "The federation to join.")],
    data: Annotated[Path, option("TABLE", TABLE_HELP)],
    site: SiteOptions,
    output: Annotated[
        Path | None,
        option("FILE", "CSV file to write: the cluster of each row.", "-o", "--output", parser=csv_path),
    ] = None,
    token_file: TokenFile = None,
    token: Annotated[str | None, typer.Option(envvar="KFED_JOIN_TOKEN", hidden=True)] = None,
    ticket_file: Annotated[
        Path | None,
        option("FILE", "Where to keep the proof that this site joined; by default named like the table.", "--ticket"),
    ] = None,
    wait: Annotated[bool, flag("--wait/--no-wait", "Whether to wait for the clusters.")] = True,
    timeout: Annotated[
        float | None, option("SECONDS", "How long to wait for the clusters; by default without limit.", min=0)
    ] = None,
    patience: Patience = 300.0,
    replace: Annotated[
        bool, flag("--replace", "Replace what this site sent before; the difference can reveal single rows.")
    ] = False,
    yes: Annotated[bool, flag("--yes", "With --replace: do not ask for confirmation.")] = False,
    cafile: CaFile = None,
    insecure: Insecure = False,
    force: Force = False,
    as_json: Json = False,
) -> None:
    """Cluster the rows of this site, send a few centers to a coordinator, wait, and label the rows.

    No row is sent: the message holds the mean, the size and the spread of groups of at least --min-cluster-size rows.
    `kfed device` and `kfed inspect` show it beforehand. The command may be stopped and run again at any time: nothing
    is sent twice.
    """
    from kfed.coordinator.client import DeviceClient, Ticket

    ticket_path = Path(f"{table_stem(data)}.ticket") if ticket_file is None else ticket_file
    local_path = ticket_path.with_suffix(".local")
    if wait and output is None:
        raise InvalidInputError("waiting for the labels needs a file for them: add -o FILE, or --no-wait")
    if replace and not yes:
        _ask_to_replace()
    inputs = [path for path in (data, site.scale, token_file, cafile) if path is not None]
    claim([output] if output is not None else [], inputs=inputs, force=force)
    claim([ticket_path], inputs=inputs, force=True)
    join_token = _token(token, token_file)
    asked = Ticket.new(url, federation, site.name(data), cafile, insecure)
    with asked.line(patience, tell=note) as line:
        terms = DeviceClient(line, federation, site.name(data), "").terms(join_token)
        _check_promise(terms, site.epsilon)
        tell_of(fetched := about_fetched_scale(federation, terms.schema, site))
        site = _as_agreed(federation, terms, site, data)
        before = None if replace else site.released_before(data, local_path)
        keeps_local = not wait or site.epsilon is not None
        is_again = force or ticket_path.exists() or before is not None
        claim([local_path] if keeps_local else [], inputs=inputs, force=is_again)
        how = site.how(data, as_is=None if terms.takes_tables else True)
        kept = cluster_file(data, **how) if site.epsilon is None else before or _released(data, site, how, local_path)
        check_identifiers(federation, terms.names or (), kept)
        tell_of(kept.notices)  # before anything is sent, and not after a long wait
        with Ticket.for_device(ticket_path, asked, force=force) as ticket:
            client = ticket.client(line)
            answer = client.send(kept.to_message(), join_token, replace=replace)
        if not wait:
            files.write(local_path, kept.to_bytes(), private=True)
        elif not isinstance(answer, Identity):
            answer = _wait(client, answer, timeout)
        again = None
        if wait and isinstance(answer, Identity) and client.found.get("rounds_asked", terms.rounds) > 1:
            answer, again = send_second(client, kept, ticket_path, data, site.scale, timeout)
    tell_of(client.notices)
    notices = [*fetched, *kept.notices, *client.notices]
    if isinstance(answer, Identity) and output is not None:
        rows, by_group = rows_if_there(kept, [data], site.scale) if again is None else (again.values, [])
        labels = kept.labels(answer, rows)
        tell_of(late := [*by_group, *about_hidden(kept, answer, rows, terms.min_devices_shown)])
        notices += late
        files.write(output, kept.labels_csv(labels).encode(), overwrite=force, private=True)
        tell_labels(kept, answer, labels, output, notices, as_json=as_json, found=client.found)
    else:
        tell_of(missing := not_sent(client, ticket_path, terms.rounds))
        _say_sent(kept, answer, ticket_path, local_path, [*notices, *missing], as_json=as_json)


@app.command(epilog="`kfed leave north.ticket`")
def leave(
    ticket: Annotated[Path, typer.Argument(metavar="TICKET", help="The .ticket that `kfed join` kept.")],
    patience: Patience = 300.0,
    as_json: Json = False,
) -> None:
    """Leave a federation: the clusters become what they would be if this site had never joined."""
    from kfed.coordinator.client import CLUSTERING_SECONDS, Ticket

    kept = Ticket.load(ticket)
    with kept.line(patience, CLUSTERING_SECONDS, note) as line:
        kept.leave(ticket, line)
    facts = {"device_id": kept.device_id, "federation": kept.federation, "left": True}
    print_json(facts) if as_json else say(f"{escape(kept.device_id)} has left {escape(kept.federation)}")


def _as_agreed(federation: str, terms: Terms, site: SiteOptions, data: Path) -> SiteOptions:
    """How this site reads its table, by what the federation was created with."""
    if terms.schema is not None:
        return by_schema_of(federation, terms.schema, site)
    if terms.names is not None:
        return by_columns_of(federation, terms.names, site, data, as_is=not terms.takes_tables)
    return site


def _check_promise(terms: Terms, epsilon: float | None) -> None:
    """Raise before a message is made that would promise too little, or something that it cannot promise."""
    if terms.rounds > 1 and epsilon is not None:
        raise InvalidInputError(
            "this federation asks for a second message, which is never private; leave out --epsilon"
        )
    if terms.max_epsilon is not None and (epsilon is None or epsilon > terms.max_epsilon):
        raise InvalidInputError(
            f"this federation takes differentially private messages alone; add --epsilon {terms.max_epsilon:g}, or less"
        )


def _released(data: Path, site: SiteOptions, how: dict[str, Any], local_path: Path) -> LocalFile:
    """A private release, kept before it is sent: if sending fails, the same release is sent the next time."""
    kept = release_file(data, budget=site.budget, **how)
    files.write(local_path, kept.to_bytes(), private=True)
    return kept


def _ask_to_replace() -> None:
    """Say what a second message may reveal, and stop unless the caller agrees."""
    note(
        "whoever has the previous message can subtract it from the new one: if few rows were added, changed or "
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
    so_far = remark = ""
    while True:
        if (answer.so_far, answer.remark) != (so_far, remark):
            note(f"sent; {answer.so_far if answer.remark == remark else answer.in_words}")
            so_far, remark = answer.so_far, answer.remark
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
    is_last = all(notice.code != "second message" for notice in notices)  # else the notice says what to do later
    say(
        f"sent the centers of {escape(repr(kept.device_id))}; {escape(words)}",
        *([f"  [yellow]later[/]  {escape(later)}"] if is_last else []),
    )
