"""k-FED on Flower, with nodes in this process: the answer of one process, whatever some nodes do."""

from __future__ import annotations

import warnings
from dataclasses import replace
from itertools import count

import numpy as np
import pytest

import kfed
from kfed import datasets

pytest.importorskip("flwr", reason="needs kfed[flower], in an environment of its own: make flower")
from flwr.app import ArrayRecord, ConfigRecord, Context, Error, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp

from kfed.adapters import flower_nodes, flower_round
from kfed.adapters.flower import (
    ClusteredFedAvg,
    KFedSelection,
    Settings,
    client_app,
    labels_of,
    run_round,
)
from kfed.federated import KFedPowerOfChoice, PowerOfChoice, RandomSelection

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


def in_one_process(points):
    local = {
        str(node): kfed.cluster_device(own, 2, random_state=0, device_id=str(node)) for node, own in points.items()
    }
    result = kfed.aggregate([one.to_message(name) for name, one in local.items()], 4)
    return result, {int(name): one.induced_labels(result.identity(name)) for name, one in local.items()}


def said(**record):
    return lambda message: Message(RecordDict({"kfed": ConfigRecord(record)}), reply_to=message)


def test_every_node_ends_up_with_the_labels_of_one_process(tmp_path):
    grid = Nodes()
    outcome = run_round(grid, settings_of(output=tmp_path / "clusters.kfed"))
    expected, labels = in_one_process(grid.points)
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
    assert outcome.aggregation == in_one_process({node: grid.points[node] for node in NODES})[0]


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
    assert outcome.aggregation == in_one_process(grid.points)[0]
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
    _, labels = in_one_process(grid.points)
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
    expected, _ = in_one_process({node: grid.points[node] for node in NODES[:3]})
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
    labels = in_one_process({node: points_of(node) for node in NODES})[1]
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
    assert "another message" in outcome.failed[NODES[0]]
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


# Strategies -----------------------------------------------------------------------------------------------------


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


def test_clustered_averaging_trains_one_model_for_each_cluster():
    grid = Nodes()
    grid.app = learner(lambda node: 1.0 if node in NODES[:2] else -1.0)
    strategy = ClusteredFedAvg(dict(zip(NODES, [0, 0, 1, 1], strict=True)))
    result = strategy.start(grid, ArrayRecord([np.zeros(1)]), num_rounds=12)
    models = {cluster: model.to_numpy_ndarrays()[0][0] for cluster, model in strategy.models.items()}
    assert models == pytest.approx({0: 1.0, 1: -1.0}, abs=1e-3)
    assert result.evaluate_metrics_clientapp[12]["loss"] < 1e-3


def test_with_one_cluster_it_is_flowers_own_averaging():
    from flwr.serverapp.strategy import FedAvg

    found = []
    for strategy in (ClusteredFedAvg(dict.fromkeys(NODES, 0)), FedAvg(min_available_nodes=4)):
        grid = Nodes()
        grid.app = learner(lambda node: float(node % 7))
        found.append(strategy.start(grid, ArrayRecord([np.zeros(1)]), num_rounds=3).arrays.to_numpy_ndarrays()[0])
    np.testing.assert_allclose(found[0], found[1])


def test_a_strategy_that_is_started_again_begins_anew():
    strategy = ClusteredFedAvg(dict(zip(NODES, [0, 0, 1, 1], strict=True)), fraction_evaluate=0.0)
    for _ in range(2):
        grid = Nodes()
        grid.app = learner(lambda node: 1.0)
        strategy.start(grid, ArrayRecord([np.zeros(1)]), num_rounds=1)
        assert {model.to_numpy_ndarrays()[0][0] for model in strategy.models.values()} == {0.5}


def test_without_evaluation_no_node_is_asked_to_judge():
    grid = Nodes()
    grid.app = learner(lambda node: 1.0)
    ClusteredFedAvg(dict.fromkeys(NODES, 0), fraction_evaluate=0.0).start(
        grid, ArrayRecord([np.zeros(1)]), num_rounds=2
    )
    assert {kind for _, kind in grid.pushed} == {"train"}


