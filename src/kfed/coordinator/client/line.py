"""The other end of the line: what a device or an administrator says to a coordinator, until it is heard.

Every request here may be repeated without a second effect, so faults of the network and answers of the kind "not now"
are met by trying again, later and later, at random moments so that devices that failed together do not return together.
"""

from __future__ import annotations

import ipaddress
import random
import ssl
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

import httpx

from kfed.coordinator.names import BYTES, SECRET_HEADER
from kfed.errors import InvalidInputError, KFedError
from kfed.wire import DeviceMessage, Identity

TIMEOUT_SECONDS, CLUSTERING_SECONDS = 30.0, 1800.0
PATIENCE_SECONDS = 300.0
FIRST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS = 0.25, 30.0
NOT_NOW = (429, 500, 502, 503, 504)


class CoordinatorError(KFedError):
    """A coordinator refused, or could not be reached."""


@dataclass(frozen=True)
class StillGathering:
    """The message is kept, and others are still to come."""

    n_devices: int
    quorum: int | None
    deadline: float | None
    remark: str
    retry_after: float

    @property
    def in_words(self) -> str:
        """How far it is."""
        of_quorum = f" of {self.quorum:,}" if self.quorum else ""
        note = f"; {self.remark}" if self.remark else ""
        return f"{self.n_devices:,}{of_quorum} devices have joined, and there are no clusters yet{note}"


class Line:
    """A connection to a coordinator that tries again.

    Parameters
    ----------
    url : str
        Where the coordinator is, such as ``https://clinics.example:8765``.
    cafile : path, optional
        Certificates to trust, instead of those of the system.
    insecure : bool
        Whether tokens may travel unencrypted to another machine.
    patience : float
        Seconds after which to give up on a coordinator that does not answer.
    timeout : float
        Seconds that one request may take; clustering many devices anew takes longer than to keep a message.
    """

    def __init__(
        self,
        url: str,
        *,
        cafile: Path | None = None,
        insecure: bool = False,
        patience: float = PATIENCE_SECONDS,
        timeout: float = TIMEOUT_SECONDS,
        transport: httpx.BaseTransport | None = None,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        _check_url(url, insecure)
        self._patience, self._sleep = patience, sleep
        self._http = httpx.Client(
            base_url=url.rstrip("/"), verify=_trusted(cafile), timeout=timeout, transport=transport
        )

    def request(self, method: str, path: str, *, token: str | None = None, **options: Any) -> httpx.Response:
        """Ask until there is an answer; raises `CoordinatorError` if it is a refusal, or if none comes."""
        headers = {**options.pop("headers", {}), **({"Authorization": f"Bearer {token}"} if token else {})}
        attempts, given_up_at = 0, time.monotonic() + self._patience
        while True:
            answer, fault = self._try(method, path, headers=headers, **options)
            if answer is not None and answer.status_code not in NOT_NOW:
                return _checked(answer)
            pause = self._pause(attempts, answer)
            if time.monotonic() + pause > given_up_at:
                raise CoordinatorError(f"the coordinator at {self._http.base_url} could not be asked: {fault}")
            self._sleep(pause)
            attempts += 1

    def _try(self, method: str, path: str, **options: Any) -> tuple[httpx.Response | None, str]:
        try:
            answer = self._http.request(method, path, **options)
        except httpx.TransportError as error:
            return None, str(error) or type(error).__name__
        return answer, f"it answered {answer.status_code}: {_detail(answer)}"

    def _pause(self, attempts: int, answer: httpx.Response | None) -> float:
        """A random time that doubles with each attempt, and no less than the coordinator asks for."""
        longest = min(LONGEST_PAUSE_SECONDS, FIRST_PAUSE_SECONDS * 2**attempts)
        return _retry_after(answer) + random.uniform(longest / 4, longest)

    def close(self) -> None:
        """Hang up."""
        self._http.close()

    def __enter__(self) -> Line:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class DeviceClient:
    """One device of a federation.

    Parameters
    ----------
    line : Line
        To the coordinator.
    federation, device_id : str
        Which device of which federation.
    secret : str
        Made up by the device, see `kfed.coordinator.security`.
    """

    def __init__(self, line: Line, federation: str, device_id: str, secret: str) -> None:
        self._line = line
        name = quote(device_id, safe="").replace(".", "%2E")
        self._path = f"/v1/federations/{quote(federation, safe='')}/devices/{name}"
        self._headers = {"Accept": BYTES, SECRET_HEADER: secret}

    def send(self, message: DeviceMessage, join_token: str, *, replace: bool = False) -> Identity | StillGathering:
        """Send the message of the device; once or many times makes no difference."""
        headers = {**self._headers, "Content-Type": BYTES}
        options: dict[str, Any] = {"params": {"replace": "true"}} if replace else {}
        path = f"{self._path}/message"
        return _read(
            self._line.request("PUT", path, token=join_token, headers=headers, content=message.to_bytes(), **options)
        )

    def identity(self) -> Identity | StillGathering:
        """Ask for the identity."""
        return _read(self._line.request("GET", f"{self._path}/identity", headers=self._headers))

    def leave(self) -> None:
        """Have the device forgotten."""
        self._line.request("DELETE", self._path, headers=self._headers)


def _read(answer: httpx.Response) -> Identity | StillGathering:
    if answer.headers.get("content-type", "").startswith(BYTES):
        return Identity.from_bytes(answer.content)
    facts = answer.json()
    known = {name: facts.get(name) for name in ("n_devices", "quorum", "deadline", "remark")}
    return StillGathering(**known, retry_after=_retry_after(answer))


def _checked(answer: httpx.Response) -> httpx.Response:
    if answer.is_success:
        return answer
    raise CoordinatorError(f"the coordinator refused ({answer.status_code}): {_detail(answer)}")


def _detail(answer: httpx.Response) -> str:
    """What the problem says, made harmless on a terminal."""
    try:
        detail = str(answer.json()["detail"])
    except (ValueError, KeyError, TypeError):
        return answer.reason_phrase
    return "".join(character if character.isprintable() else " " for character in detail[:1000])


def _retry_after(answer: httpx.Response | None) -> float:
    said = "0" if answer is None else answer.headers.get("retry-after", "0")
    return min(float(said), 600.0) if said.isdigit() else 0.0


def _trusted(cafile: Path | None) -> ssl.SSLContext | bool:
    if cafile is None:
        return True
    try:
        return ssl.create_default_context(cafile=cafile)
    except (OSError, ssl.SSLError) as error:
        raise InvalidInputError(f"{cafile}: this must be a file of certificates in PEM, and is not") from error


def _check_url(url: str, insecure: bool) -> None:
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise InvalidInputError(f"the coordinator must be given as http://... or https://..., and is {url!r}")
    if parts.scheme == "http" and not insecure and not _is_this_machine(parts.hostname):
        raise InvalidInputError(
            f"tokens would travel unencrypted to {parts.hostname}; use https://, "
            "or --insecure if something else encrypts the way"
        )


def _is_this_machine(host: str) -> bool:
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
