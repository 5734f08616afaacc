"""What a coordinator does, whoever asks: federations, devices that join, leave or come late, and their clusters."""

from kfed.coordinator.core.clock import Clock
from kfed.coordinator.core.clusters import Clusters, stable_ids
from kfed.coordinator.core.commits import Committer
from kfed.coordinator.core.gather import gather
from kfed.coordinator.core.measures import Measures
from kfed.coordinator.core.service import Coordinator, Live

__all__ = [
    "Clock",
    "Clusters",
    "Committer",
    "Coordinator",
    "Live",
    "Measures",
    "gather",
    "stable_ids",
]
