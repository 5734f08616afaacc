"""What a coordinator does, whoever asks: `Coordinator` and its parts. It knows neither HTTP nor SQL.

Who runs on which thread::

    event loop         Coordinator, Writer, Clusterings    decide, and publish what federations show (`Live`)
      │ asks     ▲ gets back
      ├──────────┼─ Receipt  ─ kfed-committer    Committer ──> Store    changes to devices and federations, in batches
      ├──────────┼─ Clusters ─ kfed-aggregator   Aggregator ─> Store    reads messages, Algorithm 2, saves clusterings
      └──────────┴─ Device   ─ kfed-reader       Readers ──> Store      single reads

Threads get frozen values and return frozen values; what changes, changes on the event loop. `Store` guards its writes
with a lock; the totals that the event loop reads from it are replaced whole, whenever the store is read back or the
committer has written. At the start, and when the store is read back after a doubtful write, the event loop loads
saved clusters itself, in one step, so that nobody sees half of them; those of older versions it completes from the
stored messages, and saves once more.
"""

from kfed.coordinator.core.administration import Administration
from kfed.coordinator.core.aggregator import Aggregator
from kfed.coordinator.core.arrivals import Proofs
from kfed.coordinator.core.clock import Clock
from kfed.coordinator.core.clusters import Clusters, labels_if_ready, stable_ids
from kfed.coordinator.core.committer import Committer
from kfed.coordinator.core.live import Live, ShownClusters
from kfed.coordinator.core.measures import METRICS_MEDIA_TYPE, Measures
from kfed.coordinator.core.notices import for_device
from kfed.coordinator.core.service import Coordinator
from kfed.coordinator.core.turns import Turns

__all__ = [
    "METRICS_MEDIA_TYPE",
    "Administration",
    "Aggregator",
    "Clock",
    "Clusters",
    "Committer",
    "Coordinator",
    "Live",
    "Measures",
    "Proofs",
    "ShownClusters",
    "Turns",
    "for_device",
    "labels_if_ready",
    "stable_ids",
]
