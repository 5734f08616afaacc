"""k-FED on Dask: devices are clustered where their rows lie, and only messages travel to the process that aggregates.

Parquet or a Dask frame ──> partitions with whole devices ──> messages ══> aggregate ──> a lazy frame with labels
"""

from __future__ import annotations

import os
import warnings
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, Literal, NamedTuple

import numpy as np

from kfed._base import checks, text
from kfed._base.array import Array
from kfed._base.report import Report
from kfed.adapters._arrow import as_arrow, check_new, check_there, named_codes, with_numbers
from kfed.adapters._dask_tasks import Client, active_client, check_memory, dask, dd, pinned, run_on_parts
from kfed.adapters._partition import (
    PartitionPlan,
    PartitionWarning,
    Skipped,
    check_kinds,
    is_number,
    labels,
    reports,
)
from kfed.adapters.analysis import Unlike, report_with_unlike, unlike_others
from kfed.adapters.frames import skipped_in, warn_of
from kfed.device import MIN_CLUSTER_SIZE, Privacy
from kfed.errors import InvalidInputError
from kfed.server import Aggregation, OwnRule, aggregate, aggregate_tree
from kfed.wire import DeviceMessage

__all__ = ["PartitionWarning", "PartitionedAggregation", "Skipped", "cluster_partitions"]

ROW_NUMBER, PLACE = "__kfed_row__", "__kfed_place__"
"""Helper columns of rows that are moved: where each stood before, so that a device keeps the order of its rows, and the
number of its device."""

MAX_ROWS = 2**40
"""Rows that a partition may have."""


@dataclass(frozen=True, eq=False, kw_only=True)
class PartitionedAggregation(Aggregation):
    """An aggregation of the devices of a table, and the way back to its rows.

    Attributes
    ----------
    labelled : dask.dataframe.DataFrame
        The table with a column for the global cluster of each row, computed when asked for, where the rows lie. It is
        null for rows of devices that were left out.
    skipped : tuple of Skipped
        Devices that were left out: ``device_id``, ``reason``, ``n_rows``.
    """

    labelled: Any
    skipped: tuple[Skipped, ...]

    def report(self, title: str, n_unlike: int = 10) -> Report:
        """What the clusters are, and which devices are unlike all others; see `kfed.adapters.analysis`."""
        return report_with_unlike(self, title, n_unlike)

    def unlike_others(self) -> list[Unlike]:
        """The devices, those first whose rows lie farthest from the rows of all others."""
        return unlike_others(self)


