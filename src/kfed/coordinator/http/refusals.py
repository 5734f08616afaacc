"""Why a call can be refused, check by check; the OpenAPI document lists exactly these for each call.

A request passes the shield (`ANY`), the check of its token (`TOKEN`) and the store (`STORE`), and a call adds what its
own handler can say. `tests/coordinator/test_refusals.py` has every status of every call answered once.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kfed.coordinator import problems
from kfed.coordinator.http.schemas import ProblemAnswer

Reasons = Mapping[int, str]

ANY: Reasons = {
    400: "the Content-Length is not a whole number",
    413: "the body has more bytes than this call takes",
    421: "the Host header has a name that this coordinator does not answer to",
}
TOKEN: Reasons = {
    401: "no token was sent",
    403: "the token is not one that may do this",
    429: "too many wrong tokens came from this address; `Retry-After` says how long to wait",
}
FEDERATION: Reasons = {404: "there is no federation of this name"}
STORE: Reasons = {503: "the store does not answer, or this federation is damaged; `Retry-After` says when to ask again"}
INVALID: Reasons = {422: "a parameter or the body is not what this call takes; the detail says which and why"}
NO_CLUSTERS: Reasons = {409: "there are no clusters yet, or more device centers than a coordinator shows"}

CONTENT = {problems.MEDIA_TYPE: {"schema": ProblemAnswer.model_json_schema()}}


def refusals(*reasons: Reasons) -> dict[int | str, dict[str, Any]]:
    """The responses of a call that can be refused for these reasons, beside those that hold for `ANY` call."""
    found: dict[int, str] = dict(ANY)
    for own in reasons:
        found.update(own)
    return {
        status: {"description": f"{problems.TITLES[status]}: {found[status]}", "content": CONTENT}
        for status in sorted(found)
    }


PARAMETERS = {
    "name": "The federation",
    "device_id": "The name of the device, with `/` and the like written as in any address",
    "Idempotency-Key": "Any text; the same request with the same key gets the same response",
}


def as_answered(document: dict[str, Any]) -> dict[str, Any]:
    """The OpenAPI document with words for parameters that are everywhere, and without the 422 that FastAPI adds."""
    calls = [call for methods in document["paths"].values() for call in methods.values()]
    for call in calls:
        if "application/json" in call["responses"].get("422", {}).get("content", {}):
            del call["responses"]["422"]
        for parameter in call.get("parameters", []):
            parameter.setdefault("description", PARAMETERS.get(parameter["name"], ""))
    for name in ("HTTPValidationError", "ValidationError"):
        document["components"]["schemas"].pop(name, None)
    return document
