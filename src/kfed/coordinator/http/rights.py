"""Which of the three rights a request has: admin, join, or that of one device; and who may watch."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any

from fastapi.routing import APIRoute
from starlette.requests import Request
from starlette.responses import Response

from kfed._base.checks import MAX_NAME_LENGTH
from kfed.coordinator.core import Coordinator, Live
from kfed.coordinator.federation import NO_FEDERATION
from kfed.coordinator.http.body import Body
from kfed.coordinator.http.hosts import came_directly
from kfed.coordinator.http.pictures import Pictures
from kfed.coordinator.http.readiness import Readiness
from kfed.coordinator.http.responses import ADMIN
from kfed.coordinator.http.results import ClusterResults
from kfed.coordinator.http.shield import BODY
from kfed.coordinator.http.viewers import Viewers
from kfed.coordinator.http.wrong_tokens import WrongTokens
from kfed.coordinator.names import SECRET_HEADER
from kfed.coordinator.problems import ProblemError
from kfed.coordinator.security import matches

MAX_JSON_BYTES = 2**22
"""Parsing JSON takes time in which nobody else is answered."""


@dataclass
class Desk:
    """What the routes share: the coordinator, the hash of the admin token, and who else may watch."""

    coordinator: Coordinator
    admin_token_hash: bytes
    open_to_loopback: bool
    pictures: Pictures
    results: ClusterResults
    readiness: Readiness
    viewers: Viewers = field(default_factory=Viewers)
    wrong_tokens: WrongTokens = field(default_factory=WrongTokens)


class GuardedRoute(APIRoute):
    """A route that looks at the admin token before it reads the body; FastAPI's own reads and parses the body first."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """The handler, behind the check."""
        handle = super().get_route_handler()
        if (self.openapi_extra or {}).get("security") != ADMIN["security"] or set(self.methods or ()) <= {
            "GET",
            "HEAD",
        }:
            return handle

        async def guarded(request: Request) -> Response:
            require_admin(request)
            body: Body = request.scope[BODY]
            body.limit(min(body.max_bytes, MAX_JSON_BYTES), "a request in JSON")
            return await handle(request)

        return guarded


def desk(request: Request) -> Desk:
    """The desk of the application that serves this request."""
    found: Desk = request.app.state.desk
    return found


def require_admin(request: Request) -> str:
    """The admin token. Raises unless the request has it."""
    token = _bearer(request)
    if token is None or not is_admin(request):
        raise _refused(request, "this requires the admin token of the coordinator")
    return token


def is_admin(request: Request) -> bool:
    """Whether the request has the admin token."""
    return matches(_bearer(request), desk(request).admin_token_hash)


def administer(request: Request, name: str) -> Live:
    """The federation of this name, for requests with the admin token."""
    require_admin(request)
    return known(request, name)


async def join(request: Request, name: str, device_id: str) -> tuple[Live, str | None]:
    """The federation of this name, and the invitation that the request came by, if it was not the join token.

    Whoever has neither does not learn whether the federation exists, not even by the time that it takes.
    """
    coordinator, token = desk(request).coordinator, _bearer(request)
    live = coordinator.find(name)
    if matches(token, live.federation.join_token_hash if live else None) and live is not None:
        return live, None
    is_worth_a_look = token is not None and device_id.isprintable()
    if is_worth_a_look and await coordinator.is_invited(live, device_id[:MAX_NAME_LENGTH], token) and live is not None:
        return live, token
    detail = f"no federation {name[:63]!r}, or a wrong token: pass its join token or this device's invitation"
    raise _refused(request, f"{detail}; ask its administrator")


async def own(request: Request, name: str, device_id: str, *, join_is_enough: bool) -> Live:
    """The federation of a device, for requests that may act for that device; others do not learn whether it exists.

    These have its device secret or the admin token; for reading, the join token is enough if the device has no secret.
    Whoever has no token at all is refused before the store is read. For others it is read in any case, and never the
    message, so that the time which this takes does not tell whether there is such a federation, or such a device.
    """
    detail = f"only the device itself, with its secret ({SECRET_HEADER}), and the administrator may do this"
    if _has_no_token(request):
        raise _refused(request, detail)
    if not device_id.isprintable():
        raise ProblemError(422, "a device id has printable characters only")
    coordinator = desk(request).coordinator
    live = coordinator.find(name)
    federation_id = NO_FEDERATION if live is None else live.federation.id
    secret = await coordinator.read(coordinator.store.secret_of, federation_id, device_id)
    return _owned(request, name, None if secret is None else secret.hash, join_is_enough, detail)


def _owned(request: Request, name: str, secret_hash: bytes | None, join_is_enough: bool, detail: str) -> Live:
    """The federation, after the same comparisons whatever there is to compare with."""
    live = desk(request).coordinator.find(name)
    is_device = matches(request.headers.get(SECRET_HEADER), secret_hash)
    may_join = matches(_bearer(request), live.federation.join_token_hash if live else None)
    if is_admin(request):
        return known(request, name)
    if live is not None and (is_device or (join_is_enough and secret_hash is None and may_join)):
        return live
    raise _refused(request, detail)


def look(request: Request) -> None:
    """Raise unless the request may see what the page shows."""
    is_open = desk(request).open_to_loopback and came_directly(request.scope)
    if not is_open and not desk(request).viewers.knows(_bearer(request)):
        require_admin(request)


def exchange(request: Request) -> str:
    """A token for watching, in exchange for the code of a link."""
    token = desk(request).viewers.admit(_bearer(request))
    if token is None:
        raise _refused(request, "this link was used before or has expired; use the admin token, or a new link")
    return token


def known(request: Request, name: str) -> Live:
    """The federation of this name. Raises if there is none."""
    live = desk(request).coordinator.find(name)
    if live is None:
        raise ProblemError(404, f"there is no federation {name[:63]!r}")
    return live


def _bearer(request: Request) -> str | None:
    kind, _, token = request.headers.get("authorization", "").partition(" ")
    return token.strip() if kind.lower() == "bearer" and token else None


def _has_no_token(request: Request) -> bool:
    return _bearer(request) is None and SECRET_HEADER not in request.headers


def _refused(request: Request, detail: str) -> ProblemError:
    if _has_no_token(request):
        return ProblemError(
            401, f"no token was sent as 'Authorization: Bearer ...': {detail}", {"WWW-Authenticate": "Bearer"}
        )
    seconds = desk(request).wrong_tokens.count(request.client.host if request.client else "")
    if seconds:
        wait = {"Retry-After": str(seconds), "Connection": "close"}
        return ProblemError(429, "too many wrong tokens came from this address; check the token and wait", wait)
    return ProblemError(403, detail)
