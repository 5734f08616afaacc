"""The one place that checks how large the body of a request is: by what it says of itself, and as it arrives."""

from __future__ import annotations

from starlette.types import Message, Receive, Scope

from kfed.coordinator.problems import ProblemError


def limited(scope: Scope, receive: Receive, max_bytes: int, what: str) -> Receive:
    """Receive a body of at most `max_bytes`.

    Raises a problem 413 that begins with `what`: at once if the request declares more, and else as soon as more
    arrives.
    """
    too_large = ProblemError(413, f"{what} may have at most {max_bytes:,} bytes")
    declared = dict(scope["headers"]).get(b"content-length", b"0")
    if not declared.isdigit() or int(declared[:20]) > max_bytes:
        raise too_large
    n_bytes = 0

    async def receive_limited() -> Message:
        nonlocal n_bytes
        message = await receive()
        n_bytes += len(message.get("body", b""))
        if n_bytes > max_bytes:
            raise too_large
        return message

    return receive_limited
