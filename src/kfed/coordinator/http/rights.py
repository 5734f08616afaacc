"""Which of the three rights a request has: admin, join, or that of one device."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass

from starlette.requests import Request

from kfed._base.checks import MAX_NAME_LENGTH
from kfed.coordinator.core import Coordinator, Live
from kfed.coordinator.names import SECRET_HEADER
from kfed.coordinator.problems import ProblemError
from kfed.coordinator.security import matches
from kfed.coordinator.store import Device


@dataclass
class Desk:
    """What the routes share: the coordinator, the hash of the admin token, and whether loopback needs no token."""

    coordinator: Coordinator
    admin_token_hash: bytes
    open_to_loopback: bool


def desk(request: Request) -> Desk:
    """The desk of the application that serves this request."""
    found: Desk = request.app.state.desk
    return found


def require_admin(request: Request) -> str:
    """The admin token. Raises unless the request has it."""
    token = _bearer(request)
    if token is None or not matches(token, desk(request).admin_token_hash):
        raise _refused(request, "this requires the admin token of the coordinator")
    return token


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
    raise _refused(request, f"there is no federation {name[:63]!r}, or this is not its join token")


def own(request: Request, name: str, device: Device | None, *, join_is_enough: bool) -> Live:
    """The federation of this name, for requests that may act for one of its devices.

    These have its device secret or the admin token; for reading, the join token is enough if the device has no secret.
    """
    live = desk(request).coordinator.find(name)
    if matches(_bearer(request), desk(request).admin_token_hash):
        return known(request, name)
    if live is not None and device is not None and matches(request.headers.get(SECRET_HEADER), device.secret_hash):
        return live
    may_read = join_is_enough and (device is None or device.secret_hash is None)
    if live is not None and may_read and matches(_bearer(request), live.federation.join_token_hash):
        return live
    raise _refused(
        request, f"only the device itself, with its secret ({SECRET_HEADER}), and the administrator may do this"
    )


def look(request: Request) -> None:
    """Raise unless the request may see what the page shows; on loopback, every request may."""
    if desk(request).open_to_loopback and _is_loopback_name(request.url.hostname or ""):
        return
    require_admin(request)


def known(request: Request, name: str) -> Live:
    """The federation of this name. Raises if there is none."""
    live = desk(request).coordinator.find(name)
    if live is None:
        raise ProblemError(404, f"there is no federation {name[:63]!r}")
    return live


def _bearer(request: Request) -> str | None:
    kind, _, token = request.headers.get("authorization", "").partition(" ")
    return token.strip() if kind.lower() == "bearer" and token else None


def _refused(request: Request, detail: str) -> ProblemError:
    if _bearer(request) is None and SECRET_HEADER not in request.headers:
        return ProblemError(401, f"{detail}; send it as 'Authorization: Bearer ...'", {"WWW-Authenticate": "Bearer"})
    return ProblemError(403, detail)


def _is_loopback_name(host: str) -> bool:
    """Whether a request names a loopback host, and not a name that another site points at this machine."""
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
