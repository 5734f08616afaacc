"""Routes of the second round: a device sends its second message, and the administrator ends the waiting for others."""

from __future__ import annotations

from typing import Any

from fastapi import FastAPI, Request
from starlette.responses import Response

from kfed.coordinator.http import rights
from kfed.coordinator.http.admin_routes import PATH, state_of
from kfed.coordinator.http.device_routes import DEVICE_PATH, DeviceId, body_of
from kfed.coordinator.http.refusals import FEDERATION, INVALID, STORE, TOKEN, refusals
from kfed.coordinator.http.responses import ADMIN
from kfed.coordinator.http.schemas import SecondAnswer
from kfed.coordinator.http.state import FederationState
from kfed.coordinator.names import BYTES, SECRET_HEADER
from kfed.coordinator.problems import ProblemError

_SECRET: dict[str, Any] = {"security": [{"device secret": []}]}
_NOT_TAKEN = {
    404: "the device has not joined",
    409: "no second message is asked for now, or this device has sent another one",
}
_SECOND: dict[str, Any] = {
    "requestBody": {
        "required": True,
        "description": "The bytes of a second `kfed.DeviceMessage`, as `kfed refine` writes it",
        "content": {BYTES: {"schema": {"type": "string", "format": "binary"}}},
    },
}


def register(app: FastAPI) -> None:
    """Add the routes of this file."""
    app.put(
        f"{DEVICE_PATH}/second-message",
        tags=["devices"],
        status_code=201,
        responses={
            **refusals(TOKEN, INVALID, STORE, _NOT_TAKEN),
            200: {"description": "It was sent before", "model": SecondAnswer},
        },
        openapi_extra={**_SECRET, **_SECOND},
    )(send_second_message)
    refused = refusals(TOKEN, STORE, FEDERATION, {409: "there is nothing to refine, or nothing to refine it by"})
    app.post(f"{PATH}/{{name}}/refine", tags=["federations"], responses=refused, openapi_extra=ADMIN)(refine_federation)


async def send_second_message(request: Request, response: Response, name: str, device_id: DeviceId) -> SecondAnswer:
    """Send the second message of a device, in a federation of two rounds: 201 if it is new, 200 if it was sent before.

    It is about the clusters that the identity of the device told. Once all devices have sent one, the centers of the
    clusters move to the means of their rows; then answers to questions for the identity have `Kfed-Round: 2`.
    """
    if SECRET_HEADER not in request.headers:
        raise ProblemError(401, f"this requires the secret of the device; send it as '{SECRET_HEADER}: ...'")
    live = await rights.own(request, name, device_id, join_is_enough=False)
    device = await rights.desk(request).coordinator.device(live, device_id)
    if device is None:
        raise ProblemError(404, f"device {device_id!r} has not joined federation {name!r}; send its message first")
    payload = await body_of(request, live.federation)
    coordinator = rights.desk(request).coordinator
    is_new = await coordinator.second.accept(live, device, payload)
    response.status_code = 201 if is_new else 200
    clusters = live.clusters
    n_sent = 0 if clusters is None else coordinator.store.second.count(live.federation.id, clusters.version)
    return SecondAnswer(
        device_id=device_id,
        round=1 if clusters is None else clusters.rounds,
        n_second=n_sent,
        n_devices=0 if clusters is None else len(clusters.members),
    )


async def refine_federation(request: Request, name: str) -> FederationState:
    """Refine the clusters by the second messages that have arrived, and wait for no others."""
    live = rights.administer(request, name)
    await rights.desk(request).coordinator.second.finish(live)
    return state_of(request, live)
