"""A round over the nodes of an engine, with nodes made up here: needs no Flower."""

import logging

import numpy as np
import pytest

import kfed
from kfed.adapters import flower_round
from kfed.adapters.flower_round import Settings, run_over
from kfed.server import RULES, register_rule

CENTERS = np.array([[0.0, 0.0], [9.0, 0.0], [0.0, 9.0]])


def message_of(node, shift=0.0):
    own = CENTERS[[node % 3, (node + 1) % 3]] + shift
    return kfed.DeviceMessage(str(node), own + node / 100, [20, 10])


class FakeNodes:
    """Nodes that reply with a message as soon as they are asked, and label their rows at once."""

    def __init__(self, messages):
        self.messages, self.asked, self.answers = messages, set(), {}
        self.failed, self.repeated, self.labelled, self.clusters, self.sizes = {}, {}, {}, {}, {}
        self.question, self.is_slow = None, False
        self._new = []

    @property
    def is_waiting_for_labels(self):
        return self.is_slow and len(self.labelled) < len(self.answers)

    def ask_new(self):
        self._new += sorted(self.messages.keys() - self.asked)
        self.asked |= self.messages.keys()

    def replies(self):
        new, self._new = self._new, []
        return [(node, self.messages[node]) for node in new]

    def tell(self, answers):
        self.answers |= {node: identity for node, (_, identity) in answers.items()}
        if not self.is_slow:
            self.labelled |= dict.fromkeys(answers, 30)

    def fail(self, node, reason):
        self.failed[node] = reason
        flower_round.log(logging.WARNING, "k-FED: node %d is left out: %s", node, reason)


@pytest.fixture(autouse=True)
def quick_polls(monkeypatch):
    monkeypatch.setattr(flower_round, "POLL_SECONDS", 0.01)


@pytest.fixture
def finished(tmp_path):
    """Settings of a round that is over: three nodes are in its file."""
    settings = Settings(3, output=tmp_path / "clusters.kfed", deadline=1.0)
    run_over(FakeNodes({node: message_of(node) for node in range(3)}), settings)
    return settings


def test_nodes_of_the_round_get_their_identities(tmp_path):
    nodes = FakeNodes({node: message_of(node) for node in range(3)})
    outcome = run_over(nodes, Settings(3, deadline=1.0))
    assert outcome.aggregation == kfed.aggregate([message_of(node) for node in range(3)], 3)
    assert nodes.answers == {node: outcome.aggregation.identity(str(node)) for node in range(3)}
    assert (outcome.failed, outcome.late) == ({}, ())


def test_after_the_round_every_node_gets_the_answer_to_its_message(finished):
    nodes = FakeNodes({node: message_of(node) for node in range(5)})
    outcome = run_over(nodes, finished)
    assert set(outcome.late) == set(range(5))
    assert nodes.answers == {node: outcome.aggregation.answer(message_of(node)) for node in range(5)}


def test_a_node_that_sends_another_message_than_before_is_refused_logged_and_named(finished, caplog):
    nodes = FakeNodes({0: message_of(0), 1: message_of(1, shift=0.5), 7: message_of(7)})
    with caplog.at_level(logging.WARNING, logger="flwr"):
        outcome = run_over(nodes, finished)
    assert list(outcome.failed) == [1]
    assert "a different message" in outcome.failed[1]
    assert "node 1 is left out" in caplog.text
    assert set(nodes.answers) == set(outcome.late) == {0, 7}
    assert outcome.aggregation == kfed.Aggregation.load(finished.output)


def test_nodes_have_until_the_deadline_to_label_their_rows(monkeypatch):
    """As long as they were given to cluster them; a fixed time is too short for some."""
    now = [0.0]
    monkeypatch.setattr(flower_round.time, "monotonic", lambda: now[0])
    nodes = FakeNodes({node: message_of(node) for node in range(3)})
    nodes.is_slow = True

    def sleep(seconds):
        now[0] += 1.0
        if now[0] > 30:
            nodes.labelled |= dict.fromkeys(nodes.answers, 30)

    monkeypatch.setattr(flower_round.time, "sleep", sleep)
    assert run_over(nodes, Settings(3, deadline=60.0)).labelled == dict.fromkeys(range(3), 30)
    assert run_over(FakeNodes({node: message_of(node) for node in range(3)}), Settings(3)).failed == {}


def test_a_node_that_never_labels_its_rows_does_not_hold_up_the_round(monkeypatch):
    now = [0.0]
    monkeypatch.setattr(flower_round.time, "monotonic", lambda: now[0])
    monkeypatch.setattr(flower_round.time, "sleep", lambda seconds: now.__setitem__(0, now[0] + 1.0))
    nodes = FakeNodes({node: message_of(node) for node in range(3)})
    nodes.is_slow = True
    assert run_over(nodes, Settings(3, deadline=60.0)).labelled == {}
    assert 60 <= now[0] < 70


def test_the_log_says_which_rule_answered(monkeypatch):
    said = []
    monkeypatch.setattr(flower_round, "log", lambda level, text, *values: said.append(text % values))
    run_over(FakeNodes({node: message_of(node) for node in range(3)}), Settings(3, rule="robust", deadline=1.0))
    assert "k-FED: 3 nodes in 3 clusters (rule: robust), 0 failed" in said


def test_without_a_message_there_is_no_round():
    with pytest.raises(kfed.EngineError, match="0 were asked, 0 failed"):
        run_over(FakeNodes({}), Settings(3, deadline=0.05))


def test_a_round_can_ask_for_several_nodes_behind_every_cluster():
    messages = {node: message_of(node) for node in range(12)}
    messages[12] = kfed.DeviceMessage("12", [[900.0, 900.0]], [2**53])
    outcome = run_over(FakeNodes(messages), Settings(3, rule="robust", min_devices=2, deadline=1.0))
    assert outcome.aggregation.settings.min_devices == 2
    assert np.abs(outcome.aggregation.cluster_centers).max() < 20
    with pytest.raises(kfed.InvalidInputError, match="min_devices must be a whole number of at least 1; got 0"):
        Settings(3, min_devices=0)


def test_a_round_takes_a_rule_of_ones_own_by_its_name(monkeypatch):
    with pytest.raises(kfed.InvalidInputError, match="rule must be one of 'default', 'paper'"):
        Settings(3, rule="by first column")
    monkeypatch.setitem(RULES, "by first column", RULES["paper"])  # taken out again afterwards
    register_rule("by first column", lambda batch, k: batch.centers[:, 0].argsort().argsort() * k // len(batch.counts))
    messages = {node: message_of(node) for node in range(3)}
    outcome = run_over(FakeNodes(messages), Settings(3, rule="by first column", deadline=1.0))
    assert outcome.aggregation.rule == "by first column"
