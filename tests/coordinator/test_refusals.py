"""The errors that the API documents for a call are the errors that this call has: each of them is answered here once.

That no call answers another one is held against every answer in all tests of the coordinator; see `documented`.
"""

import re

import pytest
from coordinators import SECRET, message
from documented import operations

from kfed.coordinator.core import readers
from kfed.coordinator.http import wrong_tokens

DEVICE = "/v1/federations/{name}/devices/{device_id}"
ONE = "/v1/federations/{name}"
NEW = {"name": "clinics", "n_features": 2}
BODIES = {
    ("POST", "/v1/federations"): {"json": {**NEW, "name": "another"}},
    ("POST", f"{ONE}/invitations"): {"json": {"device_id": "b"}},
    ("PUT", f"{ONE}/cluster-names"): {"json": {"names": {}}},
    ("PUT", f"{DEVICE}/message"): {"content": message("a", (0,)).to_bytes()},
    ("PUT", f"{DEVICE}/second-message"): {"content": message("a", (0,)).to_bytes()},
}
"""What a good request has, where it has a body."""

INVALID = {
    ("PUT", f"{DEVICE}/message"): {"content": b"no message"},
    ("POST", "/v1/federations"): {"json": {}},
    ("POST", f"{ONE}/aggregate"): {"json": {"n_clusters": 0}},
    ("POST", f"{ONE}/join-token"): {"headers": {"Idempotency-Key": "two words"}},
    ("POST", f"{ONE}/invitations"): {"json": {}},
    ("POST", f"{ONE}/comparison"): {"json": {"first": 5, "last": 2}},
    ("GET", f"{ONE}/download/{{which}}"): {"which": "everything"},
    ("PUT", f"{ONE}/cluster-names"): {"json": {"names": {"7": "young"}}},
}
CONFLICTS = {
    ("PUT", f"{DEVICE}/message"): {"content": message("a", (1,)).to_bytes()},
    ("POST", "/v1/federations"): {"json": {**NEW, "n_features": 9}},
}
"""Of the other calls the good request is in conflict: there is one center, so there are no clusters."""


@pytest.fixture
def ask(caller):
    """Make the good request of a call, with something changed."""
    caller.create()
    assert caller.put(message("a", (0,))).status_code == 201

    def make(method, path, *, headers=None, **changed):
        rights = {"Kfed-Device-Secret": SECRET, **caller.admin}
        if path.endswith(("/message", "/terms")):
            rights |= caller.join["clinics"]
        places = {"name": "clinics", "device_id": "a", "which": "report"}
        places |= {name: changed.pop(name) for name in list(changed) if name in places}
        options = changed or BODIES.get((method, path), {})
        url = re.sub("{(.*?)}", lambda found: places[found[1]], path)
        return caller.http.request(method, url, headers=rights | (headers or {}), **options)

    make.caller = caller
    return make


def provoke(status, ask, monkeypatch):
    """How to get a status from a call: a function of its method and path."""
    caller = ask.caller
    if status == 400:
        return lambda *call: ask(*call, headers={"Content-Length": "many"})
    if status == 413:
        return lambda *call: ask(*call, headers={"Content-Length": str(2**40)})
    if status == 421:
        return lambda *call: ask(*call, headers={"Host": "evil.example"})
    wrong = {
        "Authorization": "Bearer a-wrong-token-of-some-length",
        "Kfed-Device-Secret": "a-wrong-secret-of-some-length",
    }
    if status in (401, 403, 429):
        caller.http.app.state.desk.open_to_loopback = False
        seconds_to_wait = 9 if status == 429 else 0
        monkeypatch.setattr(wrong_tokens.WrongTokens, "count", lambda *_: seconds_to_wait)
    if status in (403, 429):
        return lambda *call: ask(*call, headers=wrong)
    if status == 401:
        return lambda method, path: caller.http.request(method, re.sub("{.*?}", "report", path), headers={})
    if status == 404:
        return lambda *call: missing(ask, *call)
    if status == 409:
        return lambda *call: ask(*call, **CONFLICTS.get(call, {}))
    if status == 422:
        return lambda *call: ask(*call, **INVALID.get(call, {"device_id": "x" * 300}))
    monkeypatch.setattr(readers, "PATIENCE_SECONDS", -1)
    coordinator = caller.http.app.state.desk.coordinator
    coordinator.store.close()
    coordinator.find("clinics").damage = "its clusters cannot be read"
    return ask


def missing(ask, method, path):
    """Ask for what is not there."""
    if path.endswith("/message"):  # whoever has no right learns nothing: a federation can only vanish in between
        coordinator = ask.caller.http.app.state.desk.coordinator
        writer, catch_up = coordinator._writer, coordinator._writer.catch_up

        async def vanish():
            await catch_up()
            writer.catch_up = catch_up
            await coordinator.administration.delete(coordinator.find("clinics"))

        writer.catch_up = vanish
        return ask(method, path)
    if path.endswith("/terms"):
        return ask(method, path, device_id="a%0Ab")
    return ask(method, path, **({"device_id": "b"} if "device_id" in path else {"name": "nobody"}))


HANGS = ("GET", "/healthz", 503)
"""Answered by the gate, not by the application: `test_limits` has it."""


@pytest.mark.parametrize("status", [400, 401, 403, 404, 409, 413, 421, 422, 429, 503])
def test_every_call_that_lists_an_error_answers_it(ask, monkeypatch, status):
    calls = [(method, path) for method, path, _, listed in operations(ask.caller.http.app) if status in listed]
    calls.sort(key=lambda call: call[1] == f"{DEVICE}/message")  # which comes last, as it lets the federation vanish
    act = provoke(status, ask, monkeypatch)
    for call in calls:
        if (*call, status) != HANGS:
            answer = act(*call)
            assert answer.status_code == status, (call, answer.text)
            assert answer.headers["content-type"] == "application/problem+json"


def test_the_document_says_of_each_error_what_it_means_here(ask):
    document = ask.caller.http.get("/openapi.json").json()
    for path, methods in document["paths"].items():
        for method, call in methods.items():
            assert all(parameter["description"] for parameter in call.get("parameters", [])), (method, path)
            for status, answer in call["responses"].items():
                assert status < "400" or ": " in answer["description"], (method, path, status)
    assert "HTTPValidationError" not in document["components"]["schemas"]
    closing = document["paths"]["/v1/federations/{name}/close"]["post"]["responses"]
    assert closing["404"]["description"] == "Not found: there is no federation of this name"
    assert "422" not in closing  # it has no body, and any name is a name
