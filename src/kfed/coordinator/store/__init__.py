"""What a coordinator keeps, and the only room that knows SQL: SQLite in one file, or PostgreSQL."""

from kfed.coordinator.store.database import Arrival, Device, Receipt, Store

__all__ = [
    "Arrival",
    "Device",
    "Receipt",
    "Store",
]