def cluster_partitions(
    frame_or_path: Any,
    device_column: str,
    columns: Sequence[str],
    n_local_clusters: int | Literal["auto"] | None = None,
    n_clusters: int | None = None,
    client: Client | None = None,
    *,
    rule: str | OwnRule = "default",
    min_devices: int | None = None,
    fan_in: int | None = None,
    random_state: int = 0,
    min_cluster_size: int = MIN_CLUSTER_SIZE,
    measure_deviation: bool = True,
    label_column: str = "cluster",
    as_is: bool | None = None,
    missing: str = "observed",
    privacy: Privacy | None = None,
) -> PartitionedAggregation:
    """Cluster the rows of a partitioned table by device, in one round.

    Parameters
    ----------
    frame_or_path : dask.dataframe.DataFrame, path or URL
        The table, or Parquet files that Dask reads (any fsspec URL). If rows of a device are in several partitions,
        they are brought together first, and a `PartitionWarning` says so. All columns are read, as `labelled` has them:
        select those that you need first.
    device_column : str
        Column with the device of each row.
    columns : sequence of str
        The features.
    n_local_clusters : int or "auto", optional
        k^(z), for every device; by default devices send summaries.
    n_clusters : int, optional
        Number of global clusters, k; found from the messages by default, but needed with `fan_in`.
    client : distributed.Client, optional
        The Dask cluster to use; by default the active one, or the threads of this process.
    rule : str or callable
        As in `kfed.aggregate`.
    min_devices : int, optional
        Devices that every cluster must rest on, see `kfed.aggregate`, or with `fan_in` `kfed.aggregate_tree`.
    fan_in : int, optional
        Aggregate by way of regions of this many devices, see `kfed.aggregate_tree`: for more devices than messages fit
        in memory.
    random_state : int
        The seed. Labels are computed again from it.
    min_cluster_size, measure_deviation
        As in `kfed.cluster_device`.
    label_column : str
        Name of the new column of labels.
    as_is, missing
        As in `kfed.adapters.cluster_frame`; by default, numbers are taken as they are if all columns hold numbers.
    privacy : kfed.Privacy, optional
        What is promised for the rows of each device, see `kfed.cluster_device`. If Dask repeats a task, as when a
        worker is lost, that is a second release.

    Returns
    -------
    PartitionedAggregation
        An `Aggregation`, with `labelled` and `skipped`.

    Raises
    ------
    EngineError
        If the Dask cluster is lost, or a device does not fit into the memory of a worker.

    Warns
    -----
    PartitionWarning
        If rows had to be moved, or devices were left out.

    Examples
    --------
    >>> import pandas as pd
    >>> rng = np.random.default_rng(0)
    >>> shop = np.repeat(["a", "b", "c", "d"], 50)
    >>> kind = rng.integers(2, size=200)
    >>> table = pd.DataFrame({"shop": shop, "x": 9 * kind + rng.normal(size=200), "y": rng.normal(size=200)})
    >>> frame = dd.from_pandas(table.set_index("shop", drop=False), npartitions=2)
    >>> result = cluster_partitions(frame, "shop", ["x", "y"], n_local_clusters=2, n_clusters=2)
    >>> sorted(result.cluster_sizes.tolist()) == sorted(np.bincount(kind).tolist())
    True
    >>> labels = result.labelled["cluster"].compute()
    >>> int(labels.isna().sum()), labels.nunique()
    (0, 2)
    """
    frame = frame_or_path if isinstance(frame_or_path, dd.DataFrame) else _read(frame_or_path)
    plan = PartitionPlan(
        device_column,
        columns,
        n_local_clusters,
        random_state=random_state,
        min_cluster_size=min_cluster_size,
        measure_deviation=measure_deviation,
        as_is=True if as_is is None else as_is,
        missing=missing,
        privacy=privacy,
    )
    check_there(frame._meta, [device_column])
    check_new(frame._meta, label_column)
    plan = _for_columns(plan, frame._meta, as_is)
    client = client or active_client()
    frame = _with_whole_devices(pinned(frame), device_column, client)
    skipped: list[Skipped] = []
    messages = _messages(frame, plan, client, skipped)
    try:
        if fan_in is None:
            result = aggregate(messages, n_clusters, rule=rule, min_devices=min_devices)
        else:
            k = checks.positive_integer(n_clusters, "n_clusters")
            result = aggregate_tree(messages, k, fan_in=fan_in, rule=rule, min_devices=min_devices)
    finally:
        warn_of(skipped)
    own = {field.name: getattr(result, field.name) for field in fields(result)}
    rows = _labelled(frame, plan, result, label_column)
    return PartitionedAggregation(**own, labelled=rows, skipped=tuple(skipped))


def _read(path: str | os.PathLike[str]) -> Any:
    if not isinstance(path, str | os.PathLike):
        raise InvalidInputError(
            f"frame_or_path must be a Dask frame, a path or a URL; got a {type(path).__name__}; "
            "dask.dataframe.from_pandas turns a pandas frame into a Dask frame"
        )
    return dd.read_parquet(os.fspath(path))


def _for_columns(plan: PartitionPlan, meta: Any, as_is: bool | None) -> PartitionPlan:
    """Settle whether numbers are taken as they are, by the types of all columns."""
    kinds = as_arrow(meta, plan.columns)
    objects = any(meta.dtypes[name].kind == "O" for name in plan.columns)  # an empty table does not show their type
    numbers = not objects and all(map(is_number, kinds.schema.types))
    plan = replace(plan, as_is=numbers or plan.privacy is not None) if as_is is None else plan
    check_kinds(kinds, plan)
    return plan


class _Found(NamedTuple):
    """The devices of a partition."""

    n_rows: dict[str, int]
    n_bytes: int


def _devices(frame: Any, device_column: str) -> _Found:
    codes, names = named_codes(frame, device_column)
    counts = np.bincount(codes[codes >= 0], minlength=len(names)).tolist()
    return _Found(dict(zip(names, counts, strict=True)), int(frame.memory_usage(deep=True).sum()))