def test_a_fraction_of_the_nodes_trains_and_a_cluster_without_any_keeps_its_model():
    grid = Nodes()
    grid.app = learner(lambda node: 1.0)
    strategy = ClusteredFedAvg(dict(zip(NODES, range(4), strict=True)), fraction_train=0.5, fraction_evaluate=0.0)
    strategy.start(grid, ArrayRecord([np.zeros(1)]), num_rounds=1)
    trained = {node for node, _ in grid.pushed}
    assert len(trained) == 2
    for node, cluster in strategy.clusters.items():
        assert strategy.models[cluster].to_numpy_ndarrays()[0][0] == (0.5 if node in trained else 0.0)


def test_a_model_survives_a_round_that_nobody_replied_in():
    grid = Nodes(silent=NODES)
    strategy = ClusteredFedAvg(dict.fromkeys(NODES, 0), fraction_evaluate=0.0)
    strategy.start(grid, ArrayRecord([np.full(1, 3.0)]), num_rounds=1)
    assert strategy.models[0].to_numpy_ndarrays()[0][0] == 3.0


def test_models_that_are_given_or_set_are_gone_on_from():
    saved = {0: ArrayRecord([np.full(1, 8.0)]), 1: ArrayRecord([np.full(1, 4.0)])}
    clusters = dict(zip(NODES, [0, 0, 1, 1], strict=True))
    given, was_set = ClusteredFedAvg(clusters, models=saved), ClusteredFedAvg(clusters)
    was_set.models = dict(saved)
    for strategy in (given, was_set):
        grid = Nodes()
        grid.app = learner(lambda node: 0.0)
        strategy.start(grid, ArrayRecord([np.zeros(1)]), num_rounds=1)
        assert {c: model.to_numpy_ndarrays()[0][0] for c, model in strategy.models.items()} == {0: 4.0, 1: 2.0}


def test_a_cluster_that_gets_its_first_node_late_begins_with_its_own_model():
    grid = Nodes()
    both = client_app(lambda context: grid.load(context), 2, app=learner(lambda node: 1.0))
    grid.app = both
    outcome = run_round(grid, settings_of())
    late = outcome.clusters.pop(NODES[3])
    strategy = ClusteredFedAvg(outcome, models={late: ArrayRecord([np.full(1, 9.0)])}, fraction_evaluate=0.0)
    strategy.start(grid, ArrayRecord([np.zeros(1)]), num_rounds=1)
    assert strategy.clusters[NODES[3]] == late
    assert strategy.models[late].to_numpy_ndarrays()[0][0] == 5.0  # half the way from 9 to 1


def test_the_servers_own_evaluation_sees_the_model_of_each_cluster():
    grid = Nodes()
    grid.app = learner(lambda node: 1.0 if node == NODES[0] else -3.0)
    strategy = ClusteredFedAvg(dict(zip(NODES, [0, 1, 1, 1], strict=True)))

    def judge(server_round, arrays):
        return MetricRecord({"value": float(arrays.to_numpy_ndarrays()[0][0])}) if server_round else None

    found = strategy.start(grid, ArrayRecord([np.zeros(1)]), num_rounds=1, evaluate_fn=judge)
    assert list(found.evaluate_metrics_serverapp) == [1]
    seen = dict(found.evaluate_metrics_serverapp[1])
    assert seen == pytest.approx({"value/cluster-0": 0.5, "value/cluster-1": -1.5, "value": -1.0})


def test_a_strategy_of_flower_serves_each_cluster_with_a_state_of_its_own():
    from flwr.serverapp.strategy import FedAdam

    targets = {0: 1.0, 1: -2.0}
    groups = dict(zip(NODES, [0, 0, 1, 1], strict=True))
    together = ClusteredFedAvg(groups, strategy=lambda: FedAdam(eta=0.3), fraction_evaluate=0.0)
    grid = Nodes()
    grid.app = learner(lambda node: targets[groups[node]])
    together.start(grid, ArrayRecord([np.zeros(1)]), num_rounds=4)
    for cluster, target in targets.items():
        alone, grid = FedAdam(eta=0.3, fraction_evaluate=0.0), Nodes()
        grid.points = {node: None for node in NODES if groups[node] == cluster}
        grid.app = learner(lambda node, target=target: target)
        found = alone.start(grid, ArrayRecord([np.zeros(1)]), num_rounds=4).arrays.to_numpy_ndarrays()[0]
        np.testing.assert_allclose(together.models[cluster].to_numpy_ndarrays()[0], found)


