"""What runs on the server: one round, then late nodes, as the app's configuration says."""

from flwr.app import Context
from flwr.serverapp import Grid, ServerApp

from kfed.adapters.flower import Settings, run_round

app = ServerApp()


@app.main()
def main(grid: Grid, context: Context) -> None:
    """Run the round."""
    config = context.run_config
    settings = Settings(
        n_clusters=int(config["n-clusters"]),
        output=str(config["output"]) or None,
        min_nodes=int(config["min-nodes"]),
        quorum=float(config["quorum"]),
        deadline=float(config["deadline"]),
        watch=float(config["watch"]),
    )
    outcome = run_round(grid, settings)
    print(f"clusters of {outcome.aggregation.cluster_sizes.tolist()} rows; late: {len(outcome.late)}")  # noqa: T201
    for node, reason in outcome.failed.items():
        print(f"left out: {node}: {reason}")  # noqa: T201
