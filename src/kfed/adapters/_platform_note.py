"""`AskedNote`: a site of a platform sends one message about a table, and keeps a note of it.

Two different messages about the same rows can be subtracted, and the difference can be one row. So a site answers the
same question by the same message as often as it is asked, and any other only when its operator has removed the note.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from kfed.errors import InvalidInputError

ENDING = ".asked"


class RefusedError(InvalidInputError):
    """The site does not do what a task asks for; the text says nothing about its table."""


class AskedNote:
    """What a site was asked about a table, and the digest of what it sent.

    Parameters
    ----------
    path : path
        The file; the folder must be there. A folder made here could be gone after this task, and the note with it.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)

    def check(self, site: str, options: Mapping[str, Any]) -> None:
        """Raise if another question was answered before; call it before the table is read."""
        if not self.path.parent.is_dir():
            raise RefusedError(
                "KFED_ASKED must be an existing folder that stays when a task is over; nothing is sent, since the "
                "site cannot note what it was asked"
            )
        noted = self._noted()
        if noted is not None and {name: noted.get(name) for name in ("site", "options")} != _plain(site, options):
            raise RefusedError(
                "this site has answered another question about its table, and both answers together could reveal "
                "single rows; ask as before, with the same name and options, or let its operator remove the note "
                "(KFED_ASKED)"
            )

    def keep(self, site: str, options: Mapping[str, Any], digest: str) -> None:
        """Note a message before it leaves; raise if another one was sent before."""
        note = json.dumps(_plain(site, options) | {"message": digest}, indent=2)
        try:
            # Whoever creates the file is first. A note that is not complete is refused like another.
            descriptor = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        except FileExistsError:
            self._check_same(site, options, digest)
            return
        except OSError as error:
            raise RefusedError(
                "KFED_ASKED must be a folder that this site can write to; nothing is sent, since it cannot note what "
                "it was asked"
            ) from error
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(note)
            file.flush()
            os.fsync(file.fileno())

    def _check_same(self, site: str, options: Mapping[str, Any], digest: str) -> None:
        self.check(site, options)
        if (self._noted() or {}).get("message") != digest:
            raise RefusedError(
                "the table, or how it is read, has changed since this site sent its message, and both messages "
                "together could reveal single rows; its operator can remove the note (KFED_ASKED)"
            )

    def _noted(self) -> dict[str, Any] | None:
        try:
            noted = json.loads(self.path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            return None
        except (OSError, ValueError, RecursionError):
            noted = None
        if not isinstance(noted, dict):
            raise RefusedError(
                "the note of what this site was asked cannot be read; its operator can remove it (KFED_ASKED)"
            )
        return noted


def _plain(site: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """The question as it is after JSON."""
    plain: dict[str, Any] = json.loads(json.dumps({"site": site, "options": dict(options)}))
    return plain
