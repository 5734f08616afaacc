"""A Flower network on this machine for tests: TLS with a CA of its own, node authentication, a process for each."""

from __future__ import annotations

import contextlib
import datetime
import ipaddress
import json
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

ROOT = Path(__file__).parents[2]
BIN = Path(sys.executable).parent
PEM = serialization.Encoding.PEM


def environment(home: Path) -> dict[str, str]:
    """Where Flower finds its programs, this kfed, and a home of its own."""
    return os.environ | {
        "FLWR_HOME": str(home),
        "PATH": f"{BIN}:{os.environ['PATH']}",
        "PYTHONPATH": str(ROOT / "src"),
        "FLWR_TELEMETRY_ENABLED": "0",
        "FLWR_DISABLE_UPDATE_CHECK": "1",
    }


class Network:
    """A SuperLink and its SuperNodes, all ended by `close`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.port = free_port()
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self._env = environment(folder / "home")
        (folder / "home").mkdir()
        make_certificates(folder)
        (folder / "home" / "config.toml").write_text(
            f'[superlink]\ndefault = "test"\n\n[superlink.test]\naddress = "127.0.0.1:{self.port}"\n'
            f'root-certificates = "{folder / "ca.crt"}"\n'
        )

    def start_superlink(self) -> None:
        tls = ["--ssl-certfile", "server.crt", "--ssl-keyfile", "server.key", "--ssl-ca-certfile", "ca.crt"]
        where = ["--host", "127.0.0.1", "--port", str(self.port)]
        self._start(
            "superlink",
            ["flower-superlink", *tls, *where, "--enable-supernode-auth", "--disable-runtime-dependency-installation"],
        )
        wait_for(lambda: is_open(self.port), 60, "the SuperLink to listen")

    def register(self, name: str) -> int:
        """Make keys for a node, and let the SuperLink know them; gives the node's id."""
        key = ec.generate_private_key(ec.SECP384R1())
        private = key.private_bytes(PEM, serialization.PrivateFormat.OpenSSH, serialization.NoEncryption())
        public = key.public_key().public_bytes(serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH)
        (self.folder / f"{name}.key").write_bytes(private)
        (self.folder / f"{name}.pub").write_bytes(public)
        said = self.flwr("supernode", "register", str(self.folder / f"{name}.pub"), "test", "--format", "json")
        return int(json.loads(said)["node-id"])

    def start_node(self, name: str, **config: object) -> None:
        said = " ".join(f"{key}={json.dumps(value)}" for key, value in config.items())
        self._start(
            name,
            [
                *("flower-supernode", "--superlink", f"127.0.0.1:{self.port}", "--root-certificates", "ca.crt"),
                *("--auth-supernode-private-key", f"{name}.key", "--node-config", said, "--port", str(free_port())),
            ],
        )

    def run(self, app: Path, **config: object) -> int:
        said = " ".join(f"{key.replace('_', '-')}={json.dumps(value)}" for key, value in config.items())
        return int(json.loads(self.flwr("run", str(app), "test", "--run-config", said, "--format", "json"))["run-id"])

    def flwr(self, *arguments: str) -> str:
        done = subprocess.run(
            ["flwr", *arguments],
            env=self._env,
            cwd=self.folder,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert done.returncode == 0, f"{arguments}: {done.stdout} {done.stderr}"
        return done.stdout

    def log(self, name: str) -> str:
        return (self.folder / f"{name}.log").read_text(encoding="utf-8", errors="replace")

    def kill(self, name: str) -> None:
        """End a process and what it started, by the id of the group that it was started with."""
        process = self._processes.pop(name)
        with contextlib.suppress(ProcessLookupError):  # it may have ended by itself
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()

    def has_ended(self, name: str) -> bool:
        return self._processes[name].poll() is not None

    def close(self) -> None:
        for name in reversed(list(self._processes)):
            self.kill(name)
        end_left_behind(self.folder / "home")

    def _start(self, name: str, command: list[str]) -> None:
        with (self.folder / f"{name}.log").open("wb") as file:
            self._processes[name] = subprocess.Popen(
                command, env=self._env, cwd=self.folder, stdout=file, stderr=file, start_new_session=True
            )


def end_left_behind(home: Path) -> None:
    """End what Flower started in sessions of their own, each by its id: this home is in their environment."""
    mark = f"FLWR_HOME={home}".encode()
    for path in Path("/proc").glob("[0-9]*/environ"):
        with contextlib.suppress(OSError):
            if mark in path.read_bytes().split(b"\0"):
                os.kill(int(path.parent.name), signal.SIGKILL)


def make_certificates(folder: Path) -> None:
    """A CA, and the certificate of a server on this machine."""
    authority, ca_key = _certificate("test CA", None, None)
    server, key = _certificate("localhost", authority, ca_key)
    (folder / "ca.crt").write_bytes(authority.public_bytes(PEM))
    (folder / "server.crt").write_bytes(server.public_bytes(PEM))
    private = key.private_bytes(PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    (folder / "server.key").write_bytes(private)


def _certificate(name, issuer, issuer_key):
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])
    now = datetime.datetime.now(datetime.UTC)
    names = [x509.DNSName("localhost"), x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]
    public = (issuer_key or key).public_key()
    built = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer.subject if issuer else subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(hours=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.BasicConstraints(ca=issuer is None, path_length=None), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(public), critical=False)
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
    )
    return built.sign(issuer_key or key, hashes.SHA256()), key


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def is_open(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def wait_for(condition, seconds, what):
    ends = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < ends, f"waited {seconds} s for {what}"
        time.sleep(0.2)
