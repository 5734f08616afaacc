"""k-FED on Flower, with nodes in this process: the answer of one process, whatever some nodes do."""

from __future__ import annotations

from itertools import count

import numpy as np
import pytest

import kfed
from one_process import in_one_process

pytest.importorskip("flwr", reason="needs kfed[flower], in an environment of its own: make flower")
from flwr.app import ConfigRecord, Context, Error, Message, RecordDict
from nodes import NODES, Nodes, points_of, quick_polls, settings_of  # noqa: F401

from kfed.adapters.flower import (
    Settings,
    client_app,
    labels_of,
    run_round,
)


def expected_of(points):
    """The clusters of nodes in one process, and the labels of the rows of each."""
    result, labels = in_one_process({str(node): own for node, own in points.items()}, 2, 4)
    return result, {int(name): own for name, own in labels.items()}


def said(**record):
    return lambda message: Message(RecordDict({"kfed": ConfigRecord(record)}), reply_to=message)


def test_every_node_ends_up_with_the_labels_of_one_process(tmp_path):
    grid = Nodes()
    outcome = run_round(grid, settings_of(output=tmp_path / "clusters.kfed"))
    expected, labels = expected_of(grid.points)
    assert outcome.aggregation == expected == kfed.Aggregation.load(tmp_path / "clusters.kfed")
    assert outcome.failed == {}
    assert outcome.late == ()
    for node in NODES:
        np.testing.assert_array_equal(labels_of(grid.context(node)), labels[node])
    assert outcome.labelled == dict.fromkeys(NODES, 60)


def test_no_row_is_in_what_nodes_reply():
    grid, seen = Nodes(), []
    honest = grid.reply
    grid.reply = lambda message: seen.append(honest(message)) or seen[-1]
    run_round(grid, settings_of())
    payload = b"".join(value for reply in seen for value in reply.content["kfed"].values() if isinstance(value, bytes))
    assert len(payload) > 0
    assert not any(row.tobytes() in payload for node in NODES for row in grid.points[node])


@pytest.mark.parametrize(
    ("loaders", "forge", "reason"),
    [
        ({7: np.full((9, 5), np.nan)}, {}, "must be finite"),
        ({7: np.empty((0, 5))}, {}, "at least one row"),
        ({7: np.ones((9, 5)) * np.arange(9)[:, None] @ np.ones((5, 6))}, {}, "6 features"),
        ({7: OSError("no disk")}, {}, "it raised OSError"),
        ({7: None}, {7: lambda message: Message(Error(1, "it broke"), reply_to=message)}, "its app failed"),
        ({7: None}, {7: said(message=b"garbage")}, "no valid message"),
        ({7: None}, {7: said(message="text")}, "no valid message"),
        ({7: None}, {7: said()}, "no valid message"),
        (
            {7: None},
            {7: said(message=kfed.DeviceMessage("8", np.zeros((1, 5)), [9]).to_bytes())},
            "its device id is '8'",
        ),
        ({7: None}, {7: lambda message: Message(RecordDict(), reply_to=message)}, "no k-FED record"),
    ],
)
def test_a_bad_node_is_named_and_the_rest_goes_on(loaders, forge, reason):
    grid = Nodes(loaders, forge=forge)
    outcome = run_round(grid, settings_of())
    assert list(outcome.failed) == [7]
    assert reason in outcome.failed[7]
    assert outcome.aggregation == expected_of({node: grid.points[node] for node in NODES})[0]


def other_message(reply):
    """A second answer to the same question, with other centers."""
    forged = kfed.DeviceMessage(str(reply.metadata.src_node_id), np.full((2, 5), 7.0), [30, 30])
    again = Message(RecordDict({"kfed": ConfigRecord({"message": forged.to_bytes()})}), reply_to=question_of(reply))
    again.metadata.__dict__["_reply_to_message_id"] = reply.metadata.reply_to_message_id
    return again


def question_of(reply):
    return Message(RecordDict(), dst_node_id=reply.metadata.src_node_id, message_type="query.cluster")


@pytest.mark.parametrize("second", [lambda reply: reply, other_message])
def test_a_node_that_answers_twice_is_named_and_counts_once(second):
    grid = Nodes(twice={NODES[1]: second})
    outcome = run_round(grid, settings_of())
    assert outcome.repeated == (NODES[1],)
    assert outcome.failed == {}
    assert outcome.aggregation == expected_of(grid.points)[0]
    assert outcome.labelled == dict.fromkeys(NODES, 60)


def test_a_second_answer_of_one_node_does_not_stand_for_another_in_the_quorum():
    grid = Nodes(silent=NODES[3:], twice={NODES[1]: lambda reply: reply})
    outcome = run_round(grid, settings_of(deadline=0.1))
    assert outcome.aggregation.messages.n_devices == 3
    assert outcome.repeated == (NODES[1],)


