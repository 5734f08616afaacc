"""The kinds of kfed files, told apart by what is in them; and a folder of messages as it comes in."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from kfed import _files
from kfed.errors import DuplicateDeviceError, MessageError
from kfed.identity import Identity
from kfed.local_file import LocalFile
from kfed.message import DeviceMessage
from kfed.server import Aggregation

KINDS: dict[str, type[Any]] = {
    "message": DeviceMessage,
    "aggregation": Aggregation,
    "identity": Identity,
    "local file": LocalFile,
}

_WRITERS = {
    "message": "a message (from `kfed device`)",
    "aggregation": "an aggregation (from `kfed aggregate`)",
    "identity": "an identity (from `kfed aggregate --identities` or `kfed assign -o`)",
    "local file": "a local file (from `kfed device`, kept at the site)",
}


def kind_of(payload: bytes) -> str:
    """Tell what a file holds: a key of `KINDS`. Raises `MessageError` if it is none of them."""
    tensors, facts = _files.decode(payload)
    kind = "message" if any(name.startswith("kfed") for name in tensors) else str(facts.get("kind"))
    if kind not in KINDS:
        raise MessageError("this is not a kfed file")
    return kind


def load(path: str | os.PathLike[str], *expected: type[Any]) -> Any:
    """Read a kfed file of one of the expected kinds, by default of any.

    Returns
    -------
    DeviceMessage, Aggregation, Identity or LocalFile
    """
    return _files.naming(path, lambda: _decode(_files.read(path), expected))


@dataclass(frozen=True)
class Inbox:
    """The messages of several files.

    Attributes
    ----------
    messages : tuple of DeviceMessage
        One a device.
    paths : tuple of path
        The file that each message came from.
    repeated : tuple of path
        Files that say again what another file says.
    skipped : tuple of (path, reason)
        Files that could not be used.
    """

    messages: tuple[DeviceMessage, ...]
    paths: tuple[str | os.PathLike[str], ...]
    repeated: tuple[str | os.PathLike[str], ...]
    skipped: tuple[tuple[str | os.PathLike[str], str], ...]


def read_messages(paths: Iterable[str | os.PathLike[str]], *, skip_bad: bool = False) -> Inbox:
    """Read one message a file; the same message twice counts once.

    Parameters
    ----------
    paths : iterable of path
        The files.
    skip_bad : bool
        Leave out, and report, files that are not sound messages. Two sound files that contradict each other
        are an error still: only a person knows which is meant.
    """
    found: dict[str, tuple[DeviceMessage, str | os.PathLike[str]]] = {}
    repeated, skipped = [], []
    for path in paths:
        try:
            message = load(path, DeviceMessage)
        except (MessageError, OSError) as error:
            if not skip_bad:
                raise
            skipped.append((path, reason_of(error)))
            continue
        first, first_path = found.setdefault(message.device_id, (message, path))
        if first != message:
            raise DuplicateDeviceError(
                f"{first_path} and {path} are two different messages from device {message.device_id!r}; "
                "keep the one that is meant, or give one of the devices another id"
            )
        if first is not message:
            repeated.append(path)
    messages, used = zip(*found.values(), strict=True) if found else ((), ())
    return Inbox(messages, used, tuple(repeated), tuple(skipped))


def reason_of(error: Exception) -> str:
    """Put an error in one sentence that names the file."""
    if isinstance(error, OSError) and error.filename is not None:
        return f"{error.filename}: {(error.strerror or type(error).__name__).lower()}"
    return str(error)


def _decode(payload: bytes, expected: tuple[type[Any], ...]) -> Any:
    kind = kind_of(payload)
    if expected and KINDS[kind] not in expected:
        wanted = " or ".join(_WRITERS[name] for name, type_ in KINDS.items() if type_ in expected)
        article = _WRITERS[kind].partition(" (")[0]
        raise MessageError(f"this is {article}, not {wanted}; leave it out, or give the file that is meant")
    return KINDS[kind].from_bytes(payload)
