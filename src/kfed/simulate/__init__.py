"""A whole round on one machine: tables become devices, devices send messages, the server answers, rows get labels."""

from kfed.simulate.communication import Communication
from kfed.simulate.devices import Devices, are_tables
from kfed.simulate.round import Round, cluster_devices, messages_of

__all__ = [
    "Communication",
    "Devices",
    "Round",
    "are_tables",
    "cluster_devices",
    "messages_of",
]
