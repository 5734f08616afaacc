"""Who gets in: names, links, proxies and wrong tokens."""

import logging
import os
import pty
import re
import shutil
import socket
import subprocess
import time
from pathlib import Path

import httpx
import pytest
from coordinators import KFED, NO_TLS, Caller, free_port, message

from consoles import run
from kfed.coordinator import security
from kfed.coordinator.core import service as core_service
from kfed.coordinator.http import HostNames, rights
from kfed.coordinator.store import Store

VIEWS = ["/v1/federations", "/v1/federations/clinics", "/v1/federations/clinics/picture", "/metrics"]


# Names ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1.evil.example", "192.0.2.7", "", "localhost@evil.example"])
def test_a_request_for_another_name_is_refused_even_with_a_token(standing, host):
    for path in ("/", "/v1/federations", "/metrics", "/openapi.json"):
        answer = standing.http.get(path, headers={**standing.admin, "Host": host})
        assert answer.status_code == 421
    assert standing.http.get("/healthz", headers={"Host": host}).status_code == 200


@pytest.mark.parametrize(
    "host", ["localhost", "localhost:99", "127.0.0.1", "127.0.0.9:8765", "[::1]:8765", "LOCALHOST."]
)
def test_every_loopback_name_is_answered_on_loopback(standing, host):
    assert standing.http.get("/v1/federations", headers={"Host": host}).status_code == 200


def test_a_coordinator_answers_to_the_names_it_was_given(run_app, tmp_path):
    names = HostNames.of("10.0.0.5", ["clinics.example"])
    caller = Caller(run_app(str(tmp_path / "kfed.db"), host_names=names))
    answers = {
        host: caller.http.get("/v1/federations", headers={**caller.admin, "Host": host}).status_code
        for host in ("clinics.example", "10.0.0.5:8765", "127.0.0.1", "other.example", "sub.clinics.example")
    }
    assert list(answers.values()) == [200, 200, 421, 421, 421]


@pytest.mark.slow
def test_a_coordinator_without_a_name_for_others_says_so(serve, tmp_path):
    server = serve("--host", "0.0.0.0", "--insecure")
    assert "if others reach it by a name, add --host-name NAME" in (tmp_path / "serve.log").read_text()
    assert httpx.get(f"http://127.0.0.1:{server.port}/").status_code == 200
    assert httpx.get(f"http://localhost:{server.port}/").status_code == 421


def test_two_host_headers_are_refused(socket_caller):
    with socket.create_connection(("127.0.0.1", socket_caller.http.base_url.port), timeout=10) as connection:
        connection.sendall(b"GET /v1/federations HTTP/1.1\r\nHost: 127.0.0.1\r\nHost: evil.example\r\n\r\n")
        assert connection.recv(1000).startswith((b"HTTP/1.1 421", b"HTTP/1.1 400"))


# Tokens -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "header",
    [("X-Forwarded-For", "192.0.2.7"), ("X-Forwarded-Proto", "https"), ("Forwarded", "for=192.0.2.7"),
     ("X-Real-IP", "192.0.2.7"), ("Via", "1.1 proxy"), ("X-Forwarded-Host", "clinics.example")],
)  # fmt: skip
def test_what_a_proxy_passes_on_needs_a_token_even_if_loopback_is_open(standing, header):
    for path in VIEWS:
        assert standing.http.get(path).status_code == 200
        assert standing.http.get(path, headers=[header]).status_code == 401
        assert standing.http.get(path, headers=[header, *standing.admin.items()]).status_code == 200


@pytest.mark.slow
def test_on_loopback_a_token_is_needed_unless_it_was_opened(serve, tmp_path):
    server = serve()
    with httpx.Client(verify=NO_TLS, base_url=server.url) as http:
        Caller(http, server.admin).create()
        assert [http.get(path).status_code for path in VIEWS] == [401] * 4
        assert http.get("/v1/events").status_code == 401
    server.stop()
    opened = serve("--open-on-loopback")
    with httpx.Client(verify=NO_TLS, base_url=opened.url) as http:
        assert [http.get(path).status_code for path in VIEWS] == [200] * 4


def test_only_loopback_can_be_opened(tmp_path):
    options = ["--host", "0.0.0.0", "--insecure", "--open-on-loopback", "--port", 0, "--store", tmp_path / "x.db"]
    assert "requires a loopback address" in run("serve", *options, code=1)


