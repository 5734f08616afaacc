"""Answers: an identity in JSON or as bytes, or that others are still gathering; and what OpenAPI says of both."""

from __future__ import annotations

import json
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from kfed.coordinator import problems
from kfed.coordinator.core import Live
from kfed.coordinator.federation import Tally, seconds_to_wait
from kfed.coordinator.http.schemas import GatheringAnswer, IdentityAnswer, ProblemAnswer
from kfed.coordinator.names import BYTES
from kfed.wire import DeviceMessage

PROBLEMS: dict[int | str, dict[str, Any]] = {
    status: {
        "description": problems.TITLES[status],
        "content": {problems.MEDIA_TYPE: {"schema": ProblemAnswer.model_json_schema()}},
    }
    for status in (400, 401, 403, 404, 409, 413, 422, 503)
}

ADMIN: dict[str, Any] = {"security": [{"admin token": []}]}
JOIN: dict[str, Any] = {"security": [{"join token": []}]}
DEVICE: dict[str, Any] = {"security": [{"device secret": []}, {"admin token": []}, {"join token": []}]}

SECURITY_SCHEMES = {
    "admin token": {"type": "http", "scheme": "bearer", "description": "Creates and closes federations."},
    "join token": {"type": "http", "scheme": "bearer", "description": "Lets devices into one federation."},
    "device secret": {
        "type": "apiKey",
        "in": "header",
        "name": "Kfed-Device-Secret",
        "description": "Made up by a device, sent with its first message: lets it replace, read and remove its own.",
    },
}

IDENTITY_CONTENT = {
    "description": "The identity of the device, in JSON or, if `Accept` asks for it, as the bytes of `kfed.Identity`",
    "content": {
        "application/json": {"schema": IdentityAnswer.model_json_schema()},
        BYTES: {"schema": {"type": "string", "format": "binary"}},
    },
}

GATHERING_CONTENT = {
    "description": "The message is kept, and there are no clusters yet",
    "content": {"application/json": {"schema": GatheringAnswer.model_json_schema()}},
}

RECEIPT_CONTENT = {
    "description": "The message is on disk; with the identity of the device, if the federation is aggregated",
    "content": {
        "application/json": {
            "schema": {"anyOf": [GatheringAnswer.model_json_schema(), IdentityAnswer.model_json_schema()]}
        },
        BYTES: {"schema": {"type": "string", "format": "binary"}},
    },
}


def identity(request: Request, live: Live, message: DeviceMessage, sequence: int, status: int) -> Response:
    """The answer of a federation that is aggregated."""
    clusters = live.clusters
    assert clusters is not None
    if BYTES in request.headers.get("accept", ""):
        payload = clusters.identity(message, sequence).to_bytes()
        return Response(payload, status, {"kfed-clustering": str(clusters.version)}, BYTES)
    facts = {
        "device_id": message.device_id,
        "state": "aggregated",
        "version": clusters.version,
        "cluster_ids": clusters.labels_of(message, sequence).tolist(),
    }
    body = f'{json.dumps(facts)[:-1]}, "cluster_centers": {clusters.centers_as_json}}}'
    return Response(body.encode(), status, media_type="application/json")


def gathering(live: Live, device_id: str, tally: Tally, now: float, status: int) -> Response:
    """The answer of a federation that is still gathering; it says when to ask again."""
    federation = live.federation
    facts = {
        "device_id": device_id,
        "state": "gathering",
        "n_devices": tally.n_devices,
        "quorum": federation.quorum,
        "deadline": federation.deadline,
        "remark": live.remark,
    }
    headers = {"Retry-After": str(seconds_to_wait(federation, tally, now))}
    return Response(json.dumps(facts).encode(), status, headers, "application/json")
