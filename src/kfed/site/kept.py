"""`cluster_file` clusters the table of a site; the `LocalFile` it keeps, without any row, makes message and labels."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal

import numpy as np
import numpy.typing as npt

from kfed._base import checks, files, text
from kfed._base.array import Array
from kfed.device import LocalClustering, Privacy
from kfed.errors import InvalidInputError
from kfed.server import Aggregation
from kfed.site import kept_file
from kfed.site.agreed_options import about_scale, agreed_schema
from kfed.site.clustered import by_column_advised, clustered, taken_as_is
from kfed.site.frame_table import held_table
from kfed.site.notices import about_clustering
from kfed.site.read import read_columns, read_table
from kfed.site.rows_behind import check_same_rows
from kfed.site.table import MIN_TABLE_CLUSTER_SIZE, Table
from kfed.site.warning import OF_DEVICE, warn_of_table
from kfed.wire import DeviceMessage, FeatureSchema, Identity, KfedFile, Notice

_READING = ("columns", "exclude", "id_column", "weight_column", "header", "sheet")


def cluster_file(
    path: Any,
    n_local_clusters: int | Literal["auto"] | None,
    device_id: str,
    *,
    min_cluster_size: int = MIN_TABLE_CLUSTER_SIZE,
    scale: str | os.PathLike[str] | None = None,
    schema: str | os.PathLike[str] | FeatureSchema | None = None,
    as_is: bool | None = None,
    kinds: Mapping[str, str] | None = None,
    missing: str = "observed",
    dtype: npt.DTypeLike | None = None,
    bits: int | None = None,
    **options: Any,
) -> LocalFile:
    """Read the table of a site and cluster its rows.

    Parameters
    ----------
    path : path or data frame
    n_local_clusters, device_id, min_cluster_size : see `cluster_table`
    scale, schema : path, optional
        What the sites agreed on, see `read_scale` and `read_schema`, or a `FeatureSchema`. Without, centers are sent in
        the units of the table with the spread of each column, and the server finds the scale.
    as_is : bool, optional
        Whether to take numbers as they are, with no scale and no spreads, as the paper does. By default only for .npy
        files, and tables of more than 256 columns, whose spreads would take much of the message.
    kinds, missing : see `read_columns`
    dtype : {float32, float64}, optional
        With `scale` or `as_is`, the precision to compute and send in.
    bits : {4, 8, 16}, optional
        Send centers rounded to so many bits a number.
    **options
        columns, exclude, id_column, weight_column, header and sheet as in `read_table`; random_state, small_clusters,
        privacy, moments, max_bytes and warn as in `cluster_table`.

    Examples
    --------
    >>> import pandas as pd
    >>> ages = np.random.default_rng(0).normal(np.repeat([40, 80], 20), 5).round(1)
    >>> ages[19] = np.nan
    >>> patients = pd.DataFrame({"age": ages, "ward": 20 * ["a"] + 20 * ["b"]})
    >>> kept = cluster_file(patients, 2, "north", random_state=0, warn=False)
    >>> kept.to_message().feature_names, sorted(kept.to_message().counts.tolist())
    (('age', 'ward=a', 'ward=b'), [20, 20])
    """
    path, reading = held_table(path), {name: options.pop(name) for name in _READING if name in options}
    said: dict[str, Any] = {name: reading.get(name) for name in ("weight_column", "header", "sheet")}
    agreed = agreed_schema(schema, scale=scale, as_is=as_is)
    if agreed is None and scale is not None and as_is is False:
        raise InvalidInputError(
            "--scale is for numbers that are taken as they are; leave out --by-column (as_is=False in Python), or pass "
            "the file with --schema"
        )
    is_open = as_is is None and scale is None and agreed is None
    is_plain, wide = taken_as_is(path, **reading) if is_open else (agreed is None, [])
    as_is = is_plain if as_is is None else as_is
    if as_is:
        with by_column_advised(wide):
            if kinds:
                raise InvalidInputError("--kinds cannot be used where numbers are taken as they are (--as-is, --scale)")
            reading["identifiers"] = "leave out" if options.get("privacy") is None else "say"
            table = read_table(path, scale=scale, dtype=dtype, **reading)
    elif dtype is not None:
        raise InvalidInputError("--float32 is for numbers that are taken as they are; add --as-is or --scale")
    else:
        reading |= {"schema": agreed, "kinds": kinds, "missing": missing}
        table = read_columns(path, min_cluster_size=min_cluster_size, **reading)
    table = replace(table, notices=(*wide, *about_scale(schema, options.get("privacy")), *table.notices))
    kept = cluster_table(table, n_local_clusters, device_id, min_cluster_size=min_cluster_size, bits=bits, **options)
    return replace(kept, **said)


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
    max_bytes: int | None = None,
    bits: int | None = None,
    warn: bool = True,
) -> LocalFile:
    """Cluster the rows of a site, and keep what labels them later.

    Parameters
    ----------
    table : Table
        The rows, see `read_table`. Its weights are used if it has them; so are the ids of its rows, to count whose rows
        a cluster holds.
    n_local_clusters : int or "auto" or None
        How many clusters to look for; "auto" finds how many there are, and None makes a fine summary.
    device_id, random_state : str and int
        The name of the site, and the seed that decides every random choice together with it.
    min_cluster_size : int
        Clusters of fewer different rows (or ids, if there are any), or whose center could reveal a row, are not sent;
        see `kfed.cluster_device`.
    small_clusters : {"withhold", "borrow"}
        Whether clusters with too few rows are not sent, or sent with the nearest rows of larger ones.
    privacy : Privacy, optional
        What is promised for the rows. Then write the message to a `Ledger` before it leaves, as `release_file` does.
    moments : bool
        Whether the message also holds the scatter of all rows, see `with_moments`.
    max_bytes : int, optional
        The most bytes that the message of a summary may take, with centers of so many `bits` if they are given.
    warn : bool
        Whether a `TableWarning` has each notice that may be a mistake.

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
    if not isinstance(table, Table):
        raise InvalidInputError(
            f"table must be a kfed.site.Table; got {type(table).__name__}: use cluster_file, which reads files and "
            "data frames, or read_columns first"
        )
    how: dict[str, Any] = {"random_state": random_state, "device_id": device_id, "min_cluster_size": min_cluster_size}
    how |= {"sample_weight": table.weights, "privacy": privacy}
    how |= {"small_clusters": small_clusters, "moments": moments, "max_bytes": max_bytes, "bits": bits}
    clustering = clustered(table, n_local_clusters, **how)
    said = (*table.notices, *about_clustering(table, clustering, n_local_clusters, min_cluster_size))
    if warn:
        warn_of_table(said, OF_DEVICE if table.schema is None and min_cluster_size > 1 else ())
    about: dict[str, Any] = {"notices": said, "min_cluster_size": min_cluster_size, "bits": bits}
    return LocalFile(device_id, replace(clustering, index=table.index), table.row_ids, table.id_column, **about)