def test_a_strategy_that_is_mixed_in_is_refused_by_name():
    from flwr.serverapp.strategy import FedAdam

    class Mixed(ClusteredFedAvg, FedAdam):
        pass

    with pytest.raises(kfed.InvalidInputError, match=r"FedAdam must not be mixed .*strategy=FedAdam\)"):
        Mixed({NODES[0]: 0})


def test_training_goes_on_without_a_node_that_died(caplog):
    grid = Nodes()
    grid.app = learner(lambda node: 1.0)
    clusters = dict(zip(NODES, [0, 0, 1, 1], strict=True))
    grid.points.pop(NODES[1])
    strategy = ClusteredFedAvg(clusters, min_available_nodes=4, node_wait=0.2, fraction_evaluate=0.0)
    strategy.start(grid, ArrayRecord([np.zeros(1)]), num_rounds=3)
    assert {node for node, _ in grid.pushed} == {NODES[0], *NODES[2:]}
    assert caplog.text.count(f"without nodes that are not connected: {NODES[1]}") == 1  # then no longer waited for


def test_a_node_that_comes_late_trains_the_model_of_its_cluster_within_two_rounds():
    grid = Nodes()
    both = client_app(lambda context: grid.load(context), 2, app=learner(lambda node: float(node % 4)))
    grid.app = both
    outcome = run_round(grid, settings_of())
    grid.points[8] = points_of(8)  # the groups of node 0 modulo 4: those of NODES[0]
    grid.pushed.clear()
    strategy = ClusteredFedAvg(outcome, fraction_evaluate=0.0)
    strategy.start(grid, ArrayRecord([np.zeros(1)]), num_rounds=2)
    assert (8, "train") in grid.pushed
    assert strategy.clusters[8] in {outcome.clusters[NODES[0]], outcome.clusters[NODES[1]]}
    assert grid.pushed.count((8, "query.cluster")) == 1
    assert labels_of(grid.context(8)) is not None


@pytest.mark.parametrize("late", [False, True])
def test_nodes_are_grouped_by_what_they_learn_from_the_same_model(late):
    groups = {node: position % 2 for position, node in enumerate(NODES)}
    wanted = {0: np.ones(50), 1: np.tile([1.0, -1.0], 25)}

    def app():
        made = ClientApp()

        @made.train()
        def train(message, context):
            assert message.content["config"]["server-round"] == 1
            model = message.content["arrays"].to_numpy_ndarrays()[0]
            rng = np.random.default_rng(context.node_id % 1000)
            step = wanted[groups[context.node_id]] + 0.3 * rng.normal(size=50) - model
            return Message(
                RecordDict({"arrays": ArrayRecord([model + step]), "metrics": metrics(0.0)}), reply_to=message
            )

        return made

    grid, start = Nodes(), ArrayRecord([np.zeros(50)])
    grid.app = client_app(app=app())
    outcome = run_round(grid, Settings(2, deadline=1.0), arrays=start)
    assert outcome.failed == {}
    assert outcome.aggregation.rule == "robust"
    assert outcome.sizes == dict.fromkeys(NODES, 10)
    assert outcome.clusters[NODES[0]] == outcome.clusters[NODES[2]] != outcome.clusters[NODES[1]]
    assert outcome.clusters[NODES[1]] == outcome.clusters[NODES[3]]
    if late:
        groups[9], grid.points[9] = 1, None
        strategy = ClusteredFedAvg(outcome, fraction_evaluate=0.0)
        strategy.start(grid, start, num_rounds=1)
        assert strategy.clusters[9] == outcome.clusters[NODES[1]]


def test_a_node_that_cannot_be_grouped_says_what_it_lacks():
    grid = Nodes()
    grid.app = client_app(app=learner(lambda node: 0.0))
    with pytest.raises(kfed.EngineError, match="load_points must be given"):
        run_round(grid, settings_of(deadline=0.1))


