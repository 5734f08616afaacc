"""`LocalFile`: what a site keeps between sending its message and labelling its rows. It holds no row."""

from __future__ import annotations

import csv
import io
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np
import numpy.typing as npt

from kfed._base import checks, files
from kfed._base.array import Array
from kfed._base.averages import means_by_label
from kfed.device import LocalClustering, Privacy, cluster_columns, cluster_device
from kfed.errors import InvalidInputError
from kfed.server import Aggregation
from kfed.site.moments import with_table_moments
from kfed.site.read import open_table, read_columns, read_table
from kfed.site.schema_file import read_schema
from kfed.site.table import MIN_TABLE_CLUSTER_SIZE, Table
from kfed.wire import DeviceMessage, Identity, KfedFile, Notice

MOST_SPREADS = 256
"""A table of more columns is sent without the spread of each."""


@dataclass(frozen=True, eq=False)
class LocalFile(KfedFile):
    """A local clustering with the name of its device and the ids of its rows.

    Parameters
    ----------
    device_id : str
        The name of the device.
    clustering : LocalClustering
        Its local clustering.
    row_ids : sequence of str, optional
        An id for each row.
    id_column : str, optional
        The name of the column that the ids came from.
    notices : sequence of Notice
        What to look at in the table; they are not kept in the file.

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

    KIND: ClassVar[str] = "local file"
    VERSION: ClassVar[int] = 2
    IS_PRIVATE: ClassVar[bool] = True

    device_id: str
    clustering: LocalClustering
    row_ids: Sequence[str] | None = None
    id_column: str | None = None
    notices: tuple[Notice, ...] = ()

    def __post_init__(self) -> None:
        checks.device_id(self.device_id)
        if self.row_ids is not None and len(self.row_ids) != self.clustering.n_points:
            raise InvalidInputError(f"row_ids has {len(self.row_ids)} names; expected {self.clustering.n_points}")

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
        return self.clustering.to_message(self.device_id)

    def labels(self, clusters: Aggregation | Identity, refine: Array | None = None) -> Array:
        """Global cluster of every row, (n_rows,).

        Parameters
        ----------
        clusters : Aggregation or Identity
            The clusters of all devices, or the answer to this one.
        refine : array of shape (n_rows, n_features), optional
            The rows themselves, see `read_rows`: each may move to a better cluster that this device plausibly holds.
        """
        if refine is not None:
            self._check_same_rows(refine)
        if isinstance(clusters, Aggregation):
            return self.clustering.induced_labels(clusters.answer(self.to_message()), refine=refine)
        if clusters.device_id != self.device_id:
            raise InvalidInputError(f"expected the identity of {self.device_id!r}; got that of {clusters.device_id!r}")
        return self.clustering.induced_labels(clusters, refine=refine)

    def labels_csv(self, labels: Array) -> str:
        """Write `labels` as CSV: a line for each row, with its name and its cluster."""
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(["row" if self.id_column is None else self.id_column, "cluster"])
        writer.writerows(zip(self.row_names, labels.tolist(), strict=True))
        return text.getvalue()

    def read_rows(self, path: str | os.PathLike[str], scale: str | os.PathLike[str] | None = None) -> Table:
        """Read the rows that were clustered once more, from the same table and on the same scale."""
        columns = self.clustering.columns
        if columns is not None:
            return read_columns(path, schema=columns.schema, id_column=self.id_column)
        names = self.clustering.feature_names
        return read_table(path, columns=list(names) if names else None, id_column=self.id_column, scale=scale)

    def save_with_message(
        self, path: str | os.PathLike[str], message_path: str | os.PathLike[str], *, overwrite: bool = True
    ) -> int:
        """Write this file and the message to send; if one of them cannot be written, leave both as they were.

        Returns
        -------
        int
            The size of the message, in bytes.
        """
        payload, message = self.to_bytes(), self.to_message().to_bytes()
        before = Path(path).read_bytes() if os.path.exists(path) else None
        files.write(path, payload, overwrite=overwrite, private=True)
        try:
            files.write(message_path, message, overwrite=overwrite)
        except BaseException:
            if before is None:
                Path(path).unlink(missing_ok=True)
            else:
                files.write(path, before, private=True)
            raise
        return len(message)

    def _check_same_rows(self, rows: Array) -> None:
        """Raise if the means show that other rows were clustered; rows with weights are not checked."""
        found = self.clustering
        if found.columns is not None:
            return
        sizes = np.bincount(found.labels, minlength=found.n_local_clusters)
        if rows.shape != (found.n_points, found.n_features) or not np.array_equal(sizes, found.counts):
            return
        means = means_by_label(rows, found.labels, found.centers)
        spread = np.sqrt(found.sums_of_squares / np.maximum(sizes, 1)) + np.linalg.norm(found.centers, axis=1)
        if (np.linalg.norm(means - found.centers, axis=1) > 1e-3 * spread).any():
            raise InvalidInputError(
                f"the rows must be those of {self.device_id!r} that were clustered, in the same order and on the same "
                "scale; the means of these rows are not its centers"
            )

    def _parts(self) -> tuple[dict[str, Array], dict[str, Any]]:
        tensors, clustering = self.clustering.to_parts()
        if self.row_ids is not None:
            tensors["row_ids"] = np.frombuffer(json.dumps(list(self.row_ids)).encode(), np.uint8)
        return tensors, {"clustering": clustering, "device_id": self.device_id, "id_column": self.id_column}

    @classmethod
    def from_parts(cls, tensors: dict[str, Array], facts: Mapping[str, Any]) -> LocalFile:
        """Like `from_bytes`, from bytes that are already decoded; reads files of version 1, too."""
        if facts.get("version") == 1 and "clustering" in tensors:
            tensors, facts = _from_version_1(tensors, facts)
        return super().from_parts(tensors, facts)

    @classmethod
    def _restored(cls, tensors: dict[str, Array], facts: Mapping[str, Any]) -> LocalFile:
        row_ids = json.loads(tensors["row_ids"].tobytes()) if "row_ids" in tensors else None
        if row_ids is not None and not (isinstance(row_ids, list) and all(isinstance(i, str) for i in row_ids)):
            raise InvalidInputError("its row ids must be strings")
        clustering = LocalClustering.from_parts(tensors, facts["clustering"])
        return cls(facts["device_id"], clustering, row_ids, facts["id_column"])


def _from_version_1(tensors: dict[str, Array], facts: Mapping[str, Any]) -> tuple[dict[str, Array], dict[str, Any]]:
    """The parts of a file of version 1, which held the clustering as a file within the file."""
    inner, clustering = files.decode(tensors["clustering"].tobytes())
    return {**tensors, **inner}, {**facts, "version": LocalFile.VERSION, "clustering": clustering}


def cluster_file(
    path: Any,
    n_local_clusters: int | Literal["auto"],
    device_id: str,
    *,
    random_state: int = 0,
    min_cluster_size: int = MIN_TABLE_CLUSTER_SIZE,
    small_clusters: Literal["withhold", "borrow"] = "withhold",
    privacy: Privacy | None = None,
    scale: str | os.PathLike[str] | None = None,
    schema: str | os.PathLike[str] | None = None,
    as_is: bool | None = None,
    missing: str = "observed",
    moments: bool = False,
    dtype: npt.DTypeLike | None = None,
    **reading: Any,
) -> LocalFile:
    """Read the table of a site and cluster its rows.

    Parameters
    ----------
    path : path or data frame
    n_local_clusters, device_id, random_state, min_cluster_size, privacy, moments
        As in `cluster_table`.
    scale, schema : path, optional
        What the sites agreed on, see `read_scale` and `read_schema`. Without either, centers are sent in the units of
        the table with the spread of each column, and the server finds the scale.
    as_is : bool, optional
        Whether to take numbers as they are, with no scale and no spreads, as the paper does. By default only for .npy
        files, and tables of more than 256 columns, whose spreads would make the message several times as large.
    missing : {"observed", "drop", "mean"}
        What to do with missing cells, see `read_columns`.
    dtype : {float32, float64}, optional
        With `scale` or `as_is`, the precision to compute and send in.
    **reading
        As in `read_table`.
    """
    if as_is is None:
        as_is = scale is not None or (schema is None and _is_plain(path, reading.get("header")))
    if as_is:
        table = read_table(path, scale=scale, dtype=dtype, **reading)
    elif dtype is not None:
        raise InvalidInputError("single precision is for numbers as they are: use --float32 with --as-is or --scale")
    else:
        agreed = None if schema is None else read_schema(schema)
        table = read_columns(path, schema=agreed, missing=missing, min_cluster_size=min_cluster_size, **reading)
    how: dict[str, Any] = {"random_state": random_state, "min_cluster_size": min_cluster_size, "privacy": privacy}
    return cluster_table(table, n_local_clusters, device_id, small_clusters=small_clusters, moments=moments, **how)


def _is_plain(path: Any, header: bool | None) -> bool:
    return str(path).endswith(".npy") or len(open_table(path, header).names) > MOST_SPREADS


def cluster_table(
    table: Table,
    n_local_clusters: int | Literal["auto"],
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
    n_local_clusters : int or "auto"
        How many clusters to look for; "auto" finds how many there are.
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
    return LocalFile(device_id, clustering, table.row_ids, table.id_column, table.notices)