@pytest.mark.slow
def test_a_link_is_printed_on_a_terminal_and_nowhere_else(tmp_path):
    shown = {}
    for name in ("terminal", "file"):
        ours, theirs = pty.openpty() if name == "terminal" else os.pipe()
        command = [KFED, "serve", "--port", "0", "--store", tmp_path / "kfed.db", "--admin-token-file", tmp_path / "t"]
        with subprocess.Popen(list(map(str, command)), stdout=theirs, stderr=subprocess.PIPE) as process:
            time.sleep(0.1)
            said = os.read(ours, 4096)
            if name == "terminal":
                while b"minutes" not in said:
                    said += os.read(ours, 4096)
            process.terminate()
            process.wait(20)
        os.close(theirs)
        os.close(ours)
        shown[name] = said.decode()
    assert re.search(r"http://127\.0\.0\.1:\d+/#/link=[\w-]{32}", shown["terminal"])
    assert "serving at" in shown["file"]
    assert "link=" not in shown["file"]


def test_a_link_expires():
    from kfed.coordinator.http.viewers import Viewers

    now = [0.0]
    viewers = Viewers(now=lambda: now[0])
    late, used = viewers.invite(), viewers.invite()
    token = viewers.admit(used)
    now[0] = 601.0
    assert viewers.admit(late) is None
    assert viewers.knows(token)
    now[0] = 13 * 3600.0
    assert not viewers.knows(token)


def test_wrong_tokens_are_logged_and_limited_and_right_ones_still_work(caller, caplog):
    caller.create()
    wrong = {"Authorization": "Bearer not-the-token-of-anything"}
    with caplog.at_level(logging.WARNING, "kfed.coordinator"):
        answers = [caller.http.get("/v1/federations/x/devices/a/identity", headers=wrong) for _ in range(40)]
    assert [answer.status_code for answer in answers] == [403] * 20 + [429] * 20
    assert 1 <= int(answers[-1].headers["retry-after"]) <= 60
    lines = [line for line in caplog.messages if "wrong token from 127.0.0.1" in line]
    assert 2 <= len(lines) <= 8
    assert "not-the-token" not in caplog.text
    assert caller.put(message("a")).status_code == 201
    assert caller.http.post("/v1/federations/clinics/close", headers=caller.admin).status_code == 200


def record_reads(monkeypatch):
    """What is read of the store, as SQL; a list that grows."""
    reads, read = [], Store._read
    monkeypatch.setattr(Store, "_read", lambda self, query: reads.append(str(query)) or read(self, query))
    return reads


def test_whether_a_device_exists_is_told_neither_by_the_answer_nor_by_the_work(store_caller, monkeypatch):
    caller = store_caller
    caller.create()
    caller.put(message("there"))
    caller.put(message("open"), secret=None)
    reads, compared, compare = record_reads(monkeypatch), [], security.matches
    for module in (rights, core_service):
        monkeypatch.setattr(module, "matches", lambda *pair: compared.append(pair[0]) or compare(*pair))
    wrong = {"Authorization": "Bearer " + "x" * 32}
    tries = [
        ("GET", "/identity", {"Kfed-Device-Secret": "x" * 24}),
        ("DELETE", "", {"Kfed-Device-Secret": "x" * 24}),
        ("GET", "/identity", wrong),
        ("GET", "/terms", wrong),
        ("PUT", "/message", wrong),
        ("DELETE", "", caller.join["clinics"]),
    ]
    for method, tail, headers in tries:
        seen = set()
        for device_id in ("there", "open", "nobody"):
            reads.clear(), compared.clear()
            answer = caller.http.request(method, caller.path(device_id) + tail, headers=headers)
            seen.add((answer.status_code, answer.text, tuple(reads), len(compared)))
        assert len(seen) == 1, (method, tail)
        [(status, _, read, _)] = seen
        assert status == 403
        assert not any("kfed_devices.message" in query for query in read)