@dataclass(frozen=True, eq=False)
class LocalFile(KfedFile):
    """A local clustering with the name of its device and the ids of its rows.

    Parameters
    ----------
    device_id, clustering : str and LocalClustering
        The name of the device, and its local clustering.
    row_ids, id_column : sequence of str, and str, optional
        An id for each row, and the name of the column that the ids came from.
    notices : sequence of Notice
        What to look at in the table; they are not kept in the file.
    weight_column : str, optional
        The name of the column that says how much a row counts.
    min_cluster_size, bits : int, optional
        The floor that the rows were clustered with; bits of a number in the message, if centers are rounded.
    refined : str, optional
        The fingerprint of the global clusters that a second message was made about.
    header, sheet : bool and str, optional
        Whether the table begins with the names of its columns, and the sheet of an Excel file, where that was said.

    Examples
    --------
    >>> import kfed
    >>> points = np.array([[0.0], [0.1], [0.4], [9.0], [9.1], [9.4]])
    >>> kept = LocalFile("site7", kfed.cluster_device(points, 2, random_state=0))
    >>> clusters = kfed.aggregate([kept.to_message()], n_clusters=2)
    >>> labels = kept.labels(clusters)
    >>> bool(labels[0] == labels[2] != labels[3] == labels[5])
    True
    >>> kept.labels_csv(labels).splitlines()[0]
    'row,cluster'
    """

    _kind: ClassVar[str] = "local file"
    _version: ClassVar[int] = 2
    _is_private: ClassVar[bool] = True

    device_id: str
    clustering: LocalClustering
    row_ids: Sequence[str] | None = None
    id_column: str | None = None
    notices: tuple[Notice, ...] = ()
    weight_column: str | None = None
    min_cluster_size: int | None = None
    bits: int | None = None
    refined: str | None = None
    header: bool | None = None
    sheet: str | None = None

    def __post_init__(self) -> None:
        checks.device_id(self.device_id)
        if self.row_ids is not None and len(self.row_ids) != self.clustering.n_points:
            raise InvalidInputError(
                f"row_ids must have one name for each of {self.clustering.n_points} rows; got {len(self.row_ids)}"
            )

    def __repr__(self) -> str:
        """The name of the device and how large its table is; no id."""
        rows, features = self.clustering.n_points, self.clustering.n_features
        return f"<LocalFile of {self.device_id!r}: {text.plural(rows, 'row')}, {text.plural(features, 'feature')}>"

    @property
    def row_names(self) -> Sequence[str] | range:
        """The id of each row, or its position, counted from 0."""
        return range(self.clustering.n_points) if self.row_ids is None else self.row_ids

    @property
    def n_withheld(self) -> int:
        """Clusters with rows in them that `to_message` leaves out."""
        return int(np.count_nonzero(self.clustering.withheld & (self.clustering.counts > 0)))

    def to_message(self) -> DeviceMessage:
        """The message that this device sends."""
        return self.clustering.to_message(self.device_id, bits=self.bits)

    def labels(self, clusters: Aggregation | Identity, refine: Array | None = None) -> Any:
        """Global cluster of every row, (n_rows,); as a series with the index of the rows, if they came from pandas.

        Parameters
        ----------
        clusters : Aggregation or Identity
            The clusters of all devices, or the answer to this one.
        refine : array of shape (n_rows, n_features), optional
            The rows themselves, see `read_rows`: each may move to a better cluster that this device plausibly holds.
        """
        if refine is not None and self.weight_column is None:
            check_same_rows(self.clustering, refine, None, self.device_id)
        answer = clusters.answer(self.to_message()) if isinstance(clusters, Aggregation) else clusters
        if answer.device_id != self.device_id:
            raise InvalidInputError(f"expected the identity of {self.device_id!r}; got that of {answer.device_id!r}")
        return self.clustering.induced_labels(answer, refine=refine)

    def labels_csv(self, labels: Array) -> str:
        """Write `labels` as CSV: a line for each row, with its name and its cluster."""
        heads = ["row" if self.id_column is None else self.id_column, "cluster"]
        return text.as_csv(heads, zip(self.row_names, labels.tolist(), strict=True))

    def read_rows(self, path: str | os.PathLike[str], scale: str | os.PathLike[str] | None = None) -> Table:
        """Read the rows that were clustered once more, from the same table and on the same scale."""
        columns = self.clustering.columns
        how: dict[str, Any] = {name: getattr(self, name) for name in ("id_column", "weight_column", "header", "sheet")}
        if columns is not None:
            return read_columns(path, schema=columns.schema, **how)
        return read_table(path, columns=self.clustering.feature_names or None, scale=scale, **how)

    def save_with_message(
        self, path: str | os.PathLike[str], message_path: str | os.PathLike[str], *, overwrite: bool = True
    ) -> int:
        """Write this file and the message to send, or neither; return how many bytes the message has."""
        message = self.to_message().to_bytes()
        files.write_both((path, self.to_bytes()), (message_path, message), overwrite=overwrite)
        return len(message)

    def _parts(self) -> tuple[dict[str, Array], dict[str, Any]]:
        return kept_file.parts(self)

    @classmethod
    def _from_parts(cls, tensors: dict[str, Array], facts: Mapping[str, Any]) -> LocalFile:
        """Like any other file; files of version 1 are read, too."""
        return super()._from_parts(*kept_file.as_version_2(tensors, facts))

    @classmethod
    def _restored(cls, tensors: dict[str, Array], facts: Mapping[str, Any]) -> LocalFile:
        return cls(**kept_file.restored_fields(tensors, facts))
