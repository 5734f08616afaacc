"""Requests of a device or an administrator to a coordinator, with retries.

Every request here may be repeated without a second effect, so network faults and responses that mean "not now" are
retried. Pauses grow and are random, so that devices that failed together do not return together.
"""

from __future__ import annotations

import json
import random
import ssl
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

import httpx

from kfed.coordinator.addresses import is_loopback
from kfed.coordinator.client.answers import StillGathering, Terms
from kfed.coordinator.client.faults import Fault, fault_of
from kfed.coordinator.client.replies import CoordinatorError, accepted, detail_of, json_of, without_controls
from kfed.coordinator.names import BYTES, FOUND_HEADER, KEY_HEADER, NOTICES_HEADER, ROUND_HEADER, SECRET_HEADER
from kfed.coordinator.security import new_token
from kfed.errors import InvalidInputError
from kfed.wire import DeviceMessage, Identity, Notice

TIMEOUT_SECONDS, CLUSTERING_SECONDS = 30.0, 1800.0
CONNECT_SECONDS = 10.0
PATIENCE_SECONDS = 300.0
FIRST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS = 0.25, 30.0
NO_PROXY = {"http://": None, "https://": None}
"""For this machine: a proxy that the environment names would see the tokens, and send them to its own."""
NO_HEADERS: Mapping[str, str] = {}
FORBIDDEN = 403
NOT_NOW = (408, 429, 500, 502, 503, 504)


