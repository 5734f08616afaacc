"""What a coordinator keeps, in SQLite or PostgreSQL. This is the only room that knows SQL."""

from kfed.coordinator.store.backups import backup, restore
from kfed.coordinator.store.cluster_names import NamesCheck
from kfed.coordinator.store.database import Contents, SavedClustering, Store
from kfed.coordinator.store.devices import Arrival, Departure, Device, Reading, Receipt, Secret
from kfed.coordinator.store.federations import Damaged
from kfed.coordinator.store.second_messages import SecondMessage

__all__ = [
    "Arrival",
    "Contents",
    "Damaged",
    "Departure",
    "Device",
    "NamesCheck",
    "Reading",
    "Receipt",
    "SavedClustering",
    "SecondMessage",
    "Secret",
    "Store",
    "backup",
    "restore",
]
