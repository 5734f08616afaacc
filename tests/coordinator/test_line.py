"""What a site and a coordinator say to each other: no row of a table, again after a fault, and to nobody else."""

import csv
import json
import re
import socket
import ssl
import subprocess
import threading
import time
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import httpx
import numpy as np
import pytest
from coordinators import NO_TLS, SECRET, Caller, message, messages
from joining import folder, join_arguments, labels_of, url  # noqa: F401

import kfed
from consoles import SITES, run
from kfed.coordinator.client import CoordinatorError, DeviceClient, Line, StillGathering


class Listener:
    """Takes connections on a port of its own until it is closed."""

    def __init__(self, scheme="http"):
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.url = f"{scheme}://127.0.0.1:{self._listening.getsockname()[1]}"
        self._thread = threading.Thread(target=self._listen, daemon=True)
        self._thread.start()

    def _listen(self):
        while True:
            try:
                connection, _ = self._listening.accept()
            except OSError:
                return
            self.take(connection)

    def close(self):
        self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()
        self._thread.join()


class Tap(Listener):
    """Passes connections on to a coordinator, and keeps every byte."""

    def __init__(self, port):
        self._to = port
        self.seen = bytearray()
        super().__init__()

    def take(self, connection):
        other = socket.create_connection(("127.0.0.1", self._to))
        for source, sink in ((connection, other), (other, connection)):
            threading.Thread(target=self._pass_on, args=(source, sink), daemon=True).start()

    def _pass_on(self, source, sink):
        with source:
            while data := source.recv(65536):
                self.seen += data
                sink.sendall(data)
            sink.close()


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")  # of sockets closed at the end
def test_no_row_is_on_the_wire(url):
    tap = Tap(int(url.rsplit(":", 1)[1].rstrip("/")))
    for site in SITES:
        run(*join_arguments(tap.url, site, "--no-wait"))
    run(*join_arguments(tap.url, "north", "-o", "waited-for.csv"))
    run("label", "north.local", "--clusters", "north.ticket", "-o", "north-labels.csv")
    tap.close()
    seen = bytes(tap.seen)
    for site in SITES:
        with Path(f"{site}.csv").open() as file:
            for row in csv.DictReader(file):
                point = np.array([float(row["x"]), float(row["y"])])
                traces = [row["row"].encode(), row["x"].encode(), row["y"].encode()]
                traces += [array.tobytes() for array in (point, point.astype(np.float32), point.astype(">f8"))]
                traces += [point[:1].tobytes(), point[1:].tobytes()]
                assert not [trace for trace in traces if trace in seen]
    rows = np.loadtxt("north.csv", delimiter=",", skiprows=1, usecols=(1, 2))
    sent = kfed.cluster_device(rows, 2, random_state=0, device_id="north")
    assert sent.centers[0].tobytes() in seen  # what is meant to be sent is found by the same search


# Retries --------------------------------------------------------------------------------------------------------


class Faulty(httpx.BaseTransport):
    """Fails in the given ways, one after the other, then works; may lose the answer of what worked."""

    def __init__(self, faults, through):
        self._faults, self._through = list(faults), through
        self.n_requests = 0

    def handle_request(self, request):
        self.n_requests += 1
        fault = self._faults.pop(0) if self._faults else None
        if isinstance(fault, int):
            return httpx.Response(fault, headers={"Retry-After": "3"}, json={"detail": "not now"})
        if fault == "unreachable":
            raise httpx.ConnectError("no route")
        answer = self._through.send(self._through.build_request(
            request.method, request.url.raw_path.decode(), headers=dict(request.headers), content=request.read()
        ))  # fmt: skip
        if fault == "lost":
            raise httpx.ReadError("the answer was lost")
        return httpx.Response(answer.status_code, headers=answer.headers, content=answer.content)


def faulty_client(caller, faults):
    pauses = []
    transport = Faulty(faults, caller.http)
    line = Line("http://127.0.0.1", transport=transport, sleep=pauses.append, patience=1000)
    return DeviceClient(line, "clinics", "a", SECRET), pauses, transport


