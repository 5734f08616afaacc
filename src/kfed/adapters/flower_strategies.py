"""Training with the clusters of nodes: one model for each cluster, or clients that are not copies of each other.

Both decide only who is sent which model; the rest is that of Flower's strategies, and they run with an ordinary PyTorch
`ClientApp`.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
from flwr.app import ArrayRecord, ConfigRecord, Message, MessageType, MetricRecord, RecordDict
from flwr.serverapp import Grid
from flwr.serverapp.strategy import FedAvg, Result

from kfed._base import text
from kfed._base.array import Array
from kfed.adapters.flower_nodes import Latecomers, Part, Patience
from kfed.adapters.flower_round import Outcome
from kfed.errors import InvalidInputError
from kfed.federated import Selection

EvaluateFn = Callable[[int, ArrayRecord], MetricRecord | None]

SHARED = (
    "weighted_by_key",
    "arrayrecord_key",
    "configrecord_key",
    "train_metrics_aggr_fn",
    "evaluate_metrics_aggr_fn",
)
"""Attributes of a strategy that the strategies of its clusters have, too."""


class ClusteredFedAvg(FedAvg):
    """Federated averaging, or another strategy, with one model for each cluster of nodes.

    Parameters
    ----------
    clusters : Outcome, or mapping of int to int
        The outcome of a round of k-FED: nodes that come later are asked what they hold, and take part with the model of
        their cluster. Or the cluster of each node; then other nodes do not take part.
    strategy : callable
        Makes the strategy of one cluster, such as ``lambda: FedAdam(eta=0.01)``; by default `FedAvg`. Whom it trains is
        decided here.
    models : mapping of int to ArrayRecord, optional
        The models of clusters to go on from. Other clusters begin as `initial_arrays`.
    node_wait : float
        Seconds to wait for `min_available_nodes`. After that, training goes on with the nodes that are connected, and
        does not wait for the missing ones again.
    **options
        As of `flwr.serverapp.strategy.FedAvg`.

    Attributes
    ----------
    models : dict of int to ArrayRecord
        The model of each cluster. Flower's `Result.arrays` holds the first of them.
    clusters : dict of int to int
        The cluster of each node, late ones included.
    selected : list of list of int
        The nodes that were sent a model to train, round by round.
    """

    def __init__(
        self,
        clusters: Outcome | Mapping[int, int],
        *,
        strategy: Callable[[], FedAvg] = FedAvg,
        models: Mapping[int, ArrayRecord] | None = None,
        node_wait: float = 60.0,
        **options: Any,
    ) -> None:
        _refuse_mixed_in(type(self))
        super().__init__(**options)
        outcome = clusters if isinstance(clusters, Outcome) else None
        self.clusters = dict(outcome.clusters if outcome else clusters)  # type: ignore[arg-type]
        if not self.clusters:
            raise InvalidInputError("clusters must hold at least one node; got none")
        self.models: dict[int, ArrayRecord] = dict(models or {})
        self._strategy = strategy
        self._trained: dict[int, ArrayRecord] | None = None  # our own models, not to go on from
        self._strategies: dict[int, FedAvg] = {}
        self._patience = Patience(node_wait)
        self._latecomers = Latecomers(outcome) if outcome else None
        self.selected: list[list[int]] = []

    def start(
        self,
        grid: Grid,
        initial_arrays: ArrayRecord,
        *positional: Any,
        evaluate_fn: EvaluateFn | None = None,
        **options: Any,
    ) -> Result:
        """Run the rounds, as in Flower; `evaluate_fn` is called with the model of each cluster.

        Its metrics are kept under their names as means, weighted by the nodes of each cluster, and as
        ``<name>/cluster-<number>``. Models that were given, or set, are gone on from; those of a start before are not.
        """
        if self.models is self._trained:
            self.models = {}
        self._strategies.clear()
        self.selected = []
        self._complete(initial_arrays)
        judge = self._judge_of(evaluate_fn) if evaluate_fn else None
        return super().start(grid, initial_arrays, *positional, evaluate_fn=judge, **options)

    def configure_train(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> Iterable[Message]:
        """Send the nodes of this round the models of their clusters, to train."""
        if self._latecomers is not None:
            self.clusters |= self._latecomers.served(grid)
        self._complete(arrays)
        nodes = self._sampled(server_round, grid, self.fraction_train, self.min_train_nodes)
        self.selected.append(nodes)
        return self._messages("configure_train", server_round, config, grid, nodes)

    def configure_evaluate(
        self,
        server_round: int,
        arrays: ArrayRecord,  # noqa: ARG002 - Flower's signature
        config: ConfigRecord,
        grid: Grid,
    ) -> Iterable[Message]:
        """Send the nodes of this round the models of their clusters, to evaluate."""
        nodes = self._sampled(server_round, grid, self.fraction_evaluate, self.min_evaluate_nodes)
        return self._messages("configure_evaluate", server_round, config, grid, nodes)

    def aggregate_train(
        self, server_round: int, replies: Iterable[Message]
    ) -> tuple[ArrayRecord | None, MetricRecord | None]:
        """Let the strategy of each cluster aggregate its models; a cluster without replies keeps its model."""
        valid, _ = self._check_and_log_replies(list(replies), is_train=True)
        if not valid:
            return None, None
        for cluster in sorted({self.clusters[reply.metadata.src_node_id] for reply in valid}):
            own = [reply for reply in valid if self.clusters[reply.metadata.src_node_id] == cluster]
            arrays, _ = self._of(cluster).aggregate_train(server_round, own)
            self.models[cluster] = self.models[cluster] if arrays is None else arrays
        metrics = self.train_metrics_aggr_fn([reply.content for reply in valid], self.weighted_by_key)
        return next(iter(self.models.values())), metrics

    def _complete(self, arrays: ArrayRecord) -> None:
        """Give clusters without a model the first one, and note that these models are our own."""
        known = sorted(set(self.clusters.values()))
        self.models = self._trained = {cluster: self.models.get(cluster, arrays) for cluster in known}

    def _of(self, cluster: int) -> FedAvg:
        """The strategy of a cluster, which keeps what it knows from round to round."""
        if cluster not in self._strategies:
            made = self._strategy()
            for name in SHARED:
                setattr(made, name, getattr(self, name))
            self._strategies[cluster] = made
        return self._strategies[cluster]

    def _sampled(self, server_round: int, grid: Grid, fraction: float, at_least: int) -> list[int]:
        """Draw a fraction of the connected nodes; the draw depends on the round and these nodes alone."""
        if fraction == 0.0:
            return []
        there = self._patience.wait_for(grid, self.clusters, max(at_least, self.min_available_nodes))
        return random.Random(server_round).sample(there, min(len(there), max(at_least, int(fraction * len(there)))))

    def _messages(
        self, step: str, server_round: int, config: ConfigRecord, grid: Grid, nodes: list[int]
    ) -> list[Message]:
        """What the strategies of the clusters send these nodes, each as if there were no others."""
        messages: list[Message] = []
        for cluster, model in self.models.items():
            own = [node for node in nodes if self.clusters[node] == cluster]
            if own:
                with _taking_all(self._of(cluster), len(own)) as strategy:
                    messages += getattr(strategy, step)(server_round, model, config, Part(grid, own))
        return messages

    def _judge_of(self, evaluate_fn: EvaluateFn) -> EvaluateFn:
        def judge(server_round: int, _: ArrayRecord) -> MetricRecord | None:
            weights = {cluster: list(self.clusters.values()).count(cluster) for cluster in self.models}
            found = {cluster: evaluate_fn(server_round, model) for cluster, model in self.models.items()}
            return _joined({cluster: own for cluster, own in found.items() if own is not None}, weights)

        return judge


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
        with _taking_all(self, len(self.selected[-1])):
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


def _refuse_mixed_in(strategy: type) -> None:
    """Raise if another strategy is mixed in: it would keep one state for the models of all clusters."""
    order = strategy.__mro__
    between = order[order.index(ClusteredFedAvg) + 1 : order.index(FedAvg)]
    if between:
        name = between[0].__name__
        raise InvalidInputError(
            f"{name} must not be mixed into ClusteredFedAvg; use ClusteredFedAvg(clusters, strategy={name}), which "
            "makes one of them for each cluster"
        )


@contextmanager
def _taking_all(strategy: FedAvg, n_nodes: int) -> Iterator[FedAvg]:
    """Let a strategy take all of the nodes that it sees: they were sampled before."""
    all_of_them = dict.fromkeys(["fraction_train", "fraction_evaluate"], 1.0)
    all_of_them |= dict.fromkeys(["min_train_nodes", "min_evaluate_nodes", "min_available_nodes"], n_nodes)
    before = {name: getattr(strategy, name) for name in all_of_them}
    vars(strategy).update(all_of_them)
    try:
        yield strategy
    finally:
        vars(strategy).update(before)


def _joined(found: Mapping[int, MetricRecord], weights: Mapping[int, int]) -> MetricRecord | None:
    """Metrics of all clusters in one record: of each, and their weighted means."""
    if not found:
        return None
    joined: dict[str, Any] = {f"{name}/cluster-{c}": value for c, own in found.items() for name, value in own.items()}
    total = sum(weights[cluster] for cluster in found)
    for name in next(iter(found.values())):
        parts = [(own[name], weights[cluster]) for cluster, own in found.items() if name in own]
        joined[name] = sum(np.asarray(value) * weight for value, weight in parts) / total
    return MetricRecord({name: value.tolist() if hasattr(value, "tolist") else value for name, value in joined.items()})
