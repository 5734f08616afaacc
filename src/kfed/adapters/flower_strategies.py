"""Training with the clusters of nodes: one model for each cluster.

Only who is sent which model is decided here; the rest is that of Flower's strategies, and of an ordinary `ClientApp`.
"""

from __future__ import annotations

import random
import warnings
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from logging import INFO
from typing import Any, Literal

import numpy as np
from flwr.app import ArrayRecord, ConfigRecord, Message, MetricRecord
from flwr.common import log
from flwr.serverapp import Grid
from flwr.serverapp.strategy import FedAvg, Result

from kfed._base import checks
from kfed.adapters.flower_nodes import LateNodes, Part, Patience, taking_all
from kfed.adapters.flower_round import Outcome
from kfed.adapters.flower_worth import Trial
from kfed.errors import InvalidInputError
from kfed.federated import GroupWorth, coincide, n_judged_of, useless

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
    if_useless : {"warn", "merge", "ignore"}
        What to do if the clusters do not matter to the model: warn; also go on with one model for all, the mean of what
        nodes trained last; or do not look. To find out, some nodes evaluate what each cluster learned in its first
        round, once: 40 of them, or 8 for each cluster; none if `fraction_evaluate` is 0. See
        `kfed.federated.GroupWorth`.
    loss_key : str, optional
        Name of the loss in the metrics of the nodes' evaluate function; by default the only one that ends in "loss".
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
    worth : GroupWorth or None
        How far the clusters matter to the model; None before nodes were asked, or if they could not tell.

    Warns
    -----
    AggregationWarning
        If the clusters do not matter to the model.
    """

    def __init__(
        self,
        clusters: Outcome | Mapping[int, int],
        *,
        strategy: Callable[[], FedAvg] = FedAvg,
        models: Mapping[int, ArrayRecord] | None = None,
        node_wait: float = 60.0,
        if_useless: Literal["warn", "merge", "ignore"] = "warn",
        loss_key: str | None = None,
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
        self._outcome = outcome
        self._if_useless = checks.one_of(if_useless, ["warn", "merge", "ignore"], "if_useless")
        self._trial = Trial(loss_key, self.weighted_by_key)
        self._n_rounds, self._timeout = 0, 3600.0
        self._last_replies: list[Message] = []
        self.selected: list[list[int]] = []
        self.worth: GroupWorth | None = None
        self._first: ArrayRecord | None = None
        self._is_merged = False

    def start(
        self,
        grid: Grid,
        initial_arrays: ArrayRecord,
        num_rounds: int = 3,
        timeout: float = 3600,
        train_config: ConfigRecord | None = None,
        evaluate_config: ConfigRecord | None = None,
        evaluate_fn: EvaluateFn | None = None,
    ) -> Result:
        """Run the rounds, as in Flower; `evaluate_fn` is called with the model of each cluster.

        Its metrics are kept under their names as means, weighted by the nodes of each cluster, and as
        ``<name>/cluster-<number>``. Models that were given, or set, are gone on from; those of a start before are not.
        """
        if self.models is self._trained:
            self.models = {}
        self._strategies.clear()
        self.selected, self._first, self.worth = [], initial_arrays, None
        self._trial = Trial(self._trial.loss_key, self.weighted_by_key)
        self._n_rounds, self._timeout = num_rounds, timeout
        self._complete(initial_arrays)
        judge = self._judge_of(evaluate_fn) if evaluate_fn else None
        result = super().start(grid, initial_arrays, num_rounds, timeout, train_config, evaluate_config, judge)
        result.arrays = next(iter(self.models.values()))  # as it is after clusters were merged
        return result

    def configure_train(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> Iterable[Message]:
        """Send the nodes of this round the models of their clusters, to train."""
        if self._latecomers is not None:
            late = self._latecomers.served(grid)
            self.clusters |= dict.fromkeys(late, 0) if self._is_merged else late
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
        """Send nodes of this round the models of their clusters, to evaluate; judge the clusters after the trial."""
        is_last = server_round == self._n_rounds
        if self._if_useless != "ignore" and self._trial.ends(self.clusters.values(), is_last):
            self._look_at_clusters(server_round, config, grid)
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
            if self._if_useless != "ignore":
                self._trial.note(cluster, own)
        self._last_replies = valid if self._if_useless == "merge" and not self._trial.is_over else []
        metrics = self.train_metrics_aggr_fn([reply.content for reply in valid], self.weighted_by_key)
        return next(iter(self.models.values())), metrics

    def _look_at_clusters(self, server_round: int, config: ConfigRecord, grid: Grid) -> None:
        """Warn if the clusters do not matter to the model, and merge them if that was asked for."""
        there = self._patience.wait_for(grid, self.clusters, self.min_available_nodes) if self.fraction_evaluate else []
        asked = _drawn(there, n_judged_of(len(set(self.clusters.values()))), server_round)
        ask = partial(self._sent, "configure_evaluate", server_round, config, grid)
        own = {node: self.clusters[node] for node in asked}
        self.worth = self._trial.verdict(grid, own, ask, self._timeout)
        if self.worth is not None and self.worth.matters:
            return
        are_one = self._coincide()
        if self.worth is not None or are_one:
            remedy = "Group nodes by what they learn, run_round(..., arrays=start), train Flower's FedAvg"
            warnings.warn(useless("the clusters of nodes", self.worth, are_one, remedy), stacklevel=2)
            if self._if_useless == "merge":
                self._merge(server_round)

    def _coincide(self) -> bool:
        """Whether nodes that were grouped by their points all hold the same."""
        return (
            self._outcome is not None
            and self._outcome.question is None
            and coincide(self._outcome.aggregation.messages)
        )

    def _merge(self, server_round: int) -> None:
        """Go on with one cluster, whose model is the mean of what nodes of all clusters trained in this round."""
        merged, _ = super().aggregate_train(server_round, self._last_replies)
        self.models = self._trained = {0: merged or next(iter(self.models.values()))}
        self.clusters, self._is_merged = dict.fromkeys(self.clusters, 0), True
        self._strategies.clear()
        self._last_replies = []
        log(INFO, "k-FED: training goes on with one model for all nodes")

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
        return _drawn(there, max(at_least, int(fraction * len(there))), server_round)

    def _messages(
        self, step: str, server_round: int, config: ConfigRecord, grid: Grid, nodes: list[int]
    ) -> list[Message]:
        """What the strategies of the clusters send these nodes, each as if there were no others."""
        messages: list[Message] = []
        for cluster, model in self.models.items():
            own = [node for node in nodes if self.clusters[node] == cluster]
            messages += self._sent(step, server_round, config, grid, cluster, model, own) if own else []
        return messages

    def _sent(
        self,
        step: str,
        server_round: int,
        config: ConfigRecord,
        grid: Grid,
        cluster: int,
        model: ArrayRecord,
        nodes: list[int],
    ) -> list[Message]:
        """What the strategy of a cluster sends these nodes with a model."""
        with taking_all(self._of(cluster), len(nodes)) as strategy:
            return list(getattr(strategy, step)(server_round, model, config, Part(grid, nodes)))

    def _judge_of(self, evaluate_fn: EvaluateFn) -> EvaluateFn:
        def judge(server_round: int, _: ArrayRecord) -> MetricRecord | None:
            weights = {cluster: list(self.clusters.values()).count(cluster) for cluster in self.models}
            found = {cluster: evaluate_fn(server_round, model) for cluster, model in self.models.items()}
            return _joined({cluster: own for cluster, own in found.items() if own is not None}, weights)

        return judge


def _drawn(nodes: list[int], n: int, server_round: int) -> list[int]:
    return random.Random(server_round).sample(nodes, min(len(nodes), n))


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
