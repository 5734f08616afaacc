"""What k-FED is compared with: pooling all rows, and distributed Lloyd; both count what they communicate as k-FED does.

::

    central = baselines.centralized(devices, n_clusters=10, seed=0)           # every row leaves its device
    lloyd = baselines.distributed_lloyd(devices, n_clusters=10, seed=0)       # many rounds
    ours = baselines.one_round(devices, 10, 2, device_ids, seed=0)            # k-FED, over real bytes
    central.sent, lloyd.sent, ours.sent                                       # rounds, messages, bytes
"""

from kfed.baselines.centralized import Centralized, centralized, rows_message
from kfed.baselines.distributed_lloyd import DistributedLloyd, Step, distributed_lloyd
from kfed.baselines.one_round import OneRound, one_round
from kfed.baselines.sent import Sent
from kfed.baselines.textbook import textbook_local

__all__ = [
    "Centralized",
    "DistributedLloyd",
    "OneRound",
    "Sent",
    "Step",
    "centralized",
    "distributed_lloyd",
    "one_round",
    "rows_message",
    "textbook_local",
]
