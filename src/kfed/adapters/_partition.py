"""Work on one chunk of a table that holds whole devices: rows in, messages or labels out. Knows no engine."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Literal, NamedTuple

import numpy as np

from kfed._base import checks, geometry, random
from kfed._base.array import Array
from kfed._base.arrow import arrow
from kfed._base.text import plural
from kfed.adapters._arrow import as_arrow, named_codes
from kfed.device import MIN_CLUSTER_SIZE, LocalClustering, Privacy, cluster_columns
from kfed.errors import InvalidInputError, KFedWarning
from kfed.server import Aggregation
from kfed.simulate import cluster_devices
from kfed.site import cluster_table, open_table, read_columns
from kfed.wire import Column, FeatureSchema

NO_DEVICE = "(no device)"
"""The name under which rows without a device are reported."""


MISSING = ("observed", "drop", "mean")


class PartitionWarning(KFedWarning):
    """Rows were moved between partitions, or devices were left out."""


@dataclass(frozen=True)
class PartitionPlan:
    """The settings of `cluster_frame`, checked; with the same plan, a device gets the same result in any chunk."""

    device_column: str
    columns: Sequence[str]
    n_local_clusters: int | Literal["auto"] | None
    random_state: int = 0
    min_cluster_size: int = MIN_CLUSTER_SIZE
    measure_deviation: bool = True
    as_is: bool = True
    missing: str = "observed"
    privacy: Privacy | None = None
    n_jobs: int | None = 1  # threads for a chunk: one, if an engine runs chunks side by side

    def __post_init__(self) -> None:
        if isinstance(self.columns, str) or not len(self.columns):
            raise InvalidInputError("columns must be a list of at least one column name")
        checks.feature_names(self.columns, len(self.columns))
        if self.device_column in self.columns:
            raise InvalidInputError(f"columns must not include the device column {self.device_column!r}")
        if self.privacy is not None and not self.as_is:
            raise InvalidInputError("privacy is for numbers as they are: use as_is=True, or leave privacy out")
        if self.n_local_clusters is not None:
            checks.positive_integer_or_auto(self.n_local_clusters, "n_local_clusters")
        checks.positive_integer(self.min_cluster_size, "min_cluster_size")
        checks.one_of(self.missing, MISSING, "missing")
        set_field = object.__setattr__  # the dataclass is frozen
        set_field(self, "columns", tuple(self.columns))
        set_field(self, "random_state", random.as_seed(self.random_state))

    @property
    def how(self) -> dict[str, Any]:
        """The arguments that all ways of clustering a device share."""
        return {"random_state": self.random_state, "min_cluster_size": self.min_cluster_size}

    @property
    def schema(self) -> FeatureSchema:
        """A schema whose scale leaves numbers unchanged, for devices with missing cells."""
        columns = [Column(name, shift=0.0, scale=1.0) for name in self.columns]
        return FeatureSchema.of_columns(columns, "agreed", self.missing)


class Skipped(NamedTuple):
    """A device whose rows could not be used."""

    device_id: str
    reason: str
    n_rows: int


class DeviceReport(NamedTuple):
    """What leaves a chunk about one device: its message, or the reason why there is none."""

    device_id: str
    message: bytes | None
    n_rows: int
    reason: str | None


def reports(frame: Any, plan: PartitionPlan) -> list[DeviceReport]:
    """Cluster every device of a chunk.

    Parameters
    ----------
    frame : pandas, polars or Arrow table
        All rows of the devices in it.
    plan : PartitionPlan
    """
    chunk = _Chunk.of(frame, plan)
    found = chunk.clustered(plan)
    return [
        DeviceReport(name, None, chunk.n_rows(name), own)
        if isinstance(own, str)
        else DeviceReport(name, own.to_message(name).to_bytes(), chunk.n_rows(name), None)
        for name, own in found.items()
    ]


def labels(frame: Any, plan: PartitionPlan, clusters: Aggregation) -> tuple[Array, Array]:
    """The global cluster of each row of a chunk, and whether it has one, (n_rows,) each.

    The devices are clustered again, with the same result, so that nothing had to be stored; private ones are not.
    """
    chunk = _Chunk.of(frame, plan)
    found, known = np.zeros(len(chunk.order), np.int64), np.zeros(len(chunk.order), bool)
    own = _labels_by_device(chunk, plan, clusters)
    for name, own_labels in own:
        rows = chunk.order[chunk.spans[name]]
        found[rows], known[rows] = own_labels, True
    return found, known


def _labels_by_device(chunk: _Chunk, plan: PartitionPlan, clusters: Aggregation) -> Iterator[tuple[str, Array]]:
    if plan.privacy is None:
        cells = _points(chunk.table, plan) if plan.as_is else None
        for name, local in chunk.clustered(plan).items():
            if not isinstance(local, str):
                again = cells[chunk.spans[name]] if cells is not None and local.is_summary else None
                yield name, local.induced_labels(clusters.answer(local.to_message(name)), refine=again)
        return
    points = _points(chunk.table, plan)
    for name, span in chunk.spans.items():
        if _fault(name, points[span], plan) is None:
            yield name, _private_labels(points[span], name, clusters)


def _private_labels(points: Array, name: str, clusters: Aggregation) -> Array:
    """The cluster of the nearest center that the device sent, or of the nearest at all if that is not known here.

    Clustering again would draw other noise, and be a second release of the same rows.
    """
    if name in clusters and len(clusters.identity(name)):
        centers = clusters.messages.message(name).centers
        return np.asarray(clusters.identity(name).cluster_ids[geometry.nearest(points, centers)])
    return geometry.nearest(points, clusters.cluster_centers)


@dataclass(frozen=True)
class _Chunk:
    """The rows of a chunk, device by device."""

    table: Any  # an Arrow table of the columns
    order: Array  # (n_rows,), the row of the frame that each of them is
    spans: dict[str, slice]

    @classmethod
    def of(cls, frame: Any, plan: PartitionPlan) -> _Chunk:
        """Group the rows by device, keeping their order."""
        codes, names = named_codes(frame, plan.device_column)
        order = np.argsort(codes, kind="stable")
        edges = np.searchsorted(codes[order], np.arange(-1, len(names) + 1)).tolist()
        spans = {name: slice(*edge) for name, edge in zip([NO_DEVICE, *names], pairwise(edges), strict=True)}
        table = as_arrow(frame, plan.columns)
        check_kinds(table, plan)
        return cls(
            table.take(order) if (order[1:] < order[:-1]).any() else table,
            order,
            {name: span for name, span in spans.items() if span.stop > span.start},
        )

    def n_rows(self, name: str) -> int:
        """Rows of a device."""
        return int(self.spans[name].stop - self.spans[name].start)

    def clustered(self, plan: PartitionPlan) -> dict[str, LocalClustering | str]:
        """Run Algorithm 1 on every device; of one that cannot be used, say why."""
        return self._clustered_as_is(plan) if plan.as_is else self._clustered_as_tables(plan)

    def _clustered_as_is(self, plan: PartitionPlan) -> dict[str, LocalClustering | str]:
        points = _points(self.table, plan)
        found: dict[str, Any] = {name: _fault(name, points[span], plan) for name, span in self.spans.items()}
        sound = {name: points[self.spans[name]] for name, fault in found.items() if fault is None}
        whole = {name: own for name, own in sound.items() if not np.isnan(own).any()}
        found |= {name: _observed(name, own, plan) for name, own in sound.items() if name not in whole}
        found |= cluster_devices(
            whole,
            plan.n_local_clusters,
            feature_names=plan.columns,
            measure_deviation=plan.measure_deviation,
            n_jobs=plan.n_jobs,
            privacy=plan.privacy,
            **plan.how,
        )
        return found

    def _clustered_as_tables(self, plan: PartitionPlan) -> dict[str, LocalClustering | str]:
        return {
            name: _fault(name, np.empty((self.n_rows(name), 0)), plan)
            or _as_table(name, self.table.slice(span.start, self.n_rows(name)), plan)
            for name, span in self.spans.items()
        }


def check_kinds(table: Any, plan: PartitionPlan) -> None:
    """Raise if numbers are to be taken as they are and a column holds something else."""
    for field in table.schema:
        if plan.as_is and not is_number(field.type):
            raise InvalidInputError(
                f"columns must be numbers; {field.name!r} holds {field.type}: use as_is=False, which takes any "
                "column, or encode it as numbers first"
            )


def is_number(kind: Any) -> bool:
    """Whether an Arrow column of this type holds numbers, or nothing."""
    types = arrow().types
    tests = (types.is_integer, types.is_floating, types.is_boolean, types.is_decimal, types.is_null)
    return any(test(kind) for test in tests)


def _points(table: Any, plan: PartitionPlan) -> Array:
    """The rows as numbers, (n_rows, n_features), with NaN for missing cells; single precision if all columns are."""
    cells = open_table(table).cells(plan.columns)
    numbers: list[Any] = [cells[name].numbers for name in plan.columns]
    return np.column_stack(numbers)


def _fault(name: str, points: Array, plan: PartitionPlan) -> str | None:
    """Reason to skip a device, or None. It quotes no value of a row."""
    if name == NO_DEVICE:
        return f"column {plan.device_column!r} is null in {plural(len(points), 'row')} of a partition; fill it in"
    try:
        checks.device_id(name)
        if points.size:
            may_miss = plan.privacy is None and np.isnan(points).any()
            checks.finite_table(
                np.where(np.isnan(points), 0, points) if may_miss else points, f"points of device {name!r}"
            )
    except InvalidInputError as error:
        return str(error)
    return None


def _observed(name: str, points: Array, plan: PartitionPlan) -> LocalClustering | str:
    """Cluster a device by the cells that are there; if those are too few, say so."""
    how: dict[str, Any] = {"device_id": name, "n_jobs": plan.n_jobs, **plan.how}
    try:
        local = cluster_columns(points, plan.schema, plan.n_local_clusters, **how)
    except InvalidInputError as error:
        return str(error)
    assert local.columns is not None
    hidden = local.columns.withheld[~local.withheld].any(axis=0)
    if hidden.any():  # on a scale that nobody agreed on, there is no place for what is not known
        return (
            f"column {plan.columns[int(hidden.argmax())]!r} has too few filled cells in a cluster; as_is=False takes "
            "such devices, too"
        )
    return local


def _as_table(name: str, rows: Any, plan: PartitionPlan) -> LocalClustering | str:
    """Cluster a device as the table of a site: any kind of column, on the scale that the messages show."""
    types = arrow().types
    are_text = (types.is_string, types.is_large_string, types.is_string_view, types.is_dictionary)
    levels = [field.name for field in rows.schema if any(test(field.type) for test in are_text)]
    how: dict[str, Any] = {"missing": plan.missing, "min_cluster_size": plan.min_cluster_size}
    try:
        table = read_columns(rows, columns=plan.columns, kinds=dict.fromkeys(levels, "category"), **how)
        kept = cluster_table(table, plan.n_local_clusters, name, **plan.how, warn=False)
    except InvalidInputError as error:
        return str(error).removeprefix("the data frame: ")
    return kept.clustering
