"""Routes of the administrator: federations, their join tokens, and invitations to them."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import FastAPI, Header, Request

from kfed.coordinator.core import Administration, Live
from kfed.coordinator.http import rights
from kfed.coordinator.http.refusals import FEDERATION, INVALID, STORE, TOKEN, refusals
from kfed.coordinator.http.responses import ADMIN
from kfed.coordinator.http.schemas import (
    CreatedFederation,
    CreatedInvitation,
    DeletedFederation,
    InvitationState,
    NewFederation,
    NewInvitation,
    NewJoinToken,
    Reaggregation,
    RevokedInvitation,
)
from kfed.coordinator.http.state import FederationState, shown
from kfed.coordinator.names import KEY_HEADER
from kfed.coordinator.problems import ProblemError
from kfed.coordinator.security import derived_token, new_token

PATH = "/v1/federations"

Key = Annotated[str | None, Header(alias=KEY_HEADER, max_length=200, pattern=r"^[!-~]+$")]


def register(app: FastAPI) -> None:
    """Add the routes of this file."""
    about: dict[str, Any] = {"tags": ["federations"], "openapi_extra": ADMIN}
    of_one, of_body = refusals(TOKEN, FEDERATION, STORE), refusals(TOKEN, FEDERATION, STORE, INVALID)
    created = refusals(TOKEN, STORE, INVALID, {409: "another federation has this name, or the coordinator is full"})
    aggregated = refusals(TOKEN, FEDERATION, STORE, INVALID, {409: "the devices that have joined cannot be aggregated"})
    app.post(PATH, status_code=201, responses=created, **about)(create_federation)
    app.get(PATH, responses=refusals(TOKEN), **about)(list_federations)
    app.get(f"{PATH}/{{name}}", responses=refusals(TOKEN, FEDERATION), **about)(show_federation)
    app.post(f"{PATH}/{{name}}/close", responses=of_one, **about)(close_federation)
    app.post(f"{PATH}/{{name}}/aggregate", responses=aggregated, **about)(aggregate_federation)
    app.post(f"{PATH}/{{name}}/join-token", status_code=201, responses=of_body, **about)(rotate_join_token)
    app.delete(f"{PATH}/{{name}}", responses=of_one, **about)(delete_federation)
    about["tags"] = ["invitations"]
    app.post(f"{PATH}/{{name}}/invitations", status_code=201, responses=of_body, **about)(invite_device)
    app.get(f"{PATH}/{{name}}/invitations", responses=of_one, **about)(list_invitations)
    path = f"{PATH}/{{name}}/invitations/{{device_id:path}}"
    revoked = refusals(TOKEN, STORE, {404: "there is no such federation, or no invitation of this device"})
    app.delete(path, responses=revoked, **about)(revoke_invitation)


async def create_federation(request: Request, terms: NewFederation, key: Key = None) -> CreatedFederation:
    """Create a federation. The response holds its join token, which is not shown again.

    With an `Idempotency-Key`, repeating the same request gets the same response.
    """
    admin = rights.require_admin(request)
    token = _token(admin, key, terms.name)
    live = await _administration(request).create(terms.terms(), token)
    return CreatedFederation(federation=state_of(request, live), join_token=token)


async def list_federations(request: Request) -> list[FederationState]:
    """List all federations."""
    rights.look(request)
    return [state_of(request, live) for live in rights.desk(request).coordinator.all()]


async def show_federation(request: Request, name: str) -> FederationState:
    """Show a federation."""
    rights.look(request)
    return await state_with_names(request, rights.known(request, name))


async def close_federation(request: Request, name: str) -> FederationState:
    """Turn new devices away; those that have joined are still served."""
    live = rights.administer(request, name)
    await _administration(request).close(live)
    return state_of(request, live)


async def aggregate_federation(request: Request, name: str, how: Reaggregation | None = None) -> FederationState:
    """Aggregate now, with all devices that have joined; clusters keep their ids."""
    live = rights.administer(request, name)
    await rights.desk(request).coordinator.aggregate(live, None if how is None else how.n_clusters)
    return state_of(request, live)


async def rotate_join_token(request: Request, name: str, key: Key = None) -> NewJoinToken:
    """Give a federation a new join token, which is not shown again; the one before stops working at once.

    With an `Idempotency-Key`, repeating the same request gets the same response.
    """
    live = rights.administer(request, name)
    token = _token(rights.require_admin(request), key, f"{name}\nrotated")
    await _administration(request).rotate(live, token)
    return NewJoinToken(name=name, join_token=token)


async def delete_federation(request: Request, name: str) -> DeletedFederation:
    """Delete a federation with its devices, clusters and invitations; this cannot be undone."""
    live = rights.administer(request, name)
    await _administration(request).delete(live)
    return DeletedFederation(name=name)


async def invite_device(request: Request, name: str, whom: NewInvitation, key: Key = None) -> CreatedInvitation:
    """Invite a device by its id. The response holds the token of the invitation, which is not shown again.

    The device joins with this token instead of the join token, once. Nobody else can join under its id. Inviting a
    device again replaces its invitation. With an `Idempotency-Key`, repeating the same request gets the same response.
    """
    live = rights.administer(request, name)
    token = _token(rights.require_admin(request), key, f"{name}\ninvited\n{whom.device_id}")
    made = await _administration(request).invite(live, whom.device_id, token)
    return CreatedInvitation(device_id=made.device_id, created_at=made.created_at, token=token)


async def list_invitations(request: Request, name: str) -> list[InvitationState]:
    """List the invitations to a federation, and when each was used."""
    live = rights.administer(request, name)
    coordinator = rights.desk(request).coordinator
    found = await coordinator.read(coordinator.store.invitations.of, live.federation.id)
    return [InvitationState(**{field: getattr(one, field) for field in InvitationState.model_fields}) for one in found]


async def revoke_invitation(request: Request, name: str, device_id: str) -> RevokedInvitation:
    """Revoke an invitation. A device that has joined by it stays until it is removed."""
    live = rights.administer(request, name)
    if not device_id.isprintable() or not await _administration(request).revoke(live, device_id):
        raise ProblemError(404, f"device {device_id[:200]!r} has no invitation to federation {name!r}")
    return RevokedInvitation(device_id=device_id)


def _administration(request: Request) -> Administration:
    return rights.desk(request).coordinator.administration


def _token(admin: str, key: str | None, what: str) -> str:
    return new_token() if key is None else derived_token(admin, what, key)


def state_of(request: Request, live: Live) -> FederationState:
    """A federation as it is now."""
    return shown(rights.desk(request).coordinator, live)


async def state_with_names(request: Request, live: Live) -> FederationState:
    """The same with the names of clusters, which are read from the store."""
    names = None if live.clusters is None else await rights.desk(request).results.names(live)
    return state_of(request, live).model_copy(update={"cluster_names": names})