def test_faults_are_met_with_longer_and_longer_pauses_and_no_second_effect(caller):
    caller.create()
    faults = ["unreachable", "lost", 503, "lost", 502, 500, "unreachable", 408]
    client, pauses, transport = faulty_client(caller, faults)
    token = caller.join["clinics"]["Authorization"].split()[1]
    assert isinstance(client.send(message("a"), token), StillGathering)
    assert caller.show()["n_devices"] == 1
    assert transport.n_requests == len(faults) + 1
    assert len(set(pauses)) == len(pauses) == len(faults)
    for attempt, (fault, pause) in enumerate(zip(faults, pauses, strict=True)):
        longest = min(30, 0.25 * 2**attempt)
        asked_for = 3 if isinstance(fault, int) else 0
        assert asked_for + longest / 4 <= pause <= asked_for + longest


def test_a_refusal_is_not_repeated(caller):
    caller.create()
    client, pauses, transport = faulty_client(caller, [])
    with pytest.raises(CoordinatorError, match="403"):
        client.send(message("a"), "not-the-token-of-anything")
    assert (pauses, transport.n_requests) == ([], 1)


def test_patience_ends(caller):
    pauses = []
    transport = Faulty(["unreachable"] * 100, caller.http)
    line = Line("http://127.0.0.1", transport=transport, sleep=pauses.append, patience=2.0)
    with pytest.raises(CoordinatorError, match="no route"):
        line.request("GET", "/healthz")
    assert 1 <= len(pauses) < 100


class LosingAnswers(httpx.BaseTransport):
    """Passes requests on, and loses as many answers as it is told."""

    def __init__(self, n_lost):
        self._through, self._n_lost = httpx.HTTPTransport(verify=NO_TLS), n_lost

    def handle_request(self, request):
        answer = self._through.handle_request(request)
        if self._n_lost:
            self._n_lost -= 1
            answer.read()
            raise httpx.ReadError("the answer was lost")
        return answer

    def close(self):
        self._through.close()


def test_a_site_whose_leaving_was_not_acknowledged_has_left(url, monkeypatch):
    run(*join_arguments(url, "north", "--no-wait"))
    before = Path("north.ticket").read_bytes()
    real = httpx.Client

    def losing(n_lost):
        lossy = lambda **options: real(**{**options, "transport": LosingAnswers(n_lost), "mounts": None})  # noqa: E731
        monkeypatch.setattr("kfed.coordinator.client.line.httpx.Client", lossy)

    losing(1)
    assert "north has left sites" in run("leave", "north.ticket")
    Path("north.ticket").write_bytes(before)
    losing(0)
    run(*join_arguments(url, "north", "--no-wait"))
    losing(100)
    assert "no usable response" in run("leave", "north.ticket", "--patience", 0.1, code=1)
    losing(0)
    assert "north has left sites" in run("leave", "north.ticket")
    assert json.loads(run("federation", "show", "sites", "--url", url, "--json"))["n_devices"] == 0


def test_a_site_that_never_joined_is_told_so_when_it_leaves(url):
    run(*join_arguments(url, "north", "--no-wait"))
    facts = json.loads(Path("north.ticket").read_text())
    Path("north.ticket").write_text(json.dumps({**facts, "federation": "cites"}))
    for _ in range(2):
        assert "refused (403)" in run("leave", "north.ticket", code=1)


# Addresses -------------------------------------------------------------------------------------------------------


def test_without_tls_no_certificates_are_read_and_none_would_be_trusted(monkeypatch, certificate):
    read, verified_by, client = [], [], httpx.Client
    monkeypatch.setattr(ssl, "create_default_context", lambda *args, **options: read.append(options))
    monkeypatch.setattr(httpx, "Client", lambda **options: verified_by.append(options["verify"]) or client(**options))
    Line("http://127.0.0.1:9").close()
    assert not read
    [empty] = verified_by
    assert (empty.verify_mode, empty.check_hostname, empty.get_ca_certs()) == (ssl.CERT_REQUIRED, True, [])
    Line("https://127.0.0.1:9", cafile=certificate / "cert.pem").close()
    assert read == [{"cafile": certificate / "cert.pem"}]


