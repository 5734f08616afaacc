"""OpenAPI descriptions that routes share: who may call, and what a device is answered."""

from __future__ import annotations

from typing import Any

from kfed.coordinator.http.schemas import GatheringAnswer, IdentityAnswer
from kfed.coordinator.names import BYTES

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
