"""What a coordinator keeps, in SQLite or PostgreSQL. This is the only room that knows SQL."""

from kfed.coordinator.store.backups import backup, restore
from kfed.coordinator.store.database import Contents, SavedClustering, Store
from kfed.coordinator.store.devices import Arrival, Departure, Device, Receipt
from kfed.coordinator.store.federations import Damaged
from kfed.coordinator.store.invitations import Invitation

__all__ = [
    "Arrival",
    "Contents",
    "Damaged",
    "Departure",
    "Device",
    "Invitation",
    "Receipt",
    "SavedClustering",
    "Store",
    "backup",
    "restore",
]