def test_loopback_is_reached_without_the_proxy_of_the_environment(url, monkeypatch):
    for name in ("http_proxy", "https_proxy", "all_proxy", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    for host in (url, url.replace("127.0.0.1", "localhost")):
        assert "sites" in run("federation", "list", "--url", host)


def test_waiting_for_an_address_that_does_not_answer_is_not_mute():
    told, pauses = [], []
    line = Line("http://127.0.0.1:9", patience=300, sleep=pauses.append, tell=told.append)
    monkey = iter([httpx.ConnectError("[Errno 111] Connection refused")] * 3)

    def fail(*_, **__):
        error = next(monkey, None)
        if error is None:
            return httpx.Response(200)
        raise error

    line._http.request = fail
    line.request("GET", "/healthz")
    assert len(pauses) == 3
    assert len(told) == 1
    assert re.fullmatch(r"no answer yet \(nothing listens at 127.0.0.1 port 9\); trying again until \d\d:\d\d", told[0])


def reason(url, **options):
    """What is said of an address that cannot be used, and how often it was tried."""
    pauses = []
    line = Line(url, patience=0.5, sleep=pauses.append, insecure=True, **options)
    with pytest.raises(CoordinatorError) as refused:
        line.request("GET", "/v1/federations")
    line.close()
    return str(refused.value), len(pauses)


def test_what_is_wrong_with_an_address_is_said_in_plain_words(url, certificate):
    port = url.rsplit(":", 1)[1].rstrip("/")
    said, n_pauses = reason(f"https://127.0.0.1:{port}")
    assert "does not use TLS; if this is meant, the URL must begin with http://" in said
    assert n_pauses == 0
    assert "nothing listens at 127.0.0.1 port 9" in reason("http://127.0.0.1:9")[0]
    assert "no machine named nobody.invalid was found" in reason("http://nobody.invalid")[0]


@pytest.mark.slow
def test_what_is_wrong_with_an_encrypted_address_is_said_in_plain_words(serve, certificate):
    server = serve("--certfile", certificate / "cert.pem", "--keyfile", certificate / "key.pem")
    assert "if it uses TLS, the URL must begin with https://" in reason(f"http://127.0.0.1:{server.port}")[0]
    said, n_pauses = reason(server.url)
    assert "is not trusted (self-signed certificate" in said
    assert "--cafile" in said
    assert n_pauses == 0


@pytest.fixture
def website(folder):
    """Where a website is that is no coordinator: it has a page for the root, and nothing else."""
    serving = ThreadingHTTPServer(("127.0.0.1", 0), partial(QuietHandler, directory=folder))
    thread = threading.Thread(target=serving.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{serving.server_port}"
    serving.shutdown()
    serving.server_close()
    thread.join()


class QuietHandler(SimpleHTTPRequestHandler):
    """Serves the files of a folder, and logs nothing."""

    def log_message(self, *_):
        pass


def test_a_wrong_address_is_told_as_such_and_nothing_is_said_of_the_table(url, website):
    for wrong in (f"{url.rstrip('/')}/foo", f"{url.rstrip('/')}/v1"):
        for command in (join_arguments(wrong, "north", "--no-wait"), ["federation", "list", "--url", wrong]):
            assert run(*command, code=1).startswith("kfed: the coordinator refused (404): nothing is at this address")
    for command in (join_arguments(website, "north", "--no-wait"), ["federation", "list", "--url", website]):
        error = run(*command, code=1)
        assert error.startswith(f"kfed: what answers at {website} is no kfed coordinator (404")
        assert "check the URL" in error
    assert not list(Path().glob("north.[tl]*"))


def test_a_page_in_place_of_an_answer_is_not_from_a_coordinator():
    page = httpx.MockTransport(lambda _: httpx.Response(200, html="<p>Welcome</p>"))
    client = DeviceClient(Line("http://127.0.0.1", transport=page), "clinics", "a", SECRET)
    for ask in (lambda: client.terms("a-token"), client.identity):
        with pytest.raises(CoordinatorError, match=r"no kfed coordinator \(200 OK.*check the URL"):
            ask()


# Encryption -----------------------------------------------------------------------------------------------------


def made_certificate(folder, name):
    """A key and a certificate for this name or address, signed by itself."""
    folder.mkdir(exist_ok=True)
    command = "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=kfed"
    files = ["-keyout", str(folder / "key.pem"), "-out", str(folder / "cert.pem")]
    try:
        subprocess.run([*command.split(), "-addext", f"subjectAltName={name}", *files], check=True, capture_output=True)
    except FileNotFoundError:
        pytest.skip("openssl is not installed")
    return folder


@pytest.fixture(scope="module")
def certificate(tmp_path_factory):
    return made_certificate(tmp_path_factory.mktemp("certificate"), "IP:127.0.0.1")


class Impostor(Listener):
    """Listens with a certificate of its own, and keeps what it is told behind it."""

    def __init__(self, certificate):
        self.heard = []
        self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._context.load_cert_chain(certificate / "cert.pem", certificate / "key.pem")
        super().__init__("https")

    def take(self, connection):
        connection.settimeout(5)
        try:
            with self._context.wrap_socket(connection, server_side=True) as encrypted:
                self.heard.append(encrypted.recv(2**16))
        except OSError:
            connection.close()


@pytest.mark.parametrize(
    ("name", "trusted", "why"),
    [("IP:127.0.0.1", "own", "not trusted"), ("DNS:other.example", "its", "mismatch")],
)
def test_nothing_is_said_to_who_does_not_present_the_right_certificate(
    url, folder, certificate, tmp_path, name, trusted, why
):
    theirs = made_certificate(tmp_path / "impostor", name)
    authority = certificate if trusted == "own" else theirs
    impostor = Impostor(theirs)
    started = time.monotonic()
    said = run(*join_arguments(impostor.url, "north", "--no-wait", "--cafile", authority / "cert.pem"), code=1)
    impostor.close()
    assert why in said
    assert time.monotonic() - started < 60  # it is not tried again for minutes
    assert not b"".join(impostor.heard)
    assert not Path("north.ticket").exists()


@pytest.mark.slow
def test_a_device_verifies_who_it_talks_to_and_no_token_or_stack_is_in_the_log(serve, folder, certificate):
    Path("admin.token").unlink()
    server = serve("--verbose", "--certfile", certificate / "cert.pem", "--keyfile", certificate / "key.pem")
    assert server.url.startswith("https://")
    trusted = ["--cafile", certificate / "cert.pem"]
    terms = ["--features", "x,y", "-k", 2, "--quorum", 1]
    run("federation", "create", "sites", *terms, "--url", server.url, *trusted)
    refused = run(*join_arguments(server.url, "north", "-o", "labels.csv", "--patience", 0.3), code=1)
    assert "certificate" in refused.lower()
    run(*join_arguments(server.url, "north", "-o", "labels.csv", *trusted))
    assert len(labels_of("labels.csv")) == 40
    with httpx.Client(base_url=server.url, verify=ssl.create_default_context(cafile=certificate / "cert.pem")) as http:
        caller = Caller(http, server.admin)
        made = caller.create()
        for one in messages(3):
            caller.put(one)
        caller.put(b"nonsense", device_id="x")
        http.get("/v1/federations/nix", headers=caller.admin)
    server.stop()
    log = (folder / "serve.log").read_text()
    assert "Application startup complete" in log
    for token in (server.admin, made["join_token"], SECRET, Path("sites.token").read_text().strip()):
        assert token not in log
    assert "Traceback" not in log


def test_other_machines_are_listened_to_only_with_tls_or_on_request(tmp_path, certificate):
    refused = run("serve", "--host", "0.0.0.0", "--port", 0, "--store", tmp_path / "x.db", code=1)
    assert "--insecure" in refused
    half = run("serve", "--certfile", certificate / "cert.pem", "--port", 0, "--store", tmp_path / "x.db", code=1)
    assert "--keyfile" in half
    assert not (tmp_path / "x.db").exists()


def test_a_password_of_the_database_is_in_no_output(postgres_address, tmp_path, serve):
    with_password = postgres_address.replace("kfed@", "kfed:s3cret@")
    server = serve(store=with_password)
    assert server.said["store"] == postgres_address.replace("kfed@", "kfed:***@")
    assert "s3cret" not in json.dumps(server.said)
