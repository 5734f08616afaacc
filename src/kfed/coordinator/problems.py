"""What is answered when a request cannot be served: an RFC 9457 problem in JSON that says what was wrong."""

from __future__ import annotations

import json
from collections.abc import Mapping

from kfed.errors import KFedError

MEDIA_TYPE = "application/problem+json"

TITLES = {
    400: "The request cannot be read",
    401: "A token is needed",
    403: "The token does not give this right",
    404: "There is no such thing",
    405: "This cannot be done here",
    409: "It contradicts what is there",
    413: "The request is too large",
    422: "The request is not sound",
    500: "The coordinator failed",
    503: "The store cannot be used right now",
}


class ProblemError(KFedError):
    """A request that is refused, with the status and the words of the answer."""

    def __init__(self, status: int, detail: str, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(detail)
        self.status = status
        self.detail = detail
        self.headers = dict(headers or {})

    def to_bytes(self) -> bytes:
        """The body of the answer.

        Examples
        --------
        >>> json.loads(ProblemError(404, "no federation of this name").to_bytes())["title"]
        'There is no such thing'
        """
        title = TITLES.get(self.status, "The request was refused")
        return json.dumps(
            {"type": "about:blank", "title": title, "status": self.status, "detail": self.detail}
        ).encode()


class StoreUnavailableError(ProblemError):
    """The database cannot be used right now; nothing of the request was kept, and it may be sent again."""

    def __init__(self, reason: str) -> None:
        super().__init__(
            503,
            f"the store cannot be used right now ({reason}); nothing was kept of this request, send it again",
            {"Retry-After": "2"},
        )
