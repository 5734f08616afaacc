"""`Audit`: who did what and when, as a line of JSON for each change and each refusal; and how long answers take.

A line names the route, the federation and the device, never a token, a secret or anything of a message. Every response
carries the id of its request, which the line has too.
"""

from __future__ import annotations

import json
import logging
import secrets
import sys
import time
from pathlib import Path
from typing import Any

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from kfed.coordinator.core import Measures
from kfed.coordinator.names import SECRET_HEADER
from kfed.coordinator.security import matches

log = logging.getLogger("kfed.coordinator.audit")
log.setLevel(logging.INFO)

REQUEST_ID = b"x-request-id"
REFUSED = (401, 403, 429)
STREAMS = {"events"}
"""Routes that answer for as long as somebody watches; their time says nothing."""

KINDS = {
    "send_message": "message",
    "ask_for_identity": "identity",
    "remove_device": "removal",
    "aggregate_federation": "aggregation",
    "health": "health",
    "ready": "health",
    "metrics": "health",
}
"""Routes whose time is worth a figure of its own."""


def log_to(path: Path) -> logging.Handler:
    """Append audit lines to a file that only its owner can read; ``-`` is the standard error."""
    if str(path) == "-":
        handler: logging.Handler = logging.StreamHandler(sys.stderr)
    else:
        path.touch(0o600)
        handler = logging.FileHandler(path, encoding="utf-8")
    handler.setFormatter(logging.Formatter("%(message)s"))
    log.addHandler(handler)
    return handler


class Audit:
    """Numbers requests, times them, and logs those that change something or are refused."""

    def __init__(self, app: ASGIApp, measures: Measures, admin_token_hash: bytes) -> None:
        self._app = app
        self._measures = measures
        self._admin_token_hash = admin_token_hash

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        number, started = secrets.token_hex(8), time.monotonic()

        async def numbered_send(message: Message) -> None:
            if message["type"] == "http.response.start":
                message.setdefault("headers", []).append((REQUEST_ID, number.encode()))
                self._note(scope, number, message["status"], time.monotonic() - started)
            await send(message)

        await self._app(scope, receive, numbered_send)
        route = _route(scope)
        if route not in STREAMS:
            self._measures.seconds.labels(KINDS.get(route, "other")).observe(time.monotonic() - started)

    def _note(self, scope: Scope, number: str, status: int, seconds: float) -> None:
        """Write a line before the response is sent, so that nobody knows of a change that the log does not."""
        is_worth_a_line = scope["method"] not in ("GET", "HEAD", "OPTIONS") or status in REFUSED
        if not is_worth_a_line or not log.hasHandlers():
            return
        named = scope.get("path_params") or {}
        line: dict[str, Any] = {
            "time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
            "request": number,
            "who": self._who(scope, status),
            "from": scope["client"][0] if scope.get("client") else None,
            "what": _route(scope),
            "federation": named.get("name"),
            "device": named.get("device_id"),
            "status": status,
            "seconds": round(seconds, 4),
        }
        log.info(json.dumps({name: value for name, value in line.items() if value is not None}))

    def _who(self, scope: Scope, status: int) -> str:
        """By what right a request came; the route has checked that right unless it refused the request."""
        headers = dict(scope["headers"])
        token = headers.get(b"authorization", b"").decode("latin-1").partition(" ")[2].strip()
        if token and matches(token, self._admin_token_hash):
            return "administrator"
        if status in REFUSED:
            return "nobody known"
        if SECRET_HEADER.encode() in headers:
            return "device"
        return "join token" if token else "nobody known"


def _route(scope: Scope) -> str:
    """The name of the function that answers a request."""
    return getattr(scope.get("endpoint"), "__name__", "none")
