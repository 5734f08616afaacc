"""The columns of an aggregation as they lie in a file, and what makes them sound when they come back."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import numpy.typing as npt

from kfed import _checks
from kfed._gathering import Gathering, Grouping
from kfed.errors import InvalidInputError
from kfed.message import LARGEST_SINGLE, MAX_COUNT, MAX_VALUE

Array = npt.NDArray[Any]


def columns(gathering: Gathering, grouping: Grouping) -> dict[str, Array]:
    """Everything but a few facts, by name."""
    return {
        "device_ids": np.frombuffer(json.dumps(gathering.device_ids).encode(), np.uint8),
        "device_centers": gathering.centers,
        "center_owners": gathering.owners.astype(np.int64),
        "center_counts": gathering.counts,
        "sums_of_squares": gathering.sums_of_squares,
        "spectral_deviations": gathering.spectral_deviations,
        "is_named": gathering.is_named,
        "is_double": gathering.is_double,
        "initial_centers": grouping.initial_centers,
        "traversal": grouping.traversal,
        "center_labels": grouping.center_labels.astype(np.int64),
        "cluster_centers": grouping.cluster_centers,
    }


def restored(tensors: dict[str, Array], feature_names: Any) -> tuple[Gathering, Grouping]:
    """What `columns` was given. Raises if it is not sound."""
    gathering = Gathering(
        device_ids=tuple(json.loads(tensors["device_ids"].tobytes())),
        centers=_checks.frozen(tensors["device_centers"]),
        owners=_checks.frozen(tensors["center_owners"]),
        counts=_checks.frozen(tensors["center_counts"]),
        sums_of_squares=_checks.frozen(tensors["sums_of_squares"]),
        spectral_deviations=_checks.frozen(tensors["spectral_deviations"]),
        is_named=_checks.frozen(tensors["is_named"]),
        is_double=_checks.frozen(tensors["is_double"]),
        feature_names=_checks.feature_names(feature_names, tensors["device_centers"].shape[1]),
    )
    grouping = Grouping(
        initial_centers=_checks.frozen(tensors["initial_centers"]),
        traversal=_checks.frozen(tensors["traversal"]),
        center_labels=_checks.frozen(tensors["center_labels"]),
        cluster_centers=_checks.frozen(tensors["cluster_centers"]),
    )
    _check_shapes(gathering, grouping)
    _check_devices(gathering)
    _check_values(gathering, grouping)
    return gathering, grouping


def _check_shapes(gathering: Gathering, grouping: Grouping) -> None:
    """Raise unless the columns of a file fit together."""
    n_centers, n_features = gathering.centers.shape
    n_clusters, n_devices = len(grouping.cluster_centers), len(gathering.device_ids)
    expected = [
        (gathering.centers, "f", (n_centers, max(1, n_features)), None),
        (gathering.owners, "i", (n_centers,), n_devices),
        (gathering.counts, "fi", (n_centers,), None),
        (gathering.sums_of_squares, "f", (n_centers,), None),
        (gathering.spectral_deviations, "f", (n_devices,), None),
        (gathering.is_named, "b", (n_devices,), None),
        (gathering.is_double, "b", (n_devices,), None),
        (grouping.center_labels, "i", (n_centers,), n_clusters),
        (grouping.cluster_centers, "f", (max(1, n_clusters), n_features), None),
        (grouping.initial_centers, "f", (n_clusters, n_features), None),
        (grouping.traversal, "f", (grouping.traversal.size,), None),
    ]
    for array, kinds, shape, n_values in expected:
        if array.shape != shape or array.dtype.kind not in kinds:
            raise InvalidInputError(f"its columns must fit together, and one is {array.dtype} of shape {array.shape}")
        if n_values is not None and array.size and not 0 <= array.min() <= array.max() < n_values:
            raise InvalidInputError("its columns must fit together, and one points outside another")


def _check_devices(gathering: Gathering) -> None:
    """Raise unless the devices are distinct, in order, and have names."""
    for device_id in gathering.device_ids:
        _checks.device_id(device_id)
    if list(gathering.device_ids) != sorted(set(gathering.device_ids)) or (np.diff(gathering.owners) < 0).any():
        raise InvalidInputError("its devices must be distinct and in order")


def _check_values(gathering: Gathering, grouping: Grouping) -> None:
    """Raise unless all numbers are ones that messages may hold, or that came of such."""
    single = gathering.centers[~gathering.is_double[gathering.owners]]
    for array, limit in (
        (single, LARGEST_SINGLE),
        (gathering.centers, MAX_VALUE),
        (grouping.cluster_centers, MAX_VALUE),
        (grouping.initial_centers, MAX_VALUE),
        (grouping.traversal, np.inf),
    ):
        if not (np.isfinite(array) & (np.abs(array) <= np.float64(limit))).all():
            raise InvalidInputError("its centers must be finite, and some are not")
    if not ((gathering.counts > 0) & (gathering.counts <= MAX_COUNT)).all():
        raise InvalidInputError("its counts must be finite and greater than zero, and some are not")
    for array in (gathering.sums_of_squares, gathering.spectral_deviations):
        if not (np.isnan(array) | ((array >= 0) & (array < np.inf))).all():
            raise InvalidInputError("its statistics must be finite and not negative, and some are not")
