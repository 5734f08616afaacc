"""Training with the clusters of nodes: one model for each cluster.

Only who is sent which model is decided here; the rest is that of Flower's strategies, and of an ordinary `ClientApp`.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np
from flwr.app import ArrayRecord, ConfigRecord, Message, MetricRecord
from flwr.serverapp import Grid
from flwr.serverapp.strategy import FedAvg, Result

from kfed.adapters.flower_nodes import LateNodes, Part, Patience, taking_all
from kfed.adapters.flower_round import Outcome
from kfed.errors import InvalidInputError

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
        self._latecomers = LateNodes(outcome) if outcome else None
        self.selected: list[list[int]] = []
        self._first: ArrayRecord | None = None

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
        self.selected, self._first = [], initial_arrays
        self._complete(initial_arrays)
        judge = self._judge_of(evaluate_fn) if evaluate_fn else None
        return super().start(grid, initial_arrays, *positional, evaluate_fn=judge, **options)

    def configure_train(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> Iterable[Message]:
        """Send the nodes of this round the models of their clusters, to train."""
        if self._latecomers is not None:
            self.clusters |= self._latecomers.served(grid)
        self._complete(self._first or arrays)
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
        known = sorted({*self.clusters.values(), *self.models})
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
                with taking_all(self._of(cluster), len(own)) as strategy:
                    messages += getattr(strategy, step)(server_round, model, config, Part(grid, own))
        return messages

    def _judge_of(self, evaluate_fn: EvaluateFn) -> EvaluateFn:
        def judge(server_round: int, _: ArrayRecord) -> MetricRecord | None:
            weights = {cluster: list(self.clusters.values()).count(cluster) for cluster in self.models}
            found = {cluster: evaluate_fn(server_round, model) for cluster, model in self.models.items()}
            return _joined({cluster: own for cluster, own in found.items() if own is not None}, weights)

        return judge


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
