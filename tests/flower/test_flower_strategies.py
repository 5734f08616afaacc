"""Flower's strategies with groups of clients."""

from __future__ import annotations

import numpy as np
import pytest

import kfed

pytest.importorskip("flwr", reason="needs kfed[flower], in an environment of its own: make flower")
from flwr.app import ArrayRecord, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from nodes import NODES, Nodes, learner, metrics, points_of, quick_polls, settings_of  # noqa: F401

from kfed.adapters.flower import (
    ClusteredFedAvg,
    KFedSelection,
    Settings,
    client_app,
    labels_of,
    run_round,
)
from kfed.federated import KFedPowerOfChoice, PowerOfChoice, RandomSelection

# Strategies -----------------------------------------------------------------------------------------------------


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
