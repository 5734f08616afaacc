"""A round of k-FED over the nodes of an engine: ask, aggregate what came, answer, serve those that come late.

ask ──> replies until a quorum or the deadline ──> aggregate, save ──> identities ──> late nodes, until told to stop

It knows no engine: whatever asks nodes and hears them is a `Nodes`. Flower's is in `flower_server`.
"""

from __future__ import annotations

import logging
import os
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from logging import INFO, WARNING
from pathlib import Path
from typing import Any, Protocol

from kfed._base import checks
from kfed.errors import EngineError, InvalidInputError, KFedError
from kfed.server import Aggregation, aggregate_batch, rule_name
from kfed.wire import DeviceMessage, Identity, MessageBatch

POLL_SECONDS = 0.5

log = logging.getLogger("flwr").log  # the one that Flower sets up, as `flwr.common.log`


@dataclass(frozen=True)
class Settings:
    """Settings of a round.

    Attributes
    ----------
    n_clusters : int
        Number of global clusters, k.
    output : path, optional
        File to write the aggregation to. If it exists, the round is over: nodes that reply until the quorum or the
        deadline, and during the watch, are answered from it, see `kfed.Aggregation.answer`.
    rule : str, optional
        The name of a rule, as in `kfed.aggregate`, or of one's own (`kfed.server.register_rule`). By default that of
        `kfed.aggregate`, or the robust one where nodes are grouped by their updates.
    min_devices : int, optional
        Nodes that every cluster must rest on, see `kfed.aggregate`.
    min_nodes : int
        Least number of nodes to ask before a quorum counts.
    quorum : float
        Share of the nodes asked that is enough to go on; a node that failed counts as having replied.
    deadline : float
        Seconds after which the round goes on with the messages that arrived, and seconds to wait afterwards for nodes
        to say that they labelled their rows.
    watch : float
        Seconds to serve late nodes afterwards; ``math.inf`` means until the run is stopped.
    """

    n_clusters: int
    output: str | os.PathLike[str] | None = None
    rule: str | None = None
    min_nodes: int = 2
    quorum: float = 1.0
    deadline: float = 60.0
    watch: float = 0.0
    min_devices: int | None = None

    def __post_init__(self) -> None:
        checks.positive_integer(self.n_clusters, "n_clusters")
        checks.positive_integer(self.min_nodes, "min_nodes")
        if self.rule is not None:
            rule_name(self.rule)  # raises if it is not known
        if self.min_devices is not None:
            checks.positive_integer(self.min_devices, "min_devices")
        if not 0 < self.quorum <= 1:
            raise InvalidInputError(f"quorum must be above 0 and at most 1; got {self.quorum!r}")


@dataclass(frozen=True)
class Outcome:
    """Result of a round.

    Attributes
    ----------
    aggregation : Aggregation
        Its device ids are the ids of the nodes.
    failed : dict of int to str
        Nodes that were left out, and why: they could not take part, or sent another message than the one that was
        aggregated.
    repeated : tuple of int
        Nodes that replied more than once; the first reply counts.
    labelled : dict of int to int
        Number of rows that each node said it labelled; not in it are nodes that have not said so by the deadline.
    sizes : dict of int to int
        Number of rows that each node that was answered has by its message, without those that it withheld.
    clusters : dict of int to int
        The cluster of most rows of each node, judged by its message; an argument of `ClusteredFedAvg`.
    late : tuple of int
        Nodes that were answered after the aggregation.
    question : object
        What nodes were asked, beside the message; later ones are asked the same.
    """

    aggregation: Aggregation
    failed: dict[int, str]
    repeated: tuple[int, ...]
    labelled: dict[int, int]
    clusters: dict[int, int]
    late: tuple[int, ...]
    sizes: dict[int, int] = field(default_factory=dict)
    question: Any = field(default=None, repr=False)


class Nodes(Protocol):
    """Nodes of an engine: who was asked, who replied, who failed."""

    asked: set[int]
    failed: dict[int, str]
    repeated: dict[int, None]
    labelled: dict[int, int]
    clusters: dict[int, int]
    sizes: dict[int, int]
    question: Any

    @property
    def is_waiting_for_labels(self) -> bool:
        """Whether a node was sent its identity and has not said yet that it labelled its rows."""

    def ask_new(self) -> None:
        """Ask nodes that were not there before to cluster their points."""

    def tell(self, answers: Mapping[int, tuple[DeviceMessage, Identity]]) -> None:
        """Send each node the answer to its message."""

    def replies(self) -> Iterable[tuple[int, DeviceMessage]]:
        """Give the messages that came since the last call."""

    def fail(self, node: int, reason: str) -> None:
        """Note and log that a node is left out; the others go on."""


