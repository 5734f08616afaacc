"""What stands before every request: a limit on its body before it is read, and an end to every error."""

from __future__ import annotations

import logging
import traceback
from typing import Any

from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from kfed.coordinator import problems
from kfed.coordinator.core import Measures
from kfed.coordinator.problems import ProblemError
from kfed.errors import KFedError

log = logging.getLogger("kfed.coordinator")

ROUTING = {
    404: "there is nothing at this address; /docs lists what there is",
    405: "this address does not know this method; /docs lists what there is",
}

SECURITY_HEADERS = [
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cache-control", b"no-store"),
]


class Shield:
    """Refuses bodies that are too large, and turns whatever is raised behind it into a problem, without a stack."""

    def __init__(self, app: ASGIApp, max_bytes: int, measures: Measures) -> None:
        self._app = app
        self._max_bytes = max_bytes
        self._measures = measures

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        begun = False

        async def watched_send(message: Message) -> None:
            nonlocal begun
            if message["type"] == "http.response.start":
                begun = True
                message.setdefault("headers", []).extend(SECURITY_HEADERS)
                self._measures.answers.labels(message["status"]).inc()
            await send(message)

        try:
            self._check_length(scope)
            await self._app(scope, self._limited(receive), watched_send)
        except Exception as error:
            if begun:
                log.error("an answer broke off: %s", _where(error))
                return
            await _send_problem(as_problem(error), watched_send)

    def _check_length(self, scope: Scope) -> None:
        """Refuse a body that says itself that it is too large."""
        said = dict(scope["headers"]).get(b"content-length", b"0")
        if not said.isdigit() or int(said[:20]) > self._max_bytes:
            raise self._too_large()

    def _limited(self, receive: Receive) -> Receive:
        """Refuse a body that turns out to be too large."""
        n_bytes = 0

        async def limited() -> Message:
            nonlocal n_bytes
            message = await receive()
            n_bytes += len(message.get("body", b""))
            if n_bytes > self._max_bytes:
                raise self._too_large()
            return message

        return limited

    def _too_large(self) -> ProblemError:
        return ProblemError(413, f"a request may have at most {self._max_bytes:,} bytes")


def as_problem(error: Exception) -> ProblemError:
    """The answer to whatever was raised."""
    if isinstance(error, ProblemError):
        return error
    if isinstance(error, HTTPException):
        return ProblemError(error.status_code, ROUTING.get(error.status_code, str(error.detail)), error.headers)
    if isinstance(error, KFedError):
        return ProblemError(422, str(error))
    log.error("a request failed: %s", _where(error))
    return ProblemError(500, "the coordinator failed, and says in its log where")


async def _send_problem(problem: ProblemError, send: Any) -> None:
    body = problem.to_bytes()
    headers = {"content-type": problems.MEDIA_TYPE, "content-length": str(len(body)), **problem.headers}
    pairs = [(name.lower().encode("latin-1"), value.encode("latin-1")) for name, value in headers.items()]
    await send({"type": "http.response.start", "status": problem.status, "headers": pairs})
    await send({"type": "http.response.body", "body": body})


def _where(error: BaseException) -> str:
    """The kind of an error and the line it came from: no values, no tokens, no stack."""
    frames = traceback.extract_tb(error.__traceback__)
    return f"{type(error).__name__} at {frames[-1].filename}:{frames[-1].lineno}" if frames else type(error).__name__
