"""Routes of a device: send the message, ask for the identity, leave."""

from __future__ import annotations

import json
from collections.abc import Callable, Coroutine, Sequence
from typing import Annotated, Any

from fastapi import FastAPI, Path, Request
from fastapi.routing import APIRoute
from starlette.responses import Response

from kfed._base.checks import MAX_NAME_LENGTH
from kfed.coordinator.core import Live, Proofs, ShownClusters, for_device
from kfed.coordinator.federation import Admission, Federation, Tally, seconds_to_wait
from kfed.coordinator.http import rights
from kfed.coordinator.http.body import Body
from kfed.coordinator.http.refusals import INVALID, STORE, TOKEN, refusals
from kfed.coordinator.http.responses import DEVICE, GATHERING_CONTENT, IDENTITY_CONTENT, JOIN, RECEIPT_CONTENT
from kfed.coordinator.http.schemas import RemovedAnswer
from kfed.coordinator.http.shield import BODY
from kfed.coordinator.http.terms import TermsAnswer
from kfed.coordinator.names import BYTES, FOUND_HEADER, NOTICES_HEADER, ROUND_HEADER, SECRET_HEADER
from kfed.coordinator.problems import ProblemError
from kfed.coordinator.security import MIN_LENGTH, checked
from kfed.wire import DeviceMessage, Identity, Notice

MAX_HEADER_BYTES, MAX_NOTICES = 4_096, 50

DEVICE_PATH = "/v1/federations/{name}/devices/{device_id:path}"

DeviceId = Annotated[str, Path(min_length=1, max_length=MAX_NAME_LENGTH)]


def register(app: FastAPI) -> None:
    """Add the routes of this file; the first one gets most of the requests."""
    asked = refusals(TOKEN, INVALID, STORE, {404: "the device id contains a line break"})
    of_one = refusals(TOKEN, INVALID, STORE, {404: "there is no such federation, or the device has not joined it"})
    app.router.add_api_route(
        f"{DEVICE_PATH}/message",
        send_message,
        methods=["PUT"],
        tags=["devices"],
        response_class=Response,
        responses={**refusals(TOKEN, INVALID, STORE, _NOT_TAKEN), 200: RECEIPT_CONTENT, 201: RECEIPT_CONTENT},
        openapi_extra={**JOIN, **_MESSAGE},
        route_class_override=_PlainRoute,
    )
    app.get(
        f"{DEVICE_PATH}/identity",
        tags=["devices"],
        response_class=Response,
        responses={**of_one, 200: IDENTITY_CONTENT, 202: GATHERING_CONTENT},
        openapi_extra=DEVICE,
    )(ask_for_identity)
    app.get(f"{DEVICE_PATH}/terms", tags=["devices"], responses=asked, openapi_extra=JOIN)(ask_for_terms)
    app.delete(DEVICE_PATH, tags=["devices"], responses=of_one, openapi_extra=DEVICE)(remove_device)


