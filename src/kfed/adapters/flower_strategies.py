"""What clusters of nodes are good for in training: one model for each, or clients that are not copies of each other.

Both are Flower's `FedAvg` in all but whom they send which model, and run with an ordinary PyTorch `ClientApp`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
from flwr.app import ArrayRecord, ConfigRecord, Message, MessageType, MetricRecord, RecordDict
from flwr.serverapp import Grid
from flwr.serverapp.strategy import FedAvg
from flwr.serverapp.strategy.strategy_utils import aggregate_arrayrecords

from kfed.errors import InvalidInputError

Array = npt.NDArray[Any]


class ClusteredFedAvg(FedAvg):
    """Federated averaging with one model for each cluster of nodes.

    Parameters
    ----------
    clusters : mapping of int to int
        The cluster of each node, such as the one that most of its rows are in.
    **options
        As of `flwr.serverapp.strategy.FedAvg`. Every node that is there takes part in every round.

    Attributes
    ----------
    models : dict of int to ArrayRecord
        The model of each cluster, after `start`. All begin with `initial_arrays`.
    """

    def __init__(self, clusters: Mapping[int, int], **options: Any) -> None:
        super().__init__(**options)
        if not clusters:
            raise InvalidInputError("clusters must name the cluster of at least one node, and names none")
        self.clusters = dict(clusters)
        self.models: dict[int, ArrayRecord] = {}

    def configure_train(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> Iterable[Message]:
        """Send each node the model of its cluster."""
        return self._to_all(server_round, arrays, config, grid, MessageType.TRAIN)

    def configure_evaluate(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> Iterable[Message]:
        """Send each node the model of its cluster."""
        return self._to_all(server_round, arrays, config, grid, MessageType.EVALUATE)

    def aggregate_train(
        self,
        server_round: int,  # noqa: ARG002 - Flower's signature
        replies: Iterable[Message],
    ) -> tuple[ArrayRecord | None, MetricRecord | None]:
        """Average the models of each cluster; a cluster that nobody replied for keeps its own."""
        replies = list(replies)
        valid, _ = self._check_and_log_replies(replies, is_train=True)
        for cluster in {self.clusters[reply.metadata.src_node_id] for reply in valid}:
            own = [reply.content for reply in valid if self.clusters[reply.metadata.src_node_id] == cluster]
            self.models[cluster] = aggregate_arrayrecords(own, self.weighted_by_key)
        metrics = (
            self.train_metrics_aggr_fn([reply.content for reply in valid], self.weighted_by_key) if valid else None
        )
        return next(iter(self.models.values())), metrics  # `models` has them all; Flower's result has room for one

    def _to_all(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid, message_type: str
    ) -> list[Message]:
        config["server-round"] = server_round
        for cluster in self.clusters.values():
            self.models.setdefault(cluster, arrays)
        nodes = sorted(set(grid.get_node_ids()) & set(self.clusters))
        return [
            Message(
                RecordDict({self.arrayrecord_key: self.models[self.clusters[node]], self.configrecord_key: config}),
                dst_node_id=node,
                message_type=message_type,
            )
            for node in nodes
        ]


class Selection(Protocol):
    """Whatever picks the clients of a round: the selections of `kfed.federated` do."""

    def select(self, round: int, n: int, losses: Callable[[Array], Any]) -> Array:
        """Positions of `n` distinct clients; asks for the losses of those it considers."""


class KFedSelection(FedAvg):
    """Federated averaging whose clients are picked at random, by power of choice, or by k-FED + power of choice.

    Parameters
    ----------
    selection : object with ``select(round, n, losses)``
        `kfed.federated.RandomSelection`, `PowerOfChoice` or `KFedPowerOfChoice`.
    node_ids : sequence of int
        The node that each position of the selection stands for.
    n_train : int
        Nodes that train in a round.
    loss_key : str
        What the nodes' evaluate function calls its loss. Only candidates are asked for it, before each round.
    loss_timeout : float
        Seconds to wait for losses. A candidate that does not say is taken last.
    **options
        As of `flwr.serverapp.strategy.FedAvg`.
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

        def losses(positions: Array) -> Array:
            return self._losses(grid, record, [self.node_ids[position] for position in positions])

        chosen = [self.node_ids[position] for position in self.selection.select(server_round, self.n_train, losses)]
        self.selected.append(chosen)
        return self._construct_messages(record, chosen, MessageType.TRAIN)

    def _losses(self, grid: Grid, record: RecordDict, nodes: list[int]) -> Array:
        """Losses of the present model on these nodes; the smallest number for a node that does not say."""
        asked = self._construct_messages(record, nodes, MessageType.EVALUATE)
        found: dict[int, float] = {}
        for reply in grid.send_and_receive(asked, timeout=self.loss_timeout):
            if reply.has_content():
                metrics = next(iter(reply.content.metric_records.values()))
                found[reply.metadata.src_node_id] = float(metrics[self.loss_key])  # type: ignore[arg-type]
        return np.array([found.get(node, np.finfo(float).min) for node in nodes])
