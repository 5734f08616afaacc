"""Client selection on Flower: a selection of `kfed.federated` picks the clients of each round.

Only who is sent the model is decided here; the rest is that of Flower's strategies, and of an ordinary `ClientApp`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from flwr.app import ArrayRecord, ConfigRecord, Message, MessageType, MetricRecord, RecordDict
from flwr.serverapp import Grid
from flwr.serverapp.strategy import FedAvg

from kfed._base import text
from kfed._base.array import Array
from kfed.adapters.flower_nodes import Part, Patience, taking_all
from kfed.errors import InvalidInputError
from kfed.federated import Selection


class KFedSelection(FedAvg):
    """Federated averaging whose clients are picked at random, by power of choice, or by k-FED + power of choice.

    Clients that are drawn by size are averaged evenly, or size would count twice. It may be mixed with other strategies
    of Flower: ``class Mine(KFedSelection, FedAdam)``.

    Parameters
    ----------
    selection : object with ``select(round, n, losses)``
        `kfed.federated.RandomSelection`, `PowerOfChoice` or `KFedPowerOfChoice`. If nodes are not connected, it is also
        given ``available=``, the positions of those that are.
    node_ids : sequence of int
        The node that each position of the selection stands for.
    n_train : int
        Nodes that train in a round.
    loss_key : str
        Name of the loss in the metrics of the nodes' evaluate function. Only candidates are asked, before each round.
    loss_timeout : float
        Seconds to wait for losses. A candidate that does not reply is taken last.
    node_wait : float
        Seconds to wait for `min_available_nodes`; see `ClusteredFedAvg`.
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
        node_wait: float = 60.0,
        **options: Any,
    ) -> None:
        super().__init__(**options)
        self.selection, self.node_ids, self.n_train = selection, list(node_ids), n_train
        self.loss_key, self.loss_timeout = loss_key, loss_timeout
        self.selected: list[list[int]] = []
        self._patience = Patience(node_wait)

    def configure_train(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> Iterable[Message]:
        """Send the model to the nodes that were picked."""
        config["server-round"] = server_round
        record = RecordDict({self.arrayrecord_key: arrays, self.configrecord_key: config})
        there = set(self._patience.wait_for(grid, self.node_ids, self.min_available_nodes))
        self.selected.append(self._picked(server_round, grid, record, there) if there else [])
        if not self.selected[-1]:
            return []
        with taking_all(self, len(self.selected[-1])):
            return super().configure_train(server_round, arrays, config, Part(grid, self.selected[-1]))

    def aggregate_train(
        self, server_round: int, replies: Iterable[Message]
    ) -> tuple[ArrayRecord | None, MetricRecord | None]:
        """Average the models, evenly if larger clients were picked more often."""
        came = list(replies)
        if getattr(self.selection, "draws_by_size", False):
            for reply in came:
                for metrics in reply.content.metric_records.values() if reply.has_content() else ():
                    if self.weighted_by_key in metrics:
                        metrics[self.weighted_by_key] = 1
        return super().aggregate_train(server_round, came)

    def _picked(self, server_round: int, grid: Grid, record: RecordDict, there: set[int]) -> list[int]:
        """The nodes that the selection picks of those that are there."""

        def losses(positions: Array) -> Array:
            return self._losses(grid, record, [self.node_ids[position] for position in positions], there)

        connected = [position for position, node in enumerate(self.node_ids) if node in there]
        known = {} if len(connected) == len(self.node_ids) else {"available": connected}
        picked = self.selection.select(server_round, self.n_train, losses, **known)
        return [self.node_ids[position] for position in picked if self.node_ids[position] in there]

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
