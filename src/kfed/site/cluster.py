"""`cluster_file`: from the table of a site to the file that it keeps."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, Literal

import numpy.typing as npt

from kfed._base.text import plural
from kfed.device import POOLED, LocalClustering, Privacy, cluster_columns, cluster_device
from kfed.errors import InvalidInputError
from kfed.site.kept import LocalFile
from kfed.site.moments import with_table_moments
from kfed.site.read import open_table, read_columns, read_table
from kfed.site.schema_file import read_schema
from kfed.site.table import MIN_TABLE_CLUSTER_SIZE, Table
from kfed.wire import FeatureSchema, Notice

MOST_SPREADS = 256
"""A table of more columns is sent without the spread of each."""


def cluster_file(
    path: Any,
    n_local_clusters: int | Literal["auto"] | None,
    device_id: str,
    *,
    random_state: int = 0,
    min_cluster_size: int = MIN_TABLE_CLUSTER_SIZE,
    small_clusters: Literal["withhold", "borrow"] = "withhold",
    privacy: Privacy | None = None,
    scale: str | os.PathLike[str] | None = None,
    schema: str | os.PathLike[str] | FeatureSchema | None = None,
    as_is: bool | None = None,
    kinds: Mapping[str, str] | None = None,
    missing: str = "observed",
    moments: bool = False,
    dtype: npt.DTypeLike | None = None,
    bits: int | None = None,
    **reading: Any,
) -> LocalFile:
    """Read the table of a site and cluster its rows.

    Parameters
    ----------
    path : path or data frame
    n_local_clusters, device_id, random_state, min_cluster_size, privacy, moments
        As in `cluster_table`.
    scale, schema : path, optional
        What the sites agreed on, see `read_scale` and `read_schema`; or a `FeatureSchema`. Without either, centers are
        sent in the units of the table with the spread of each column, and the server finds the scale.
    as_is : bool, optional
        Whether to take numbers as they are, with no scale and no spreads, as the paper does. By default only for .npy
        files, and tables of more than 256 columns, whose spreads would make the message several times as large.
    kinds : mapping from column to {"number", "category", "flag", "date"}, optional
        What some columns are, see `read_columns`.
    missing : {"observed", "drop", "mean"}
        What to do with missing cells, see `read_columns`.
    dtype : {float32, float64}, optional
        With `scale` or `as_is`, the precision to compute and send in.
    bits : {4, 8, 16}, optional
        Send centers rounded to so many bits a number.
    **reading
        As in `read_table`.
    """
    if as_is is None:
        as_is = scale is not None or (schema is None and _is_plain(path, reading.get("header")))
    if as_is and kinds:
        raise InvalidInputError("kinds of columns are for tables by column; use --kinds without --as-is and --scale")
    if as_is:
        table = read_table(path, scale=scale, dtype=dtype, **reading)
    elif dtype is not None:
        raise InvalidInputError("single precision is for numbers as they are: use --float32 with --as-is or --scale")
    else:
        agreed = schema if schema is None or isinstance(schema, FeatureSchema) else read_schema(schema)
        how_read: dict[str, Any] = {"schema": agreed, "kinds": kinds, "missing": missing, **reading}
        table = read_columns(path, min_cluster_size=min_cluster_size, **how_read)
    how: dict[str, Any] = {"random_state": random_state, "min_cluster_size": min_cluster_size, "privacy": privacy}
    kept = cluster_table(table, n_local_clusters, device_id, small_clusters=small_clusters, moments=moments, **how)
    return replace(kept, weight_column=reading.get("weight_column"), bits=bits)


def _is_plain(path: Any, header: bool | None) -> bool:
    return str(path).endswith(".npy") or len(open_table(path, header).names) > MOST_SPREADS


def cluster_table(
    table: Table,
    n_local_clusters: int | Literal["auto"] | None,
    device_id: str,
    *,
    random_state: int = 0,
    min_cluster_size: int = MIN_TABLE_CLUSTER_SIZE,
    small_clusters: Literal["withhold", "borrow"] = "withhold",
    privacy: Privacy | None = None,
    moments: bool = False,
) -> LocalFile:
    """Cluster the rows of a site, and keep what labels them later.

    Parameters
    ----------
    table : Table
        The rows, see `read_table`. Its weights are used if it has them; so are the ids of its rows, to count whose rows
        a cluster holds.
    n_local_clusters : int or "auto" or None
        How many clusters to look for; "auto" finds how many there are, and None makes a fine summary.
    device_id : str
        The name of the site.
    random_state : int
        Decides every random choice, together with the name of the site.
    min_cluster_size : int
        Clusters of fewer different rows (or ids, if there are any), or whose center could reveal a row, are not sent;
        see `kfed.cluster_device`.
    small_clusters : {"withhold", "borrow"}
        Whether clusters with too few rows are not sent, or sent with the nearest rows of larger ones.
    privacy : Privacy, optional
        What is promised for the rows. Then write the message to a `Ledger` before it leaves.
    moments : bool
        Whether the message also holds the scatter of all rows, see `with_moments`.

    Returns
    -------
    LocalFile
        Its `to_message` is what may leave the site.

    Examples
    --------
    >>> table = Table(np.array([[30.0], [31.0], [33.0], [36.0], [37.0], [70.0], [71.0], [73.0]]), ("age",))
    >>> kept = cluster_table(table, 2, "site7")
    >>> kept.to_message().feature_names, kept.to_message().counts.tolist()  # three rows are too few to be sent
    (('age',), [5])
    """
    how: dict[str, Any] = {"random_state": random_state, "device_id": device_id, "min_cluster_size": min_cluster_size}
    how |= {"sample_weight": table.weights, "ids": table.row_ids, "privacy": privacy}
    if table.schema is not None and small_clusters == "borrow":
        raise InvalidInputError(
            "small clusters can borrow rows where numbers are taken as they are: add --as-is or --scale"
        )
    if table.schema is None:
        clustering = cluster_device(table, n_local_clusters, small_clusters=small_clusters, **how)
    else:
        clustering = cluster_columns(table.values, table.schema, n_local_clusters, **how)
    clustering = with_table_moments(clustering, table) if moments else clustering
    many = _too_many(n_local_clusters, len(table), min_cluster_size)
    said = (*table.notices, *_not_counted(table, clustering), *many, *_mute(table, clustering, min_cluster_size))
    about: dict[str, Any] = {"notices": said, "min_cluster_size": min_cluster_size}
    return LocalFile(device_id, replace(clustering, index=table.index), table.row_ids, table.id_column, **about)


def _not_counted(table: Table, clustering: LocalClustering) -> Iterator[Notice]:
    """Say how many rows have too few filled cells; where rows are weighted or private, counts do not tell."""
    if table.schema is None or table.weights is not None or clustering.private is not None:
        return
    n_rows = len(table) - int(clustering.counts.sum())
    if n_rows:
        rows = f"{plural(n_rows, 'row')} {'has' if n_rows == 1 else 'have'}"
        yield Notice("few cells", f"{rows} too few filled cells to be counted, and will get labels all the same")


def _mute(table: Table, clustering: LocalClustering, min_cluster_size: int) -> Iterator[Notice]:
    """Say that nothing is sent, and how many rows it takes to tell a spread of each column."""
    if table.schema is not None and clustering.private is None and bool(clustering.withheld.all()):
        yield Notice(
            "nothing sent",
            f"no center may be sent: it takes about {POOLED * min_cluster_size} rows, that differ and are mostly "
            "filled, to tell how far a column spreads. The rows will get labels all the same; with a smaller "
            "--min-cluster-size, or --scale and a scale that all sites agreed on, fewer rows are enough",
        )


def _too_many(n_local_clusters: int | Literal["auto"] | None, n_rows: int, min_cluster_size: int) -> Iterator[Notice]:
    if isinstance(n_local_clusters, int) and n_local_clusters * min_cluster_size > max(n_rows, min_cluster_size):
        yield Notice(
            "many clusters",
            f"{plural(n_rows, 'row')} cannot fill {n_local_clusters:,} clusters of at least {min_cluster_size}; ask "
            f"for at most {max(1, n_rows // min_cluster_size):,}",
        )