def run_over(nodes: Nodes, settings: Settings, stop: Callable[[], bool] = lambda: False) -> Outcome:
    """Run one round over these nodes, then serve late ones until `stop()` or for `watch` seconds."""
    if settings.output is not None and Path(settings.output).exists():
        result = Aggregation.load(settings.output)
        log(INFO, "k-FED: serving %d clusters from %s", result.n_clusters, settings.output)
        late = list(served(nodes, result, _gathered(nodes, settings).items()))
    else:
        result, late = _aggregate(_gathered(nodes, settings), nodes, settings), []
    late += _watch(nodes, result, settings, stop)
    about = {name: dict(getattr(nodes, name)) for name in ("failed", "labelled", "clusters", "sizes")}
    return Outcome(result, repeated=tuple(nodes.repeated), late=tuple(late), question=nodes.question, **about)


def _gathered(nodes: Nodes, settings: Settings) -> dict[int, DeviceMessage]:
    """Collect the messages of nodes until the quorum or the deadline is reached."""
    found: dict[int, DeviceMessage] = {}
    ends = time.monotonic() + settings.deadline
    while time.monotonic() < ends:
        nodes.ask_new()
        found |= dict(nodes.replies())
        n_heard = len(found.keys() | nodes.failed.keys())
        if len(nodes.asked) >= settings.min_nodes and n_heard >= settings.quorum * len(nodes.asked):
            break
        time.sleep(POLL_SECONDS)
    for node in nodes.asked - set(found) - set(nodes.failed):
        log(WARNING, "k-FED: node %d has not replied yet; if it does, it is served as a late node", node)
    return found


def _aggregate(found: dict[int, DeviceMessage], nodes: Nodes, settings: Settings) -> Aggregation:
    """Aggregate the messages that have the features of the majority; save the result before any node is told."""
    widths = Counter((message.n_features, message.feature_names) for message in found.values())
    for node, message in list(found.items()):
        if (message.n_features, message.feature_names) != widths.most_common(1)[0][0]:
            nodes.fail(node, f"it has {message.n_features} features; most nodes have others, or other names")
            del found[node]
    if not found:
        raise EngineError(
            f"no node sent a usable message within {settings.deadline:g} s ({len(nodes.asked)} were asked, "
            f"{len(nodes.failed)} failed: {dict(nodes.failed)})"
        )
    rule = settings.rule or ("default" if nodes.question is None else "robust")
    result = aggregate_batch(
        MessageBatch.of(found.values()), settings.n_clusters, rule, min_devices=settings.min_devices
    )
    for notice in result.notices:
        log(WARNING, "k-FED: %s", notice.text)
    if settings.output is not None:
        result.save(settings.output)
    n_nodes, n_failed = result.messages.n_devices, len(nodes.failed)
    facts = (n_nodes, result.n_clusters, result.rule, n_failed)
    log(INFO, "k-FED: %d nodes in %d clusters (rule: %s), %d failed", *facts)
    nodes.tell({node: (message, result.identity(str(node))) for node, message in found.items()})
    return result


def served(nodes: Nodes, result: Aggregation, came: Iterable[tuple[int, DeviceMessage]]) -> Iterator[int]:
    """Answer nodes after the aggregation; one whose message was changed since is refused, and named as failed."""
    for node, message in came:
        try:
            nodes.tell({node: (message, result.answer(message))})
        except KFedError as error:
            nodes.fail(node, str(error))
        else:
            log(INFO, "k-FED: node %d was served late", node)
            yield node


def _watch(nodes: Nodes, result: Aggregation, settings: Settings, stop: Callable[[], bool]) -> Iterator[int]:
    """Serve nodes as they come, and wait until those that were answered have labelled their rows."""
    ends = time.monotonic() + settings.watch
    patience = ends + settings.deadline
    while not stop():
        yield from served(nodes, result, nodes.replies())
        if time.monotonic() >= ends and (not nodes.is_waiting_for_labels or time.monotonic() >= patience):
            return
        if time.monotonic() < ends:
            nodes.ask_new()
        time.sleep(POLL_SECONDS)
