"""Run a coordinator: where it listens, and who its administrator is."""

from __future__ import annotations

import ipaddress
import os
import socket
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import uvicorn

from kfed._base import files
from kfed.coordinator.http.app import MAX_BODY_BYTES, ServiceSettings, create_app
from kfed.coordinator.security import checked, hashed, new_token
from kfed.coordinator.store import Store
from kfed.errors import InvalidInputError

BACKLOG = 2048
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
    """

    host: str = "127.0.0.1"
    port: int = 8765
    certfile: Path | None = None
    keyfile: Path | None = None
    insecure: bool = False

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
        try:
            return self.host == "localhost" or ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return False

    def listen(self) -> socket.socket:
        """A socket at this address; port 0 takes any free port."""
        family = socket.AF_INET6 if ":" in self.host else socket.AF_INET
        listening = socket.socket(family)
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listening.bind((self.host, self.port))
        except OSError as error:
            listening.close()
            raise InvalidInputError(f"cannot listen at {self.host} port {self.port}: {error.strerror}") from error
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
    store: str,
    admin_token_hash: bytes,
    *,
    max_body_bytes: int = MAX_BODY_BYTES,
    log_level: str = "warning",
    ready: Callable[[str], None] = lambda _: None,
) -> None:
    """Serve until interrupted; `ready` is called with the URL once requests are answered."""
    app = create_app(ServiceSettings(store, admin_token_hash, address.is_loopback, max_body_bytes))
    listening = address.listen()
    config = uvicorn.Config(
        app,
        http="httptools",
        loop="auto",
        ssl_certfile=address.certfile,
        ssl_keyfile=address.keyfile,
        log_level=log_level,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        backlog=BACKLOG,
        timeout_graceful_shutdown=GRACE_SECONDS,
    )
    _Server(config, lambda: ready(address.url(listening.getsockname()[1]))).run(sockets=[listening])


class _Server(uvicorn.Server):
    """Calls back when it is ready."""

    def __init__(self, config: uvicorn.Config, ready: Callable[[], None]) -> None:
        super().__init__(config)
        self._ready = ready

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self.started:
            self._ready()


def _token_in(file: Path) -> str | None:
    return file.read_text(encoding="utf-8").strip() if os.path.exists(file) else None
