"""Routes of the administrator: create, list, show, close and aggregate federations."""

from __future__ import annotations

from fastapi import APIRouter, Request

from kfed.coordinator import rights
from kfed.coordinator.responses import ADMIN, PROBLEMS
from kfed.coordinator.schemas import CreatedFederation, FederationState, NewFederation, Reaggregation
from kfed.coordinator.service import Live

router = APIRouter(prefix="/v1/federations", tags=["federations"])


@router.post("", status_code=201, responses=PROBLEMS, openapi_extra=ADMIN)
async def create_federation(request: Request, terms: NewFederation) -> CreatedFederation:
    """Create a federation. The answer holds its join token, which is not shown again."""
    rights.require_admin(request)
    live, token = await rights.desk(request).coordinator.create(terms.terms())
    return CreatedFederation(federation=_state(request, live), join_token=token)


@router.get("", responses=PROBLEMS, openapi_extra=ADMIN)
async def list_federations(request: Request) -> list[FederationState]:
    """List all federations. On a coordinator that is bound to loopback this takes no token."""
    rights.look(request)
    return [_state(request, live) for live in rights.desk(request).coordinator.all()]


@router.get("/{name}", responses=PROBLEMS, openapi_extra=ADMIN)
async def show_federation(request: Request, name: str) -> FederationState:
    """Show a federation. On a coordinator that is bound to loopback this takes no token."""
    rights.look(request)
    return _state(request, rights.known(request, name))


@router.post("/{name}/close", responses=PROBLEMS, openapi_extra=ADMIN)
async def close_federation(request: Request, name: str) -> FederationState:
    """Turn new devices away from now on; devices that have joined are served still."""
    live = rights.administer(request, name)
    await rights.desk(request).coordinator.close(live)
    return _state(request, live)


@router.post("/{name}/aggregate", responses=PROBLEMS, openapi_extra=ADMIN)
async def aggregate_federation(request: Request, name: str, how: Reaggregation | None = None) -> FederationState:
    """Aggregate by hand, with everybody who has joined by now; clusters keep their ids."""
    live = rights.administer(request, name)
    await rights.desk(request).coordinator.aggregate(live, None if how is None else how.n_clusters)
    return _state(request, live)


def _state(request: Request, live: Live) -> FederationState:
    return FederationState.of(live, rights.desk(request).coordinator.tally(live))
