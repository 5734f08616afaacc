"""Whatever is sent, the answer is a 4xx with a problem that says what was wrong, and nothing changes."""

import json
import socket
import struct
import warnings

import httpx
import numpy as np
import pytest
from coordinators import NO_TLS, SECRET, Caller, message
from hypothesis import HealthCheck, given, settings

import kfed

N_FEATURES = 3
GENUINE = kfed.DeviceMessage(
    "victim", np.arange(12.0).reshape(4, N_FEATURES), [5, 6, 7, 8], [1.0, 2.0, 3.0, 4.0], 2.5, ["x", "y", "z"]
)


# Mutations ------------------------------------------------------------------------------------------------------


def header_and_body(payload):
    length = struct.unpack("<Q", payload[:8])[0]
    return json.loads(payload[8 : 8 + length]), payload[8 + length :]


def assembled(header, body):
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + body


def flip_bits(payload, rng):
    changed = bytearray(payload)
    for _ in range(rng.integers(1, 9)):
        changed[rng.integers(len(changed))] ^= 1 << rng.integers(8)
    return bytes(changed)


def truncate(payload, rng):
    return payload[: rng.integers(len(payload))]


def extend(payload, rng):
    return payload + rng.bytes(rng.integers(1, 100))


def forge_shape(payload, rng):
    header, body = header_and_body(payload)
    table = header["kfed1:victim"]
    table["shape"] = [int(rng.choice([0, 1, 2**31, 2**62, 4, 6, 7])) for _ in range(rng.integers(0, 4))]
    if rng.integers(2):
        table["data_offsets"] = [int(rng.integers(0, 200)), int(rng.integers(0, 2**40))]
    return assembled(header, body)


def forge_dtype(payload, rng):
    header, body = header_and_body(payload)
    header["kfed1:victim"]["dtype"] = str(rng.choice(["F32", "I64", "BOOL", "F16", "U8", "X", ""]))
    return assembled(header, body)


def not_finite(payload, rng):
    header, body = header_and_body(payload)
    table = np.frombuffer(body).copy()
    table[rng.integers(len(table))] = rng.choice([np.nan, np.inf, -np.inf, 1e300, -1.0])
    return assembled(header, table.tobytes())


def wrong_width(payload, rng):
    n_features = int(rng.choice([1, 2, 4, 5, 50]))
    return kfed.DeviceMessage("victim", rng.normal(size=(2, n_features)), [3, 4]).to_bytes()


def wrong_version(payload, rng):
    header, body = header_and_body(payload)
    name = str(rng.choice(["kfed2:victim", "kfed:victim", "kfed1", "kfed1:", "other", "kfed1:someone-else", ""]))
    return assembled({name: header["kfed1:victim"]}, body)


def huge_header(payload, rng):
    length = [2**16, 2**31, 2**32, 2**63, 2**64 - 1, len(payload)][rng.integers(6)]
    return struct.pack("<Q", length) + payload[8:]


def deep_header(payload, rng):
    depth = int(rng.integers(10, 5000))
    return assembled(b"[" * depth + b"]" * depth, b"")


def strange_names(payload, rng):
    header, body = header_and_body(payload)
    names = [["x", "y"], ["x", "x", "z"], "xyz", [1, 2, 3], None, {"x": 1}, ["z", "y", "x"], ["\u0000", "y", "z"]]
    header["__metadata__"] = {"kfed": json.dumps({"feature_names": names[rng.integers(len(names))]})}
    return assembled(header, body)


def noise(payload, rng):
    return rng.bytes(rng.integers(0, 400))


MUTATIONS = [
    flip_bits, truncate, extend, forge_shape, forge_dtype, not_finite, wrong_width, wrong_version, huge_header,
    deep_header, strange_names, noise,
]  # fmt: skip


def assert_is_a_problem(answer):
    assert 400 <= answer.status_code < 500, (answer.status_code, answer.text)
    assert answer.headers["content-type"] == "application/problem+json"
    problem = answer.json()
    assert problem["status"] == answer.status_code
    assert len(problem["detail"]) > 10
    assert "Traceback" not in answer.text


def send_mutated(caller, n_messages):
    """The genuine message is there already; a mutated one that is sound by chance contradicts it."""
    caller.create(n_features=N_FEATURES)
    payload = GENUINE.to_bytes()
    assert caller.put(payload, device_id="victim").status_code == 201
    before = caller.show()
    rng = np.random.default_rng(0)
    n_sent = {}
    for number in range(n_messages):
        mutation = MUTATIONS[number % len(MUTATIONS)]
        mutated = mutation(payload, rng)
        if mutated == payload:
            continue
        answer = caller.put(mutated, device_id="victim")
        assert_is_a_problem(answer)
        n_sent[answer.status_code] = n_sent.get(answer.status_code, 0) + 1
    assert caller.show() == before
    assert caller.put(payload, device_id="victim").status_code == 200
    return n_sent


def test_mutated_messages_are_refused_and_change_nothing(caller):
    assert set(send_mutated(caller, 300)) <= {409, 413, 422}


@pytest.mark.slow
def test_ten_thousand_mutated_messages_are_refused_and_change_nothing(serve, record_property):
    server = serve()
    with httpx.Client(verify=NO_TLS, base_url=server.url) as http:
        n_sent = send_mutated(Caller(http, server.admin), 10_000)
    print(f"\nanswers to mutated messages, by status: {n_sent}")  # noqa: T201
    assert sum(n_sent.values()) > 9_900


