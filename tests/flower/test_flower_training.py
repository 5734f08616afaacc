"""Strategies with an ordinary PyTorch app on Flower's simulation engine: what kfed.federated gives on this machine."""

import json
import sys

import numpy as np
import pytest

pytest.importorskip("flwr", reason="needs kfed[flower], in an environment of its own: make flower")
pytest.importorskip("ray", reason="needs flwr[simulation]")
torch = pytest.importorskip("torch", reason="needs kfed[federated]")
from deployment import ROOT  # noqa: E402
from simulation import simulate  # noqa: E402

from kfed import datasets  # noqa: E402
from kfed.errors import MissingDataError  # noqa: E402
from kfed.federated import FedAvg, PowerOfChoice, RandomSelection, fit_personalized  # noqa: E402

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def task():
    """The example's task."""
    sys.path.insert(0, str(ROOT / "examples" / "flower-training"))
    from kfed_training import task

    yield task
    sys.path.pop(0)


@pytest.fixture(scope="module")
def mnist():
    try:
        datasets.locate("mnist")
    except MissingDataError as error:
        pytest.skip(str(error))


@pytest.fixture
def trained(home, tmp_path):
    """Run the training example; what it found, with the nodes in their order."""

    def run(**config):
        path = tmp_path / "found.json"
        said = simulate("flower-training", tmp_path, home, output=str(path), **config)
        found = json.loads(path.read_text())
        found["clusters"] = {int(node): cluster for node, cluster in found["clusters"].items()}
        for method, accuracy in found["accuracy"].items():
            assert f"{method}: {accuracy:.1%} of the test images" in said
        return found

    return run


def test_an_ordinary_pytorch_app_trains_in_groups_and_with_the_selections_of_kfed_federated(trained):
    found = trained(rounds=4)
    assert sorted(found["clusters"].values()) == [0, 0, 1, 1, 2, 2, 3, 3]
    assert found["accuracy"]["clustered"] > found["accuracy"]["global"] + 0.03
    nodes = sorted(found["clusters"])
    picked = {
        method: [[nodes.index(node) for node in chosen] for chosen in rounds]
        for method, rounds in found["selected"].items()
    }
    for round in range(1, 5):
        random, by_loss, by_group = (
            picked[method][round - 1] for method in ("random", "power-of-choice", "kfed-power-of-choice")
        )
        candidates = candidates_of(round)
        assert random == RandomSelection(8).select(round, 4).tolist()
        assert len(by_loss) == len(by_group) == 4
        assert {*by_loss, *by_group} <= set(candidates)
        groups_there = {found["clusters"][nodes[position]] for position in candidates}
        assert {found["clusters"][nodes[position]] for position in by_group} == groups_there


def candidates_of(round):
    """Positions that power of choice draws in a round: six of eight."""
    asked = []
    PowerOfChoice([175] * 8, n_candidates=6).select(round, 4, lambda drawn: asked.extend(drawn) or np.zeros(6))
    return asked


def test_on_rotated_mnist_a_model_for_each_cluster_is_as_good_in_flower_as_in_kfed_federated(
    trained, task, mnist, capsys
):
    n_nodes, rounds, rate, batch, n_rows = 12, 8, 0.05, 50, 2_000
    found = trained(
        n_nodes=n_nodes,
        min_nodes=n_nodes,
        methods="clustered",
        data="mnist",
        rounds=rounds,
        learning_rate=rate,
        batch_size=batch,
        most_rows=n_rows,
    )
    train, test = (
        {f"node {i:02}": task.rows_of(i, n_nodes, split, "mnist", most) for i in range(n_nodes)}
        for split, most in (("train", n_rows), ("test", 0))
    )
    training = FedAvg(rounds=rounds, local_steps=n_rows // batch, batch_size=batch, learning_rate=rate)
    here = fit_personalized(train, 4, lambda: task.new_model("mnist"), training, rule="robust").evaluate(test)
    there = found["accuracy"]["clustered"]
    with capsys.disabled():
        print(f"\nrotated MNIST: {there:.2%} in Flower, {here.accuracy:.2%} in kfed.federated")  # noqa: T201
    assert there > 0.9
    assert abs(there - here.accuracy) < 0.005
