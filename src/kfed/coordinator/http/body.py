"""Limits on the size of request bodies: of each, as declared and as it arrives, and of all together."""

from __future__ import annotations

from starlette.types import Message, Receive, Scope

from kfed.coordinator.problems import ProblemError

UNCOUNTED_BYTES = 2**16


class Bodies:
    """How much memory the bodies take up that are being read.

    The first 64 KiB of each are not counted: most messages have no more, and so no number of large bodies that somebody
    holds back keeps them out.
    """

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._n_bytes = 0

    def take(self, n_bytes: int) -> None:
        """Count bytes that arrived. Raises a problem 503 if there are too many."""
        if n_bytes > 0 and self._n_bytes + n_bytes > self._max_bytes:
            raise ProblemError(503, "too many large uploads; retry", {"Retry-After": "1"})
        self._n_bytes += n_bytes

    def release(self, n_bytes: int) -> None:
        """Stop counting these bytes."""
        self._n_bytes -= n_bytes


class Body:
    """The body of one request.

    Raises a problem 413 if it has more than `max_bytes`: at once if the request declares more, and else as soon as more
    arrives.
    """

    def __init__(self, scope: Scope, receive: Receive, max_bytes: int, bodies: Bodies) -> None:
        self._receive, self._bodies = receive, bodies
        self._n_bytes = self._n_counted = 0
        self._declared = _declared(scope)
        self.limit(max_bytes, "a request")

    def limit(self, max_bytes: int, what: str) -> None:
        """Allow at most `max_bytes`; an error calls the body `what`."""
        self.max_bytes = max_bytes
        self._too_large = ProblemError(413, f"{what} may have at most {max_bytes:,} bytes")
        if self._declared > max_bytes:
            raise self._too_large

    async def receive(self) -> Message:
        """The next part."""
        message = await self._receive()
        self._n_bytes += len(message.get("body", b""))
        if self._n_bytes > self.max_bytes:
            raise self._too_large
        n_more = self._n_bytes - UNCOUNTED_BYTES - self._n_counted
        if n_more > 0:
            self._bodies.take(n_more)
            self._n_counted += n_more
        return message

    def release(self) -> None:
        """Stop counting the bytes of this body."""
        self._bodies.release(self._n_counted)
        self._n_counted = 0


def _declared(scope: Scope) -> int:
    """What a request says of the size of its body; more digits than any size has are an error of the sender."""
    declared = dict(scope["headers"]).get(b"content-length", b"0")
    digits = declared.lstrip(b"0") or b"0"
    if not declared.isdigit():
        raise ProblemError(400, "Content-Length must be a whole number")
    return int(digits[:20])
