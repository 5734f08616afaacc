"""`read_messages`: a folder of messages as it comes in, with repeated and unusable files told apart."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass

from kfed._base.files import reason_of
from kfed.errors import DuplicateDeviceError, InvalidInputError, MessageError
from kfed.wire import DeviceMessage, check_promise, load


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


def read_messages(
    paths: Iterable[str | os.PathLike[str]], *, skip_bad: bool = False, max_epsilon: float | None = None
) -> Inbox:
    """Read one message a file; the same message twice counts once.

    Parameters
    ----------
    paths : iterable of path
        The files.
    skip_bad : bool
        Leave out, and report, files that are not sound messages. Two sound files that contradict each other
        are an error still: only a person knows which is meant.
    max_epsilon : float, optional
        A message that does not promise differential privacy with this epsilon, or less, is not sound.
    """
    found: dict[str, tuple[DeviceMessage, str | os.PathLike[str]]] = {}
    repeated, skipped = [], []
    for path in paths:
        try:
            message = load(path, DeviceMessage)
            if max_epsilon is not None:
                check_promise(message.details and message.details.promise, max_epsilon, repr(message.device_id))
        except (MessageError, InvalidInputError, OSError) as error:
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
