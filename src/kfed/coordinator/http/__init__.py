"""The coordinator over HTTP: routes, rights, limits, the page, and the server that `kfed serve` starts."""

from kfed.coordinator import requiring_extra

with requiring_extra():
    from kfed.coordinator.http.app import MAX_BODY_BYTES, ServiceSettings, create_app
    from kfed.coordinator.http.audit import log_to
    from kfed.coordinator.http.connections import Limits
    from kfed.coordinator.http.hosts import HostNames
    from kfed.coordinator.http.serve import Address, admin_token, make_server, run

__all__ = [
    "MAX_BODY_BYTES",
    "Address",
    "HostNames",
    "Limits",
    "ServiceSettings",
    "admin_token",
    "create_app",
    "log_to",
    "make_server",
    "run",
]
