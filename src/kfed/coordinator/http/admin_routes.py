"""Routes of the administrator: create, list, show, close and aggregate federations."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import FastAPI, Header, Request

from kfed.coordinator.core import Live
from kfed.coordinator.http import rights
from kfed.coordinator.http.responses import ADMIN, PROBLEMS
from kfed.coordinator.http.schemas import CreatedFederation, FederationState, NewFederation, Reaggregation
from kfed.coordinator.names import KEY_HEADER
from kfed.coordinator.security import derived_token, new_token

PATH = "/v1/federations"

Key = Annotated[str | None, Header(alias=KEY_HEADER, max_length=200, pattern=r"^[!-~]+$")]


def register(app: FastAPI) -> None:
    """Add the routes of this file."""
    about: dict[str, Any] = {"tags": ["federations"], "responses": PROBLEMS, "openapi_extra": ADMIN}
    app.post(PATH, status_code=201, **about)(create_federation)
    app.get(PATH, **about)(list_federations)
    app.get(f"{PATH}/{{name}}", **about)(show_federation)
    app.post(f"{PATH}/{{name}}/close", **about)(close_federation)
    app.post(f"{PATH}/{{name}}/aggregate", **about)(aggregate_federation)


async def create_federation(request: Request, terms: NewFederation, key: Key = None) -> CreatedFederation:
    """Create a federation. The response holds its join token, which is not shown again.

    With an `Idempotency-Key`, repeating the same request gets the same response.
    """
    admin = rights.require_admin(request)
    token = new_token() if key is None else derived_token(admin, terms.name, key)
    live = await rights.desk(request).coordinator.create(terms.terms(), token)
    return CreatedFederation(federation=_state(request, live), join_token=token)


async def list_federations(request: Request) -> list[FederationState]:
    """List all federations."""
    rights.look(request)
    return [_state(request, live) for live in rights.desk(request).coordinator.all()]


async def show_federation(request: Request, name: str) -> FederationState:
    """Show a federation."""
    rights.look(request)
    return _state(request, rights.known(request, name))


async def close_federation(request: Request, name: str) -> FederationState:
    """Turn new devices away; those that have joined are still served."""
    live = rights.administer(request, name)
    await rights.desk(request).coordinator.close(live)
    return _state(request, live)


async def aggregate_federation(request: Request, name: str, how: Reaggregation | None = None) -> FederationState:
    """Aggregate now, with all devices that have joined; clusters keep their ids."""
    live = rights.administer(request, name)
    await rights.desk(request).coordinator.aggregate(live, None if how is None else how.n_clusters)
    return _state(request, live)


def _state(request: Request, live: Live) -> FederationState:
    return FederationState.of(live, rights.desk(request).coordinator.tally(live))
