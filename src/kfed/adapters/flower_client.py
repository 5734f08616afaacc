"""The device's side of k-FED as a Flower `ClientApp` that answers two queries.

query.cluster    points ──> LocalClustering (kept in the node's state) ──> the bytes of a DeviceMessage
                 or a model ──> the app's own train function ──> the update as one point ──> the same
query.identity   the bytes of an Identity ──> labels (kept in the node's state) ──> how many rows got one
"""

from __future__ import annotations

from collections.abc import Callable
from logging import ERROR
from typing import Any, Literal

import numpy as np
from flwr.app import ArrayRecord, ConfigRecord, Context, Message, MessageType, RecordDict
from flwr.clientapp import ClientApp
from flwr.common import log

from kfed._base.array import Array
from kfed.adapters.flower_words import ARRAYS, CLUSTER, CONFIG, IDENTITY, LABELS, RECORD
from kfed.device import MIN_CLUSTER_SIZE, LocalClustering, Privacy, cluster_device
from kfed.errors import InvalidInputError, KFedError
from kfed.federated import described_by, update_point
from kfed.wire import Identity


def client_app(
    load_points: Callable[[Context], Any] | None = None,
    n_local_clusters: int | Literal["auto"] | None = None,
    *,
    app: ClientApp | None = None,
    random_state: int = 0,
    min_cluster_size: int = MIN_CLUSTER_SIZE,
    on_labels: Callable[[Context, Array], object] | None = None,
    privacy: Privacy | None = None,
) -> ClientApp:
    """Make the app that runs on every node, or add the two queries to an existing app.

    Parameters
    ----------
    load_points : callable, optional
        ``load_points(context)`` returns the points of this node, (n_points, n_features), found with
        `context.node_config` and `context.run_config`. They do not leave the node. Not needed if the server groups
        nodes by their updates: then the app's own train function is asked.
    n_local_clusters : int or "auto", optional
        k^(z). By default the node sends a summary, see `kfed.cluster_device`, and `load_points` is called once more
        when the answer arrives.
    app : ClientApp, optional
        An app with `train` and `evaluate` functions of its own, to which the queries are added; by default a new one.
    random_state, min_cluster_size
        As in `kfed.cluster_device`.
    on_labels : callable, optional
        ``on_labels(context, labels)`` is called with the global cluster of every point when the answer arrives. The
        labels are kept in ``context.state["kfed-labels"]``, too, see `labels_of`.
    privacy : kfed.Privacy, optional
        What is promised for the points. A node that is asked again sends what it sent before: a second release of the
        same points would say more about them.

    Returns
    -------
    flwr.clientapp.ClientApp
    """
    app = ClientApp() if app is None else app

    @app.query(CLUSTER, mods=[_report_errors])
    def cluster(message: Message, context: Context) -> Message:
        name = str(context.node_id)
        if privacy is not None and context.state.get(RECORD) is not None:
            return _reply(message, {"message": _local(context).to_message(name).to_bytes()})
        if message.content.get(ARRAYS) is not None:
            if privacy is not None:
                raise InvalidInputError("privacy must be None for groups by updates: it covers points alone")
            local = _learned(app, message, context, min_cluster_size)
        elif load_points is None:
            raise InvalidInputError("load_points must be given: the server groups nodes by their points")
        else:
            local = cluster_device(
                load_points(context),
                n_local_clusters,
                random_state=random_state,
                device_id=name,
                min_cluster_size=min_cluster_size,
                privacy=privacy,
            )
        context.state[RECORD] = ConfigRecord({"local": local.to_bytes()})
        return _reply(message, {"message": local.to_message(name).to_bytes()})

    @app.query(IDENTITY, mods=[_report_errors])
    def identity(message: Message, context: Context) -> Message:
        local, answer = _local(context), Identity.from_bytes(_bytes(message.content, "identity"))
        again = load_points(context) if load_points is not None and local.is_summary else None
        labels = np.asarray(local.induced_labels(answer, refine=again))
        context.state[LABELS] = ArrayRecord([labels])
        if on_labels is not None:
            on_labels(context, labels)
        return _reply(message, {"n-labelled": len(labels)})

    return app


def labels_of(context: Context) -> Array | None:
    """Give the global cluster of every point of this node, (n_points,); None before the answer arrived."""
    record = context.state.get(LABELS)
    return None if record is None else np.asarray(record.to_numpy_ndarrays()[0])


def _learned(app: ClientApp, question: Message, context: Context, min_cluster_size: int) -> LocalClustering:
    """Let the app train the model of a question as in the first round, and describe this node by the update."""
    asked = question.content[RECORD]
    record, weighted_by = str(asked["arrays-key"]), str(asked["weighted-by"])
    arrays = question.content[ARRAYS]
    content = RecordDict({record: arrays, str(asked["config-key"]): question.content[CONFIG]})
    before, kind = question.content, question.metadata.message_type
    try:  # a message of one's own cannot be made on a node; this one becomes the first message of a training
        question.content, question.metadata.message_type = content, MessageType.TRAIN
        reply = app(question, context)
    finally:
        question.content, question.metadata.message_type = before, kind
    trained, metrics = reply.content.array_records, reply.content.metric_records
    if len(trained) != 1 or not any(weighted_by in own for own in metrics.values()):
        raise InvalidInputError(f"the train function must reply with one ArrayRecord and the metric {weighted_by!r}")
    n_points = next(int(own[weighted_by]) for own in metrics.values() if weighted_by in own)  # type: ignore[arg-type]
    after = next(iter(trained.values()))
    names = sorted(name for name in arrays if name in after)
    pairs = [(arrays[name].numpy(), after[name].numpy()) for name in names]
    floats = [(old, new) for old, new in pairs if old.dtype.kind == "f"]
    return described_by(update_point(*zip(*floats, strict=True)), n_points, min_cluster_size=min_cluster_size)


def _report_errors(message: Message, context: Context, call_next: Callable[[Message, Context], Message]) -> Message:
    """Reply with the error if a query fails. Only kfed's own error texts are sent: they hold no value of a row."""
    try:
        return call_next(message, context)
    except KFedError as error:
        return _reply(message, {"error": str(error)})
    except Exception as error:  # Flower would send its text
        log(ERROR, "k-FED: this node failed", exc_info=error)
        return _reply(message, {"error": f"it raised {type(error).__name__}; see the log of this node"})


def _local(context: Context) -> LocalClustering:
    record = context.state.get(RECORD)
    if record is None:
        raise InvalidInputError("this node got an identity before it was asked to cluster")
    return LocalClustering.from_bytes(record["local"])


def _reply(message: Message, said: dict[str, Any]) -> Message:
    return Message(RecordDict({RECORD: ConfigRecord(said)}), reply_to=message)


def _bytes(content: RecordDict, name: str) -> bytes:
    record = content.get(RECORD)
    value = record.get(name) if isinstance(record, ConfigRecord) else None
    if not isinstance(value, bytes):
        raise InvalidInputError(
            f"the k-FED message holds no {name!r} as bytes; use the same version of kfed on server and nodes"
        )
    return value
