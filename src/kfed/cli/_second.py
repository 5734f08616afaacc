"""The second message of `kfed join`: made and sent while the site waits, once for each ticket."""

from __future__ import annotations

import random
import time
from pathlib import Path
from typing import TYPE_CHECKING

from kfed._base import files
from kfed.cli._terminal import note
from kfed.site import LocalFile, Table, refine_file
from kfed.wire import Identity, Notice, load

if TYPE_CHECKING:
    from kfed.coordinator.client import DeviceClient

SECONDS_BETWEEN = 2.0


def is_asked_for_second(client: DeviceClient, rounds: int = 1) -> bool:
    """Whether the clusters wait for a second message of this site: by what was found, or the terms if nothing was.

    A site that came late is not asked, as the clusters are not made of its message.
    """
    return bool(client.found.get("rounds_asked", rounds) > 1 and client.found.get("rounds", 1) < 2)


def not_sent(client: DeviceClient, ticket: Path, rounds: int = 1) -> list[Notice]:
    """Say that a federation of two rounds waits for the second message of this site, and how it is sent."""
    if not is_asked_for_second(client, rounds) or ticket.with_suffix(".second").exists():
        return []
    text = (
        "this federation asks for a second message, which this site has not sent: when there are clusters, run "
        "`kfed join` again with -o FILE, and without --no-wait; it sends the second message, and labels the rows by "
        "the refined clusters"
    )
    return [Notice("second message", text)]


def send_second(
    client: DeviceClient, kept: LocalFile, ticket: Path, data: Path, scale: Path | None, timeout: float | None
) -> tuple[Identity, Table]:
    """Send the second message, wait until the clusters are refined, and give the answer and the rows to label by it.

    The file beside the ticket remembers the message. If other devices leave before all have sent theirs, the clusters
    change; then there is no second message about the new ones, since the difference of two could tell of single rows.
    """
    path, rows = ticket.with_suffix(".second"), kept.read_rows(data, scale)
    answer, rounds = _asked(client)
    if rounds > 1:
        return answer, rows
    if path.exists():
        second: LocalFile = load(path, LocalFile)
    else:
        _, second = refine_file(kept, data, answer, scale=scale)
        files.write(path, second.to_bytes(), private=True)  # before it is sent: there is never another one
    from kfed.coordinator.client import CoordinatorError

    try:
        client.send_second(second.to_message())
    except CoordinatorError as error:
        if error.status != 409:
            raise
        note(f"no second message was sent: {error}")
        return _asked(client)[0], rows
    return _refined(client, answer, timeout), rows


def _refined(client: DeviceClient, before: Identity, timeout: float | None) -> Identity:
    """Wait until the clusters are refined, or made anew, or the time is over."""
    given_up_at = None if timeout is None else time.monotonic() + timeout
    said = False
    while True:
        answer, rounds = _asked(client)
        is_new = not said and rounds < 2
        if rounds > 1 or answer != before:
            return answer
        if given_up_at is not None and time.monotonic() > given_up_at:
            note("not all sites have sent their second message; the labels are those of one round")
            return answer
        if is_new:
            note("sent a second message; waiting for those of the other sites")
            said = True
        time.sleep(SECONDS_BETWEEN * random.uniform(0.8, 1.2))


def _asked(client: DeviceClient) -> tuple[Identity, int]:
    from kfed.coordinator.client import CoordinatorError

    answer, rounds = client.identity_and_round()
    if not isinstance(answer, Identity):
        raise CoordinatorError(f"{answer.in_words}; run the same command again later")
    return answer, rounds
