"""k-FED on a real Flower network of processes, with TLS and node authentication: one dies, one lies, one is late."""

import json
import re
import shutil

import numpy as np
import pytest

import kfed

pytest.importorskip("flwr", reason="needs kfed[flower], in an environment of its own: make flower")
from deployment import ROOT, Network, end_left_behind, is_open, wait_for
from simulation import run, script_of

pytestmark = pytest.mark.slow

SITES = ("north", "south", "east", "west")

MISCHIEF = """

class Mischief(type(app)):
    def __init__(self, honest):
        super().__init__()
        self.honest = honest

    def __call__(self, message, context):
        if context.node_config.get("slow"):
            import time
            from pathlib import Path
            Path(context.node_config["data"]).with_suffix(".busy").touch()
            time.sleep(600)
        reply = self.honest(message, context)
        if context.node_config.get("lies"):
            reply.content["kfed"]["message"] = b"garbage"
        return reply


app = Mischief(app)
"""


TRAINS = """

from flwr.app import ArrayRecord, Message, MetricRecord, RecordDict


@app.train()
def train(message, context):
    model = message.content["arrays"].to_numpy_ndarrays()[0]
    own = load_points(context).mean(axis=0)
    content = {"arrays": ArrayRecord([(model + own) / 2]), "metrics": MetricRecord({"num-examples": 60})}
    return Message(RecordDict(content), reply_to=message)
"""

SERVES = """
import json
from pathlib import Path

import numpy as np
from flwr.app import ArrayRecord
from flwr.serverapp import ServerApp

from kfed.adapters.flower import ClusteredFedAvg, Settings, run_round

app = ServerApp()


@app.main()
def main(grid, context):
    path = Path(str(context.run_config["output"]))
    strategy = ClusteredFedAvg(
        run_round(grid, Settings(4, rule="robust", min_nodes=3, deadline=300.0)),
        min_available_nodes=3,
        node_wait=10.0,
        fraction_evaluate=0.0,
    )

    def note(server_round, arrays):
        path.with_suffix(".rounds").write_text(json.dumps(strategy.selected))

    strategy.start(grid, ArrayRecord([np.zeros(5)]), num_rounds=N_ROUNDS, evaluate_fn=note)
    path.write_text(json.dumps(strategy.clusters))
"""

N_ROUNDS = 10


def points_of(i):
    means = 20 * np.random.default_rng(99).normal(size=(4, 5))
    rng = np.random.default_rng(i)
    return np.concatenate([rng.normal(means[group % 4], size=(30, 5)) for group in (i, i + 1)])


@pytest.fixture
def network(tmp_path):
    made = Network(tmp_path)
    yield made
    made.close()


def test_a_network_that_loses_a_node_and_hears_a_liar_labels_the_rest_and_serves_a_late_node(network, tmp_path):
    app = tmp_path / "app"
    shutil.copytree(ROOT / "examples" / "flower-kfed", app)
    with (app / "kfed_flower" / "client_app.py").open("a", encoding="utf-8") as file:
        file.write(MISCHIEF)
    names = ["one", "two", "three", "liar", "victim", "late"]
    for i, name in enumerate(names):
        np.save(tmp_path / f"{name}.npy", points_of(i))
    network.start_superlink()
    ids = {name: network.register(name) for name in names}
    for name in names[:3]:
        network.start_node(name, data=str(tmp_path / f"{name}.npy"))
    network.start_node("liar", data=str(tmp_path / "liar.npy"), lies=True)
    network.start_node("victim", data=str(tmp_path / "victim.npy"), slow=True)
    wait_for(lambda: network.log("superlink").count("Activated node_id") == 5, 60, "five nodes")
    output = tmp_path / "clusters.kfed"
    run = network.run(app, n_clusters=4, min_nodes=5, quorum=1.0, deadline=45.0, watch=90.0, output=str(output))

    wait_for((tmp_path / "victim.busy").exists, 60, "the victim to work")
    network.kill("victim")
    wait_for(output.exists, 90, "the aggregation")
    network.start_node("late", data=str(tmp_path / "late.npy"))
    honest = names[:3]
    wait_for(lambda: all((tmp_path / f"{name}.labels.npy").exists() for name in [*honest, "late"]), 90, "labels")

    local = {
        name: kfed.cluster_device(points_of(names.index(name)), 2, random_state=0, device_id=str(ids[name]))
        for name in [*honest, "late"]
    }
    messages = {name: one.to_message(str(ids[name])) for name, one in local.items()}
    expected = kfed.aggregate([messages[name] for name in honest], 4)
    assert kfed.Aggregation.load(output) == expected
    for name in honest:
        labels = local[name].induced_labels(expected.identity(str(ids[name])))
        np.testing.assert_array_equal(np.load(tmp_path / f"{name}.labels.npy"), labels)
    labels = local["late"].induced_labels(expected.assign(messages["late"]))
    np.testing.assert_array_equal(np.load(tmp_path / "late.labels.npy"), labels)
    said = re.sub(r"\x1b\[\d+m", "", network.flwr("log", str(run), "test", "--show"))
    assert f"node {ids['liar']} is left out: its reply holds no valid message of this node" in said
    assert f"node {ids['victim']} has not replied yet" in said
    assert f"node {ids['late']} was served late" in said


