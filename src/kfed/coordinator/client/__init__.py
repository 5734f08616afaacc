"""What a device or an administrator runs to talk to a coordinator. It needs httpx, and nothing of the server."""

from kfed.coordinator import requiring_extra

with requiring_extra():
    from kfed.coordinator.client.answers import StillGathering, Terms
    from kfed.coordinator.client.line import CLUSTERING_SECONDS, DeviceClient, Line
    from kfed.coordinator.client.replies import CoordinatorError, json_of
    from kfed.coordinator.client.ticket import Ticket

__all__ = [
    "CLUSTERING_SECONDS",
    "CoordinatorError",
    "DeviceClient",
    "Line",
    "StillGathering",
    "Terms",
    "Ticket",
    "json_of",
]