class HighestLoss:
    """A selection that considers the first three clients."""

    def select(self, round, n, losses, available=(0, 1, 2)):
        candidates = np.array([position for position in available if position < 3])
        return np.sort(candidates[np.argsort(-losses(candidates), kind="stable")][:n])


def test_a_selection_picks_by_the_losses_of_its_candidates_alone():
    grid = Nodes()
    grid.app = learner(lambda node: float(NODES.index(node)))
    strategy = KFedSelection(HighestLoss(), NODES, n_train=1, fraction_evaluate=0.0)
    strategy.start(grid, ArrayRecord([np.zeros(1)]), num_rounds=2)
    assert strategy.selected == [[NODES[2]], [NODES[0]]]  # losses 0, 1, 2, then 1, 0, 1
    asked = [node for node, kind in grid.pushed if kind == "evaluate"]
    assert asked == NODES[:3] * 2
    assert [node for node, kind in grid.pushed if kind == "train"] == [NODES[2], NODES[0]]


def test_a_candidate_that_does_not_say_its_loss_is_taken_last():
    grid = Nodes(silent=NODES[:1])
    grid.app = learner(lambda node: 0.0)
    strategy = KFedSelection(HighestLoss(), NODES, n_train=2, fraction_evaluate=0.0)
    strategy.start(grid, ArrayRecord([np.zeros(1)]), num_rounds=1)
    assert strategy.selected == [NODES[1:3]]


def test_a_node_that_is_gone_is_neither_asked_nor_sent_a_model():
    grid = Nodes()
    grid.app = learner(lambda node: 0.0)
    grid.points.pop(NODES[1])
    strategy = KFedSelection(HighestLoss(), NODES, n_train=3, fraction_evaluate=0.0)
    strategy.start(grid, ArrayRecord([np.zeros(1)]), num_rounds=1)
    assert strategy.selected == [[NODES[0], NODES[2]]]
    assert NODES[1] not in {node for node, _ in grid.pushed}


def test_a_loss_under_another_name_is_an_error_that_says_which_there_are():
    grid = Nodes()
    grid.app = learner(lambda node: 0.0)
    strategy = KFedSelection(HighestLoss(), NODES, n_train=1, loss_key="eval_loss", fraction_evaluate=0.0)
    with pytest.raises(kfed.InvalidInputError, match=r"'eval_loss'.* got loss, num-examples; set loss_key"):
        strategy.start(grid, ArrayRecord([np.zeros(1)]), num_rounds=1)


SIZES, CLUSTERS = [10, 20, 30, 40], [0, 1, 0, 1]


@pytest.mark.parametrize(
    "selection",
    [
        RandomSelection(4, SIZES, seed=3),
        PowerOfChoice(SIZES, n_candidates=3, seed=3),
        KFedPowerOfChoice(SIZES, CLUSTERS, n_candidates=4, seed=3),
    ],
)
def test_the_selections_of_kfed_federated_pick_the_nodes_they_pick_anywhere(selection):
    targets = {node: float(1 + position) for position, node in enumerate(NODES)}
    grid = Nodes()
    grid.app = learner(targets.get)
    strategy = KFedSelection(selection, NODES, n_train=2, fraction_evaluate=0.0)
    strategy.start(grid, ArrayRecord([np.zeros(1)]), num_rounds=4)
    model, expected = 0.0, []
    for round in range(1, 5):
        chosen = selection.select(round, 2, [abs(model - target) for target in targets.values()])
        model += np.mean([list(targets.values())[position] - model for position in chosen]) / 2
        expected.append([NODES[position] for position in chosen])
    assert strategy.selected == expected


def test_nodes_that_are_drawn_by_size_are_averaged_evenly_also_with_another_strategy_mixed_in():
    from flwr.serverapp.strategy import FedAdam

    class Mixed(KFedSelection, FedAdam):
        pass

    app = learner(lambda node: float(NODES.index(node)))
    sizes = [1, 1, 1, 97]

    def sized(message, context):
        reply = app(message, context)
        if message.metadata.message_type == "train":
            reply.content["metrics"]["num-examples"] = sizes[NODES.index(context.node_id)]
        return reply

    found = {}
    for name, kind in (("plain", KFedSelection), ("mixed", Mixed)):
        grid = Nodes()
        grid.app = sized
        strategy = kind(PowerOfChoice(sizes, n_candidates=4), NODES, n_train=4, fraction_evaluate=0.0)
        found[name] = strategy.start(grid, ArrayRecord([np.zeros(1)]), num_rounds=1).arrays.to_numpy_ndarrays()[0][0]
    assert found["plain"] == pytest.approx(np.mean([0, 1, 2, 3]) / 2)
    assert 0 < found["mixed"] != pytest.approx(found["plain"])


