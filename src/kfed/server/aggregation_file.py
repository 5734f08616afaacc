"""The columns of an aggregation as they lie in a file, and what makes them sound when they come back."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import numpy as np

from kfed._base import checks
from kfed._base.array import Array, frozen
from kfed.errors import InvalidInputError
from kfed.server.rules.grouping import Grouping
from kfed.wire import LARGEST_SINGLE, MAX_COUNT, MAX_VALUE, CommonScale, FeatureSchema, MessageBatch


def columns(batch: MessageBatch, grouping: Grouping) -> dict[str, Array]:
    """The arrays of an aggregation, by name; a file has a few facts besides."""
    if batch.details is not None or batch.is_summary is not None:
        scale = {} if batch.scale is None else {"shift": batch.scale.shift, "scale": batch.scale.scale}
        return {**_messages(batch), **_clusters(grouping), **scale}
    return {
        "device_ids": np.frombuffer(json.dumps(batch.device_ids).encode(), np.uint8),
        "device_centers": batch.centers,
        "center_owners": batch.owners.astype(np.int64),
        "center_counts": batch.counts,
        "sums_of_squares": batch.sums_of_squares,
        "spectral_deviations": batch.spectral_deviations,
        "is_named": batch.is_named,
        "is_double": batch.is_double,
        **_clusters(grouping),
    }


def _clusters(grouping: Grouping) -> dict[str, Array]:
    unused = {name: rows for name in ("set_aside", "strays") if len(rows := getattr(grouping, name))}
    return {
        "initial_centers": grouping.initial_centers,
        "traversal": grouping.traversal,
        "center_labels": grouping.center_labels.astype(np.int64),
        "cluster_centers": grouping.cluster_centers,
        **unused,
    }


def _messages(batch: MessageBatch) -> dict[str, Array]:
    """Messages of format 2, byte for byte."""
    payloads = [batch.message(device_id).to_bytes() for device_id in batch.device_ids]
    return {
        "messages": np.frombuffer(b"".join(payloads), np.uint8),
        "message_ends": np.cumsum([len(payload) for payload in payloads]),
    }


def _batch(tensors: dict[str, Array], feature_names: Any) -> MessageBatch:
    if "messages" in tensors:
        payloads = np.split(tensors["messages"], tensors["message_ends"][:-1])
        return _with_scale(MessageBatch.of_bytes(payload.tobytes() for payload in payloads), tensors)
    return MessageBatch(
        device_ids=tuple(json.loads(tensors["device_ids"].tobytes())),
        centers=frozen(tensors["device_centers"]),
        owners=frozen(tensors["center_owners"]),
        counts=frozen(tensors["center_counts"]),
        sums_of_squares=frozen(tensors["sums_of_squares"]),
        spectral_deviations=frozen(tensors["spectral_deviations"]),
        is_named=frozen(tensors["is_named"]),
        is_double=frozen(tensors["is_double"]),
        schema=FeatureSchema(tensors["device_centers"].shape[1], feature_names),
    )


def _with_scale(batch: MessageBatch, tensors: dict[str, Array]) -> MessageBatch:
    """The messages on the scale that the file holds; for older files without one, on that of all cells."""
    if batch.details is None or batch.schema.scaling != "by message":
        return batch
    if "scale" in tensors:
        scale = CommonScale(frozen(tensors["shift"]), frozen(tensors["scale"]))
    else:
        scale = CommonScale.pooled(batch.schema, batch.centers, batch.details.observed, batch.details.squares)
    scale.check(batch.n_features)
    return replace(batch, known_scale=scale)


def restored(tensors: dict[str, Array], feature_names: Any) -> tuple[MessageBatch, Grouping]:
    """Rebuild what `columns` was given. Raises if the columns are not valid."""
    batch = _batch(tensors, feature_names)
    grouping = Grouping(
        initial_centers=frozen(tensors["initial_centers"]),
        traversal=frozen(tensors["traversal"]),
        center_labels=frozen(tensors["center_labels"]),
        cluster_centers=frozen(tensors["cluster_centers"]),
        set_aside=frozen(tensors.get("set_aside", np.empty(0, np.int64))),
        strays=frozen(tensors.get("strays", np.empty(0, np.int64))),
    )
    _check_shapes(batch, grouping)
    _check_devices(batch)
    _check_values(batch, grouping)
    return batch, grouping


def _check_shapes(batch: MessageBatch, grouping: Grouping) -> None:
    """Raise unless the columns of a file fit together."""
    n_centers, n_features = batch.centers.shape
    n_clusters, n_devices = len(grouping.cluster_centers), len(batch.device_ids)
    expected = [
        (batch.centers, "f", (n_centers, max(1, n_features)), None),
        (batch.owners, "i", (n_centers,), n_devices),
        (batch.counts, "fi", (n_centers,), None),
        (batch.sums_of_squares, "f", (n_centers,), None),
        (batch.spectral_deviations, "f", (n_devices,), None),
        (batch.is_named, "b", (n_devices,), None),
        (batch.is_double, "b", (n_devices,), None),
        (grouping.center_labels, "i", (n_centers,), n_clusters),
        (grouping.cluster_centers, "f", (max(1, n_clusters), n_features), None),
        (grouping.initial_centers, "f", (n_clusters, n_features), None),
        (grouping.traversal, "f", (grouping.traversal.size,), None),
        (grouping.set_aside, "i", (grouping.set_aside.size,), n_centers),
        (grouping.strays, "i", (grouping.strays.size,), n_centers),
    ]
    for array, kinds, shape, n_values in expected:
        if array.shape != shape or array.dtype.kind not in kinds:
            raise InvalidInputError(f"column shapes are inconsistent: one is {array.dtype} of shape {array.shape}")
        if n_values is not None and array.size and not 0 <= array.min() <= array.max() < n_values:
            raise InvalidInputError("columns are inconsistent: one holds positions outside of another")


def _check_devices(batch: MessageBatch) -> None:
    """Raise unless the devices are distinct, in order, and have names."""
    for device_id in batch.device_ids:
        checks.device_id(device_id)
    if list(batch.device_ids) != sorted(set(batch.device_ids)) or (np.diff(batch.owners) < 0).any():
        raise InvalidInputError("its devices must be distinct and in order")


def _check_values(batch: MessageBatch, grouping: Grouping) -> None:
    """Raise unless all numbers are ones that messages may hold, or that follow from them."""
    single = batch.centers[~batch.is_double[batch.owners]]
    for array, limit in (
        (single, LARGEST_SINGLE),
        (batch.centers, MAX_VALUE),
        (grouping.cluster_centers, MAX_VALUE),
        (grouping.initial_centers, MAX_VALUE),
        (grouping.traversal, np.inf),
    ):
        if not (np.isfinite(array) & (np.abs(array) <= np.float64(limit))).all():
            raise InvalidInputError(f"its centers must be finite and at most {limit:g} in size")
    if not ((batch.counts > 0) & (batch.counts <= MAX_COUNT)).all():
        raise InvalidInputError("its counts must be finite and greater than zero")
    for array in (batch.sums_of_squares, batch.spectral_deviations):
        if not (np.isnan(array) | ((array >= 0) & (array < np.inf))).all():
            raise InvalidInputError("its statistics must be finite and not negative")
