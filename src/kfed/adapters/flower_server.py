"""The server's side of k-FED on Flower: a `ServerApp` that runs a round over the nodes of a grid, by push and pull."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from logging import WARNING
from typing import Any

import numpy as np
from flwr.app import ArrayRecord, ConfigRecord, Context, Message, MessageType, RecordDict
from flwr.common import log
from flwr.serverapp import Grid, ServerApp

from kfed.adapters.flower_round import Outcome, Settings, run_over
from kfed.adapters.flower_words import ARRAYS, CLUSTER, CONFIG, IDENTITY, RECORD
from kfed.errors import InvalidInputError, KFedError
from kfed.wire import DeviceMessage, Identity


def server_app(settings: Settings, on_end: Callable[[Outcome], object] | None = None) -> ServerApp:
    """Make the app that runs a round; `on_end` is called with its `Outcome`."""
    app = ServerApp()

    @app.main()
    def main(grid: Grid, context: Context) -> None:  # noqa: ARG001 - Flower's signature
        outcome = run_round(grid, settings)
        if on_end is not None:
            on_end(outcome)

    return app


def run_round(
    grid: Grid,
    settings: Settings,
    stop: Callable[[], bool] = lambda: False,
    *,
    arrays: ArrayRecord | None = None,
    config: ConfigRecord | None = None,
) -> Outcome:
    """Run one round of k-FED over the nodes of a grid, then serve late ones until `stop()` or for `watch` seconds.

    Parameters
    ----------
    grid, settings, stop
        The nodes; see `Settings`; ends the watch early.
    arrays : ArrayRecord, optional
        The first model. If it is given, nodes are grouped by what they learn from it: each calls the train function of
        its app once, and sends the update as one short point, see `kfed.federated.update_point`.
    config : ConfigRecord, optional
        What that train function gets as its configuration, as in the first round of a training.

    Raises
    ------
    EngineError
        If no node sent a message that can be used before the deadline.
    """
    question = None if arrays is None else Question(arrays, config or ConfigRecord({"server-round": 1}))
    return run_over(GridNodes(grid, question=question), settings, stop)


@dataclass(frozen=True)
class Question:
    """The model that nodes are asked to learn from, and where their train function looks for it."""

    arrays: ArrayRecord
    config: ConfigRecord
    arrays_key: str = "arrays"
    config_key: str = "config"
    weighted_by: str = "num-examples"

    def records(self) -> dict[str, ArrayRecord | ConfigRecord]:
        """What a node is sent."""
        keys = {"arrays-key": self.arrays_key, "config-key": self.config_key, "weighted-by": self.weighted_by}
        return {ARRAYS: self.arrays, CONFIG: self.config, RECORD: ConfigRecord(dict(keys))}


@dataclass
class GridNodes:
    """Nodes of a Flower grid: who was asked, who replied, who failed, and which questions are still open."""

    grid: Grid
    asked: set[int] = field(default_factory=set)
    failed: dict[int, str] = field(default_factory=dict)
    repeated: dict[int, None] = field(default_factory=dict)
    labelled: dict[int, int] = field(default_factory=dict)
    clusters: dict[int, int] = field(default_factory=dict)
    sizes: dict[int, int] = field(default_factory=dict)
    question: Question | None = None
    _questions: dict[str, int] = field(default_factory=dict)
    _answers: dict[str, int] = field(default_factory=dict)

    @property
    def is_waiting_for_labels(self) -> bool:
        """Whether a node was sent its identity and has not said yet that it labelled its rows."""
        return bool(self._answers)

    def ask_new(self) -> None:
        """Ask nodes that were not there before to cluster their points."""
        new = sorted(set(self.grid.get_node_ids()) - self.asked)
        self.asked |= set(new)
        asked = {RECORD: ConfigRecord()} if self.question is None else self.question.records()
        self._questions |= self._push(dict.fromkeys(new, (CLUSTER, asked)))

    def tell(self, answers: Mapping[int, tuple[DeviceMessage, Identity]]) -> None:
        """Send each node the answer to its message."""
        said = {}
        for node, (message, identity) in answers.items():
            said[node] = (IDENTITY, {RECORD: ConfigRecord({"identity": identity.to_bytes()})})
            if len(identity):
                self.clusters[node] = int(np.bincount(identity.cluster_ids, weights=message.counts).argmax())
                self.sizes[node] = round(float(message.counts.sum()))
        self._answers |= self._push(said)

    def replies(self) -> Iterator[tuple[int, DeviceMessage]]:
        """Give the messages that came since the last call; a reply without a valid message is logged and ignored."""
        for node, record in self._pull(self._answers):
            self.labelled[node] = int(record.get("n-labelled", 0))  # type: ignore[arg-type]
        for node, record in self._pull(self._questions):
            try:
                message = DeviceMessage.from_bytes(record["message"])  # type: ignore[arg-type]
                if message.device_id != str(node):
                    raise InvalidInputError(f"its device id is {message.device_id!r}")
            except (KFedError, KeyError, TypeError) as error:
                self.fail(node, f"its reply holds no valid message of this node: {error}")
            else:
                yield node, message

    def fail(self, node: int, reason: str) -> None:
        """Note and log that a node is left out; the others go on."""
        self.failed[node] = reason
        log(WARNING, "k-FED: node %d is left out: %s", node, reason)

    def _repeat(self, node: int) -> None:
        """Note and log that a node replied again."""
        self.repeated[node] = None
        log(WARNING, "k-FED: node %d replied more than once; the first reply counts", node)

    def _push(self, said: Mapping[int, tuple[str, Mapping[str, Any]]]) -> dict[str, int]:
        """Send a message to each node; return the node of each message id. A node that cannot be reached fails."""
        messages = [
            Message(RecordDict(dict(records)), dst_node_id=node, message_type=f"{MessageType.QUERY}.{action}")
            for node, (action, records) in said.items()
        ]
        pushed = set(self.grid.push_messages(messages)) if messages else set()
        sent = {message.metadata.message_id: message.metadata.dst_node_id for message in messages}
        for node in (node for message_id, node in sent.items() if message_id not in pushed):
            self.fail(node, "the network did not accept a message to it; the node may be gone")
        return {message_id: node for message_id, node in sent.items() if message_id in pushed}

    def _pull(self, open_questions: dict[str, int]) -> Iterator[tuple[int, ConfigRecord]]:
        """Give the replies to open questions, and close these; a second reply is logged and ignored."""
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
