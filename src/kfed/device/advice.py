"""What the owner of a device should know before its message leaves."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from contextvars import ContextVar
from typing import Any

import numpy as np

from kfed._base import checks
from kfed._base.array import Array
from kfed._base.context import true_within
from kfed._base.heavy_column import CODE, heavy_column, some_rows
from kfed.device.clustering import LocalClustering
from kfed.wire import Notice

MOST_LEFT_OUT = 0.1
"""A larger share of rows without a center is worth a word."""

FEWEST_ROWS = 20
"""In fewer rows a column may outweigh all others by chance."""

_CALLER_TELLS: ContextVar[bool] = ContextVar("caller_tells_rows", default=False)


def caller_tells_rows() -> AbstractContextManager[None]:
    """Within this context, leave the warning about rows that are not sent to the caller."""
    return true_within(_CALLER_TELLS)


def rows_to_warn_of(found: LocalClustering, min_cluster_size: int, *, was_asked: bool) -> Iterator[Notice]:
    """Like `rows_not_sent`; nothing within `caller_tells_rows`."""
    return iter(()) if _CALLER_TELLS.get() else rows_not_sent(found, min_cluster_size, was_asked=was_asked)


def rows_not_sent(found: LocalClustering, min_cluster_size: int, *, was_asked: bool) -> Iterator[Notice]:
    """Say that no cluster may be sent, or that many rows are behind those that may not.

    `was_asked` says whether the caller gave the number of clusters. Fewer rows than fill a cluster are not worth a
    word: those far from all others are withheld on purpose.
    """
    why = f"each has fewer than {min_cluster_size} different rows, is mostly one row, or its center equals a row"
    n_rows = np.count_nonzero(found.withheld[found.labels])
    if min_cluster_size > 1 and found.withheld.all():
        yield Notice(
            "nothing sent",
            f"no cluster of this device may be sent: {why}. Ask for fewer clusters or a smaller min_cluster_size; if "
            "the values of a column are large and close together, subtract a constant that all devices agreed on",
        )
    elif was_asked and n_rows >= min_cluster_size > 1 and n_rows > MOST_LEFT_OUT * found.n_points:
        yield Notice(
            "rows left out",
            f"{n_rows:,} of {found.n_points:,} rows of this device are in clusters that may not be sent: {why}. Ask "
            "for fewer clusters, or give no number, so that the rows are summarised",
        )


def column_of_all(points: Any, labels: Array, names: Sequence[str] | None) -> Iterator[Notice]:
    """Name a column that outweighs all others in these points; sparse ones are not looked at."""
    n_points, n_features = points.shape
    if checks.is_sparse(points) or n_points < FEWEST_ROWS or np.ptp(labels) == 0:
        return
    some = some_rows(n_points, n_features)
    found = heavy_column(points[some], labels[some])
    if found is not None:
        yield Notice(CODE, found.text(names))
