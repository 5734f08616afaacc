"""Work on one partition of a table: rows in, messages or labels out. Knows no engine."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Literal, NamedTuple

import numpy as np

from kfed._base import checks, geometry
from kfed._base.array import Array
from kfed._base.text import plural
from kfed.device import LocalClustering, Privacy
from kfed.errors import InvalidInputError
from kfed.server import Aggregation
from kfed.simulate import cluster_devices, messages_of

NO_DEVICE = "(no device)"
"""The name under which rows without a device are reported."""


@dataclass(frozen=True)
class PartitionPlan:
    """Settings for the devices of all partitions; with the same plan, a device gets the same result anywhere."""

    device_column: str
    columns: tuple[str, ...]
    dtype: np.dtype[Any]
    n_local_clusters: int | Literal["auto"] | None
    min_cluster_size: int
    measure_deviation: bool
    seed: int
    privacy: Privacy | None = None
    n_jobs: int | None = 1  # threads for a partition: one, if an engine runs partitions side by side


class Skipped(NamedTuple):
    """A device whose rows could not be used."""

    device_id: str
    reason: str
    n_rows: int


class PartitionReport(NamedTuple):
    """What leaves a partition."""

    messages: list[bytes]
    skipped: list[Skipped]


def partition_messages(frame: Any, plan: PartitionPlan) -> PartitionReport:
    """Cluster every device of a partition; return their encoded messages, and the devices that were skipped.

    Parameters
    ----------
    frame : pandas.DataFrame
        All rows of the devices in it.
    plan : PartitionPlan
    """
    partition = _Partition.of(frame, plan)
    found = partition.clustered(plan)
    return PartitionReport([message.to_bytes() for message in messages_of(found)], partition.skipped)


def labelled(frame: Any, plan: PartitionPlan, clusters: Aggregation, label_column: str) -> Any:
    """Add a column with the global cluster of each row, null for devices that were skipped.

    The devices are clustered again, with the same result, so that nothing had to be stored; private ones are not.
    """
    import pandas as pd

    labels = np.zeros(len(frame), np.int64)
    known = np.zeros(len(frame), bool)
    partition = _Partition.of(frame, plan)
    if plan.privacy is None:
        own = {
            name: local.induced_labels(
                clusters.answer(local.to_message(name)),
                refine=partition.points[partition.spans[name]] if local.is_summary else None,
            )
            for name, local in partition.clustered(plan).items()
        }
    else:
        own = {name: _private_labels(partition.points[span], name, clusters) for name, span in partition.spans.items()}
    for name, own_labels in own.items():
        rows = partition.order[partition.spans[name]]
        labels[rows] = own_labels
        known[rows] = True
    return frame.assign(**{label_column: pd.arrays.IntegerArray(labels, ~known)})


def _private_labels(points: Array, name: str, clusters: Aggregation) -> Array:
    """The cluster of the nearest center that the device sent, or of the nearest at all if that is not known here.

    Clustering again would draw other noise, and be a second release of the same rows.
    """
    if name in clusters and len(clusters.identity(name)):
        centers = clusters.messages.message(name).centers
        return np.asarray(clusters.identity(name).cluster_ids[geometry.nearest(points, centers)])
    return geometry.nearest(points, clusters.cluster_centers)


@dataclass(frozen=True)
class _Partition:
    """The rows of a partition by device, and the devices that are skipped."""

    points: Array  # (n_rows, n_features)
    order: Array  # (n_rows,), the row of the frame that each of them is
    spans: dict[str, slice]
    skipped: list[Skipped]

    @classmethod
    def of(cls, frame: Any, plan: PartitionPlan) -> _Partition:
        """Group the rows by device, keeping their order, and check each device separately."""
        points = np.ascontiguousarray(frame[list(plan.columns)].to_numpy(plan.dtype, na_value=np.nan))
        order, spans = _rows_by_device(frame[plan.device_column])
        if (order[1:] < order[:-1]).any():
            points = points[order]
        faults = {name: _fault(name, points[span], plan) for name, span in spans.items()}
        return cls(
            points,
            order,
            {name: span for name, span in spans.items() if faults[name] is None},
            [Skipped(name, reason, _length(spans[name])) for name, reason in faults.items() if reason is not None],
        )

    def clustered(self, plan: PartitionPlan) -> dict[str, LocalClustering]:
        """Run Algorithm 1 on every device."""
        return cluster_devices(
            {name: self.points[span] for name, span in self.spans.items()},
            plan.n_local_clusters,
            feature_names=plan.columns,
            random_state=plan.seed,
            min_cluster_size=plan.min_cluster_size,
            measure_deviation=plan.measure_deviation,
            n_jobs=plan.n_jobs,
            privacy=plan.privacy,
        )


def device_names(values: Any) -> list[str]:
    """Names of the distinct devices in a column, without null."""
    return [str(value) for value in values.dropna().unique()]


def _rows_by_device(values: Any) -> tuple[Array, dict[str, slice]]:
    """Rows in the order of their devices, (n_rows,), and which of these are each device's, by its name as text."""
    import pandas as pd

    codes, devices = pd.factorize(values)  # -1 stands for null
    of_name, names = pd.factorize(np.array([str(device) for device in devices], dtype=object))
    codes = np.append(of_name, -1)[codes]
    order = np.argsort(codes, kind="stable")
    edges = np.searchsorted(codes[order], np.arange(-1, len(names) + 1)).tolist()
    spans = {name: slice(*edge) for name, edge in zip([NO_DEVICE, *names], pairwise(edges), strict=True)}
    return order, {name: span for name, span in spans.items() if _length(span)}


def _length(span: slice) -> int:
    return int(span.stop - span.start)


def _fault(name: str, points: Array, plan: PartitionPlan) -> str | None:
    """Reason to skip a device, or None. It quotes no value of a row."""
    if name == NO_DEVICE:
        return f"column {plan.device_column!r} is null in {plural(len(points), 'row')} of a partition; fill it in"
    try:
        checks.device_id(name)
        checks.finite_table(points, f"points of device {name!r}")
    except InvalidInputError as error:
        return str(error)
    return None