def test_nodes_with_a_promise_release_once_however_often_they_are_asked():
    many = {node: np.repeat(points_of(node), 20, axis=0) for node in NODES}
    grid, seen = Nodes(loaders=many), []
    privacy = kfed.Privacy(epsilon=8.0, delta=1e-5, radius=120.0)
    grid.app = client_app(grid.load, 2, privacy=privacy)
    honest = grid.reply
    grid.reply = lambda message: seen.append(honest(message)) or seen[-1]
    first = run_round(grid, settings_of())
    assert {message.details.promise for message in first.aggregation.messages.details.messages} == {privacy.promise}
    for node in NODES:
        pairs = zip(labels_of(grid.context(node)).tolist(), np.repeat([0, 1], 600).tolist(), strict=True)
        assert len({*pairs}) == 2
    n_seen = len(seen)
    second = run_round(grid, settings_of())
    assert second.aggregation == first.aggregation
    assert len(seen) > n_seen


# Are the clusters worth it? -------------------------------------------------------------------------------------

PAIRS = dict(zip(NODES, [0, 0, 1, 1], strict=True))


def trained_in_pairs(targets, rounds=5, grid=None, start=0.0, clusters=PAIRS, **options):
    """Train two clusters on nodes with these targets; what came of it, and the codes of what was warned of."""
    grid = grid or Nodes()
    grid.app = learner(lambda node: targets[NODES.index(node) % len(targets)])
    strategy = ClusteredFedAvg(clusters, **options)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        result = strategy.start(grid, ArrayRecord([np.full(1, start)]), num_rounds=rounds)
    return strategy, result, grid, [(one.category, one.message.code) for one in caught]


USELESS = [(kfed.AggregationWarning, "groups-do-not-matter")]


def evaluations(grid):
    return sum(kind == "evaluate" for _, kind in grid.pushed)


def test_clusters_that_matter_to_the_model_pass_in_silence():
    strategy, _, grid, warned = trained_in_pairs([1.0, 1.2, -1.0, -1.2])
    assert warned == []
    assert (strategy.worth.share, strategy.worth.chance, strategy.worth.n_judged) == (1.0, 0.5, 4)
    assert evaluations(grid) == 5 * 4 + 2 * 4  # every round as ever, and once the models of both clusters
    assert strategy.worth.communication.bytes_down == 4 * sum(one.count_bytes() for one in strategy.models.values())
    assert strategy.worth.communication.messages == 16


@pytest.mark.parametrize("rounds", [2, 5])  # a short training is judged at its end
def test_clusters_that_do_not_matter_are_warned_of_as_in_kfed_federated(rounds):
    strategy, _, _, warned = trained_in_pairs([1.0, -1.0], rounds)
    assert warned == USELESS
    assert not strategy.worth.matters
    assert set(strategy.models) == {0, 1}


def test_if_asked_training_falls_back_to_one_model_for_all():
    strategy, result, grid, warned = trained_in_pairs([1.0, -1.0], 8, if_useless="merge", start=4.0)
    assert warned == USELESS
    assert strategy.clusters == dict.fromkeys(NODES, 0)
    found = strategy.models[0].to_numpy_ndarrays()[0]
    np.testing.assert_allclose(found, 4.0 / 2**8)  # half the way to 0, the mean of all targets, in each round
    np.testing.assert_array_equal(result.arrays.to_numpy_ndarrays()[0], found)
    assert evaluations(grid) == 8 * 4 + 2 * 4


def test_what_falls_back_in_the_last_round_is_the_mean_of_what_nodes_trained():
    _, result, _, _ = trained_in_pairs([1.0, -1.0, 4.0, -1.0], 1, if_useless="merge")
    np.testing.assert_allclose(result.arrays.to_numpy_ndarrays()[0], (1 - 1 + 4 - 1) / 8)