def test_a_training_that_loses_a_node_ends_and_a_node_that_comes_late_trains_within_two_rounds(network, tmp_path):
    app, output, noted = tmp_path / "app", tmp_path / "found.json", tmp_path / "found.rounds"
    shutil.copytree(ROOT / "examples" / "flower-kfed", app)
    with (app / "kfed_flower" / "client_app.py").open("a", encoding="utf-8") as file:
        file.write(TRAINS)
    (app / "kfed_flower" / "server_app.py").write_text(SERVES.replace("N_ROUNDS", str(N_ROUNDS)), encoding="utf-8")
    kinds = {"one": 0, "two": 2, "three": 0, "late": 2}  # nodes of two kinds, with groups of their own
    for name, kind in kinds.items():
        np.save(tmp_path / f"{name}.npy", points_of(kind))
    network.start_superlink()
    ids = {name: network.register(name) for name in kinds}
    for name in ("one", "two", "three"):
        network.start_node(name, data=str(tmp_path / f"{name}.npy"))
    wait_for(lambda: network.log("superlink").count("Activated node_id") == 3, 120, "three nodes")
    network.run(app, output=str(output))

    def rounds():
        """The nodes that were sent a model, round by round, as far as the training has come."""
        return json.loads(noted.read_text()) if noted.exists() else []

    wait_for(lambda: len(rounds()) >= 2, 300, "the second round")
    network.kill("two")
    network.start_node("late", data=str(tmp_path / "late.npy"))
    wait_for(lambda: network.log("superlink").count("Activated node_id") == 4, 120, "the late node")
    n_before = len(rounds())
    wait_for(output.exists, 600, "the end of the training")
    assert len(rounds()) == N_ROUNDS
    assert set(rounds()[-1]) == {ids["one"], ids["three"], ids["late"]}
    first = next(number for number, nodes in enumerate(rounds()) if ids["late"] in nodes)
    assert first <= n_before + 2  # the round that it came in was already sent
    clusters = json.loads(output.read_text())
    assert clusters[str(ids["one"])] == clusters[str(ids["three"])] != clusters[str(ids["late"])]


def test_the_deployment_of_the_readme_labels_the_rows_of_every_node(home, tmp_path):
    if is_open(8000):
        pytest.skip("port 8000 is in use")
    app = tmp_path / "flower-kfed"
    shutil.copytree(ROOT / "examples" / "flower-kfed", app)
    try:
        said = run(["bash", "-e", "-c", script_of("flower-kfed", "For real: TLS and node authentication")], app, home)
    finally:
        end_left_behind(app / "deployment" / "flwr")
    assert re.search(r"4 nodes in 4 clusters \(rule: \w+\), 0 failed", said)
    clusters = kfed.Aggregation.load(app / "deployment" / "clusters.kfed")
    assert clusters.cluster_sizes.tolist() == [60] * 4
    groups = [np.unique(np.load(app / "deployment" / f"{site}.labels.npy")) for site in SITES]
    for own, following in zip(groups, groups[1:] + groups[:1], strict=True):  # each knows one group of the next
        assert len(np.intersect1d(own, following)) == 1


def test_a_node_whose_key_is_not_registered_is_not_let_in(network, tmp_path):
    network.start_superlink()
    network.register("known")
    (tmp_path / "stranger.key").write_bytes(other_key())
    network.start_node("stranger", data="nowhere.npy")
    wait_for(lambda: "SuperNode ID" in network.log("stranger") or network.has_ended("stranger"), 60, "the stranger")
    assert "SuperNode ID" not in network.log("stranger")


def other_key():
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP384R1())
    form = serialization.PrivateFormat.OpenSSH
    return key.private_bytes(serialization.Encoding.PEM, form, serialization.NoEncryption())
