"""`Ticket`: what a device keeps after joining: the coordinator, its name there, and its device secret."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from kfed._base import files
from kfed.coordinator.client.line import TIMEOUT_SECONDS, DeviceClient, Line
from kfed.coordinator.client.replies import CoordinatorError
from kfed.coordinator.security import new_token
from kfed.errors import InvalidInputError, MessageError

KIND = "kfed ticket"
HAS_LEFT = (403, 404)
"""How a coordinator answers a device that has left: it does not tell who has been there."""


@dataclass(frozen=True)
class Ticket:
    """A device's right to its own message, in a file that only its owner can read.

    Examples
    --------
    >>> ticket = Ticket("https://clinics.example", "clinics", "north", "s3cret-s3cret-s3cret")
    >>> Ticket.from_bytes(ticket.to_bytes()) == ticket
    True
    """

    url: str
    federation: str
    device_id: str
    secret: str
    cafile: str | None = None
    insecure: bool = False
    leaving: bool = False
    """Whether the device has asked to leave, and may have left."""

    @classmethod
    @contextmanager
    def for_device(cls, path: Path, asked: Ticket, *, force: bool = False) -> Iterator[Ticket]:
        """Save the ticket that is asked for, with the secret of the ticket in the file if there is one already.

        If the coordinator refuses what is done within, the file is as it was before.
        """
        before = path.read_bytes() if path.exists() else None
        if before is not None:
            kept = cls.load(path)
            if (kept.federation, kept.device_id) == (asked.federation, asked.device_id):
                asked = replace(asked, secret=kept.secret)
            elif not force:
                raise InvalidInputError(
                    f"{path} is the ticket of {kept.device_id!r} in {kept.federation!r}, not of {asked.device_id!r} in "
                    f"{asked.federation!r}; give another file with --ticket, or --force to discard it"
                )
        asked.save(path)
        try:
            yield asked
        except CoordinatorError as error:
            if error.status is not None and not error.was_lost:
                _restore(path, before)
            raise

    def save(self, path: Path) -> None:
        """Write the ticket to a file that only its owner can read."""
        files.write(path, self.to_bytes(), private=True)

    @classmethod
    def new(cls, url: str, federation: str, device_id: str, cafile: Path | None, insecure: bool) -> Ticket:
        """A ticket with a new secret."""
        trusted = None if cafile is None else os.path.abspath(cafile)
        return cls(url, federation, device_id, new_token(), trusted, insecure)

    def line(
        self, patience: float, timeout: float = TIMEOUT_SECONDS, tell: Callable[[str], None] = lambda _: None
    ) -> Line:
        """A connection to the coordinator."""
        cafile = None if self.cafile is None else Path(self.cafile)
        return Line(self.url, cafile=cafile, insecure=self.insecure, patience=patience, timeout=timeout, tell=tell)

    def leave(self, path: Path, line: Line) -> None:
        """Leave the federation; may be repeated if the answer was lost, also by another process."""
        replace(self, leaving=True).save(path)
        try:
            self.client(line).leave()
        except CoordinatorError as error:
            if error.status is not None and not error.was_lost and not self.leaving:
                self.save(path)  # it was refused, and nothing was asked before
                raise
            if error.status not in HAS_LEFT:
                raise

    def client(self, line: Line) -> DeviceClient:
        """The device, on this connection."""
        return DeviceClient(line, self.federation, self.device_id, self.secret)

    def to_bytes(self) -> bytes:
        """The ticket as JSON."""
        facts = asdict(self)
        if not self.leaving:  # which versions of kfed before this one do not know
            del facts["leaving"]
        return (json.dumps({"kind": KIND, **facts}, indent=2) + "\n").encode()

    @classmethod
    def from_bytes(cls, payload: bytes) -> Ticket:
        """Read what `to_bytes` wrote. Raises `MessageError` if it is not a ticket."""
        try:
            facts = json.loads(payload)
            if facts.pop("kind") != KIND:
                raise ValueError("another kind")
            facts.pop("browser", None)  # how the page at /join groups the same table again
            return cls(**facts)
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise MessageError("this is not a ticket; give the .ticket file that `kfed join` wrote") from error

    @classmethod
    def load(cls, path: Path) -> Ticket:
        """Read a ticket from a file; an error names the file."""
        return files.naming(path, lambda: cls.from_bytes(files.read(path)))


def _restore(path: Path, before: bytes | None) -> None:
    if before is None:
        path.unlink(missing_ok=True)
    else:
        files.write(path, before, private=True)
