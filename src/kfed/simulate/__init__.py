"""A whole round on one machine: tables become devices, devices send messages, the server answers, rows get labels."""

from kfed.simulate.devices import Devices, are_tables

__all__ = [
    "Devices",
    "are_tables",
]
