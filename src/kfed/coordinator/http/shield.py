"""The first stop of every request: checks its host name, limits its body, and answers every error."""

from __future__ import annotations

import logging
import traceback
from typing import Any

from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from kfed.coordinator import problems
from kfed.coordinator.core import Measures
from kfed.coordinator.http.body import Bodies, Body
from kfed.coordinator.http.hosts import HostNames
from kfed.coordinator.problems import ProblemError
from kfed.errors import KFedError

log = logging.getLogger("kfed.coordinator")

ROUTING = {
    404: "nothing is at this address; /docs lists the API",
    405: "this address does not support this method; /docs lists the API",
}

FOR_ANY_NAME = ("/healthz", "/readyz")
"""What a load balancer asks, by whatever name; the answers hold no data."""

MIN_BYTES_AT_ONCE = 2**26

BODY = "kfed.body"
"""Where the scope of a request has its `Body`."""

SECURITY_HEADERS = [
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cache-control", b"no-store"),
]


class Shield:
    """Refuses requests for other host names and bodies that are too large; answers errors without a stack trace."""

    def __init__(self, app: ASGIApp, names: HostNames, max_bytes: int, measures: Measures) -> None:
        self._app = app
        self._names = names
        self._max_bytes = max_bytes
        self._bodies = Bodies(max(4 * max_bytes, MIN_BYTES_AT_ONCE))
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

        body = None
        try:
            if scope["path"] not in FOR_ANY_NAME:
                self._names.check(scope)
            body = scope[BODY] = Body(scope, receive, self._max_bytes, self._bodies)
            await self._app(scope, body.receive, watched_send)
        except Exception as error:
            if begun:
                log.error("a response could not be sent to its end: %s", _where(error))
                return
            await _send_problem(as_problem(error), watched_send)
        finally:
            if body is not None:
                body.release()


def as_problem(error: Exception) -> ProblemError:
    """The problem to answer an exception with."""
    if isinstance(error, ProblemError):
        return error
    if isinstance(error, HTTPException):
        return ProblemError(error.status_code, ROUTING.get(error.status_code, str(error.detail)), error.headers)
    if isinstance(error, KFedError):
        return ProblemError(422, str(error))
    log.error("internal error while handling a request: %s", _where(error))
    return ProblemError(500, "the coordinator failed; its log says where")


async def _send_problem(problem: ProblemError, send: Any) -> None:
    body = problem.to_bytes()
    headers = {"content-type": problems.MEDIA_TYPE, "content-length": str(len(body)), **problem.headers}
    pairs = [(name.lower().encode("latin-1"), value.encode("latin-1")) for name, value in headers.items()]
    await send({"type": "http.response.start", "status": problem.status, "headers": pairs})
    await send({"type": "http.response.body", "body": body})


def _where(error: BaseException) -> str:
    """The type of an error and the line that raised it; no values, no tokens, no stack."""
    frames = traceback.extract_tb(error.__traceback__)
    return f"{type(error).__name__} at {frames[-1].filename}:{frames[-1].lineno}" if frames else type(error).__name__