class _PlainRoute(APIRoute):
    """Calls its function with the request and the path alone: half the time of FastAPI's own route."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        async def handle(request: Request) -> Response:
            response: Response = await self.endpoint(request, **request.path_params)
            return response

        return handle


_NOT_TAKEN = {
    404: "the federation was deleted meanwhile",
    409: "the federation is closed or full, or the device has sent another message before",
}
_MESSAGE = {
    "parameters": [
        {
            "name": "replace",
            "in": "query",
            "description": "Replace the message that this device sent before; requires its device secret",
            "schema": {"type": "boolean", "default": False},
        },
        {
            "name": SECRET_HEADER,
            "in": "header",
            "description": f"{MIN_LENGTH} characters or more that the device makes up; later they prove who it is",
            "schema": {"type": "string"},
        },
    ],
    "requestBody": {
        "required": True,
        "description": "The bytes of a `kfed.DeviceMessage`",
        "content": {BYTES: {"schema": {"type": "string", "format": "binary"}}},
    },
}


async def send_message(request: Request, name: str, device_id: DeviceId) -> Response:
    """Send the message of a device: 201 if it is new, 200 if it was sent before or replaces another.

    The response means that the message is on disk. Once the federation is aggregated, it holds the device's identity.
    """
    live, invitation = await rights.join(request, name, device_id)
    payload = await body_of(request, live.federation)
    proofs = Proofs(_secret(request), _replace(request), invitation)
    accepted = await rights.desk(request).coordinator.accept(live, device_id, payload, proofs)
    status = 201 if accepted.receipt.admission is Admission.JOINED else 200
    return await _answer(request, live, accepted.message, status, status)


async def ask_for_identity(request: Request, name: str, device_id: DeviceId) -> Response:
    """Ask which global cluster each center is in: 200, or 202 with `Retry-After` while there are no clusters yet."""
    live = await rights.own(request, name, device_id, join_is_enough=True)
    device = await rights.desk(request).coordinator.device(live, device_id)
    if device is None:
        raise ProblemError(404, f"device {device_id!r} has not joined federation {name!r}; send its message first")
    return await _answer(request, live, DeviceMessage.from_bytes(device.message), 200, 202)


async def ask_for_terms(request: Request, name: str, device_id: DeviceId) -> TermsAnswer:
    """Ask what a message to this federation must hold, before the rows are clustered."""
    live, _ = await rights.join(request, name, device_id)
    live.check()
    return TermsAnswer.of(live.federation)


async def remove_device(request: Request, name: str, device_id: DeviceId) -> RemovedAnswer:
    """Remove a device; the others are clustered as if it had never joined, under the same cluster ids."""
    live = await rights.own(request, name, device_id, join_is_enough=False)
    if not await rights.desk(request).coordinator.remove(live, device_id):
        raise ProblemError(404, f"device {device_id!r} has not joined federation {name!r}, or has left")
    return RemovedAnswer(device_id=device_id, state=live.state, version=live.version)


async def body_of(request: Request, federation: Federation) -> bytes:
    """The bytes of a message, unless they are more than a message to this federation can have."""
    body: Body = request.scope[BODY]
    body.limit(min(body.max_bytes, federation.max_bytes), "a message to this federation")
    return await request.body()


def _replace(request: Request) -> bool:
    said = request.query_params.get("replace", "false").lower()
    if said not in ("true", "false", "1", "0"):
        raise ProblemError(422, "replace must be true or false")
    return said in ("true", "1")


def _secret(request: Request) -> str | None:
    secret = request.headers.get(SECRET_HEADER)
    return None if secret is None else checked(secret, "the device secret")


async def _answer(request: Request, live: Live, message: DeviceMessage, status: int, while_gathering: int) -> Response:
    shown, coordinator = live.shown, rights.desk(request).coordinator
    identity = None if shown is None else shown.answer_if_ready(message)
    if shown is not None and identity is not None:
        late = await coordinator.latecomers.notices(live, message)
        notices = [*for_device(shown.clusters.notices, message.device_id), *late]
        rounds = 1 if shown.clusters.is_late(message.device_id) else live.federation.rounds
        return _aggregated(request, shown, identity, notices, status, rounds)
    tally, now = coordinator.tally(live), coordinator.clock.now()
    return _gathering(live, message.device_id, tally, now, while_gathering)


def _aggregated(
    request: Request, shown: ShownClusters, answer: Identity, notices: Sequence[Notice], status: int, rounds: int
) -> Response:
    """Which of the clusters the centers of a device are in, and what to look at."""
    clusters, said = shown.clusters, [notice._asdict() for notice in notices[:MAX_NOTICES]]
    found = {"n_clusters": clusters.n_clusters, "answered_by": clusters.rule or None, "found": clusters.how_many.found}
    if BYTES in request.headers.get("accept", ""):
        headers = {"Kfed-Clustering": str(clusters.version), ROUND_HEADER: str(clusters.rounds)}
        headers[FOUND_HEADER] = json.dumps(found | ({"rounds_asked": rounds} if rounds > 1 else {}))
        while said and len(json.dumps(said)) > MAX_HEADER_BYTES:
            said.pop()
        return Response(
            answer.to_bytes(), status, headers | ({NOTICES_HEADER: json.dumps(said)} if said else {}), BYTES
        )
    facts = {
        "device_id": answer.device_id,
        "state": "aggregated",
        "version": clusters.version,
        "round": clusters.rounds,
        **found,
        "cluster_ids": answer.cluster_ids.tolist(),
        "cluster_shares": None if answer.cluster_shares is None else answer.cluster_shares.tolist(),
        "notices": said,
    }
    if clusters.columns is not None:
        facts["feature_names"] = list(clusters.columns.names or ())
    body = f'{json.dumps(facts)[:-1]}, "cluster_centers": {shown.centers_as_json}}}'
    return Response(body.encode(), status, media_type="application/json")


def _gathering(live: Live, device_id: str, tally: Tally, now: float, status: int) -> Response:
    """That there are no clusters for this device yet, and when to ask again."""
    federation = live.federation
    facts = {
        "device_id": device_id,
        "state": "gathering",
        "n_devices": tally.n_devices,
        "quorum": federation.quorum,
        "deadline": federation.deadline,
        "remark": live.remark_among(tally.n_devices, to_device=True),
    }
    headers = {"Retry-After": str(seconds_to_wait(federation, tally, now))}
    return Response(json.dumps(facts).encode(), status, headers, "application/json")