def _with_whole_devices(frame: Any, device_column: str, client: Client | None) -> Any:
    """Bring together the rows of devices that span partitions; all other rows stay where they are."""
    found: list[_Found] = list(run_on_parts(_devices, frame.to_delayed(), client, "finding devices", device_column))
    n_partitions = Counter(name for part in found for name in part.n_rows)
    spanning = sorted(name for name, count in n_partitions.items() if count > 1)
    _check_memory(found, set(spanning), client)
    if not spanning:
        return frame
    what = (
        f"{len(spanning):,} of {text.plural(len(n_partitions), 'device')} {text.verb(len(spanning), 'has', 'have')} "
        f"rows in several partitions ({text.listed(spanning)}), so those rows are shuffled; a table "
        f"partitioned by {device_column!r} needs no shuffle"
    )
    warnings.warn(PartitionWarning(what, "shuffled"), stacklevel=3)
    places = dask.delayed({name: place for place, name in enumerate(spanning)})
    staying = frame.map_partitions(_rows_staying, device_column, places, meta=frame._meta)
    meta = frame._meta.assign(**{ROW_NUMBER: np.int64(0), PLACE: np.int64(0)})
    moving = frame.map_partitions(_rows_moving, device_column, places, meta=meta).shuffle(on=PLACE)
    return pinned(dd.concat([staying, moving.map_partitions(_in_order, meta=frame._meta)]))


def _check_memory(found: Sequence[_Found], spanning: set[str], client: Client | None) -> None:
    """Raise if a partition, or a device whose rows come together, cannot fit into a worker."""
    largest = max(found, key=lambda part: part.n_bytes)
    check_memory(client, "a partition", sum(largest.n_rows.values()), largest.n_bytes)
    totals: Counter[str] = Counter()
    for part in found:
        totals.update({name: n_rows for name, n_rows in part.n_rows.items() if name in spanning})
    if totals:
        (name, n_rows), *_ = totals.most_common(1)
        all_rows = sum(sum(part.n_rows.values()) for part in found)
        check_memory(client, f"device {name!r}", n_rows, n_rows * sum(part.n_bytes for part in found) / all_rows)


def _places(frame: Any, device_column: str, places: dict[str, int]) -> Array:
    """The number of each row's device among those that are moved, (n_rows,); -1 if it stays."""
    codes, names = named_codes(frame, device_column)
    return np.array([*(places.get(name, -1) for name in names), -1])[codes]


def _rows_staying(frame: Any, device_column: str, places: dict[str, int]) -> Any:
    return frame[_places(frame, device_column, places) < 0]


def _rows_moving(frame: Any, device_column: str, places: dict[str, int], partition_info: Any = None) -> Any:
    """Rows of the devices that span partitions, numbered as they stand in the whole table."""
    before = MAX_ROWS * partition_info["number"] if partition_info else 0
    own = _places(frame, device_column, places)
    return frame.assign(**{ROW_NUMBER: before + np.arange(len(frame)), PLACE: own})[own >= 0]


def _in_order(frame: Any) -> Any:
    return frame.sort_values(ROW_NUMBER, kind="stable").drop(columns=[ROW_NUMBER, PLACE])


def _messages(
    frame: Any, plan: PartitionPlan, client: Client | None, skipped: list[Skipped]
) -> Iterator[DeviceMessage]:
    """Messages of all devices, partition by partition; those left out are added to `skipped`."""
    if client is None:
        plan = replace(plan, n_jobs=None)  # partitions come one after the other, and get all threads
    for found in run_on_parts(reports, frame.to_delayed(), client, "clustering partitions", plan):
        skipped.extend(skipped_in(found))
        yield from (DeviceMessage.from_bytes(one.message) for one in found if one.message is not None)


def _labelled(frame: Any, plan: PartitionPlan, clusters: Aggregation, label_column: str) -> Any:
    meta = frame._meta.assign(**{label_column: np.zeros(0, np.int64)}).astype({label_column: "Int64"})
    return frame.map_partitions(_with_labels, plan, dask.delayed(clusters), label_column, meta=meta)


def _with_labels(frame: Any, plan: PartitionPlan, clusters: Aggregation, label_column: str) -> Any:
    return with_numbers(frame, label_column, *labels(frame, plan, clusters))
