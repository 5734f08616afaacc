"""How a table is clustered: by column or as it is, with its scatter or without, and in how many bytes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, Literal

from kfed.device import (
    MAX_LOCAL_CLUSTERS,
    LocalClustering,
    caller_tells_rows,
    check_max_bytes,
    cluster_columns,
    cluster_device,
    coarse_enough,
    fitting,
)
from kfed.errors import InvalidInputError
from kfed.site.columns import ColumnChoice
from kfed.site.formats.npy import NpyReader
from kfed.site.owners import owners_of
from kfed.site.read import open_table, table_name
from kfed.site.rows_behind import with_table_moments
from kfed.site.table import Table
from kfed.wire import DeviceMessage, Notice

MOST_SPREADS = 256
"""A table of more columns is sent without the spread of each."""


def taken_as_is(
    path: Any,
    columns: Sequence[str] | None = None,
    exclude: Sequence[str] | None = None,
    id_column: str | None = None,
    weight_column: str | None = None,
    header: bool | None = None,
    sheet: str | None = None,
) -> tuple[bool, list[Notice]]:
    """Whether numbers are used unchanged by default, and the notice that says so; the arguments of `read_table`."""
    reader = open_table(path, header, sheet)
    if isinstance(reader, NpyReader):
        return True, []
    used = ColumnChoice.of(reader.names, columns, id_column, weight_column, table_name(path), exclude).features
    if len(used) <= MOST_SPREADS:
        return False, []
    text = (
        f"the table has {len(used):,} columns to cluster by, more than {MOST_SPREADS}, so numbers are taken as they "
        "are, without a scale: if columns have units of their own, use --by-column (as_is=False in Python) at every "
        "site"
    )
    return True, [Notice("as it is", text)]


@contextmanager
def by_column_advised(wide: Sequence[Notice]) -> Iterator[None]:
    """Add to an error that --by-column takes text and missing cells, if numbers are taken as they are by default."""
    try:
        yield
    except InvalidInputError as error:
        if not wide:
            raise
        raise InvalidInputError(
            f"{error}. Or use --by-column (as_is=False in Python) at every site, which takes text and missing cells: "
            f"by default, a table of more than {MOST_SPREADS} columns must hold numbers alone"
        ) from error


def clustered(
    table: Table,
    n_local_clusters: int | Literal["auto"] | None,
    *,
    small_clusters: Literal["withhold", "borrow"],
    moments: bool,
    max_bytes: int | None,
    bits: int | None,
    **how: Any,
) -> LocalClustering:
    """Cluster the rows; the arguments are those of `cluster_table`, and `how` others of `cluster_device`."""
    if table.schema is not None and small_clusters == "borrow":
        raise InvalidInputError(
            "small clusters can borrow rows only where numbers are used as they are; add --as-is or --scale"
        )

    ids = owners_of(table)

    def once(most: int) -> LocalClustering:
        given: dict[str, Any] = how | {"ids": ids, "max_local_clusters": most}
        if table.schema is None:
            found = cluster_device(table, n_local_clusters, small_clusters=small_clusters, **given)
        else:
            found = cluster_columns(table.values, table.schema, n_local_clusters, **given)
        found = with_table_moments(found, table) if moments else found
        return found if max_bytes is None else replace(found, max_bytes=max_bytes)

    def cluster(most: int) -> LocalClustering:
        return coarse_enough(once, most) if moments else once(most)

    def message_of(found: LocalClustering) -> DeviceMessage:
        return replace(found, _sent_as=set()).to_message(how["device_id"], bits=bits)

    check_max_bytes(max_bytes, n_local_clusters, how["privacy"])
    with caller_tells_rows():  # as `about_clustering` does
        return cluster(MAX_LOCAL_CLUSTERS) if max_bytes is None else fitting(cluster, message_of, MAX_LOCAL_CLUSTERS)
