"""`Viewers`: a link that works once lets a browser watch, and nothing else."""

from __future__ import annotations

import time
from collections.abc import Callable

from kfed.coordinator.security import hashed, new_token

LINK_SECONDS = 600.0
VIEW_SECONDS = 12 * 3600.0
MAX_VIEWERS = 1_000


class Viewers:
    """Codes of links, which work once, and the tokens that they were exchanged for; both end with the process.

    Examples
    --------
    >>> viewers = Viewers()
    >>> code = viewers.invite()
    >>> token = viewers.admit(code)
    >>> viewers.knows(token), viewers.admit(code), viewers.knows(code)
    (True, None, False)
    """

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._links: dict[bytes, float] = {}
        self._tokens: dict[bytes, float] = {}

    def invite(self) -> str:
        """The code of a new link."""
        code = new_token()
        self._links[hashed(code)] = self._now() + LINK_SECONDS
        return code

    def admit(self, code: str | None) -> str | None:
        """A token in exchange for the code of a link, unless it was used or has expired."""
        if self._links.pop(hashed(code or ""), 0.0) <= self._now():
            return None
        while len(self._tokens) >= MAX_VIEWERS:
            del self._tokens[next(iter(self._tokens))]
        token = new_token()
        self._tokens[hashed(token)] = self._now() + VIEW_SECONDS
        return token

    def knows(self, token: str | None) -> bool:
        """Whether this token may watch."""
        return self._tokens.get(hashed(token or ""), 0.0) > self._now()
