"""What k-FED is compared with: pooling all rows, and distributed Lloyd; all count what they send in the same units.

::

    central = baselines.centralized(devices, n_clusters=10, seed=0)           # every row leaves its device
    lloyd = baselines.distributed_lloyd(devices, n_clusters=10, seed=0)       # many rounds
    ours = baselines.one_round(devices, 10, 2, device_ids, seed=0)            # k-FED
    central.sent, lloyd.sent, ours.sent                                       # Communication: rounds, messages, bytes
"""

from kfed.baselines.centralized import Centralized, centralized, rows_message
from kfed.baselines.distributed_lloyd import DistributedLloyd, Step, distributed_lloyd
from kfed.baselines.one_round import OneRound, one_round
from kfed.baselines.textbook import textbook_local

__all__ = [
    "Centralized",
    "DistributedLloyd",
    "OneRound",
    "Step",
    "centralized",
    "distributed_lloyd",
    "one_round",
    "rows_message",
    "textbook_local",
]
