"""Problems in JSON (RFC 9457): the response to a request that fails, and why it failed."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping

from kfed._base.text import plural
from kfed.errors import KFedError

MEDIA_TYPE = "application/problem+json"

TITLES = {
    400: "Bad request",
    401: "A token is required",
    403: "Not allowed",
    404: "Not found",
    405: "Method not allowed",
    408: "The request took too long",
    409: "Conflict",
    413: "The request is too large",
    421: "Misdirected request",
    422: "Invalid request",
    429: "Too many requests",
    431: "The head of the request is too large",
    500: "The coordinator failed",
    503: "Temporarily unavailable",
}


class ProblemError(KFedError):
    """A request fails, with this status and detail; `told` is the detail for devices, if it names some of them."""

    def __init__(self, status: int, detail: str, headers: Mapping[str, str] | None = None, *, told: str = "") -> None:
        super().__init__(detail)
        self.status = status
        self.detail = detail
        self.headers = dict(headers or {})
        self._told = told

    def for_device(self) -> ProblemError:
        """The same without names of devices."""
        return ProblemError(self.status, self._told, self.headers) if self._told else self

    def to_bytes(self) -> bytes:
        """The body of the response.

        Examples
        --------
        >>> json.loads(ProblemError(404, "no federation of this name").to_bytes())["title"]
        'Not found'
        """
        title = TITLES.get(self.status, "The request was refused")
        return json.dumps(
            {"type": "about:blank", "title": title, "status": self.status, "detail": self.detail}
        ).encode()


class StoreUnavailableError(ProblemError):
    """The database cannot be used right now, and the request may be sent again.

    Nothing of it was stored, unless `may_be_kept` is true: the database was asked to commit and did not confirm it.
    """

    def __init__(self, reason: str, *, may_be_kept: bool = False) -> None:
        outcome = "this request may or may not have been stored; send it again"
        if not may_be_kept:
            outcome = "nothing of this request was stored, so send it again"
        super().__init__(503, f"the store is not available ({reason}); {outcome}", {"Retry-After": "2"})
        self.reason = reason
        self.may_be_kept = may_be_kept


class DamagedMessagesError(ProblemError):
    """Messages in the store cannot be read, so no clusters can be made of them; `damage` says whose they are."""

    def __init__(self, damage: str) -> None:
        told = "stored messages cannot be read; the administrator sees whose, and how to mend that"
        super().__init__(503, damage, {"Retry-After": "60"}, told=told)
        self.damage = damage

    @classmethod
    def of(cls, device_ids: Collection[str]) -> DamagedMessagesError:
        """The error for messages of these devices."""
        some = ", ".join(map(repr, sorted(device_ids)[:5])) + (" and more" if len(device_ids) > 5 else "")
        return cls(
            f"{plural(len(device_ids), 'stored message')} cannot be read, of {some}; restore a backup, or remove what "
            "is damaged and aggregate again"
        )
