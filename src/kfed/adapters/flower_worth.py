"""Are the clusters of nodes worth it? After a trial, nodes say which cluster's model is the best for them.

Each of some nodes runs its own evaluate function on the models of all clusters, once; what comes back are the metrics
that it sends in every evaluation.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from logging import WARNING
from typing import Any

import numpy as np
from flwr.app import ArrayRecord, Message
from flwr.common import log
from flwr.serverapp import Grid

from kfed.federated import Communication, GroupWorth

Ask = Callable[[int, list[int]], list[Message]]
"""Makes the messages that ask nodes to evaluate the model of a cluster."""


class Trial:
    """How long clusters were trained, and the verdict of nodes after that.

    Parameters
    ----------
    n_rounds : int
        Rounds that each cluster is trained before nodes are asked.
    loss_key : str, optional
        Name of the loss in the metrics of the nodes; by default the only one that ends in "loss".
    """

    def __init__(self, n_rounds: int, loss_key: str | None) -> None:
        self.n_rounds, self.loss_key = n_rounds, loss_key
        self.trained: Counter[int] = Counter()
        self.is_over = False

    def anew(self) -> Trial:
        """Return the same trial before its first round."""
        return Trial(self.n_rounds, self.loss_key)

    def ends(self, clusters: Iterable[int], is_last_round: bool) -> bool:
        """Whether it is time to ask: once, when all of these clusters were trained for long enough."""
        in_use = set(clusters)
        is_due = is_last_round or min(self.trained[cluster] for cluster in in_use) >= self.n_rounds
        if self.is_over or len(in_use) < 2 or not is_due:
            return False
        self.is_over = True
        return True

    def verdict(
        self, grid: Grid, models: Mapping[int, ArrayRecord], clusters: Mapping[int, int], ask: Ask, timeout: float
    ) -> GroupWorth | None:
        """Let these nodes judge the models of all clusters that were trained; None if too few could.

        One cluster after the other, as replies do not say which of two equal models they are about.
        """
        tried = [cluster for cluster in models if self.trained[cluster]]
        asked = [node for node, cluster in clusters.items() if cluster in tried]
        if len(tried) < 2 or not asked:
            return None
        found: list[dict[int, float]] = []
        sent = Communication()
        for cluster in tried:
            replies = [one for one in grid.send_and_receive(ask(cluster, asked), timeout=timeout) if one.has_content()]
            found.append({one.metadata.src_node_id: self._loss(one) for one in replies})
            bytes_up = sum(record.count_bytes() for one in replies for record in one.content.metric_records.values())
            bytes_down = len(asked) * models[cluster].count_bytes()
            sent += Communication(0, bytes_down, bytes_up, len(asked) + len(replies))
        nodes = [node for node in asked if all(node in losses for losses in found)]
        losses = np.array([[own[node] for own in found] for node in nodes])
        if not np.isfinite(losses).any():
            log(WARNING, "k-FED: nodes cannot judge the clusters: their metrics have no loss; set loss_key to its name")
            return None
        return GroupWorth.by_losses(losses, [tried.index(clusters[node]) for node in nodes], sent)

    def _loss(self, reply: Message) -> float:
        metrics = {key: value for record in reply.content.metric_records.values() for key, value in record.items()}
        return float(loss_in(metrics, self.loss_key))


def loss_in(metrics: Mapping[str, Any], key: str | None) -> Any:
    """The loss among metrics: by its name, or the only one whose name ends in "loss"; NaN if there is none."""
    names = [name for name in metrics if name == key or (key is None and name.lower().endswith("loss"))]
    return metrics[names[0]] if len(names) == 1 else np.nan