# Sizes ----------------------------------------------------------------------------------------------------------


def raw_answer(port, request):
    """What comes back to a request that has not ended."""
    with socket.create_connection(("127.0.0.1", port), timeout=10) as connection:
        connection.sendall(request)
        return connection.recv(65536)


def test_a_body_that_says_it_is_too_large_is_refused_before_it_is_read(run_server, tmp_path):
    caller = Caller(run_server(str(tmp_path / "kfed.db"), max_body_bytes=10_000))
    caller.create(max_centers=10)
    token = caller.join["clinics"]["Authorization"]
    head = f"PUT {caller.path('a')}/message HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: {token}\r\n"
    said = raw_answer(caller.http.base_url.port, f"{head}Content-Length: {2**40}\r\n\r\n".encode())
    assert said.startswith(b"HTTP/1.1 413 ")
    assert b"at most 10,000 bytes" in said


def test_a_body_that_turns_out_to_be_too_large_is_refused_on_the_way(run_server, tmp_path):
    caller = Caller(run_server(str(tmp_path / "kfed.db"), max_body_bytes=10_000))
    caller.create(max_centers=10)
    token = caller.join["clinics"]["Authorization"]
    head = f"PUT {caller.path('a')}/message HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: {token}\r\n"
    chunk = b"1000\r\n" + b"x" * 4096 + b"\r\n"
    request = f"{head}Transfer-Encoding: chunked\r\n\r\n".encode() + 3 * chunk
    assert raw_answer(caller.http.base_url.port, request).startswith(b"HTTP/1.1 413 ")


def test_a_message_larger_than_its_federation_allows_is_refused(caller):
    caller.create(max_centers=1)
    limit = 2**16 + 8 * 5 + 2 * 128
    answer = caller.put(b"x" * (limit + 1), device_id="a")
    assert answer.status_code == 413
    assert_is_a_problem(answer)
    assert caller.put(b"x" * limit, device_id="a").status_code == 422


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/nothing", 404),
        ("GET", "/v1/federations/nothing", 404),
        ("GET", "/assets/../secrets", 404),
        ("PATCH", "/v1/federations", 405),
        ("POST", "/healthz", 405),
        ("GET", "/v1/federations/clinics/devices/x/identity", 404),
        ("DELETE", "/v1/federations/clinics/devices/x", 404),
        ("PUT", "/v1/federations/clinics/devices/x/message?replace=perhaps", 403),
    ],
)
def test_every_refusal_is_a_problem(standing, method, path, status):
    answer = standing.http.request(method, path, headers=standing.admin)
    assert answer.status_code == status
    assert_is_a_problem(answer)


@pytest.mark.parametrize(
    "body",
    [
        b"", b"{", b"[]", b'{"name": "x"}', b'{"name": "x", "n_features": 0}', b'{"name": "../x", "n_features": 2}',
        b'{"name": "x", "n_features": 2, "n_clusters": "many"}', b'{"name": "x", "n_features": 2, "rule": "other"}',
        b'{"name": "x", "n_features": 2, "feature_names": ["a"]}', b'{"name": "x", "n_features": 1e999}',
        b'{"name": "x", "n_features": 2, "surprise": 1}', b'{"name": "x", "n_features": 2, "deadline": NaN}',
        b"\xff\xfe",
    ],
)  # fmt: skip
def test_terms_that_make_no_sense_are_refused(standing, body):
    headers = {**standing.admin, "Content-Type": "application/json"}
    answer = standing.http.post("/v1/federations", content=body, headers=headers)
    assert_is_a_problem(answer)
    assert [one["name"] for one in standing.http.get("/v1/federations").json()] == ["clinics"]


def test_a_secret_that_could_be_guessed_is_refused(caller):
    caller.create()
    assert caller.put(message("a"), secret="short").status_code == 422
    assert caller.show()["n_devices"] == 0


# OpenAPI --------------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.filterwarnings("default")
def test_the_service_keeps_to_its_openapi_document_whatever_is_asked(serve):
    import schemathesis
    from schemathesis.specs.openapi.checks import (
        content_type_conformance,
        response_schema_conformance,
        status_code_conformance,
    )

    server = serve()
    with httpx.Client(verify=NO_TLS, base_url=server.url) as http:
        caller = Caller(http, server.admin)
        caller.create(quorum=1, n_clusters=2)
        caller.put(message("a"))
        caller.wait_until("aggregated")
    schema = schemathesis.openapi.from_url(f"{server.url}/openapi.json")
    checks = [schemathesis.checks.not_a_server_error, content_type_conformance, response_schema_conformance]
    checks.append(status_code_conformance)
    rights = [{}, caller.admin, caller.join["clinics"], {"Kfed-Device-Secret": SECRET}]
    n_cases = 0
    for found in schema.get_all_operations():
        operation = found.ok()

        @given(case=operation.as_strategy())
        @settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck), database=None)
        def keeps_to_it(case):
            nonlocal n_cases
            n_cases += 1
            if "name" in (case.path_parameters or {}) and n_cases % 2:
                case.path_parameters["name"] = "clinics"
            case.call_and_validate(headers=rights[n_cases % 4], checks=checks)

        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            keeps_to_it()
    assert n_cases > 300
    with httpx.Client(verify=NO_TLS, base_url=server.url) as http:
        assert http.get("/healthz").json() == {"status": "ok"}
