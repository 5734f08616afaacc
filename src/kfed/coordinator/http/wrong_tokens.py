"""`WrongTokens`: counts the wrong tokens that an address sent, logs them, and says when there were too many."""

from __future__ import annotations

import ipaddress
import logging
import time
from collections.abc import Callable

log = logging.getLogger("kfed.coordinator")

ALLOWED = 20
PERIOD_SECONDS = 60.0
MAX_ADDRESSES = 10_000


class WrongTokens:
    """Wrong tokens of each address within a minute. A right token is never counted, and never refused.

    Examples
    --------
    >>> wrong = WrongTokens(now=lambda: 5.0)
    >>> waits = [wrong.count("192.0.2.7") for _ in range(ALLOWED + 2)]
    >>> waits[0], waits[-1], wrong.count("192.0.2.8")
    (0, 60, 0)
    """

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._seen: dict[str, tuple[float, int]] = {}

    def count(self, address: str) -> int:
        """Count a wrong token; returns for how many seconds this address should be quiet, or 0."""
        key, now = network_of(address), self._now()
        begun, n_wrong = self._seen.pop(key, (now, 0))
        if now - begun >= PERIOD_SECONDS:
            begun, n_wrong = now, 0
        while len(self._seen) >= MAX_ADDRESSES:
            del self._seen[next(iter(self._seen))]
        self._seen[key] = (begun, n_wrong + 1)
        if (n_wrong + 1).bit_count() == 1:  # 1, 2, 4, 8, ...: a flood of wrong tokens is not a flood of lines
            log.warning("wrong token from %s (%d within a minute)", key, n_wrong + 1)
        return max(1, round(begun + PERIOD_SECONDS - now)) if n_wrong >= ALLOWED else 0


def network_of(address: str) -> str:
    """The network of one visitor: an IPv4 address, or an IPv6 network of 64 bits.

    Examples
    --------
    >>> network_of("192.0.2.7"), network_of("2001:db8::5:1"), network_of("::ffff:192.0.2.7"), network_of("")
    ('192.0.2.7', '2001:db8::/64', '192.0.2.7', 'unknown')
    """
    try:
        parsed = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return "unknown"
    if parsed.version == 4:
        return str(parsed)
    mapped = parsed.ipv4_mapped
    return str(mapped) if mapped is not None else str(ipaddress.ip_network((int(parsed), 64), strict=False))
