"""What runs on every node: an ordinary PyTorch app, to which one line adds k-FED."""

import torch
from flwr.app import ArrayRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp

from kfed.adapters.flower import client_app
from kfed_training import task

app = ClientApp()
torch.set_num_threads(1)  # simulated nodes run side by side


@app.train()
def train(message: Message, context: Context) -> Message:
    """Train the model that came on the rows of this node."""
    model, rows, config = model_in(message, context), rows_here(context, "train"), context.run_config
    seed = 1_000 * int(message.content["config"]["server-round"]) + int(context.node_config["partition-id"])
    loss = task.train(model, rows, float(config["learning-rate"]), int(config["batch-size"]), seed)
    metrics = MetricRecord({"loss": loss, "num-examples": len(rows.targets)})
    return Message(RecordDict({"arrays": ArrayRecord(model.state_dict()), "metrics": metrics}), reply_to=message)


@app.evaluate()
def evaluate(message: Message, context: Context) -> Message:
    """Judge the model that came on test rows of this node."""
    rows = rows_here(context, "test")
    loss, accuracy = task.evaluate(model_in(message, context), rows)
    metrics = MetricRecord({"loss": loss, "accuracy": accuracy, "num-examples": len(rows.targets)})
    return Message(RecordDict({"metrics": metrics}), reply_to=message)


def model_in(message: Message, context: Context) -> torch.nn.Module:
    """The model that came in a message."""
    model = task.new_model(str(context.run_config["data"]))
    model.load_state_dict(message.content["arrays"].to_torch_state_dict())
    return model


def rows_here(context: Context, split: str) -> task.Rows:
    """Rows of this node."""
    node, config = context.node_config, context.run_config
    most = int(config["most-rows"]) if split == "train" else 0
    return task.rows_of(int(node["partition-id"]), int(node["num-partitions"]), split, str(config["data"]), most)


client_app(lambda context: rows_here(context, "train").inputs.numpy(), n_local_clusters=1, app=app)
