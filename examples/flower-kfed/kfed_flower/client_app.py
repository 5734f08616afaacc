"""What runs on every node: it clusters the node's own rows, and labels them when the answer comes."""

from pathlib import Path

import numpy as np
from flwr.app import Context

from kfed.adapters.flower import client_app


def load_points(context: Context) -> np.ndarray:
    """Rows of this node: a .npy file that the node was started with, or made-up ones in a simulation."""
    if "data" in context.node_config:
        return np.load(context.node_config["data"])
    return made_up(int(context.node_config["partition-id"]))


def made_up(node: int) -> np.ndarray:
    """Points of two of four groups: node 0 knows groups 0 and 1, node 1 knows 1 and 2, and so on."""
    means = 20 * np.random.default_rng(99).normal(size=(4, 5))
    rng = np.random.default_rng(node)
    return np.concatenate([rng.normal(means[group % 4], size=(30, 5)) for group in (node, node + 1)])


def keep_labels(context: Context, labels: np.ndarray) -> None:
    """Write the group of each row beside the rows, on this node."""
    if "data" in context.node_config:
        np.save(Path(context.node_config["data"]).with_suffix(".labels.npy"), labels)


app = client_app(load_points, n_local_clusters=2, on_labels=keep_labels)