@pytest.mark.parametrize(
    "options", [{"if_useless": "ignore"}, {"fraction_evaluate": 0.0}, {"clusters": dict.fromkeys(NODES, 0)}]
)
def test_nobody_is_asked_more_where_there_is_nothing_to_judge(options):
    strategy, _, grid, warned = trained_in_pairs([1.0, -1.0], **options)
    assert (strategy.worth, warned) == (None, [])
    assert evaluations(grid) == (0 if "fraction_evaluate" in options else 20)


def test_clusters_are_judged_when_two_nodes_of_each_were_trained():
    three = PAIRS | {7: 0, 8: 1}
    grid = Nodes(dict.fromkeys([7, 8]))
    grid.app = learner(lambda node: 1.0 if three[node] else -1.0)
    strategy = ClusteredFedAvg(three, fraction_train=0.5)
    strategy.start(grid, ArrayRecord([np.zeros(1, np.float32)]), num_rounds=4)
    seen = [[three[node] for node in nodes].count(0) for nodes in strategy.selected]  # of three
    last = max(seen.index(2), next(i for i, zeros in enumerate(seen) if zeros < 2))
    rounds = [len(asked) for asked in "".join(kind[0] for _, kind in grid.pushed).replace("ttt", "t").split("t")[1:]]
    assert rounds == [6 + 2 * 6 * (i == last) for i in range(4)]
    assert strategy.worth.share == 1.0


def test_nobody_is_shown_what_a_single_node_trained():
    alone = dict(zip([*NODES, 7], [0, 0, 1, 1, 2], strict=True))
    grid, seen = Nodes({7: None}), []
    grid.app = learner(lambda node: 5.0 if node == 7 else 1.0 - 2 * alone[node])
    honest = grid.reply
    grid.reply = lambda message: seen.append(message) or honest(message)
    strategy = ClusteredFedAvg(alone)
    strategy.start(grid, ArrayRecord([np.zeros(1, np.float32)]), num_rounds=1)
    models = [one.content["arrays"].to_numpy_ndarrays()[0] for one in seen if one.metadata.dst_node_id != 7]
    assert {float(model[0]) for model in models} == {0.0, 0.5, -0.5}
    assert {model.dtype for model in models} == {np.dtype(np.float32)}
    assert (strategy.worth.share, strategy.worth.chance, strategy.worth.n_judged) == (1.0, 0.5, 4)


def test_nodes_that_do_not_reply_have_no_say():
    grid = Nodes({9: points_of(9)}, silent=NODES[:1])
    grid.app = learner(lambda node: -1.0 if node in NODES[2:] else 1.0)
    strategy = ClusteredFedAvg(PAIRS | {9: 0})
    strategy.start(grid, ArrayRecord([np.zeros(1)]), num_rounds=2)
    assert (strategy.worth.share, strategy.worth.n_judged) == (1.0, 4)


def test_clusters_of_one_node_each_cannot_be_judged():
    strategy, _, grid, warned = trained_in_pairs([1.0], clusters={node: i for i, node in enumerate(NODES)})
    assert (strategy.worth, warned) == (None, [])
    assert evaluations(grid) == 20


@pytest.mark.parametrize(
    ("names", "options", "is_found"),
    [
        (["eval_loss", "accuracy"], {}, True),
        (["train_loss", "eval_loss"], {}, False),
        (["train_loss", "eval_loss"], {"loss_key": "eval_loss"}, True),
        (["accuracy"], {}, False),
    ],
)
def test_the_loss_is_found_by_its_name_or_by_how_it_ends(names, options, is_found, monkeypatch, caplog):
    monkeypatch.setitem(
        globals(), "metrics", lambda loss: MetricRecord(dict.fromkeys(names, loss) | {"num-examples": 10})
    )
    strategy, _, _, warned = trained_in_pairs([1.0, -1.0], **options)
    assert (strategy.worth is not None, warned == USELESS) == (is_found, is_found)
    assert ("set loss_key" in caplog.text) != is_found


