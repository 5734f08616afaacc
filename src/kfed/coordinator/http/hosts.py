"""Which names a coordinator answers to, and whether a request came straight from its own machine."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from starlette.types import Scope

from kfed.coordinator.addresses import ip_address, is_loopback
from kfed.coordinator.problems import ProblemError

FORWARDING = (b"x-forwarded", b"forwarded", b"x-real-ip", b"x-client-ip", b"x-original", b"via", b"cf-", b"true-client")
"""What the headers begin with that proxies add."""


@dataclass(frozen=True)
class HostNames:
    """The names that the `Host` header of a request may have.

    A website can point a name of its own at this machine, and a visitor's browser then takes what the coordinator
    answers for that website's. Such requests carry the website's name.

    Attributes
    ----------
    names : frozenset of str
        In small letters, without a port.
    any_loopback, any_address : bool
        Whether every loopback address is among them, and every IP address; the latter for a coordinator that listens
        at all addresses of its machine.

    Examples
    --------
    >>> names = HostNames.of("127.0.0.1", ["clinics.example"])
    >>> [names.admit(host) for host in ("127.0.0.1:8765", "localhost", "[::1]:8765", "Clinics.example.")]
    [True, True, True, True]
    >>> names.admit("evil.example")
    False
    >>> HostNames.of("0.0.0.0", []).admit("192.0.2.7:8765")
    True
    """

    names: frozenset[str]
    any_loopback: bool = False
    any_address: bool = False

    @classmethod
    def of(cls, bound: str, more: Iterable[str]) -> HostNames:
        """What a coordinator that listens at `bound` answers to: that, and the names that it was given."""
        here = is_loopback(bound)
        names = {_name_in(name) for name in (bound, *more, *(["localhost"] if here else []))}
        return cls(frozenset(names - {""}), here, bound in ("0.0.0.0", "::"))

    def admit(self, host: str) -> bool:
        """Whether a `Host` header has one of the names."""
        name = _name_in(host)
        return (
            name in self.names
            or (self.any_loopback and is_loopback(name))
            or (self.any_address and ip_address(name) is not None)
        )

    def check(self, scope: Scope) -> None:
        """Raise unless a request is for one of the names."""
        given = [value for name, value in scope["headers"] if name == b"host"]
        host = given[0].decode("latin-1") if len(given) == 1 else ""
        if not self.admit(host):
            name = "".join(letter for letter in _name_in(host)[:80] if letter.isprintable())
            raise ProblemError(
                421,
                f"this coordinator does not answer to the name {name!r}; "
                "use the name it was started with, or start it with --host-name",
            )


def came_directly(scope: Scope) -> bool:
    """Whether a request was made on this machine, and not passed on by a proxy on it.

    Proxies say so in headers. One that was set up in a hurry may not; nginx then speaks HTTP/1.0, as no browser does.
    """
    forwarded = any(name.startswith(FORWARDING) for name, _ in scope["headers"])
    peer = (scope.get("client") or ("",))[0]
    return is_loopback(peer) and not forwarded and scope.get("http_version") != "1.0"


def _name_in(host: str) -> str:
    """The name in ``name:port``, in small letters; an IPv6 address without its brackets."""
    if ip_address(host) is not None:
        return host
    name = host[1:].partition("]")[0] if host.startswith("[") else host.partition(":")[0]
    return name.lower().removesuffix(".")


LOOPBACK_NAMES = HostNames.of("127.0.0.1", ())
