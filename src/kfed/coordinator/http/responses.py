"""Responses to devices: an identity in JSON or as bytes, or that there is none yet; and their OpenAPI descriptions."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from kfed.coordinator.core import Live, ShownClusters
from kfed.coordinator.federation import Tally, seconds_to_wait
from kfed.coordinator.http.schemas import GatheringAnswer, IdentityAnswer
from kfed.coordinator.names import BYTES, NOTICES_HEADER, ROUND_HEADER
from kfed.wire import Identity, Notice

MAX_HEADER_BYTES, MAX_NOTICES = 4_096, 50

ADMIN: dict[str, Any] = {"security": [{"admin token": []}]}
JOIN: dict[str, Any] = {"security": [{"join token": []}]}
DEVICE: dict[str, Any] = {"security": [{"device secret": []}, {"admin token": []}, {"join token": []}]}

SECURITY_SCHEMES = {
    "admin token": {"type": "http", "scheme": "bearer", "description": "Creates and closes federations."},
    "join token": {"type": "http", "scheme": "bearer", "description": "Lets devices join one federation."},
    "device secret": {
        "type": "apiKey",
        "in": "header",
        "name": "Kfed-Device-Secret",
        "description": "Chosen by a device, sent with its first message; lets it read, replace and remove its own.",
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
    "description": "The message is stored; there are no clusters for it yet",
    "content": {"application/json": {"schema": GatheringAnswer.model_json_schema()}},
}

RECEIPT_CONTENT = {
    "description": "The message is on disk; the identity of the device follows if the federation is aggregated",
    "content": {
        "application/json": {
            "schema": {"anyOf": [GatheringAnswer.model_json_schema(), IdentityAnswer.model_json_schema()]}
        },
        BYTES: {"schema": {"type": "string", "format": "binary"}},
    },
}


def identity(
    request: Request, shown: ShownClusters, answer: Identity, notices: Sequence[Notice], status: int
) -> Response:
    """Which of the clusters the centers of a device are in, and what to look at."""
    clusters, said = shown.clusters, [notice._asdict() for notice in notices[:MAX_NOTICES]]
    if BYTES in request.headers.get("accept", ""):
        headers = {"Kfed-Clustering": str(clusters.version), ROUND_HEADER: str(clusters.rounds)}
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
        "cluster_ids": answer.cluster_ids.tolist(),
        "cluster_shares": None if answer.cluster_shares is None else answer.cluster_shares.tolist(),
        "notices": said,
    }
    if clusters.columns is not None:
        facts["feature_names"] = list(clusters.columns.names or ())
    body = f'{json.dumps(facts)[:-1]}, "cluster_centers": {shown.centers_as_json}}}'
    return Response(body.encode(), status, media_type="application/json")


def gathering(live: Live, device_id: str, tally: Tally, now: float, status: int) -> Response:
    """That there are no clusters for this device yet, and when to ask again."""
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