@pytest.mark.parametrize("alike", [True, False])
def test_nodes_whose_centers_coincide_are_warned_of_without_a_question(alike):
    grid, rng = Nodes(), np.random.default_rng(0)
    apart = 0 if alike else 1
    grid.points = {node: rng.normal(apart * MEANS[node % 2], size=(200, 5)) for node in range(24)}
    grid.app = client_app(grid.load, 1, app=learner(lambda node: 1.0))
    outcome = run_round(grid, Settings(2, deadline=1.0))
    strategy = ClusteredFedAvg(outcome, fraction_evaluate=0.0)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        strategy.start(grid, ArrayRecord([np.zeros(1)]), num_rounds=2)
    assert ["all their centers coincide" in str(one.message) for one in caught] == [True] * alike
    assert strategy.worth is None


def test_a_node_that_comes_after_clusters_were_merged_gets_the_one_model():
    grid = Nodes()
    grid.app = client_app(grid.load, 2, app=learner(lambda node: 1.0))
    outcome = replace(run_round(grid, settings_of()), clusters=PAIRS)
    strategy = ClusteredFedAvg(outcome, if_useless="merge")
    judge = strategy._look_at_clusters

    def then_one_more(*asked):
        judge(*asked)
        grid.points[8] = points_of(8)

    strategy._look_at_clusters = then_one_more
    with pytest.warns(kfed.AggregationWarning, match=r"50% of 4 devices .*if_useless='merge'"):
        strategy.start(grid, ArrayRecord([np.zeros(1)]), num_rounds=3)
    assert strategy.clusters == dict.fromkeys([*NODES, 8], 0)
    assert (8, "train") in grid.pushed


def digit_nodes(kind, seed, n_nodes=16):
    """Handwritten digits on nodes in four groups: turned, with other names of the classes, or alike."""
    images, classes = datasets.digits().points.reshape(-1, 8, 8), datasets.digits().classes
    rng = np.random.default_rng(seed)
    names = [rng.permutation(10) for _ in range(4)]
    rows = np.array_split(rng.permutation(len(images)), n_nodes)
    turned = [np.rot90(images[own], kind == "turned" and node % 4, axes=(1, 2)) for node, own in enumerate(rows)]
    called = [names[node % 4][classes[own]] if kind == "named" else classes[own] for node, own in enumerate(rows)]
    return {node: (own.reshape(len(own), -1), called[node]) for node, own in enumerate(turned)}


def softmax_app(data):
    """Multinomial regression by plain descent; the last third of the rows is for evaluation."""
    app = ClientApp()

    def chances(rows, weights):
        scores = np.exp((scores := rows @ weights) - scores.max(axis=1, keepdims=True))
        return scores / scores.sum(axis=1, keepdims=True)

    def part(context, trains):
        rows, classes = data[context.node_id]
        cut = 2 * len(rows) // 3
        return (rows[:cut], classes[:cut]) if trains else (rows[cut:], classes[cut:])

    @app.train()
    def train(message, context):
        (rows, classes), weights = part(context, True), message.content["arrays"].to_numpy_ndarrays()[0].copy()
        for _ in range(20):
            weights -= 0.5 * rows.T @ (chances(rows, weights) - np.eye(10)[classes]) / len(rows)
        return Message(RecordDict({"arrays": ArrayRecord([weights]), "metrics": metrics(0.0)}), reply_to=message)

    @app.evaluate()
    def evaluate(message, context):
        rows, classes = part(context, False)
        found = chances(rows, message.content["arrays"].to_numpy_ndarrays()[0])[np.arange(len(rows)), classes]
        return Message(RecordDict({"metrics": metrics(float(-np.log(found).mean()))}), reply_to=message)

    return app


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize(("kind", "matters"), [("turned", True), ("named", False), ("alike", False)])
def test_groups_by_pixels_matter_where_digits_are_turned_and_nowhere_else(kind, seed, matters):
    grid, data = Nodes(), digit_nodes(kind, seed)
    grid.points = {node: rows for node, (rows, _) in data.items()}
    grid.app = client_app(grid.load, 1, app=softmax_app(data))
    strategy = ClusteredFedAvg(run_round(grid, Settings(4, rule="robust", deadline=20.0)))
    strategy.start(grid, ArrayRecord([np.zeros((64, 10))]), num_rounds=3)
    assert strategy.worth.matters == matters
