"""k-FED on Dask: devices are clustered where their rows lie, and only messages travel to the process that aggregates.

Parquet or a Dask frame ──> partitions with whole devices ──> messages ══> aggregate ──> a lazy frame with labels
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, Literal

import numpy as np

from kfed._base import checks, random, text
from kfed._base.progress import progress_bar
from kfed.adapters._partition import PartitionPlan, PartitionReport, Skipped, device_names, labelled, partition_messages
from kfed.device import MIN_CLUSTER_SIZE, Privacy
from kfed.errors import EngineError, InvalidInputError, MissingExtraError
from kfed.server import Aggregation, aggregate, aggregate_tree
from kfed.wire import DeviceMessage

try:
    import dask
    import dask.dataframe as dd
    from distributed import CancelledError, Client, KilledWorker, get_client
    from distributed.client import FutureCancelledError
    from distributed.comm.core import CommClosedError
except ImportError as error:  # pragma: no cover
    raise MissingExtraError("kfed.adapters.dask needs Dask: pip install 'kfed[dask]'") from error

_LOST = (CancelledError, FutureCancelledError, CommClosedError, KilledWorker, TimeoutError)

ROW_NUMBER = "__kfed_row__"
"""Helper column of rows that are moved: where each stood before, so that a device keeps the order of its rows."""

MAX_ROWS = 2**40
"""Rows that a partition may have."""


class PartitionWarning(UserWarning):
    """Rows were moved between partitions, or devices were left out."""


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


def cluster_partitions(
    frame_or_path: Any,
    device_column: str,
    columns: Sequence[str],
    n_local_clusters: int | Literal["auto"] | None = None,
    n_clusters: int | None = None,
    client: Client | None = None,
    *,
    rule: str = "default",
    fan_in: int | None = None,
    random_state: int = 0,
    min_cluster_size: int = MIN_CLUSTER_SIZE,
    measure_deviation: bool = True,
    label_column: str = "cluster",
    privacy: Privacy | None = None,
) -> PartitionedAggregation:
    """Cluster the rows of a partitioned table by device, in one round.

    Parameters
    ----------
    frame_or_path : dask.dataframe.DataFrame, path or URL
        The table, or Parquet files that Dask reads (any fsspec URL). If rows of a device are in several partitions,
        they are brought together first, and a `PartitionWarning` says so.
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
    rule : {"default", "paper", "pooled", "robust"}
        As in `kfed.aggregate`.
    fan_in : int, optional
        Aggregate by way of regions of this many devices, see `kfed.aggregate_tree`: for more devices than messages fit
        in memory.
    random_state : int
        The seed. Labels are computed again from it.
    min_cluster_size, measure_deviation
        As in `kfed.cluster_device`.
    label_column : str
        Name of the new column of labels.
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
        If the Dask cluster is lost.

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
    _check_columns(frame, device_column, columns, label_column)
    plan = PartitionPlan(
        device_column,
        tuple(columns),
        _dtype(frame, columns),
        None if n_local_clusters is None else checks.positive_integer_or_auto(n_local_clusters, "n_local_clusters"),
        checks.positive_integer(min_cluster_size, "min_cluster_size"),
        measure_deviation,
        random.as_seed(random_state),
        privacy,
    )
    frame = _with_whole_devices(frame, device_column, client := client or _active_client())
    skipped: list[Skipped] = []
    messages = _messages(frame, plan, client, skipped)
    try:
        if fan_in is None:
            result = aggregate(messages, n_clusters, rule=rule)
        else:
            k = checks.positive_integer(n_clusters, "n_clusters")
            result = aggregate_tree(messages, k, fan_in=fan_in, rule=rule)
    finally:
        _warn_of(skipped)
    rows = _labelled(frame, plan, result, label_column)
    own = {field.name: getattr(result, field.name) for field in fields(result)}
    return PartitionedAggregation(**own, labelled=rows, skipped=tuple(skipped))


def _read(path: str | os.PathLike[str]) -> Any:
    if not isinstance(path, str | os.PathLike):
        raise InvalidInputError(
            f"frame_or_path must be a Dask frame, a path or a URL; got a {type(path).__name__}; "
            "dask.dataframe.from_pandas turns a pandas frame into a Dask frame"
        )
    return dd.read_parquet(os.fspath(path))


def _check_columns(frame: Any, device_column: str, columns: Sequence[str], label_column: str) -> None:
    if isinstance(columns, str) or not len(columns):
        raise InvalidInputError("columns must be a list of at least one column name")
    checks.feature_names(columns, len(columns))
    there = list(map(str, frame.columns))
    missing = [name for name in (device_column, *columns) if name not in there]
    if missing:
        raise InvalidInputError(
            f"column not found: {text.listed(list(map(repr, missing)))}; the columns are {text.listed(there)}"
        )
    if device_column in columns:
        raise InvalidInputError(f"columns must not include the device column {device_column!r}")
    if label_column in there:
        raise InvalidInputError(f"label_column must be a new name; the table already has {label_column!r}")


