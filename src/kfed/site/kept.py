"""`LocalFile`: what a site keeps between sending its message and labelling its rows. It holds no row."""

from __future__ import annotations

import csv
import io
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from kfed._base import checks, files
from kfed._base.array import Array
from kfed._base.averages import means_by_label
from kfed.device import LocalClustering
from kfed.errors import InvalidInputError
from kfed.server import Aggregation
from kfed.site.read import read_columns, read_table
from kfed.site.table import Table
from kfed.wire import DeviceMessage, Identity, KfedFile, Notice

_RARE = ("weight_column", "min_cluster_size", "bits", "refined")
"""Facts that a file has only where they are known; files from before they were kept lack them."""


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
    weight_column : str, optional
        The name of the column that says how much a row counts.
    min_cluster_size : int, optional
        The floor that the rows were clustered with.
    bits : int, optional
        How many bits a number of a center has in the message, if centers are rounded.
    refined : str, optional
        The fingerprint of the global clusters that a second message was made about.

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
    weight_column: str | None = None
    min_cluster_size: int | None = None
    bits: int | None = None
    refined: str | None = None

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
        return self.clustering.to_message(self.device_id, bits=self.bits)

    def labels(self, clusters: Aggregation | Identity, refine: Array | None = None) -> Any:
        """Global cluster of every row, (n_rows,); with the index of the data frame, if they came from one of pandas.

        Parameters
        ----------
        clusters : Aggregation or Identity
            The clusters of all devices, or the answer to this one.
        refine : array of shape (n_rows, n_features), optional
            The rows themselves, see `read_rows`: each may move to a better cluster that this device plausibly holds.
        """
        if refine is not None:
            self.check_same_rows(refine)
        answer = clusters.answer(self.to_message()) if isinstance(clusters, Aggregation) else clusters
        if answer.device_id != self.device_id:
            raise InvalidInputError(f"expected the identity of {self.device_id!r}; got that of {answer.device_id!r}")
        return self.clustering.induced_labels(answer, refine=refine)

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
        how: dict[str, Any] = {"id_column": self.id_column, "weight_column": self.weight_column}
        if columns is not None:
            return read_columns(path, schema=columns.schema, **how)
        names = self.clustering.feature_names
        return read_table(path, columns=list(names) if names else None, scale=scale, **how)

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

    def check_same_rows(self, rows: Array) -> None:
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
        facts = {"clustering": clustering, "device_id": self.device_id, "id_column": self.id_column}
        rare = {name: value for name in _RARE if (value := getattr(self, name)) is not None}
        return tensors, facts | rare

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
        rare: dict[str, Any] = {name: facts[name] for name in _RARE if name in facts}
        return cls(facts["device_id"], clustering, row_ids, facts["id_column"], **rare)


def _from_version_1(tensors: dict[str, Array], facts: Mapping[str, Any]) -> tuple[dict[str, Array], dict[str, Any]]:
    """The parts of a file of version 1, which held the clustering as a file within the file."""
    inner, clustering = files.decode(tensors["clustering"].tobytes())
    return {**tensors, **inner}, {**facts, "version": LocalFile.VERSION, "clustering": clustering}