def test_a_node_that_the_network_has_lost_is_named_and_the_rest_goes_on():
    outcome = run_round(Nodes(deaf=NODES[:1]), settings_of())
    assert list(outcome.failed) == NODES[:1]
    assert "did not accept" in outcome.failed[NODES[0]]
    assert outcome.aggregation.messages.n_devices == 3


def test_the_cluster_of_a_node_is_the_one_that_most_of_its_rows_are_in():
    grid = Nodes({node: np.concatenate([points_of(node)[:30], points_of(node)[30:45]]) for node in NODES})
    outcome = run_round(grid, settings_of())
    _, labels = expected_of(grid.points)
    assert outcome.clusters == {node: np.bincount(labels[node]).argmax() for node in NODES}
    assert sorted(outcome.clusters.values()) == [0, 1, 2, 3]


def test_what_a_loader_says_of_a_row_stays_on_the_node():
    outcome = run_round(Nodes({7: ValueError("could not convert 12.75")}), settings_of())
    assert "ValueError" in outcome.failed[7]
    assert "12.75" not in outcome.failed[7]


def test_a_round_goes_on_without_a_node_that_does_not_reply_and_serves_it_when_it_does(tmp_path):
    path = tmp_path / "clusters.kfed"
    grid = Nodes(silent=NODES[3:])
    polls = count()

    def stop():
        if next(polls) == 5:
            grid.silent.clear()
            grid.deliver()
        return False

    outcome = run_round(grid, settings_of(quorum=0.7, output=path, watch=0.5), stop)
    assert outcome.late == (NODES[3],)
    expected, _ = expected_of({node: grid.points[node] for node in NODES[:3]})
    assert outcome.aggregation == expected == kfed.Aggregation.load(path)
    local = kfed.cluster_device(points_of(NODES[3]), 2, random_state=0, device_id=str(NODES[3]))
    labels = local.induced_labels(expected.assign(local.to_message(str(NODES[3]))))
    np.testing.assert_array_equal(labels_of(grid.context(NODES[3])), labels)


@pytest.mark.parametrize("watch", [0.0, 0.3])
def test_a_later_run_serves_more_nodes_from_the_file(tmp_path, watch):
    path = tmp_path / "clusters.kfed"
    first = run_round(Nodes(), settings_of(output=path))
    before = path.read_bytes()
    grid = Nodes({5: points_of(5)})
    second = run_round(grid, settings_of(output=path, watch=watch))
    assert path.read_bytes() == before
    assert second.aggregation == first.aggregation
    assert set(second.late) == {*NODES, 5}
    assert labels_of(grid.context(5)) is not None
    labels = expected_of({node: points_of(node) for node in NODES})[1]
    for node in NODES:
        np.testing.assert_array_equal(labels_of(grid.context(node)), labels[node])


def test_a_late_node_with_other_features_is_named(tmp_path):
    path = tmp_path / "clusters.kfed"
    run_round(Nodes(), settings_of(output=path))
    outcome = run_round(Nodes({5: np.random.default_rng(0).normal(size=(9, 3))}), settings_of(output=path, watch=0.3))
    assert "has 5 and '5' has 3" in outcome.failed[5]


def test_a_node_whose_message_changed_since_the_round_is_refused_and_named(tmp_path):
    path = tmp_path / "clusters.kfed"
    run_round(Nodes(), settings_of(output=path))
    grid = Nodes({NODES[0]: points_of(NODES[0]) + 1.0})
    outcome = run_round(grid, settings_of(output=path))
    assert list(outcome.failed) == NODES[:1]
    assert "a different message" in outcome.failed[NODES[0]]
    assert labels_of(grid.context(NODES[0])) is None
    assert set(outcome.late) == set(NODES[1:])


def test_each_node_is_asked_once_however_long_the_server_watches():
    grid = Nodes()
    run_round(grid, settings_of(watch=0.2))
    assert sorted(grid.pushed) == sorted(
        (node, f"query.{action}") for node in NODES for action in ("cluster", "identity")
    )


def test_if_no_node_replies_it_is_an_error():
    with pytest.raises(kfed.EngineError, match="4 were asked, 0 failed"):
        run_round(Nodes(silent=NODES), settings_of(deadline=0.1))


def test_an_identity_before_the_clustering_is_refused_in_words():
    message = Message(RecordDict({"kfed": ConfigRecord()}), dst_node_id=1, message_type="query.identity")
    reply = client_app(lambda context: None, 2)(message, Context(1, 1, {}, RecordDict(), {}))
    assert "before it was asked to cluster" in reply.content["kfed"]["error"]


@pytest.mark.parametrize("options", [{"quorum": 0}, {"quorum": 2}, {"min_nodes": 0}, {"rule": "x"}])
def test_settings_that_make_no_sense_are_refused(options):
    with pytest.raises(kfed.InvalidInputError):
        Settings(4, **options)
