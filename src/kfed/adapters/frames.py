"""k-FED in the map of any engine: `cluster_frame` turns a chunk of a table into messages, `label_frame` labels it.

chunks with whole devices ──cluster_frame──> rows of messages ──> collect_messages ──> kfed.aggregate
the same chunks ──label_frame──> the chunks with a column of labels
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Sequence
from typing import Any, Literal

from kfed._base import text
from kfed._base.arrow import arrow
from kfed.adapters._arrow import as_arrow, check_new, in_kind, with_numbers
from kfed.adapters._partition import DeviceReport, PartitionPlan, PartitionWarning, Skipped, labels, reports
from kfed.device import MIN_CLUSTER_SIZE, Privacy
from kfed.errors import DuplicateDeviceError
from kfed.server import Aggregation
from kfed.wire import MessageBatch


def cluster_frame(
    frame: Any,
    device_column: str,
    columns: Sequence[str],
    n_local_clusters: int | Literal["auto"],
    *,
    random_state: int = 0,
    min_cluster_size: int = MIN_CLUSTER_SIZE,
    measure_deviation: bool = True,
    as_is: bool = True,
    missing: str = "observed",
    privacy: Privacy | None = None,
    n_jobs: int | None = 1,
) -> Any:
    """Cluster the devices in a chunk of a table, each by itself, and give their messages as rows of a table.

    Parameters
    ----------
    frame : pandas, polars or Arrow table
        A chunk with all rows of each device in it.
    device_column : str
        Column with the device of each row.
    columns : sequence of str
        The features.
    n_local_clusters : int or "auto"
        k^(z), for every device.
    random_state : int
        The seed; a device makes the same random choices in every chunk.
    min_cluster_size, measure_deviation, privacy
        As in `kfed.cluster_device`.
    as_is : bool
        Whether to take numbers as they are. Otherwise columns are those of a table, as at `kfed device`: numbers, text
        and categories, flags and dates, on the scale that the messages show together.
    missing : {"observed", "drop", "mean"}
        What to do with missing cells: cluster by the others, do not count their rows, or cluster as if they were at
        the mean of the column.
    n_jobs : int, optional
        Number of threads; None is one per core. Engines run several chunks at a time, so the default is one.

    Returns
    -------
    table of the kind that came in
        One row for each device: ``device_id``, ``message`` (bytes, or null for a device that cannot be used),
        ``n_rows``, and ``reason``, why it cannot be used, or null.

    Examples
    --------
    >>> import pandas as pd
    >>> rng = np.random.default_rng(0)
    >>> kind = rng.integers(2, size=200)
    >>> table = pd.DataFrame({"shop": np.repeat(["a", "b", "c", "d"], 50), "x": 9 * kind + rng.normal(size=200)})
    >>> how = {"device_column": "shop", "columns": ["x"], "n_local_clusters": 2}
    >>> chunks = [table[:100], table[100:]]
    >>> messages = collect_messages(cluster_frame(chunk, **how) for chunk in chunks)
    >>> result = kfed.aggregate(messages, n_clusters=2)
    >>> labelled = pd.concat([label_frame(chunk, result, **how) for chunk in chunks])
    >>> sorted(labelled["cluster"].value_counts()) == sorted(np.bincount(kind).tolist())
    True
    """
    how: dict[str, Any] = {"random_state": random_state, "min_cluster_size": min_cluster_size, "privacy": privacy}
    how |= {"measure_deviation": measure_deviation, "as_is": as_is, "missing": missing, "n_jobs": n_jobs}
    plan = PartitionPlan(device_column, columns, n_local_clusters, **how)
    return in_kind(_table(reports(frame, plan)), frame)


def label_frame(
    frame: Any,
    clusters: Aggregation,
    device_column: str,
    columns: Sequence[str],
    n_local_clusters: int | Literal["auto"],
    *,
    label_column: str = "cluster",
    **how: Any,
) -> Any:
    """Label the rows of a chunk; its devices are clustered again, with the same result as before.

    Parameters
    ----------
    frame : pandas, polars or Arrow table
        A chunk with all rows of each device in it; the chunks need not be those of `cluster_frame`.
    clusters : Aggregation
        The clusters of all devices. A device that is not among them is a late one.
    label_column : str
        Name of the new column.
    device_column, columns, n_local_clusters, **how
        As they were given to `cluster_frame`.

    Returns
    -------
    table of the kind that came in
        Its rows in their order, with the cluster of each; null for rows of devices that cannot be used.

    Raises
    ------
    DuplicateDeviceError
        If the rows of a device are not those that it was clustered with.

    Examples
    --------
    >>> import pandas as pd
    >>> table = pd.DataFrame({"shop": np.repeat(["a", "b"], 40), "x": np.tile([0.0, 9.0], 40) + np.arange(80) / 100})
    >>> how = {"device_column": "shop", "columns": ["x"], "n_local_clusters": 2}
    >>> result = kfed.aggregate(collect_messages(cluster_frame(table, **how)), n_clusters=2)
    >>> label_frame(table, result, **how)["cluster"].value_counts().tolist()
    [40, 40]
    """
    check_new(frame, label_column)
    plan = PartitionPlan(device_column, columns, n_local_clusters, **how)
    return with_numbers(frame, label_column, *labels(frame, plan, clusters))


def collect_messages(tables: Any) -> MessageBatch:
    """Read the messages in what `cluster_frame` gave, for `kfed.aggregate`.

    Parameters
    ----------
    tables : pandas, polars or Arrow table, or iterable of such

    Warns
    -----
    PartitionWarning
        If devices were left out; it names them and says why.

    Examples
    --------
    >>> import pandas as pd
    >>> table = pd.DataFrame({"shop": np.repeat(["a", "b"], 40), "x": np.tile([0.0, 9.0], 40) + np.arange(80) / 100})
    >>> how = {"device_column": "shop", "columns": ["x"], "n_local_clusters": 2}
    >>> collect_messages([cluster_frame(table[:40], **how), cluster_frame(table[40:], **how)]).device_ids
    ('a', 'b')
    """
    parts = [tables] if hasattr(tables, "__arrow_c_stream__") or hasattr(tables, "iloc") else tables
    found = [DeviceReport(**row) for part in parts for row in as_arrow(part, DeviceReport._fields).to_pylist()]
    seen: set[str] = set()
    for one in found:
        if one.message is not None and one.device_id in seen:
            raise DuplicateDeviceError(
                f"device {one.device_id!r} has rows in several chunks; group the table by device before cluster_frame"
            )
        seen.add(one.device_id)
    warn_of(skipped_in(found))
    return MessageBatch.of_bytes(one.message for one in found if one.message is not None)


def skipped_in(found: Iterable[DeviceReport]) -> list[Skipped]:
    """The devices that were left out."""
    return [Skipped(one.device_id, one.reason, one.n_rows) for one in found if one.reason is not None]


def warn_of(skipped: Sequence[Skipped]) -> None:
    """Name the devices that were left out, if there are any."""
    if skipped:
        reasons = [f"{one.device_id!r}: {one.reason}" for one in skipped]
        what = f"devices left out: {len(skipped):,} ({text.listed(reasons)}); `skipped` lists all of them"
        warnings.warn(PartitionWarning(what, "devices left out"), stacklevel=3)


def _table(rows: Sequence[DeviceReport]) -> Any:
    pa = arrow()
    kinds = {"device_id": pa.string(), "message": pa.binary(), "n_rows": pa.int64(), "reason": pa.string()}
    return pa.Table.from_pylist([row._asdict() for row in rows], schema=pa.schema(list(kinds.items())))
