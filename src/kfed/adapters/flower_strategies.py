"""Training with the clusters of nodes: one model for each cluster, or clients that are not copies of each other.

Both differ from Flower's `FedAvg` only in who is sent which model, and run with an ordinary PyTorch `ClientApp`.
"""

from __future__ import annotations

import random
import time
from collections.abc import Iterable, Mapping, Sequence
from logging import INFO, WARNING
from typing import Any

import numpy as np
from flwr.app import ArrayRecord, ConfigRecord, Message, MessageType, MetricRecord, RecordDict
from flwr.common import log
from flwr.serverapp import Grid
from flwr.serverapp.strategy import FedAvg
from flwr.serverapp.strategy.strategy_utils import aggregate_arrayrecords

from kfed._base import text
from kfed._base.array import Array
from kfed.errors import InvalidInputError
from kfed.federated import Selection


class ClusteredFedAvg(FedAvg):
    """Federated averaging with one model for each cluster of nodes.

    Parameters
    ----------
    clusters : mapping of int to int
        The cluster of each node, such as `Outcome.clusters` of a round of k-FED. Other nodes do not take part.
    **options
        As of `flwr.serverapp.strategy.FedAvg`.

    Attributes
    ----------
    models : dict of int to ArrayRecord
        The model of each cluster, after `start`. All begin as `initial_arrays`. Flower's `Result.arrays` holds the
        first of them.
    """

    def __init__(self, clusters: Mapping[int, int], **options: Any) -> None:
        super().__init__(**options)
        if not clusters:
            raise InvalidInputError("clusters must hold at least one node; got none")
        self.clusters = dict(clusters)
        self.models: dict[int, ArrayRecord] = {}

    def configure_train(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> Iterable[Message]:
        """Send the nodes of this round the models of their clusters, to train; in the first round all are `arrays`."""
        if server_round == 1:
            self.models = dict.fromkeys(sorted(set(self.clusters.values())), arrays)
        nodes = self._sampled(server_round, grid, self.fraction_train, self.min_train_nodes)
        return self._messages(nodes, server_round, config, MessageType.TRAIN)

    def configure_evaluate(
        self,
        server_round: int,
        arrays: ArrayRecord,  # noqa: ARG002 - Flower's signature
        config: ConfigRecord,
        grid: Grid,
    ) -> Iterable[Message]:
        """Send the nodes of this round the models of their clusters, to evaluate."""
        nodes = self._sampled(server_round, grid, self.fraction_evaluate, self.min_evaluate_nodes)
        return self._messages(nodes, server_round, config, MessageType.EVALUATE)

    def aggregate_train(
        self,
        server_round: int,  # noqa: ARG002 - Flower's signature
        replies: Iterable[Message],
    ) -> tuple[ArrayRecord | None, MetricRecord | None]:
        """Average the models of each cluster; a cluster without replies keeps its model."""
        valid, _ = self._check_and_log_replies(list(replies), is_train=True)
        if not valid:
            return None, None
        for cluster in {self.clusters[reply.metadata.src_node_id] for reply in valid}:
            own = [reply.content for reply in valid if self.clusters[reply.metadata.src_node_id] == cluster]
            self.models[cluster] = aggregate_arrayrecords(own, self.weighted_by_key)
        metrics = self.train_metrics_aggr_fn([reply.content for reply in valid], self.weighted_by_key)
        return next(iter(self.models.values())), metrics

    def _sampled(self, server_round: int, grid: Grid, fraction: float, at_least: int) -> list[int]:
        """Draw a fraction of the connected nodes; the draw depends on the round and these nodes alone."""
        if fraction == 0.0:
            return []
        there = _wait_for(grid, self.clusters, max(at_least, self.min_available_nodes))
        return random.Random(server_round).sample(there, min(len(there), max(at_least, int(fraction * len(there)))))

    def _messages(self, nodes: list[int], server_round: int, config: ConfigRecord, message_type: str) -> list[Message]:
        config["server-round"] = server_round
        return [
            Message(
                RecordDict({self.arrayrecord_key: self.models[self.clusters[node]], self.configrecord_key: config}),
                dst_node_id=node,
                message_type=message_type,
            )
            for node in nodes
        ]


class KFedSelection(FedAvg):
    """Federated averaging whose clients are picked at random, by power of choice, or by k-FED + power of choice.

    Parameters
    ----------
    selection : object with ``select(round, n, losses)``
        `kfed.federated.RandomSelection`, `PowerOfChoice` or `KFedPowerOfChoice`.
    node_ids : sequence of int
        The node that each position of the selection stands for.
    n_train : int
        Nodes that train in a round. One that is picked but not connected is passed over.
    loss_key : str
        Name of the loss in the metrics of the nodes' evaluate function. Only candidates are asked, before each round.
    loss_timeout : float
        Seconds to wait for losses. A candidate that is not connected, or does not reply, is taken last.
    **options
        As of `flwr.serverapp.strategy.FedAvg`.

    Attributes
    ----------
    selected : list of list of int
        The nodes that were sent the model to train, round by round.
    """

    def __init__(
        self,
        selection: Selection,
        node_ids: Sequence[int],
        n_train: int,
        *,
        loss_key: str = "loss",
        loss_timeout: float = 60.0,
        **options: Any,
    ) -> None:
        super().__init__(**options)
        self.selection, self.node_ids, self.n_train = selection, list(node_ids), n_train
        self.loss_key, self.loss_timeout = loss_key, loss_timeout
        self.selected: list[list[int]] = []

    def configure_train(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> Iterable[Message]:
        """Send the model to the nodes that were picked."""
        config["server-round"] = server_round
        record = RecordDict({self.arrayrecord_key: arrays, self.configrecord_key: config})
        there = set(_wait_for(grid, self.node_ids, self.min_available_nodes))

        def losses(positions: Array) -> Array:
            return self._losses(grid, record, [self.node_ids[position] for position in positions], there)

        picked = [self.node_ids[position] for position in self.selection.select(server_round, self.n_train, losses)]
        for node in (node for node in picked if node not in there):
            log(WARNING, "KFedSelection: node %d was picked for round %d but is not connected", node, server_round)
        self.selected.append([node for node in picked if node in there])
        return self._construct_messages(record, self.selected[-1], MessageType.TRAIN)

    def _losses(self, grid: Grid, record: RecordDict, nodes: list[int], there: set[int]) -> Array:
        """Losses of the current model on these nodes; the smallest number for a node that does not reply."""
        asked = self._construct_messages(record, [node for node in nodes if node in there], MessageType.EVALUATE)
        replies = grid.send_and_receive(asked, timeout=self.loss_timeout)
        found = {reply.metadata.src_node_id: self._loss(reply) for reply in replies if reply.has_content()}
        return np.array([found.get(node, np.finfo(float).min) for node in nodes])

    def _loss(self, reply: Message) -> float:
        metrics = {key: value for record in reply.content.metric_records.values() for key, value in record.items()}
        if self.loss_key not in metrics:
            raise InvalidInputError(
                f"node {reply.metadata.src_node_id} replied without the metric {self.loss_key!r}; got "
                f"{text.listed(sorted(metrics)) or 'no metrics'}; set loss_key to the name of the loss"
            )
        return float(metrics[self.loss_key])


def _wait_for(grid: Grid, nodes: Iterable[int], at_least: int) -> list[int]:
    """Wait until `at_least` of these nodes are connected, or all of them; return those, sorted."""
    wanted = set(nodes)
    while len(there := wanted & set(grid.get_node_ids())) < min(at_least, len(wanted)):
        log(INFO, "Waiting for nodes to connect: %d of %d", len(there), len(wanted))
        time.sleep(1)
    return sorted(there)
