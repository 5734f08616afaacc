"""What one connection may do: heads, bodies and waits have their limits, and a token is looked at first."""

import asyncio
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from types import SimpleNamespace

import pytest
from coordinators import Caller, message
from visitors import answer_of, connected, sent_in_time

from kfed.coordinator.http import Limits

# One connection ----------------------------------------------------------------------------------------------------


@pytest.fixture
def hasty(run_server, tmp_path):
    """A coordinator with the patience of half a second."""
    limits = Limits(
        connections=12, per_address=8, head_seconds=0.5, body_seconds=0.5, whole_body_seconds=1.0, idle_seconds=0.3
    )
    return Caller(run_server(str(tmp_path / "kfed.db"), limits=limits))


def test_a_head_without_an_end_is_refused(hasty):
    with connected(hasty.http.base_url.port, 1) as (one,):
        one.sendall(b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n")
        endless = (b"X-%d: %s\r\n" % (i, b"y" * 900) for i in range(30_000))
        assert sent_in_time(one, endless, 10) < 16_000_000  # of 27 MB: the buffers of both sockets take a few
        assert answer_of(one)[:12] in (b"", b"HTTP/1.1 431")


def test_a_head_of_the_largest_size_is_answered_and_a_larger_one_is_431(hasty):
    for n_bytes, status in ((30_000, b"HTTP/1.1 200"), (40_000, b"HTTP/1.1 431")):
        with connected(hasty.http.base_url.port, 1) as (one,):
            one.sendall(b"GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\nX-Long: " + b"y" * n_bytes)
            one.sendall(b"\r\n\r\n")
            assert answer_of(one).startswith(status)


@pytest.mark.parametrize("begun", [b"", b"GET / HT", b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n"])
def test_a_head_that_does_not_come_is_not_waited_for(hasty, begun):
    with connected(hasty.http.base_url.port, 1) as (one,):
        one.sendall(begun)
        started = time.monotonic()
        assert answer_of(one)[:12] == (b"HTTP/1.1 408" if begun else b"")
        assert 0.3 < time.monotonic() - started < 3


def test_a_head_that_comes_byte_by_byte_is_not_waited_for(hasty):
    with connected(hasty.http.base_url.port, 1) as (one,):

        def drip():
            for letter in b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n":
                time.sleep(0.1)
                yield bytes([letter])

        assert sent_in_time(one, drip(), 5) < 20


def put_head(caller, length):
    token = caller.join["clinics"]["Authorization"]
    path = f"{caller.path('a')}/message"
    return f"PUT {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: {token}\r\n{length}\r\n\r\n".encode()


@pytest.mark.parametrize("pause", [0.0, 0.2])
def test_a_body_that_stops_or_drips_is_not_waited_for(hasty, pause):
    hasty.create()
    with connected(hasty.http.base_url.port, 1) as (one,):
        one.sendall(put_head(hasty, "Content-Length: 5000"))
        started = time.monotonic()
        if pause:

            def drip():
                for _ in range(50):
                    time.sleep(pause)
                    yield b"x"

            assert sent_in_time(one, drip(), 10) < 20
        else:
            assert answer_of(one).startswith(b"HTTP/1.1 408")
        assert time.monotonic() - started < 4


def test_a_connection_between_requests_is_closed_soon(hasty):
    with connected(hasty.http.base_url.port, 1) as (one,):
        started = time.monotonic()
        one.sendall(b"GET /readyz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
        said = answer_of(one)
        assert said.startswith(b"HTTP/1.1 200")
        assert b"connection: close" not in said.lower()  # it may be used again, for a while
        assert 0.3 <= time.monotonic() - started < 3


def test_an_idle_connection_makes_room_and_one_that_works_does_not(hasty):
    port = hasty.http.base_url.port
    with connected(port, 8) as idle:
        assert hasty.http.get("/healthz").status_code == 200
        assert answer_of(idle[0]) == b""
    hasty.create()
    with ExitStack() as busy:
        for _ in range(8):  # one by one, since none of them may wait for its turn longer than a hasty coordinator does
            (one,) = busy.enter_context(connected(port, 1))
            one.sendall(b"GET /v1/events HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
            assert one.recv(20).startswith(b"HTTP/1.1 200")
        with connected(port, 1) as (one_more,):
            assert answer_of(one_more) == b""
        with connected(port, 4, source="127.0.0.2") as others:
            others[0].sendall(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
            assert others[0].recv(20).startswith(b"HTTP/1.1 200")


# Bodies ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("POST", "/v1/federations"),
        ("POST", "/v1/federations/clinics/close"),
        ("POST", "/v1/federations/clinics/aggregate"),
        ("PUT", "/v1/federations/clinics/devices/a/message"),
        ("DELETE", "/v1/federations/clinics/devices/a"),
        ("POST", "/v1/views"),
    ],
)
@pytest.mark.parametrize("token", ["", "Authorization: Bearer not-the-token-of-anything\r\n"])
def test_the_token_is_looked_at_before_the_body_is_read(socket_standing, method, path, token):
    head = f"{method} {path} HTTP/1.1\r\nHost: 127.0.0.1\r\n{token}Content-Type: application/json\r\n"
    with connected(socket_standing.http.base_url.port, 1) as (one,):
        one.sendall(f"{head}Content-Length: {2**24}\r\n\r\n".encode())
        assert one.recv(20).startswith(b"HTTP/1.1 403" if token else b"HTTP/1.1 401")


@pytest.mark.parametrize("digits", ["9" * 4401, "0" * 4400 + "5", "-5", "5 5", "x"])
def test_a_content_length_that_is_none_is_a_4xx(socket_standing, digits):
    with connected(socket_standing.http.base_url.port, 1) as (one,):
        one.sendall(put_head(socket_standing, f"Content-Length: {digits}\r\nConnection: close") + b"12345")
        assert answer_of(one)[:10] == b"HTTP/1.1 4"


@pytest.mark.parametrize("digits", ["9" * 4401, "0" * 4400 + "5", "-5", "²"])
def test_a_content_length_that_is_none_is_a_4xx_whatever_the_server_lets_through(standing, digits):
    answer = standing.put(b"12345", device_id="a", headers={"Content-Length": digits.encode()})
    assert 400 <= answer.status_code < 500


def test_large_bodies_share_the_memory_and_small_ones_always_find_room():
    from kfed.coordinator.http.body import Bodies, Body
    from kfed.coordinator.problems import ProblemError

    async def receive():
        return {"type": "http.request", "body": b"x" * 2**16, "more_body": True}

    async def hold():
        bodies = Bodies(2**20)
        held = [Body({"headers": []}, receive, 2**19, bodies) for _ in range(4)]
        parts = [body.receive() for body in held[:3] for _ in range(6)]
        await asyncio.gather(*parts)
        with pytest.raises(ProblemError, match="too many large uploads") as refused:
            await asyncio.gather(*(held[3].receive() for _ in range(4)))
        assert (refused.value.status, refused.value.headers) == (503, {"Retry-After": "1"})
        small = Body({"headers": []}, receive, 2**19, bodies)
        await small.receive()
        held[0].release()
        await held[3].receive()

    asyncio.run(hold())


def test_what_a_json_body_may_have_is_less_than_a_message_may(caller):
    answer = caller.http.post("/v1/federations", content=b" " * (2**22 + 1), headers=caller.admin)
    assert answer.status_code == 413


# Readiness ----------------------------------------------------------------------------------------------------------


def test_health_waits_for_no_store_and_readiness_says_so_in_time(caller, monkeypatch):
    from kfed.coordinator.http import readiness
    from kfed.coordinator.store import Store

    assert readiness.ANSWER_SECONDS < 5
    monkeypatch.setattr(readiness, "ANSWER_SECONDS", 0.4)
    assert caller.http.get("/readyz").json() == {"status": "ready"}
    hanging = threading.Event()
    monkeypatch.setattr(Store, "check", lambda _: hanging.wait(20))
    with ThreadPoolExecutor(10) as pool:
        begun = time.monotonic()
        waiting = [pool.submit(caller.http.get, "/readyz") for _ in range(8)]
        time.sleep(0.05)
        assert caller.http.get("/healthz").status_code == 200
        assert not any(one.done() for one in waiting)
        answers = [one.result() for one in waiting]
        assert time.monotonic() - begun < 2
        hanging.set()
    assert {answer.status_code for answer in answers} == {503}
    assert {answer.headers["retry-after"] for answer in answers} == {"2"}


def test_readiness_tests_a_write_once_a_second_at_most(caller, monkeypatch):
    from kfed.coordinator.http import readiness
    from kfed.coordinator.store import Store

    written = []
    monkeypatch.setattr(Store, "set_key", lambda _, *key: written.append(key))
    for seconds, n_written in ((100.0, 1), (100.9, 1), (101.0, 2)):
        monkeypatch.setattr(readiness, "time", SimpleNamespace(monotonic=lambda now=seconds: now))
        for _ in range(10):
            assert caller.http.get("/readyz").status_code == 200
        assert len(written) == n_written


def test_a_picture_is_drawn_once_for_a_version_however_many_ask(caller, monkeypatch):
    from kfed.coordinator.http import pictures

    drawn, draw = [], pictures.picture_of
    under_way = threading.Semaphore(1)

    def slowly(*arguments):
        assert under_way.acquire(blocking=False), "two at a time"
        time.sleep(0.05)
        drawn.append(arguments)
        under_way.release()
        return draw(*arguments)

    monkeypatch.setattr(pictures, "picture_of", slowly)
    for name in ("clinics", "other"):
        caller.create(name)
    caller.put(message("a"))
    paths = [f"/v1/federations/{name}/picture" for name in ("clinics", "other")] * 8
    with ThreadPoolExecutor(16) as pool:
        answers = list(pool.map(caller.http.get, paths))
    assert {answer.status_code for answer in answers} == {200}
    assert len(drawn) == 2
    caller.put(message("b"))
    assert len(caller.http.get(paths[0]).json()["devices"]) == 2
    assert len(drawn) == 3


def test_a_coordinator_that_hangs_is_not_well(monkeypatch, socket_caller):
    from kfed.coordinator.http import gate

    assert socket_caller.http.get("/healthz").status_code == 200
    monkeypatch.setattr(gate, "HANGS_SECONDS", -1.0)
    with connected(socket_caller.http.base_url.port, 1) as (one,):
        one.sendall(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
        assert answer_of(one).startswith(b"HTTP/1.1 503")


def test_health_is_answered_while_the_event_loop_is_busy(socket_caller):
    loop = socket_caller.http.app.state.desk.coordinator._writer._committer._loop
    port = socket_caller.http.base_url.port
    for version in (b"1.1", b"1.0"):
        begun = threading.Event()
        loop.call_soon_threadsafe(lambda begun=begun: (begun.set(), time.sleep(1)))
        begun.wait(5)
        started = time.monotonic()
        with connected(port, 1) as (one,):
            one.sendall(b"GET /healthz HTTP/%s\r\nHost: x\r\n\r\n" % version)
            assert answer_of(one).startswith(b"HTTP/1.1 200")
        assert time.monotonic() - started < 0.5
