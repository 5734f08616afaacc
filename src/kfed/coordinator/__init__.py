"""The central server as a service, and the client that devices use: ``kfed serve`` and ``kfed join``.

::

    client ══ message ══> http ──> core: Coordinator ──> Committer ──> store       on disk, then acknowledged
           <══ identity ══             │
                                       ├──> Aggregator <──> store                   Algorithm 2, clusters saved
                                       └──> Events ──> http ══> page                what the live page shows

Rooms: `http` (routes, rights, limits), `core` (what a coordinator does), `store` (SQL), `client` (needs httpx alone),
`page` (what shows federations in a browser) and `browser` (a device in a browser). `federation` holds the rules as pure
functions; `names`, `problems`, `security` and `addresses` are shared. The service is installed with the extra
``kfed[coordinator]``, the client with ``kfed[join]``; importing this package needs nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from kfed.errors import MissingExtraError


@contextmanager
def requiring_extra() -> Iterator[None]:
    """Say which extra to install if an import within finds a package missing."""
    try:
        yield
    except ModuleNotFoundError as error:
        who, extra = ("joining", "join") if error.name == "httpx" else ("the coordinator", "coordinator")
        raise MissingExtraError(
            f"{who} needs {error.name}, which is not installed; pip install 'kfed[{extra}]'"
        ) from error


__all__ = ["requiring_extra"]
