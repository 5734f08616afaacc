"""`kfed join`: the whole life of a device in one command, and no row of it on the wire."""

import csv
import io
import json
import re
import socket
import ssl
import stat
import subprocess
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import httpx
import numpy as np
import pytest
from coordinators import ADMIN, MEANS, NO_TLS, SECRET, Caller, message, messages

import kfed
from consoles import SITES, exit_code, run, write_sites
from consoles import said as in_console
from kfed.coordinator.client import CoordinatorError, DeviceClient, Line, StillGathering


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder with the tables of four sites and an admin token."""
    monkeypatch.chdir(tmp_path)
    write_sites(".", MEANS, ["row", "x", "y"], 1.0)
    Path("admin.token").write_text(ADMIN)
    return tmp_path


def join_arguments(url, site, *more):
    own = ["--federation", "sites", "--token-file", "sites.token", "--id", site, "--data", f"{site}.csv", "-k", 2]
    return ["join", url, *own, "--id-column", "row", *more]


@pytest.fixture
def url(run_server, folder):
    """Where a coordinator is that has a federation waiting for three sites."""
    url = str(run_server("kfed.db").base_url)
    run("federation", "create", "sites", "--features", "x,y", "-k", 4, "--quorum", 3, "--url", url)
    return url


def labels_of(path):
    with Path(path).open() as file:
        return {row["row"]: row["cluster"] for row in csv.DictReader(file)}


def test_three_sites_join_and_wait_a_fourth_comes_late_and_all_agree(url):
    with ThreadPoolExecutor() as terminals:
        waiting = [
            terminals.submit(exit_code, *join_arguments(url, site, "-o", f"{site}-labels.csv"))
            for site in ("north", "south")
        ]
        run(*join_arguments(url, "east", "--no-wait"))
    assert [one.result() for one in waiting] == [0, 0]
    run(*join_arguments(url, "west", "-o", "west-labels.csv"))
    run("label", "east.local", "--clusters", "east.ticket", "-o", "east-labels.csv")
    found = {}
    for site, groups in SITES.items():
        labels = labels_of(f"{site}-labels.csv")
        for position, label in enumerate(labels.values()):
            found.setdefault(groups[position // 20], set()).add(label)
    assert all(len(labels) == 1 for labels in found.values())
    assert len(set.union(*found.values())) == 4


def test_a_site_runs_the_same_command_again_without_a_second_effect_and_leaves_for_good(url, monkeypatch):
    again = join_arguments(url, "north", "--no-wait")
    for _ in range(2):
        run(*again)
    shown = json.loads(run("federation", "show", "sites", "--url", url, "--json"))
    assert shown["n_devices"] == 1
    assert stat.S_IMODE(Path("north.ticket").stat().st_mode) == 0o600
    error = run("label", "north.local", "--clusters", "north.ticket", code=1)
    assert "1 device joined (quorum 3); the clusters are not ready yet" in error
    changed = [*join_arguments(url, "north", "--no-wait", "--force"), "--seed", 5, "--min-cluster-size", 20]
    Path("north.csv").write_text(Path("south.csv").read_text())
    assert "replace" in run(*changed, code=1)
    for answer in ("n\n", ""):
        monkeypatch.setattr("sys.stdin", io.StringIO(answer))
        refused = run(*changed, "--replace", code=1)
        assert "can subtract it from the new one" in refused
        assert "nothing was sent; pass --yes" in refused
    run(*changed, "--replace", "--yes")
    run("leave", "north.ticket")
    assert json.loads(run("federation", "show", "sites", "--url", url, "--json"))["n_devices"] == 0


def test_without_a_quorum_a_site_hears_who_makes_the_clusters(url):
    run("federation", "create", "open", "--features", "x,y", "-k", 4, "--url", url)
    own = ["--federation", "open", "--token-file", "open.token", "--data", "north.csv", "-k", 2, "--id-column", "row"]
    said = " ".join(run("join", url, *own, "--no-wait").split())
    assert "the administrator has to make them (kfed federation aggregate NAME)" in said
    assert "administrator" not in StillGathering(1, 3, None, "", 1.0).in_words
    assert "administrator" not in StillGathering(1, None, 2e9, "", 1.0).in_words


def test_errors_of_a_newcomer_say_what_to_do(url):
    missing = ["join", url, "--federation", "sites", "--data", "north.csv", "-k", 2]
    assert "--token-file" in run(*missing, "-o", "labels.csv", code=1)
    assert "--no-wait" in run(*missing, "--token-file", "sites.token", code=1)
    Path("wrong.token").write_text("not-the-token-of-anything")
    wrong = [*missing, "--token-file", "wrong.token", "--id-column", "row", "-o", "labels.csv"]
    assert "pass its join token" in run(*wrong, code=1)
    far = [*join_arguments("http://coordinator.example", "north", "-o", "labels.csv")]
    assert "unencrypted" in run(*far, code=1)
    away = [*join_arguments("http://127.0.0.1:9", "north", "-o", "labels.csv"), "--patience", 0.5]
    assert "no usable response" in run(*away, code=1)
    assert not Path("labels.csv").exists()


# The wire -------------------------------------------------------------------------------------------------------


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


# What goes wrong at the edge -----------------------------------------------------------------------------------------


def test_a_federation_that_was_mistyped_does_not_spoil_the_next_join(url):
    wrong = [*join_arguments(url, "north", "--no-wait"), "--federation", "cites"]
    assert "no federation 'cites'" in run(*wrong, code=1)
    assert not list(Path().glob("north.[tl]*"))
    run(*join_arguments(url, "north", "--no-wait"))
    kept = Path("north.ticket").read_bytes()
    assert "no federation 'cites'" in run(*wrong, code=1)
    assert "no federation 'cites'" in run(*wrong, "--force", code=1)
    assert Path("north.ticket").read_bytes() == kept
    run("leave", "north.ticket")


def test_a_ticket_of_another_federation_is_given_up_with_force(url):
    run("federation", "create", "other", "--features", "x,y", "-k", 4, "--url", url)
    run(*join_arguments(url, "north", "--no-wait"))
    other = [*join_arguments(url, "north", "--no-wait"), "--federation", "other", "--token-file", "other.token"]
    assert "give another file with --ticket" in run(*other, code=1)
    run(*other, "--force")
    assert json.loads(run("federation", "show", "other", "--url", url, "--json"))["n_devices"] == 1


def test_labels_can_be_read_by_their_owner_only(url):
    for site in ("north", "south"):
        run(*join_arguments(url, site, "--no-wait"))
    run(*join_arguments(url, "east", "-o", "labels.csv"))
    run("label", "north.local", "--clusters", "north.ticket", "-o", "north-labels.csv")
    for path in ("labels.csv", "north-labels.csv"):
        assert stat.S_IMODE(Path(path).stat().st_mode) == 0o600


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


def test_a_name_with_a_space_and_zero_clusters_are_refused_in_words(url):
    create = ["federation", "create", "--features", "x,y", "--url", url]
    assert "name must be 1 to 63 letters, digits" in run(*create, "my clinics", code=1)
    for wrong in (0, "many"):
        said = " ".join(run(*create, "zero", "-k", wrong, code=2).replace("│", " ").split())
        assert f"must be a whole number of at least 1, or auto; got '{wrong}'" in said


def test_the_command_for_later_can_be_pasted(url):
    Path("my site.csv").write_text(Path("north.csv").read_text())
    arguments = join_arguments(url, "north", "--no-wait")
    arguments[arguments.index("--data") + 1] = "my site.csv"
    assert "kfed label 'my site.local' --clusters 'my site.ticket'" in run(*arguments)


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


def test_a_password_of_the_database_is_in_no_output(postgres_address, tmp_path, serve):
    with_password = postgres_address.replace("kfed@", "kfed:s3cret@")
    server = serve(store=with_password)
    assert server.said["store"] == postgres_address.replace("kfed@", "kfed:***@")
    assert "s3cret" not in json.dumps(server.said)


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


def test_a_private_site_sends_the_same_release_again_and_pays_for_it_once(url):
    rows = np.random.default_rng(0).normal(size=(2000, 2)) + np.repeat([[-3.0, 0.0], [3.0, 0.0]], 1000, axis=0)
    np.savetxt("north.csv", np.column_stack([np.arange(2000), rows]), delimiter=",", header="row,x,y", comments="")
    private = ["--no-wait", "--epsilon", "2", "--radius", "8", "--budget", "2"]
    mistyped = ["cites" if argument == "sites" else argument for argument in join_arguments(url, "north", *private)]
    run(*mistyped, code=1)
    for _ in range(2):
        run(*join_arguments(url, "north", *private))
    assert len(Path("north.csv.ledger").read_text().splitlines()) == 1
    shown = json.loads(run("federation", "show", "sites", "--url", url, "--json"))
    assert shown["n_devices"] == 1


def test_a_site_is_told_when_labels_depend_on_centers_that_are_not_shown(run_server, folder):
    """Its labels are not those that it would get of the aggregation, which shows all centers."""
    url = str(run_server("kfed.db").base_url)
    run("federation", "create", "sites", "--columns", "x,y", "-k", 3, "--quorum", 2, "--url", url)
    by_row = ["--id-column", "row", "-o", "labels.csv", "--json"]
    run(*join_cloud(url, "south", "--id-column", "row", "--no-wait"))
    told = json.loads(run(*join_cloud(url, "north", *by_row)))["warnings"]
    hidden = [notice["text"] for notice in told if notice["code"] == "hidden centers"]
    assert len(hidden) == 1
    assert hidden[0].startswith("3 of 3 cluster centers are hidden, because fewer than 3 devices contributed to each")
    code, _, err = in_console("label", "south.local", "--clusters", "south.ticket", "-o", "south-labels.csv")
    assert code == 0
    assert "warning: 3 of 3 cluster centers are hidden, because too few devices contributed to each" in err
    run("federation", "create", "open", "--columns", "x,y", "-k", 3, "--min-devices-shown", 1, "--url", url)
    shown = [argument.replace("sites", "open") for argument in join_cloud(url, "north", "--ticket", "open.ticket")]
    run(*shown, "--id-column", "row", "--no-wait")
    run("federation", "aggregate", "open", "-k", 2, "--url", url)
    told = json.loads(run(*shown, *by_row, "--force"))["warnings"]
    assert "hidden centers" not in [notice["code"] for notice in told]


def one_cloud(run_server, *more):
    """The address of a coordinator that waits for three sites, whose rows are of one cloud."""
    url = str(run_server("kfed.db").base_url)
    run("federation", "create", "sites", "--columns", "x,y", "--quorum", 3, *more, "--url", url)
    rng = np.random.default_rng(0)
    for site in ("north", "south", "east"):
        rows = "".join(f"{x:.4f},{y:.4f}\n" for x, y in rng.normal(size=(200, 2)))
        Path(f"{site}.csv").write_text(f"x,y\n{rows}")
    return url


def join_cloud(url, site, *more):
    return ["join", url, "--federation", "sites", "--token-file", "sites.token", "--data", f"{site}.csv", *more]


@pytest.mark.slow
def test_sites_of_one_cloud_get_clusters_without_a_number_and_hear_that_none_stands_out(
    run_server, folder, few_compared
):
    url = one_cloud(run_server)
    for site in ("north", "south"):
        run(*join_cloud(url, site, "--no-wait"))
    said = json.loads(run(*join_cloud(url, "east", "-o", "labels.csv", "--timeout", 60, "--json")))
    assert "unsure k" in [notice["code"] for notice in said["warnings"]]
    assert len(Path("labels.csv").read_text().splitlines()) == 201
    assert (said["n_clusters"], said["answered_by"]) == (2, "pooled")
    assert said["found"] == "no number of clusters stands out (2 at best)"
    code, out, err = in_console(*join_cloud(url, "east", "-o", "labels.csv", "--force"))
    assert code == 0
    assert "found 2 clusters (rule: pooled)" in " ".join(out.split())
    assert f"{out} {err}".count("no number of clusters stands out") == 1
    shown = run("federation", "show", "sites", "--url", url)
    assert "the best number of clusters, rule: default (used: pooled)" in shown


@pytest.mark.slow
def test_where_only_a_clear_number_is_taken_a_site_says_once_who_has_to_choose_it_and_waits_as_long_as_asked(
    run_server, folder, few_compared
):
    url = one_cloud(run_server, "-k", "auto")
    for site in ("north", "south", "east"):
        run(*join_cloud(url, site, "--no-wait"))
    told = "the administrator has to choose a number: kfed federation aggregate sites -k N"
    with httpx.Client(base_url=url) as administrator:
        Caller(administrator).wait_for(lambda shown: told in shown["remark"], "sites", seconds=60)
    said = " ".join(run(*join_cloud(url, "east", "-o", "labels.csv", "--timeout", 1), code=1).split())
    waiting = "sent; 3 devices joined (quorum 3); the clusters are not ready yet; with 3 devices: no number of"
    assert said.count(waiting) == 1
    assert told in said
    assert "run the same command again later" in said


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


def test_a_site_that_has_left_or_whose_federation_is_gone_is_told_why_it_gets_no_clusters(url):
    for site in ("north", "south"):
        run(*join_arguments(url, site, "--no-wait"))
    run(*join_arguments(url, "east", "-o", "east-labels.csv"))
    ask = ["label", "north.local", "--clusters", "north.ticket", "-o", "labels.csv"]
    run(*ask)
    run("leave", "north.ticket")
    reason = "federation 'sites' does not know 'north' by this ticket: the site has left, was removed"
    assert reason in run(*ask, "--force", code=1)
    run("federation", "delete", "sites", "--yes", "--url", url)
    assert "or the federation was deleted" in run("label", "south.local", "--clusters", "south.ticket", code=1)


def test_new_rows_are_labelled_by_a_ticket_unless_all_centers_are_hidden(url):
    means = [f"{x!r},{y!r}" for x, y in MEANS.tolist()]
    Path("new.csv").write_text("\n".join(["x,y", *means, ""]))
    for site in ("north", "south"):
        run(*join_arguments(url, site, "--no-wait"))
    run(*join_arguments(url, "east", "-o", "east-labels.csv"))
    assert "the centers of all clusters are hidden" in run("label", "new.csv", "--clusters", "north.ticket", code=1)
    terms = ["--features", "x,y", "-k", 4, "--quorum", 3, "--min-devices-shown", 2]
    run("federation", "create", "some", *terms, "--url", url)
    own = ["--federation", "some", "--token-file", "some.token", "--force"]
    for site in ("north", "south"):
        run(*join_arguments(url, site, "--no-wait"), *own)
    run(*join_arguments(url, "east", "-o", "east-labels.csv"), *own)
    code, labels, told = in_console("label", "new.csv", "--clusters", "north.ticket")
    assert code == 0
    assert "2 of 4 cluster centers are hidden, because too few devices contributed to each; new rows get the" in told
    found = [int(line.split(",")[1]) for line in labels.splitlines()[1:]]
    run("federation", "download", "some", "--aggregation", "some.kfed", "--url", url)
    all_shown = kfed.Aggregation.load("some.kfed").predict(MEANS)
    assert found[1:3] == all_shown[1:3].tolist()  # south and east or north have these, too
