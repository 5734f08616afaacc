"""Whether clusters are worth a model each, judged in Flower."""

from __future__ import annotations

import warnings
from dataclasses import replace

import numpy as np
import pytest

import kfed
from kfed import datasets

pytest.importorskip("flwr", reason="needs kfed[flower], in an environment of its own: make flower")
import nodes
from flwr.app import ArrayRecord, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from nodes import MEANS, NODES, Nodes, learner, metrics, points_of, quick_polls, settings_of  # noqa: F401

from kfed.adapters.flower import (
    ClusteredFedAvg,
    Settings,
    client_app,
    run_round,
)

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
    monkeypatch.setattr(nodes, "metrics", lambda loss: MetricRecord(dict.fromkeys(names, loss) | {"num-examples": 10}))
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
