"""`Ticket`: what a device keeps after joining: the coordinator, its name there, and its device secret."""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path

from kfed._base import files
from kfed.coordinator.client.line import TIMEOUT_SECONDS, DeviceClient, Line
from kfed.coordinator.security import new_token
from kfed.errors import InvalidInputError, MessageError

KIND = "kfed ticket"


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

    @classmethod
    def for_device(cls, path: Path, asked: Ticket) -> Ticket:
        """Save the ticket that is asked for, with the secret of the ticket in the file if there is one already."""
        if path.exists():
            kept = cls.load(path)
            if (kept.federation, kept.device_id) != (asked.federation, asked.device_id):
                raise InvalidInputError(
                    f"{path} is the ticket of {kept.device_id!r} in {kept.federation!r}, not of {asked.device_id!r} in "
                    f"{asked.federation!r}; give another file with --ticket"
                )
            asked = cls(**{**asdict(asked), "secret": kept.secret})
        files.write(path, asked.to_bytes(), private=True)
        return asked

    @classmethod
    def new(cls, url: str, federation: str, device_id: str, cafile: Path | None, insecure: bool) -> Ticket:
        """A ticket with a new secret."""
        trusted = None if cafile is None else os.path.abspath(cafile)
        return cls(url, federation, device_id, new_token(), trusted, insecure)

    def line(self, patience: float, timeout: float = TIMEOUT_SECONDS) -> Line:
        """A connection to the coordinator."""
        cafile = None if self.cafile is None else Path(self.cafile)
        return Line(self.url, cafile=cafile, insecure=self.insecure, patience=patience, timeout=timeout)

    def client(self, line: Line) -> DeviceClient:
        """The device, on this connection."""
        return DeviceClient(line, self.federation, self.device_id, self.secret)

    def to_bytes(self) -> bytes:
        """The ticket as JSON."""
        return (json.dumps({"kind": KIND, **asdict(self)}, indent=2) + "\n").encode()

    @classmethod
    def from_bytes(cls, payload: bytes) -> Ticket:
        """Read what `to_bytes` wrote. Raises `MessageError` if it is not a ticket."""
        try:
            facts = json.loads(payload)
            if facts.pop("kind") != KIND:
                raise ValueError("another kind")
            return cls(**facts)
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise MessageError("this is not a ticket; give the .ticket file that `kfed join` wrote") from error

    @classmethod
    def load(cls, path: Path) -> Ticket:
        """Read a ticket from a file; an error names the file."""
        return files.naming(path, lambda: cls.from_bytes(files.read(path)))