class Line:
    """A connection to a coordinator, with retries.

    Parameters
    ----------
    url : str
        Address of the coordinator, such as ``https://clinics.example:8765``.
    cafile : path, optional
        Certificates to trust instead of the system's.
    insecure : bool
        Whether tokens may travel unencrypted to another machine.
    patience : float
        Seconds to keep trying a coordinator that does not respond.
    timeout : float
        Seconds that one request may take; requests that cluster many devices anew need more.
    tell : function
        Gets a sentence for people when a request has to be sent again.
    """

    def __init__(
        self,
        url: str,
        *,
        cafile: Path | None = None,
        insecure: bool = False,
        patience: float = PATIENCE_SECONDS,
        timeout: float = TIMEOUT_SECONDS,
        tell: Callable[[str], None] = lambda _: None,
        transport: httpx.BaseTransport | None = None,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        _check_url(url, insecure)
        self._patience, self._sleep, self._tell = patience, sleep, tell
        self._http = httpx.Client(
            base_url=url.rstrip("/"),
            verify=_trusted(url, cafile),
            timeout=httpx.Timeout(timeout, connect=min(timeout, CONNECT_SECONDS)),
            transport=transport,
            mounts=NO_PROXY if is_loopback(urlsplit(url).hostname or "") else None,
        )

    def request(self, method: str, path: str, *, token: str | None = None, **options: Any) -> httpx.Response:
        """Send a request until it is answered. Raises `CoordinatorError` if it is refused, or never answered."""
        headers = {**options.pop("headers", {}), **({"Authorization": f"Bearer {token}"} if token else {})}
        if method == "POST":
            headers.setdefault(KEY_HEADER, new_token())  # every attempt is the same request
        attempts, given_up_at, said, was_lost = 0, time.monotonic() + self._patience, "", False
        while True:
            answer, fault = self._try(method, path, headers=headers, **options)
            if answer is not None and answer.status_code not in NOT_NOW:
                return accepted(answer, was_lost)
            was_lost = True
            pause = self._pause(attempts, answer)
            if not fault.may_pass or time.monotonic() + pause > given_up_at:
                raise CoordinatorError(
                    f"no usable response from the coordinator at {self._http.base_url}: {fault.reason}", was_lost=True
                )
            if fault.reason != said:
                said = fault.reason
                self._tell(f"no answer yet ({said}); trying again until {_clock(given_up_at)}")
            self._sleep(pause)
            attempts += 1

    def _try(self, method: str, path: str, **options: Any) -> tuple[httpx.Response | None, Fault]:
        try:
            answer = self._http.request(method, path, **options)
        except httpx.TransportError as error:
            return None, fault_of(error, self._http.base_url)
        return answer, Fault(f"it answered {answer.status_code}: {detail_of(answer)}")

    def _pause(self, attempts: int, answer: httpx.Response | None) -> float:
        """A random time that doubles with each attempt, on top of what the coordinator asks for."""
        longest = min(LONGEST_PAUSE_SECONDS, FIRST_PAUSE_SECONDS * 2**attempts)
        return _retry_after(answer) + random.uniform(longest / 4, longest)

    def close(self) -> None:
        """Close the connection."""
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
        The connection to the coordinator.
    federation, device_id : str
        Which device of which federation.
    secret : str
        Chosen by the device, see `kfed.coordinator.security`.

    Attributes
    ----------
    notices : tuple of Notice
        What the coordinator said to look at, with its last answer.
    found : dict
        How many clusters there are, which rule made them, how their number was found, how many rounds are behind
        them, and how many the federation asks for; empty if it did not say.
    """

    def __init__(self, line: Line, federation: str, device_id: str, secret: str) -> None:
        self._line, self._name, self._federation = line, device_id, federation
        self.notices: tuple[Notice, ...] = ()
        self.found: dict[str, Any] = {}
        name = quote(device_id, safe="").replace(".", "%2E")
        self._path = f"/v1/federations/{quote(federation, safe='')}/devices/{name}"
        self._headers = {"Accept": BYTES, SECRET_HEADER: secret}

    def send(self, message: DeviceMessage, join_token: str, *, replace: bool = False) -> Identity | StillGathering:
        """Send the message of the device. Sending it again has no further effect."""
        headers = {**self._headers, "Content-Type": BYTES}
        options: dict[str, Any] = {"params": {"replace": "true"}} if replace else {}
        path = f"{self._path}/message"
        return self._read(
            self._line.request("PUT", path, token=join_token, headers=headers, content=message.to_bytes(), **options)
        )

    def terms(self, join_token: str) -> Terms:
        """Ask what the federation takes."""
        return Terms.restored(json_of(self._line.request("GET", f"{self._path}/terms", token=join_token)))

    def identity(self) -> Identity | StillGathering:
        """Ask for the identity."""
        return self.identity_and_round()[0]

    def identity_and_round(self) -> tuple[Identity | StillGathering, int]:
        """Ask for the identity, and how many rounds are behind it; 0 while there is none."""
        answer = self._own("GET", "/identity")
        read = self._read(answer)
        return read, int(answer.headers.get(ROUND_HEADER, "1")) if isinstance(read, Identity) else 0

    def send_second(self, message: DeviceMessage) -> None:
        """Send the second message of the device. Sending it again has no further effect."""
        self._own("PUT", "/second-message", {"Content-Type": BYTES}, content=message.to_bytes())

    def leave(self) -> None:
        """Remove the device and its message from the federation."""
        self._own("DELETE")

    def _own(self, method: str, path: str = "", headers: Mapping[str, str] = NO_HEADERS, **more: Any) -> httpx.Response:
        """Send a request that only this device may make. A coordinator does not tell who has been there."""
        try:
            return self._line.request(method, self._path + path, headers={**self._headers, **headers}, **more)
        except CoordinatorError as error:
            if error.status != FORBIDDEN:
                raise
            detail = (
                f"federation {self._federation!r} does not know {self._name!r} by this ticket: the site has left, was "
                f"removed or never joined, or the federation was deleted; the coordinator refused ({error.status})"
            )
            raise CoordinatorError(detail, error.status, was_lost=error.was_lost) from error

    def _read(self, answer: httpx.Response) -> Identity | StillGathering:
        self.notices = tuple(_notices(answer.headers.get(NOTICES_HEADER, "[]")))
        self.found = _found(answer.headers.get(FOUND_HEADER, "{}"))
        if self.found:
            self.found["rounds"] = int(answer.headers.get(ROUND_HEADER, "1"))
        return _read(answer)


def _found(said: str) -> dict[str, Any]:
    """How many clusters, by which rule and why; a coordinator that says something else says nothing."""
    try:
        told = json.loads(said)
        rule = None if told["answered_by"] is None else without_controls(str(told["answered_by"]))
        found = without_controls(str(told["found"]))
        rounds = int(told.get("rounds_asked", 1))
        return {"n_clusters": int(told["n_clusters"]), "answered_by": rule, "found": found, "rounds_asked": rounds}
    except (ValueError, KeyError, TypeError, RecursionError):
        return {}


def _notices(said: str) -> Iterator[Notice]:
    """Notices in JSON; a coordinator that says something else says nothing."""
    try:
        for one in json.loads(said):
            yield Notice(without_controls(str(one["code"])), without_controls(str(one["text"])))
    except (ValueError, KeyError, TypeError, RecursionError):
        return


def _read(answer: httpx.Response) -> Identity | StillGathering:
    if answer.headers.get("content-type", "").startswith(BYTES):
        return Identity.from_bytes(answer.content)
    facts = json_of(answer)
    known = {name: facts.get(name) for name in ("n_devices", "quorum", "deadline", "remark")}
    return StillGathering(**known, retry_after=_retry_after(answer))


def _clock(moment: float) -> str:
    """A moment of the steady clock as hours and minutes."""
    return time.strftime("%H:%M", time.localtime(time.time() + moment - time.monotonic()))


def _retry_after(answer: httpx.Response | None) -> float:
    said = "0" if answer is None else answer.headers.get("retry-after", "0")
    return min(float(said), 600.0) if said.isdigit() else 0.0


def _trusted(url: str, cafile: Path | None) -> ssl.SSLContext | bool:
    """What a certificate is verified by; nothing for a URL without TLS, since to read the system's takes a while."""
    if cafile is None:
        return ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT) if urlsplit(url).scheme == "http" else True
    try:
        return ssl.create_default_context(cafile=cafile)
    except (OSError, ssl.SSLError) as error:
        raise InvalidInputError(f"{cafile}: not a file of certificates in PEM format") from error


def _check_url(url: str, insecure: bool) -> None:
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise InvalidInputError(f"the URL of the coordinator must begin with http:// or https://; got {url!r}")
    if parts.scheme == "http" and not insecure and not is_loopback(parts.hostname):
        raise InvalidInputError(
            f"tokens would travel unencrypted to {parts.hostname}; use https://, "
            "or --insecure if something else encrypts the connection"
        )
