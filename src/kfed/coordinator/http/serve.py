"""Run a coordinator: where it listens, and who its administrator is."""

from __future__ import annotations

import dataclasses
import os
import socket
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import uvicorn
from fastapi import FastAPI
from uvicorn.config import STARTUP_FAILURE

from kfed._base import files
from kfed.coordinator.addresses import is_loopback
from kfed.coordinator.http.app import ServiceSettings, create_app
from kfed.coordinator.http.connections import Connections, Limits
from kfed.coordinator.http.gate import Gate
from kfed.coordinator.http.hosts import HostNames
from kfed.coordinator.http.protocol import Beginner, GuardedProtocol
from kfed.coordinator.http.viewers import Viewers
from kfed.coordinator.security import checked, hashed, new_token
from kfed.coordinator.store import Store
from kfed.errors import InvalidInputError

try:
    import resource
except ImportError:  # Windows, where open files are not counted
    resource = None  # type: ignore[assignment]

OTHER_FILES = 200
GRACE_SECONDS = 3


@dataclass(frozen=True)
class Address:
    """Where a coordinator listens.

    Attributes
    ----------
    certfile, keyfile : path, optional
        For TLS; both or neither.
    insecure : bool
        Whether tokens and messages may travel unencrypted between machines.
    names : tuple of str
        Names under which others reach it.
    """

    host: str = "127.0.0.1"
    port: int = 8765
    certfile: Path | None = None
    keyfile: Path | None = None
    insecure: bool = False
    names: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if (self.certfile is None) != (self.keyfile is None):
            raise InvalidInputError("TLS requires both --certfile and --keyfile; got only one of them")
        for path in (self.certfile, self.keyfile):
            if path is not None and not path.is_file():
                raise InvalidInputError(f"{path}: no such file; TLS requires it")
        if not (self.is_loopback or self.has_tls or self.insecure):
            raise InvalidInputError(
                f"tokens would travel unencrypted to {self.host}, which other machines can reach; give --certfile and "
                "--keyfile for TLS, or --insecure if something else encrypts the connection"
            )

    @property
    def has_tls(self) -> bool:
        """Whether connections are encrypted."""
        return self.certfile is not None

    @property
    def is_loopback(self) -> bool:
        """Whether only this machine can connect."""
        return is_loopback(self.host)

    @property
    def host_names(self) -> HostNames:
        """What a coordinator at this address answers to."""
        return HostNames.of(self.host, self.names)

    def listen(self) -> socket.socket:
        """A socket at this address; port 0 takes any free port."""
        family = socket.AF_INET6 if ":" in self.host else socket.AF_INET
        listening = socket.socket(family)
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listening.bind((self.host, self.port))
        except OSError as error:
            listening.close()
            raise InvalidInputError(f"cannot listen on {self.host} port {self.port}: {error.strerror}") from error
        return listening

    def url(self, port: int) -> str:
        """The URL of a coordinator at this address."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{'https' if self.has_tls else 'http'}://{host}:{port}"


def admin_token(store: str, given: str | None, file: Path) -> tuple[bytes, bool]:
    """The hash of the admin token, and whether a new token was written to `file`.

    A token that is given, or else one in the file, replaces the token of the store. A store without any gets a new one,
    which is written to the file for the administrator.
    """
    opened = Store(store)
    try:
        token = given if given is not None else _token_in(file)
        kept = opened.key("admin")
        is_new = token is None and kept is None
        if is_new:
            token = new_token()
            files.write(file, f"{token}\n".encode(), overwrite=False, private=True)
        if token is not None:
            kept = hashed(checked(token, "the admin token"))
            opened.set_key("admin", kept)
        assert kept is not None
        return kept, is_new
    finally:
        opened.close()


def run(
    address: Address,
    settings: ServiceSettings,
    *,
    listening: socket.socket | None = None,
    limits: Limits | None = None,
    log_level: str = "warning",
    ready: Callable[[str, str], None] = lambda *_: None,
) -> None:
    """Serve until interrupted; once requests are answered, `ready` gets the URL and the code of a link for watching.

    `listening` is the socket of the address, if there is one already.
    """
    app = create_app(settings)
    listening = address.listen() if listening is None else listening
    viewers: Viewers = app.state.desk.viewers

    def tell() -> None:
        ready(address.url(listening.getsockname()[1]), viewers.invite())

    make_server(app, address, _within_open_files(limits or Limits()), log_level, tell).run(sockets=[listening])


def make_server(
    app: FastAPI,
    address: Address,
    limits: Limits,
    log_level: str = "warning",
    ready: Callable[[], None] = lambda: None,
) -> uvicorn.Server:
    """A server that keeps to `limits`; `ready` is called when it answers requests."""
    config = uvicorn.Config(
        app,
        http="httptools",
        loop="auto",
        ws="none",
        ssl_certfile=address.certfile,
        ssl_keyfile=address.keyfile,
        log_level=log_level,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        timeout_keep_alive=limits.idle_seconds,  # type: ignore[arg-type]
        timeout_graceful_shutdown=GRACE_SECONDS,
    )
    return _Server(config, limits, ready, app.state.desk.coordinator.events.close)


class _Server(uvicorn.Server):
    """Accepts connections through a `Gate`, and calls back when it is ready, and when it ends."""

    def __init__(
        self, config: uvicorn.Config, limits: Limits, ready: Callable[[], None], ending: Callable[[], None]
    ) -> None:
        super().__init__(config)
        self._connections = Connections(limits)
        self._ready, self._ending = ready, ending

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await self.lifespan.startup()
        if self.lifespan.should_exit:
            sys.exit(STARTUP_FAILURE)
        own = {"config": self.config, "server_state": self.server_state, "app_state": self.lifespan.state}
        beginner = Beginner(self._connections, self.config.ssl, partial(GuardedProtocol, **own))
        self._gates = [Gate(one, self._connections, beginner.pass_on) for one in sockets or []]
        self.servers = self._gates  # type: ignore[assignment]
        self.started = True
        self._ready()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._ending()  # else whoever watches would be waited for
        await super().shutdown(sockets)

    async def on_tick(self, counter: int) -> bool:
        now = time.monotonic()
        for connection in list(self.server_state.connections):
            if isinstance(connection, GuardedProtocol):
                connection.close_if_late(now)
        for gate in self._gates:
            gate.beat()
        return await super().on_tick(counter)


def _within_open_files(limits: Limits) -> Limits:
    """Limits that leave open files for the store, after raising how many the system allows where it lets us."""
    if resource is None:
        return limits
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = limits.connections + OTHER_FILES
    if soft != resource.RLIM_INFINITY and soft < wanted:
        soft = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    n_connections = limits.connections if soft == resource.RLIM_INFINITY else max(8, soft - OTHER_FILES)
    return dataclasses.replace(limits, connections=min(limits.connections, n_connections))


def _token_in(file: Path) -> str | None:
    return file.read_text(encoding="utf-8").strip() if os.path.exists(file) else None
