"""Addresses of machines, as client and server read them."""

from __future__ import annotations

import ipaddress


def ip_address(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    """The IP address in a host; None if it is a name."""
    try:
        return ipaddress.ip_address(host)
    except ValueError:
        return None


def is_loopback(host: str) -> bool:
    """Whether a host is this machine, by its address or as localhost.

    Examples
    --------
    >>> is_loopback("localhost"), is_loopback("127.0.0.2"), is_loopback("::1"), is_loopback("clinics.example")
    (True, True, True, False)
    """
    address = ip_address(host)
    return host == "localhost" or (address is not None and address.is_loopback)
