"""What runs on the server: one round of k-FED, then training, in several ways to compare."""

import json
from pathlib import Path

from flwr.app import ArrayRecord, Context
from flwr.serverapp import Grid, ServerApp
from flwr.serverapp.strategy import FedAvg

from kfed.adapters.flower import ClusteredFedAvg, KFedSelection, Outcome, Settings, run_round
from kfed.federated import KFedPowerOfChoice, PowerOfChoice, RandomSelection
from kfed_training import task

app = ServerApp()


@app.main()
def main(grid: Grid, context: Context) -> None:
    """Find the groups of nodes, and train from the same start by every method that the configuration names."""
    config = context.run_config
    min_nodes, rounds = int(config["min-nodes"]), int(config["rounds"])
    outcome = run_round(grid, Settings(int(config["n-clusters"]), rule="robust", min_nodes=min_nodes))
    found = {"clusters": outcome.clusters, "accuracy": {}, "selected": {}}
    for method in str(config["methods"]).split():
        strategy = strategy_of(method, outcome, int(config["n-train"]), min_available_nodes=min_nodes)
        start = ArrayRecord(task.new_model(str(config["data"])).state_dict())
        result = strategy.start(grid, start, num_rounds=rounds)
        found["accuracy"][method] = float(result.evaluate_metrics_clientapp[rounds]["accuracy"])
        found["selected"][method] = getattr(strategy, "selected", [])
    for method, accuracy in found["accuracy"].items():
        print(f"{method}: {accuracy:.1%} of the test images of all nodes")  # noqa: T201
    if config["output"]:
        Path(str(config["output"])).write_text(json.dumps(found), encoding="utf-8")


def strategy_of(method: str, outcome: Outcome, n_train: int, **options: int) -> FedAvg:
    """One of the ways to train: all nodes and one model, a model for each group, or a few nodes in each round."""
    if method == "global":
        return FedAvg(**options)
    if method == "clustered":
        return ClusteredFedAvg(outcome, **options)
    nodes = sorted(outcome.clusters)
    sizes = [outcome.sizes[node] for node in nodes]
    groups = [outcome.clusters[node] for node in nodes]
    selections = {
        "random": RandomSelection(len(nodes)),
        "power-of-choice": PowerOfChoice(sizes, n_candidates=len(nodes) * 3 // 4),
        "kfed-power-of-choice": KFedPowerOfChoice(sizes, groups, n_candidates=len(nodes) * 3 // 4),
    }
    return KFedSelection(selections[method], nodes, n_train, **options)
