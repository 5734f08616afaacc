"""k-FED on Flower's Message API: a `ClientApp` for every node, a `ServerApp`, and strategies that use its clusters.

client = client_app(load_points, n_local_clusters=4)          # on every node
server = server_app(Settings(n_clusters=16, output="clusters.kfed"))
outcome = run_round(grid, Settings(n_clusters=4))             # or within a server app of one's own
strategy = ClusteredFedAvg(outcome)                           # then one model for each cluster
strategy = KFedSelection(selection, node_ids, n_train=10)     # or clients that are not copies of each other
"""

from kfed.errors import MissingExtraError

try:
    import flwr  # noqa: F401
except ImportError as error:
    raise MissingExtraError("kfed.adapters.flower needs Flower: pip install 'kfed[flower]'") from error

from kfed.adapters.flower_client import client_app, labels_of
from kfed.adapters.flower_round import Outcome, Settings
from kfed.adapters.flower_selection import KFedSelection
from kfed.adapters.flower_server import run_round, server_app
from kfed.adapters.flower_strategies import ClusteredFedAvg

__all__ = [
    "ClusteredFedAvg",
    "KFedSelection",
    "Outcome",
    "Settings",
    "client_app",
    "labels_of",
    "run_round",
    "server_app",
]
