"""Nodes of a federation in Flower, without an engine."""

from __future__ import annotations

from itertools import count

import numpy as np
import pytest

pytest.importorskip("flwr", reason="needs kfed[flower], in an environment of its own: make flower")
from flwr.app import ArrayRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp

from kfed.adapters import flower_nodes, flower_round
from kfed.adapters.flower import (
    Settings,
    client_app,
)

MEANS = 20 * np.random.default_rng(99).normal(size=(4, 5))


def points_of(node):
    rng = np.random.default_rng(node % 1000)
    return np.concatenate([rng.normal(MEANS[group % 4], size=(30, 5)) for group in (node, node + 1)])


NODES = [2**64 - 4 + i for i in range(4)]  # ids have 64 bits without a sign


class Nodes:
    """A grid whose nodes run their app when a message is pushed to them; `silent` ones reply only when let."""

    def __init__(self, loaders=None, silent=(), forge=None, twice=None, deaf=()):
        self.points = {node: points_of(node) for node in NODES} | (loaders or {})
        self.app = client_app(lambda context: self.load(context), 2)
        self.contexts, self.silent, self.forge = {}, set(silent), forge or {}
        self.twice, self.deaf = twice or {}, set(deaf)
        self._ids, self._replies, self._waiting = count(), {}, []
        self.pushed = []

    def load(self, context):
        points = self.points[context.node_id]
        if isinstance(points, Exception):
            raise points
        return points

    def context(self, node):
        return self.contexts.setdefault(node, Context(1, node, {}, RecordDict(), {}))

    def get_node_ids(self):
        return list(self.points)

    def push_messages(self, messages):
        ids = []
        for message in messages:
            ids.append(f"message {next(self._ids)}")
            message.metadata.__dict__["_message_id"] = ids[-1]
            self.pushed.append((message.metadata.dst_node_id, message.metadata.message_type))
            self._waiting.append(message)
        self._waiting = [one for one in self._waiting if one.metadata.dst_node_id not in self.deaf]
        self.deliver()
        return ["" if one.metadata.dst_node_id in self.deaf else one.metadata.message_id for one in messages]

    def deliver(self):
        waiting, self._waiting = self._waiting, []
        for message in waiting:
            if message.metadata.dst_node_id in self.silent:
                self._waiting.append(message)
            else:
                self._replies[message.metadata.message_id] = self.reply(message)

    def reply(self, message):
        node = message.metadata.dst_node_id
        if node in self.forge:
            return self.forge[node](message)
        return self.app(message, self.context(node))

    def pull_messages(self, message_ids):
        replies = [self._replies.pop(one) for one in list(message_ids) if one in self._replies]
        again = {reply.metadata.src_node_id: reply for reply in replies if reply.metadata.src_node_id in self.twice}
        return replies + [self.twice[node](reply) for node, reply in again.items()]

    def send_and_receive(self, messages, *, timeout=None):
        return self.pull_messages(self.push_messages(messages))


@pytest.fixture(autouse=True)
def quick_polls(monkeypatch):
    for module in (flower_round, flower_nodes):
        monkeypatch.setattr(module, "POLL_SECONDS", 0.01)
    try:
        from flwr.supercore.task_identity import TaskIdentity
    except ImportError:  # of older versions of Flower, which do not need it
        return
    for name in ("_run_id", "_task_id", "_node_id"):  # what Flower sets where an app runs
        monkeypatch.setattr(TaskIdentity, name, 1)


def settings_of(**options):
    return Settings(4, **({"min_nodes": 2, "deadline": 1.0} | options))


def learner(target_of):
    """An app whose model is one number, which training takes half the way to the node's own target."""
    app = ClientApp()

    @app.train()
    def train(message, context):
        model = message.content["arrays"].to_numpy_ndarrays()[0]
        trained = ArrayRecord([model + (target_of(context.node_id) - model) / 2])
        return Message(RecordDict({"arrays": trained, "metrics": metrics(0.0)}), reply_to=message)

    @app.evaluate()
    def evaluate(message, context):
        loss = abs(float(message.content["arrays"].to_numpy_ndarrays()[0][0]) - target_of(context.node_id))
        return Message(RecordDict({"metrics": metrics(loss)}), reply_to=message)

    return app


def metrics(loss):
    return MetricRecord({"loss": loss, "num-examples": 10})
