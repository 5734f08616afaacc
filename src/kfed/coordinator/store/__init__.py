"""What a coordinator keeps, in SQLite or PostgreSQL. This is the only room that knows SQL."""

from kfed.coordinator.store.database import Contents, SavedClustering, Store
from kfed.coordinator.store.devices import Arrival, Device, Receipt

__all__ = [
    "Arrival",
    "Contents",
    "Device",
    "Receipt",
    "SavedClustering",
    "Store",
]