def _dtype(frame: Any, columns: Sequence[str]) -> np.dtype[Any]:
    """Single precision if all columns are in it, else double."""
    for name in columns:
        if getattr(frame.dtypes[name], "kind", "O") not in "fiub":
            raise InvalidInputError(
                f"columns must be numbers; {name!r} has dtype {frame.dtypes[name]}: encode it as numbers first"
            )
    return np.dtype(np.float32 if all(frame.dtypes[name] == np.float32 for name in columns) else np.float64)


def _with_whole_devices(frame: Any, device_column: str, client: Client | None) -> Any:
    """Bring together the rows of devices that span partitions; all other rows stay where they are."""
    parts = frame[device_column].to_delayed()
    names = [name for found in _run(device_names, parts, client, "finding devices") for name in found]
    seen: set[str] = set()
    spanning = {name for name in names if name in seen or seen.add(name)}  # type: ignore[func-returns-value]
    if not spanning:
        return frame
    warnings.warn(
        f"{len(spanning):,} of {len(seen):,} devices have rows in several partitions "
        f"({text.listed(sorted(spanning))}), so those rows are shuffled; a table partitioned by {device_column!r} "
        "needs no shuffle",
        PartitionWarning,
        stacklevel=3,
    )
    staying = frame.map_partitions(_rows_staying, device_column, spanning, meta=frame._meta)
    meta = frame._meta.assign(**{ROW_NUMBER: np.int64(0)})
    moving = frame.map_partitions(_rows_moving, device_column, spanning, meta=meta).shuffle(on=device_column)
    return dd.concat([staying, moving.map_partitions(_in_order, meta=frame._meta)])


def _rows_staying(frame: Any, device_column: str, spanning: set[str]) -> Any:
    return frame[~frame[device_column].astype(str).isin(spanning)]


def _rows_moving(frame: Any, device_column: str, spanning: set[str], partition_info: Any = None) -> Any:
    """Rows of the devices that span partitions, numbered as they stand in the whole table."""
    before = MAX_ROWS * partition_info["number"] if partition_info else 0
    numbered = frame.assign(**{ROW_NUMBER: before + np.arange(len(frame))})
    return numbered[numbered[device_column].astype(str).isin(spanning)]


def _in_order(frame: Any) -> Any:
    return frame.sort_values(ROW_NUMBER, kind="stable").drop(columns=ROW_NUMBER)


def _messages(
    frame: Any, plan: PartitionPlan, client: Client | None, skipped: list[Skipped]
) -> Iterator[DeviceMessage]:
    """Messages of all devices, partition by partition; those left out are added to `skipped`."""
    parts = frame[[plan.device_column, *plan.columns]].to_delayed()
    if client is None:
        plan = replace(plan, n_jobs=None)  # partitions come one after the other, and get all threads
    report: PartitionReport
    for report in _run(partition_messages, parts, client, "clustering partitions", plan):
        skipped.extend(report.skipped)
        yield from map(DeviceMessage.from_bytes, report.messages)


def _run(
    function: Any, parts: Sequence[Any], client: Client | None, description: str, *arguments: Any
) -> Iterator[Any]:
    """Yield ``function(part, *arguments)`` in the order of the parts, each computed where the part lies."""
    shared = [dask.delayed(argument) for argument in arguments]
    tasks = [dask.delayed(function, pure=False)(part, *shared) for part in parts]
    alone = (task.compute(scheduler="synchronous") for task in tasks)
    with progress_bar(description, len(tasks)) as advance:
        for result in alone if client is None else _gathered(client, tasks):
            yield result
            advance(1)


def _active_client() -> Client | None:
    try:
        return get_client()
    except ValueError:  # there is none
        return None


def _gathered(client: Client, tasks: list[Any]) -> Iterable[Any]:
    """Results of a cluster one by one, each forgotten there when it is here. A worker that is lost is replaced."""
    done = 0
    try:
        futures = client.compute(tasks)
        while futures:
            yield futures.pop(0).result()
            done += 1
    except _LOST as error:
        raise EngineError(
            f"lost the Dask cluster {client} after {done} of {len(tasks)} partitions ({type(error).__name__}); nothing "
            "was written: start a cluster and run it again"
        ) from error


def _warn_of(skipped: list[Skipped]) -> None:
    if skipped:
        reasons = [f"{one.device_id!r}: {one.reason}" for one in skipped]
        warnings.warn(
            f"devices left out: {len(skipped):,} ({text.listed(reasons)}); `skipped` lists all of them",
            PartitionWarning,
            stacklevel=3,
        )


def _labelled(frame: Any, plan: PartitionPlan, clusters: Aggregation, label_column: str) -> Any:
    meta = frame._meta.assign(**{label_column: np.zeros(0, np.int64)}).astype({label_column: "Int64"})
    return frame.map_partitions(labelled, plan, dask.delayed(clusters), label_column, meta=meta)
