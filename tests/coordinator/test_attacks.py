"""What one visitor can do to a coordinator: a health check is answered all the while, and memory stays level."""

import resource
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack

import httpx
import numpy as np
import pytest
from coordinators import Caller, message
from visitors import Watch, answer_of, connected, sent_in_time

import kfed
from kfed.coordinator.http import Limits


@pytest.fixture(autouse=True)
def many_files():
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, min(hard, 8192)), hard))


@pytest.fixture
def attacked(serve):
    """A coordinator as a program of its own, and somebody who calls it."""
    server = serve()
    with httpx.Client(base_url=server.url, timeout=60) as http:
        caller = Caller(http, server.admin)
        caller.create()
        http.get("/healthz")
        yield server, caller


def at_once(n_threads, work):
    with ThreadPoolExecutor(n_threads) as pool:
        return list(pool.map(lambda _: work(), range(n_threads)))


@pytest.mark.slow
@pytest.mark.parametrize("n_addresses", [1, 10])
def test_two_thousand_idle_connections_stop_nobody(attacked, n_addresses):
    server, _ = attacked
    with Watch(server) as watch, ExitStack() as held:
        for i in range(n_addresses):
            held.enter_context(connected(server.port, 2400 // n_addresses, f"127.0.0.{i + 2}"))
        held.enter_context(connected(server.port, 300))
        time.sleep(3)
    assert watch.memory_grown < 60e6


@pytest.mark.slow
def test_heads_without_end_stop_nobody_and_take_no_memory(attacked):
    server, _ = attacked

    def send():
        with connected(server.port, 1) as (one,):
            one.sendall(b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n")
            return sent_in_time(one, (b"X-%d: %s\r\n" % (i, b"y" * 60_000) for i in range(1000)), 3)

    with Watch(server) as watch:
        n_bytes = [one for _ in range(5) for one in at_once(16, send)]
    assert max(n_bytes) < 20e6  # what the buffers of the system take
    assert watch.memory_grown < 30e6


@pytest.mark.slow
@pytest.mark.parametrize("token", [{}, {"Authorization": "Bearer not-the-token-of-anything"}])
def test_large_json_without_the_right_token_stops_nobody_and_is_not_parsed(attacked, token):
    server, _ = attacked
    body = b'{"name": "x", "n_features": 2, "feature_names": [' + b"[]," * (2**24 // 3 - 100) + b"1]}"

    def send():
        with httpx.Client(base_url=server.url, timeout=30) as http:
            try:
                return http.post("/v1/federations", content=body, headers=token).status_code
            except httpx.TransportError:
                return 0  # refused while it was sending

    with Watch(server) as watch:
        statuses = {one for _ in range(3) for one in at_once(8, send)}
    assert statuses <= {401, 403, 429, 0}
    assert watch.memory_grown < 60e6


@pytest.mark.slow
def test_forty_large_bodies_held_back_stop_nobody_and_share_their_memory(attacked):
    server, caller = attacked
    caller.create("wide", n_features=1900, max_centers=1024)
    token = caller.join["wide"]["Authorization"]
    head = f"Host: 127.0.0.1\r\nAuthorization: {token}\r\nContent-Length: {15 * 2**20}\r\n\r\n"
    with Watch(server) as watch, connected(server.port, 40) as held:
        for i, one in enumerate(held):
            one.sendall(f"PUT {caller.path(f'{i}', 'wide')}/message HTTP/1.1\r\n{head}".encode())
        with ThreadPoolExecutor(40) as pool:
            list(pool.map(lambda one: sent_in_time(one, [b"x" * 2**20] * 14, 20), held))
        assert caller.put(message("small")).status_code == 201
    assert watch.memory_grown < 200e6


def wide_messages(n_devices, n_features=4096, n_centers=50):
    rng = np.random.default_rng(0)
    return [
        kfed.DeviceMessage(f"wide-{i}", rng.normal(size=(n_centers, n_features)), np.full(n_centers, 10))
        for i in range(n_devices)
    ]


@pytest.mark.slow
def test_six_wide_pictures_at_once_stop_nobody(attacked):
    server, caller = attacked
    sent = wide_messages(10)
    for i in range(6):
        caller.create(f"wide-{i}", n_features=4096)
        for one in sent:
            assert caller.put(one, f"wide-{i}").status_code == 201
    pictures = [f"/v1/federations/wide-{i}/picture" for i in range(6)]
    with Watch(server) as watch, ThreadPoolExecutor(6) as pool:
        begun = time.monotonic()
        answers = list(pool.map(lambda path: caller.http.get(path, headers=caller.admin), pictures))
        seconds = time.monotonic() - begun
    assert {answer.status_code for answer in answers} == {200}
    assert seconds < 30
    assert watch.memory_grown < 400e6


@pytest.mark.slow
def test_two_hundred_viewers_of_a_wide_picture_get_it_at_once(attacked):
    server, caller = attacked
    caller.create("wide", n_features=4096)
    for one in wide_messages(10):
        caller.put(one, "wide")

    limits = httpx.Limits(max_connections=200)
    with Watch(server), httpx.Client(base_url=server.url, headers=caller.admin, limits=limits, timeout=60) as http:
        begun = time.monotonic()
        statuses = at_once(200, lambda: http.get("/v1/federations/wide/picture").status_code)
        seconds = time.monotonic() - begun
    assert set(statuses) == {200}
    assert seconds < 10


@pytest.mark.slow
def test_wrong_tokens_by_the_thousand_stop_nobody(attacked):
    server, caller = attacked
    head = f"GET {caller.path('a')}/identity HTTP/1.1\r\nHost: 127.0.0.1\r\nKfed-Device-Secret: {'x' * 24}\r\n\r\n"

    def guess():
        for _ in range(40):
            with connected(server.port, 1) as (one,):
                one.sendall(head.encode())
                one.recv(1000)

    with Watch(server):
        at_once(32, guess)
        assert caller.put(message("a")).status_code == 201


@pytest.mark.slow
def test_requests_as_fast_as_they_come_stop_nobody(attacked):
    server, _ = attacked
    request = b"GET /openapi.json HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"

    def ask():
        with connected(server.port, 1) as (one,):
            for _ in range(10):
                one.sendall(request)
                one.recv(2**20)

    with Watch(server):
        at_once(200, ask)


@pytest.mark.slow
def test_answers_that_nobody_reads_are_dropped(run_server, tmp_path):
    caller = Caller(run_server(str(tmp_path / "kfed.db"), limits=Limits(unread_seconds=0.5)))
    for name in ("a", "b", "c", "d"):
        caller.create(name, n_features=50_000, feature_names=[f"{i:060}" for i in range(50_000)])
    whole = len(caller.http.get("/v1/federations").content)
    with connected(caller.http.base_url.port, 1) as (one,):
        one.sendall(b"GET /v1/federations HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
        time.sleep(3)
        assert len(answer_of(one)) < whole


@pytest.mark.slow
def test_requests_sent_far_ahead_are_cut_off(socket_caller):
    with connected(socket_caller.http.base_url.port, 1) as (one,):
        one.sendall(b"GET /openapi.json HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n" * 1000)
        assert answer_of(one).count(b"HTTP/1.1 200") < 20
