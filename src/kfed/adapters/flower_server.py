"""The server's side of k-FED on Flower: ask the nodes that are there, aggregate what came, serve those that come late.

ask ──> replies until a quorum or the deadline ──> aggregate, save ──> identities ──> late nodes, until told to stop
"""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from logging import INFO, WARNING
from pathlib import Path

import numpy as np
from flwr.app import ConfigRecord, Context, Message, MessageType, RecordDict
from flwr.common import log
from flwr.serverapp import Grid, ServerApp

from kfed._base import checks
from kfed.adapters.flower_words import CLUSTER, IDENTITY, RECORD
from kfed.errors import EngineError, InvalidInputError, KFedError
from kfed.server import Aggregation
from kfed.wire import DeviceMessage, Identity, MessageBatch

POLL_SECONDS = 0.5


@dataclass(frozen=True)
class Settings:
    """How a round goes.

    Attributes
    ----------
    n_clusters : int
        Number of global clusters, k.
    output : path, optional
        Where the aggregation is written. If it is there already, the round is over: nodes that come until the quorum or
        the deadline, and during the watch, are served from it as late ones.
    rule : {"paper", "robust"}
        As in `kfed.aggregate`.
    min_nodes : int
        Nodes that must be there before a quorum counts.
    quorum : float
        Share of the nodes asked whose replies are enough; those that failed count as having replied.
    deadline : float
        Seconds after which the round goes on with what came.
    watch : float
        Seconds to watch for late nodes afterwards; infinite until the run is stopped.
    """

    n_clusters: int
    output: str | os.PathLike[str] | None = None
    rule: str = "paper"
    min_nodes: int = 2
    quorum: float = 1.0
    deadline: float = 60.0
    watch: float = 0.0

    def __post_init__(self) -> None:
        checks.positive_integer(self.n_clusters, "n_clusters")
        checks.positive_integer(self.min_nodes, "min_nodes")
        checks.one_of(self.rule, ["paper", "robust"], "rule")
        if not 0 < self.quorum <= 1:
            raise InvalidInputError(f"quorum must be a share above 0 and at most 1, and is {self.quorum!r}")


@dataclass(frozen=True)
class Outcome:
    """What came of a round.

    Attributes
    ----------
    aggregation : Aggregation
        Its device ids are the ids of the nodes.
    failed : dict of int to str
        Nodes that could not take part, and why.
    repeated : tuple of int
        Nodes that answered more than once; the answer that was read first counted.
    labelled : dict of int to int
        How many rows each node has labelled.
    clusters : dict of int to int
        The cluster that most rows of each node are in, as far as its message says; what `ClusteredFedAvg` takes.
    late : tuple of int
        Nodes that were served after the aggregation.
    """

    aggregation: Aggregation
    failed: dict[int, str]
    repeated: tuple[int, ...]
    labelled: dict[int, int]
    clusters: dict[int, int]
    late: tuple[int, ...]


def server_app(settings: Settings, on_end: Callable[[Outcome], object] | None = None) -> ServerApp:
    """Make the app that runs a round; `on_end` is called with its `Outcome`."""
    app = ServerApp()

    @app.main()
    def main(grid: Grid, context: Context) -> None:  # noqa: ARG001 - Flower's signature
        outcome = run_round(grid, settings)
        if on_end is not None:
            on_end(outcome)

    return app


def run_round(grid: Grid, settings: Settings, stop: Callable[[], bool] = lambda: False) -> Outcome:
    """Run one round of k-FED over the nodes of a grid, then serve late ones until `stop()` or for `watch` seconds.

    Raises
    ------
    EngineError
        If no node sent a message that can be used before the deadline.
    """
    nodes = _Nodes(grid)
    if settings.output is not None and Path(settings.output).exists():
        result = Aggregation.load(settings.output)
        log(INFO, "k-FED: serving %d clusters from %s", result.n_clusters, settings.output)
        late = list(_served(nodes, result, _gathered(nodes, settings).items()))
    else:
        result, late = _aggregate(_gathered(nodes, settings), nodes, settings), []
    late += _watch(nodes, result, settings.watch, stop)
    clusters, labelled = dict(nodes.clusters), dict(nodes.labelled)
    return Outcome(result, dict(nodes.failed), tuple(nodes.repeated), labelled, clusters, tuple(late))


def _gathered(nodes: _Nodes, settings: Settings) -> dict[int, DeviceMessage]:
    """Messages of the nodes that replied before the quorum or the deadline was reached."""
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
        log(WARNING, "k-FED: node %d has not replied yet; if it does later, it is served as a late one", node)
    return found


def _aggregate(found: dict[int, DeviceMessage], nodes: _Nodes, settings: Settings) -> Aggregation:
    """Aggregate the messages that speak of the same features as most, and write the answer down before it is told."""
    widths = Counter((message.n_features, message.feature_names) for message in found.values())
    for node, message in list(found.items()):
        if (message.n_features, message.feature_names) != widths.most_common(1)[0][0]:
            nodes.fail(node, f"it has {message.n_features} features or other names for them, unlike most nodes")
            del found[node]
    if not found:
        raise EngineError(
            f"at least one node must send a message within {settings.deadline:g} s, and of {len(nodes.asked)} that "
            f"were asked none did; {len(nodes.failed)} failed: {dict(nodes.failed)}"
        )
    result = Aggregation.of(MessageBatch.of(found.values()), settings.n_clusters, settings.rule, None, None)
    for warning in result.warnings:
        log(WARNING, "k-FED: %s", warning)
    if settings.output is not None:
        result.save(settings.output)
    log(
        INFO,
        "k-FED: %d nodes in %d clusters, %d failed",
        result.messages.n_devices,
        result.n_clusters,
        len(nodes.failed),
    )
    nodes.tell({node: (message, result.identity(str(node))) for node, message in found.items()})
    return result


