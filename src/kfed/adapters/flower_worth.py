"""Are the clusters of nodes worth it? After a trial, nodes say which cluster's model is the best for them.

The trial is the first round in which two nodes of a cluster train. Some nodes run their own evaluate function on what
each cluster learned in it, once; all that comes back are the metrics that they send in every evaluation. What a node
trained itself is left out of what it judges: with it, its own cluster's model would suit it best in any clusters. What
a single node trained is shown to nobody.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from logging import WARNING
from typing import Any

import numpy as np
from flwr.app import Array, ArrayRecord, Message
from flwr.common import log
from flwr.serverapp import Grid

from kfed.federated import Communication, GroupWorth

Ask = Callable[[int, ArrayRecord, list[int]], list[Message]]
"""Makes the messages that ask nodes to evaluate a model of a cluster."""


class Trial:
    """What nodes of each cluster trained first, and the verdict on it.

    Parameters
    ----------
    loss_key : str, optional
        Name of the loss in the metrics of the nodes; by default the only one that ends in "loss".
    weighted_by : str
        Name of the metric that models are averaged by.
    """

    def __init__(self, loss_key: str | None, weighted_by: str) -> None:
        self.loss_key, self.weighted_by = loss_key, weighted_by
        self.is_over = False
        self._replies: dict[int, dict[int, Message]] = {}

    def note(self, cluster: int, replies: Iterable[Message]) -> None:
        """Keep what at least two nodes of a cluster trained, unless they did before."""
        own = {reply.metadata.src_node_id: reply for reply in replies}
        if not self.is_over and cluster not in self._replies and len(own) > 1:
            self._replies[cluster] = own

    def ends(self, clusters: Iterable[int], is_last_round: bool) -> bool:
        """Whether it is time to ask: once, when all clusters of these nodes were trained; one node is no cluster."""
        to_judge = {cluster for cluster, n_nodes in Counter(clusters).items() if n_nodes > 1}
        if self.is_over or len(to_judge) < 2 or not (is_last_round or to_judge <= set(self._replies)):
            return False
        self.is_over = True
        return True

    def verdict(self, grid: Grid, clusters: Mapping[int, int], ask: Ask, timeout: float) -> GroupWorth | None:
        """Let these nodes judge what was trained; None if no two clusters can be judged.

        One cluster after the other, as replies do not say which of two equal models they are about.
        """
        trained, self._replies = self._replies, {}
        asked = [node for node, cluster in clusters.items() if cluster in trained]
        if len({clusters[node] for node in asked}) < 2:
            return None
        found: list[dict[int, float]] = []
        sent = Communication()
        for cluster, own in trained.items():
            parts = {node: [node] for node in asked if node in own} | {
                None: [node for node in asked if node not in own]
            }
            models = {left_out: self._mean(own, left_out) for left_out, nodes in parts.items() if nodes}
            messages = [one for left_out, model in models.items() for one in ask(cluster, model, parts[left_out])]
            replies = [one for one in grid.send_and_receive(messages, timeout=timeout) if one.has_content()]
            found.append({one.metadata.src_node_id: self._loss(one) for one in replies})
            down = sum(len(parts[left_out]) * model.count_bytes() for left_out, model in models.items())
            up = sum(record.count_bytes() for one in replies for record in one.content.metric_records.values())
            sent += Communication(0, down, up, len(messages) + len(replies))
        return self._judged(asked, clusters, list(trained), found, sent)

    def _judged(
        self,
        asked: Iterable[int],
        clusters: Mapping[int, int],
        columns: list[int],
        found: list[dict[int, float]],
        sent: Communication,
    ) -> GroupWorth | None:
        nodes = [node for node in asked if all(node in losses for losses in found)]
        if len({clusters[node] for node in nodes}) < 2:
            return None
        losses = np.array([[own[node] for own in found] for node in nodes])
        if not np.isfinite(losses).any():
            log(WARNING, "k-FED: nodes cannot judge the clusters: their metrics have no loss; set loss_key to its name")
            return None
        return GroupWorth.by_losses(losses, [columns.index(clusters[node]) for node in nodes], sent)

    def _mean(self, replies: Mapping[int, Message], without: int | None) -> ArrayRecord:
        """The mean of what nodes trained, as federated averaging makes it."""
        taken = [reply.content for node, reply in replies.items() if node != without]
        metrics = [next(iter(content.metric_records.values())) for content in taken]
        weights = [float(own[self.weighted_by]) for own in metrics]  # type: ignore[arg-type]
        shares = [weight / sum(weights) for weight in weights]
        models = [next(iter(content.array_records.values())) for content in taken]
        parts = {name: [own[name].numpy() for own in models] for name in models[0]}
        means = {name: sum(map(np.multiply, arrays, shares)) for name, arrays in parts.items()}
        return ArrayRecord({name: Array(np.asarray(mean)) for name, mean in means.items()})

    def _loss(self, reply: Message) -> float:
        metrics = {key: value for record in reply.content.metric_records.values() for key, value in record.items()}
        return float(loss_in(metrics, self.loss_key))


def loss_in(metrics: Mapping[str, Any], key: str | None) -> Any:
    """The loss among metrics: by its name, or the only one whose name ends in "loss"; NaN if there is none."""
    names = [name for name in metrics if name == key or (key is None and name.lower().endswith("loss"))]
    return metrics[names[0]] if len(names) == 1 else np.nan
