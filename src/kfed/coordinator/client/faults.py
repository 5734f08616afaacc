"""What is wrong between a device and its coordinator, in plain words."""

from __future__ import annotations

import errno
import re
import ssl
from dataclasses import dataclass

import httpx


@dataclass(frozen=True)
class Fault:
    """Why a request was not answered, and whether it may be answered later without anybody doing anything."""

    reason: str
    may_pass: bool = True


def fault_of(error: httpx.TransportError, url: httpx.URL) -> Fault:
    """The fault behind an error of the connection."""
    where, text = f"{url.host} port {url.port or (443 if url.scheme == 'https' else 80)}", str(error)
    if isinstance(error, httpx.TimeoutException):
        return Fault(f"{where} did not answer in time")
    if isinstance(error, httpx.ProxyError):
        return Fault(f"the proxy that the environment names did not pass the request on: {text}")
    if url.scheme == "https" and ("SSL" in text or isinstance(_cause(error), ssl.SSLError)):
        return _tls_fault(text, where)
    if isinstance(error, httpx.ConnectError):
        return Fault(_why_not_connected(error, where, url.host))
    if isinstance(error, httpx.RemoteProtocolError) and url.scheme == "http":
        return Fault(
            f"{where} closed the connection without an answer; if it uses TLS, the URL must begin with https://"
        )
    return Fault(text or type(error).__name__)


def _tls_fault(text: str, where: str) -> Fault:
    if "CERTIFICATE_VERIFY_FAILED" in text:
        why = re.sub(r"^.*certificate verify failed: | \(_ssl.*$", "", text)
        return Fault(
            f"the certificate of {where} is not trusted ({why}); give its authority with --cafile", may_pass=False
        )
    if re.search("WRONG_VERSION_NUMBER|RECORD_LAYER_FAILURE|UNKNOWN_PROTOCOL|HTTP_REQUEST", text):
        return Fault(f"{where} does not use TLS; if this is meant, the URL must begin with http://", may_pass=False)
    return Fault(f"no encrypted connection to {where}: {text}")


def _why_not_connected(error: httpx.ConnectError, where: str, host: str) -> str:
    cause, text = _cause(error), str(error)
    number = getattr(cause, "errno", None)
    if number == errno.ECONNREFUSED or "refused" in text:
        return f"nothing listens at {where}"
    if re.search("Name or service|getaddrinfo|nodename|name resolution|No address associated", text):
        return f"no machine named {host} was found"
    return f"{where} cannot be reached: {text}"


def _cause(error: BaseException) -> BaseException:
    while error.__cause__ is not None or error.__context__ is not None:
        error = error.__cause__ or error.__context__  # type: ignore[assignment]
    return error