def _served(nodes: _Nodes, result: Aggregation, came: Iterable[tuple[int, DeviceMessage]]) -> Iterator[int]:
    """Answer nodes that came late from what is there; nothing is clustered again."""
    for node, message in came:
        try:
            nodes.tell({node: (message, _answer(result, message))})
        except KFedError as error:
            nodes.fail(node, str(error))
        else:
            log(INFO, "k-FED: node %d came late, and was served", node)
            yield node


def _watch(nodes: _Nodes, result: Aggregation, seconds: float, stop: Callable[[], bool]) -> Iterator[int]:
    """Serve nodes as they come. Waits for the last to say that they have labels, too."""
    ends = time.monotonic() + seconds
    patience = time.monotonic() + max(seconds, 20 * POLL_SECONDS)
    while not stop():
        yield from _served(nodes, result, nodes.replies())
        if time.monotonic() >= ends and (not nodes.is_waiting_for_labels or time.monotonic() >= patience):
            return
        if time.monotonic() < ends:
            nodes.ask_new()
        time.sleep(POLL_SECONDS)


def _answer(result: Aggregation, message: DeviceMessage) -> Identity:
    """The answer of the round, if the node took part with the same message, else that to a late node."""
    took_part = message.device_id in result and result.messages.message(message.device_id) == message
    return result.identity(message.device_id) if took_part else result.assign(message)


@dataclass
class _Nodes:
    """Who was asked, who replied, who failed: the questions that are open, by push and pull."""

    grid: Grid
    asked: set[int] = field(default_factory=set)
    failed: dict[int, str] = field(default_factory=dict)
    repeated: dict[int, None] = field(default_factory=dict)
    labelled: dict[int, int] = field(default_factory=dict)
    clusters: dict[int, int] = field(default_factory=dict)
    _questions: dict[str, int] = field(default_factory=dict)
    _answers: dict[str, int] = field(default_factory=dict)

    @property
    def is_waiting_for_labels(self) -> bool:
        """Whether a node that was told its identity has not said that it labelled its rows."""
        return bool(self._answers)

    def ask_new(self) -> None:
        """Ask nodes that were not there before to cluster their points."""
        new = sorted(set(self.grid.get_node_ids()) - self.asked)
        self.asked |= set(new)
        self._questions |= self._push({node: (CLUSTER, ConfigRecord()) for node in new})

    def tell(self, answers: dict[int, tuple[DeviceMessage, Identity]]) -> None:
        """Send each node the answer to its message."""
        said = {}
        for node, (message, identity) in answers.items():
            said[node] = (IDENTITY, ConfigRecord({"identity": identity.to_bytes()}))
            if len(identity):
                self.clusters[node] = int(np.bincount(identity.cluster_ids, weights=message.counts).argmax())
        self._answers |= self._push(said)

    def replies(self) -> Iterator[tuple[int, DeviceMessage]]:
        """Messages that came since; what is no sound message of that node is reported and ignored."""
        for node, record in self._pull(self._answers):
            self.labelled[node] = int(record.get("n-labelled", 0))  # type: ignore[arg-type]
        for node, record in self._pull(self._questions):
            try:
                message = DeviceMessage.from_bytes(record["message"])  # type: ignore[arg-type]
                if message.device_id != str(node):
                    raise InvalidInputError(f"it must speak for itself, and speaks for {message.device_id!r}")
            except (KFedError, KeyError, TypeError) as error:
                self.fail(node, f"its reply is no message of a device: {error}")
            else:
                yield node, message

    def fail(self, node: int, reason: str) -> None:
        """Note that a node can't take part; the others go on."""
        self.failed[node] = reason
        log(WARNING, "k-FED: node %d is left out: %s", node, reason)

    def _repeat(self, node: int) -> None:
        """Note that a node answered twice."""
        self.repeated[node] = None
        log(WARNING, "k-FED: node %d answered more than once; the first answer counts", node)

    def _push(self, said: dict[int, tuple[str, ConfigRecord]]) -> dict[str, int]:
        """Send, and give the node that each open question is to; one that could not be sent is reported."""
        messages = [
            Message(RecordDict({RECORD: record}), dst_node_id=node, message_type=f"{MessageType.QUERY}.{action}")
            for node, (action, record) in said.items()
        ]
        pushed = set(self.grid.push_messages(messages)) if messages else set()
        sent = {message.metadata.message_id: message.metadata.dst_node_id for message in messages}
        for node in (node for message_id, node in sent.items() if message_id not in pushed):
            self.fail(node, "the network took no message to it; it may be gone")
        return {message_id: node for message_id, node in sent.items() if message_id in pushed}

    def _pull(self, open_questions: dict[str, int]) -> Iterator[tuple[int, ConfigRecord]]:
        """What nodes said to open questions, which are closed by it; a second answer is reported and ignored."""
        nodes = dict(open_questions)
        for reply in list(self.grid.pull_messages(list(nodes))) if nodes else []:
            question = reply.metadata.reply_to_message_id
            if question not in nodes:
                continue
            node = nodes[question]
            if open_questions.pop(question, None) is None:
                self._repeat(node)
                continue
            record = None if reply.has_error() else reply.content.get(RECORD)
            if reply.has_error():
                self.fail(node, f"its app failed: {reply.error.reason.strip().splitlines()[-1:]}")
            elif not isinstance(record, ConfigRecord):
                self.fail(node, "its reply has no k-FED record")
            elif "error" in record:
                self.fail(node, str(record["error"])[:500])
            else:
                yield node, record
