"""What is done with one partition of a table, where it lies: rows in, messages or labels out. Knows no engine."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from kfed import _checks
from kfed.errors import InvalidInputError
from kfed.fleet import cluster_fleet
from kfed.local import LocalClustering
from kfed.local_file import answer_to
from kfed.server import Aggregation

Array = npt.NDArray[Any]

NO_DEVICE = "(no device)"
"""What rows whose device is null are reported under."""


@dataclass(frozen=True)
class Plan:
    """How the devices of every partition are clustered: the same plan gives a device the same answer anywhere."""

    device_column: str
    columns: tuple[str, ...]
    dtype: np.dtype[Any]
    n_local_clusters: int | Literal["auto"]
    min_cluster_size: int
    measure_deviation: bool
    seed: int
    n_jobs: int | None = 1  # threads for a partition: one, if an engine runs partitions side by side


class Skipped(NamedTuple):
    """A device whose rows could not be used."""

    device_id: str
    reason: str
    n_rows: int


class Report(NamedTuple):
    """What leaves a partition."""

    messages: list[bytes]
    skipped: list[Skipped]


def messages_of(frame: Any, plan: Plan) -> Report:
    """Cluster every device of a partition; the bytes of a message for each, and those that had to be left out.

    Parameters
    ----------
    frame : pandas.DataFrame
        All rows of the devices in it.
    plan : Plan
    """
    partition = _Partition.of(frame, plan)
    found = partition.clustered(plan)
    return Report([local.to_message(name).to_bytes() for name, local in found.items()], partition.skipped)


def labelled(frame: Any, plan: Plan, clusters: Aggregation, label_column: str) -> Any:
    """Give the frame a column with the global cluster of each row, null for devices that were left out.

    The devices are clustered again, which gives what it gave before: nothing of them had to be kept.
    """
    import pandas as pd

    labels = np.zeros(len(frame), np.int64)
    known = np.zeros(len(frame), bool)
    partition = _Partition.of(frame, plan)
    for name, local in partition.clustered(plan).items():
        rows = partition.rows[name]
        labels[rows] = local.induced_labels(answer_to(local.to_message(name), clusters))
        known[rows] = True
    return frame.assign(**{label_column: pd.arrays.IntegerArray(labels, ~known)})


@dataclass(frozen=True)
class _Partition:
    """The rows of each device, and the devices that can't be used."""

    points: Array  # (n_rows, n_features)
    rows: dict[str, Array]
    skipped: list[Skipped]

    @classmethod
    def of(cls, frame: Any, plan: Plan) -> _Partition:
        """Group the rows by device, in their order, and judge each device by itself."""
        points = np.ascontiguousarray(frame[list(plan.columns)].to_numpy(plan.dtype, na_value=np.nan))
        partition = cls(points, {}, [])
        for name, rows in _rows_by_device(frame[plan.device_column]):
            reason = _fault(name, points[rows], plan)
            if reason is None:
                partition.rows[name] = rows
            else:
                partition.skipped.append(Skipped(name, reason, len(rows)))
        return partition

    def clustered(self, plan: Plan) -> dict[str, LocalClustering]:
        """Algorithm 1 on every device."""
        found = cluster_fleet(
            {name: self.points[rows] for name, rows in self.rows.items()},
            plan.n_local_clusters,
            random_state=plan.seed,
            min_cluster_size=plan.min_cluster_size,
            measure_deviation=plan.measure_deviation,
            n_jobs=plan.n_jobs,
            progress=False,
        )
        named = (replace(local, feature_names=plan.columns) for local in found)
        return dict(zip(self.rows, named, strict=True))


def device_names(values: Any) -> list[str]:
    """Names of the distinct devices in a column, without null."""
    return [str(value) for value in values.dropna().unique()]


def _rows_by_device(values: Any) -> list[tuple[str, Array]]:
    """Positions of the rows of each device, in the order of the devices' first rows."""
    import pandas as pd

    codes, devices = pd.factorize(values)  # -1 stands for null
    order = np.argsort(codes, kind="stable")
    starts = np.searchsorted(codes[order], np.arange(-1, len(devices) + 1))
    names = [NO_DEVICE, *map(str, devices)]
    spans = zip(names, starts[:-1], starts[1:], strict=True)
    return [(name, order[first:last]) for name, first, last in spans if last > first]


def _fault(name: str, points: Array, plan: Plan) -> str | None:
    """Why a device can't be used, without a value of its rows."""
    if name == NO_DEVICE:
        return f"column {plan.device_column!r} is null in {len(points):,} rows of a partition; say whose they are"
    try:
        _checks.device_id(name)
        _checks.points(points, f"points of device {name!r}")
    except InvalidInputError as error:
        return str(error)
    return None