def test_the_store_is_read_alike_whether_or_not_a_federation_exists(store_caller, monkeypatch):
    store_caller.create()
    store_caller.put(message("a"))
    reads = record_reads(monkeypatch)
    answers = {}
    for name in ("clinics", "klinics"):
        for device_id in ("a", "b", "a%00b", "a%07b"):
            for method, tail in (("GET", "/identity"), ("DELETE", "")):
                reads.clear()
                path = f"/v1/federations/{name}/devices/{device_id}{tail}"
                answer = store_caller.http.request(method, path, headers={"Kfed-Device-Secret": "x" * 24})
                answers.setdefault(name, []).append((answer.status_code, answer.text, len(reads)))
                reads.clear()
                assert store_caller.http.request(method, path).status_code == 401
                assert not reads
    assert answers["clinics"] == answers["klinics"]
    assert {status for status, _, _ in answers["clinics"]} == {403, 422}


# A reverse proxy --------------------------------------------------------------------------------------------------


@pytest.fixture
def nginx(tmp_path):
    """Start nginx with the configuration of the how-to, or with another one; gives its URL."""
    program = shutil.which("nginx") or shutil.which("/usr/sbin/nginx")
    if program is None:
        pytest.skip("nginx is not installed (Debian package nginx-light)")
    running = []

    def start(servers, port):
        folder = tmp_path / "nginx"
        folder.mkdir()
        about = f"daemon off; pid {folder}/pid; error_log {folder}/error.log; events {{}}\n"
        paths = "".join(
            f"{kind}_temp_path {folder}/{kind};" for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
        )
        user = "user root;" if os.geteuid() == 0 else ""
        (folder / "nginx.conf").write_text(f"{user}{about}http {{ access_log off; {paths}\n{servers}\n}}\n")
        running.append(subprocess.Popen([program, "-p", folder, "-c", folder / "nginx.conf"], stderr=subprocess.PIPE))
        url = f"http://127.0.0.1:{port}"
        until = time.monotonic() + 10
        while True:
            assert running[0].poll() is None, running[0].stderr.read().decode()
            try:
                httpx.get(url)
            except httpx.TransportError:
                assert time.monotonic() < until
                time.sleep(0.05)
            else:
                return url

    yield start
    for process in running:
        process.terminate()
        process.wait(10)
        process.stderr.close()


def how_to_configuration():
    text = (Path(__file__).parents[2] / "docs" / "how-to-coordinator.md").read_text()
    return text.partition("```nginx\n")[2].partition("```")[0]


@pytest.mark.slow
def test_behind_the_nginx_of_the_how_to_devices_join_and_nobody_looks_without_a_token(serve, nginx):
    server = serve("--open-on-loopback", "--host-name", "clinics.example")
    port = free_port()
    written = how_to_configuration()
    assert "listen 443 ssl;" in written
    changed = written.replace("listen 443 ssl;", f"listen 127.0.0.1:{port};").replace(
        "127.0.0.1:8765", f"127.0.0.1:{server.port}"
    )
    url = nginx(re.sub(r"^ *ssl_certificate.*\n", "", changed, flags=re.M), port)
    with httpx.Client(verify=NO_TLS, base_url=url, headers={"Host": "clinics.example"}) as http:
        caller = Caller(http, server.admin)
        caller.create(quorum=1, n_clusters=2)
        assert [http.get(path).status_code for path in VIEWS] == [401] * 4
        assert http.get("/v1/events").status_code == 401
        assert caller.put(message("a")).status_code == 201
        caller.wait_until("aggregated")
        assert len(caller.identity("a")["cluster_ids"]) == 2
        with http.stream("GET", "/v1/events", headers=caller.admin) as stream:
            begun = time.monotonic()
            assert any(line.startswith("data:") for line in stream.iter_lines())
            assert time.monotonic() - begun < 5  # nginx passes events on at once
        assert http.get("/v1/federations", headers={"Host": "evil.example", **caller.admin}).status_code in (
            404,
            421,
            444,
        )


@pytest.mark.slow
def test_a_careless_nginx_in_front_opens_nothing(serve, nginx):
    server = serve("--open-on-loopback")
    port = free_port()
    bare = f"server {{ listen 127.0.0.1:{port}; location / {{ proxy_pass http://127.0.0.1:{server.port}; }} }}"
    url = nginx(bare, port)
    with httpx.Client(verify=NO_TLS, base_url=server.url) as http:
        Caller(http, server.admin).create()
        assert [http.get(path).status_code for path in VIEWS] == [200] * 4
    assert [httpx.get(f"{url}{path}").status_code for path in VIEWS] == [401] * 4
