"""The coordinator as an ASGI application: routes, rights, limits before every request, and the page."""

from kfed.coordinator.http.app import Settings, create_app
from kfed.coordinator.http.serve import Address

__all__ = [
    "Address",
    "Settings",
    "create_app",
]
