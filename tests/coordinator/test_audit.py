"""The audit log says who did what and when, and holds no secret; metrics say how long answers take."""

import json
import logging
import re

import httpx
import pytest
from coordinators import ADMIN, NO_TLS, SECRET, Caller, message, messages

from kfed.coordinator.http import log_to


@pytest.fixture
def audited(caller, tmp_path):
    handler = log_to(tmp_path / "audit.log")
    yield lambda: [json.loads(line) for line in (tmp_path / "audit.log").read_text().splitlines()]
    logging.getLogger("kfed.coordinator.audit").removeHandler(handler)
    handler.close()


def test_each_change_is_a_line_of_who_what_and_when(caller, audited, tmp_path):
    caller.create(invited_only=True)
    answer = caller.http.post("/v1/federations/clinics/invitations", json={"device_id": "north"}, headers=caller.admin)
    token = answer.json()["token"]
    put = caller.put(message("north"), headers={"Authorization": f"Bearer {token}"})
    caller.remove("north")
    caller.http.delete("/v1/federations/clinics", headers=caller.admin)
    lines = audited()
    assert [(line["who"], line["what"], line["status"]) for line in lines] == [
        ("administrator", "create_federation", 201),
        ("administrator", "invite_device", 201),
        ("device", "send_message", 201),
        ("device", "remove_device", 200),
        ("administrator", "delete_federation", 200),
    ]
    assert {line.get("device") for line in lines[2:4]} == {"north"}
    assert {line["federation"] for line in lines[1:]} == {"clinics"}
    assert all(re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", line["time"]) for line in lines)
    assert lines[2]["request"] == put.headers["x-request-id"]
    assert len({line["request"] for line in lines}) == 5
    assert (tmp_path / "audit.log").stat().st_mode & 0o077 == 0


def test_reading_is_not_logged_and_refusals_are(caller, audited):
    caller.create()
    caller.show()
    caller.http.get("/v1/federations/clinics/invitations", headers={"Authorization": "Bearer " + "x" * 30})
    assert [(line["who"], line["what"], line["status"]) for line in audited()[1:]] == [
        ("nobody known", "list_invitations", 403)
    ]


def test_no_secret_and_nothing_of_a_message_is_in_the_log(caller, audited, tmp_path):
    made = caller.create()
    caller.put(message("north"))
    caller.put(message("north", seed=1), replace=True)
    caller.put(message("south"), headers={"Authorization": "Bearer wrong-wrong-wrong-wrong"})
    caller.http.put(
        f"{caller.path('a' + chr(10) + 'forged')}/message?token=in-the-address", content=b"x", headers=caller.admin
    )
    text = (tmp_path / "audit.log").read_text()
    for secret in (ADMIN, SECRET, made["join_token"], "wrong-wrong", "in-the-address"):
        assert secret not in text
    assert len(audited()) == 5  # no line can be forged by a name with a line break


def test_metrics_have_the_time_of_answers_by_kind_of_route(caller):
    caller.create_aggregated(messages(4))
    caller.identity("device-0000")
    text = caller.http.get("/metrics", headers=caller.admin).text
    assert 'kfed_request_seconds_count{route="message"} 4.0' in text
    assert 'kfed_request_seconds_count{route="identity"} 1.0' in text
    assert 'kfed_request_seconds_bucket{le="0.25",route="message"} ' in text


@pytest.mark.slow
def test_a_coordinator_that_is_started_with_an_audit_log_writes_it(serve, tmp_path):
    server = serve("--audit-log", tmp_path / "audit.log")
    with httpx.Client(verify=NO_TLS, base_url=server.url) as http:
        Caller(http, server.admin).create()
    line = json.loads((tmp_path / "audit.log").read_text())
    assert (line["who"], line["what"], line["from"]) == ("administrator", "create_federation", "127.0.0.1")
