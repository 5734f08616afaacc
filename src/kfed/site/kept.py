"""`LocalFile`: what a site keeps between sending its message and labelling its rows. It holds no row."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from kfed._base import checks, files
from kfed._base.array import Array
from kfed._base.averages import means_by_label
from kfed.device import LocalClustering
from kfed.errors import InvalidInputError
from kfed.server import Aggregation
from kfed.wire import DeviceMessage, Identity, KfedFile


@dataclass(frozen=True, eq=False)
class LocalFile(KfedFile):
    """A local clustering with the name of its device and of its rows.

    Parameters
    ----------
    device_id : str
        The device.
    clustering : LocalClustering
        What it found.
    row_ids : sequence of str, optional
        A name for each row.
    id_column : str, optional
        What the column of those names is called.

    Examples
    --------
    >>> import kfed
    >>> points = np.array([[0.0], [0.1], [0.4], [9.0], [9.1], [9.4]])
    >>> kept = LocalFile("site7", kfed.cluster_device(points, 2, random_state=0))
    >>> clusters = kfed.aggregate([kept.to_message()], n_clusters=2)
    >>> labels = kept.labels(clusters)
    >>> bool(labels[0] == labels[2] != labels[3] == labels[5])
    True
    """

    KIND: ClassVar[str] = "local file"
    VERSION: ClassVar[int] = 2
    IS_PRIVATE: ClassVar[bool] = True

    device_id: str
    clustering: LocalClustering
    row_ids: Sequence[str] | None = None
    id_column: str | None = None

    def __post_init__(self) -> None:
        checks.device_id(self.device_id)
        if self.row_ids is not None and len(self.row_ids) != self.clustering.n_points:
            raise InvalidInputError(f"row_ids has {len(self.row_ids)} names; expected {self.clustering.n_points}")

    def to_message(self) -> DeviceMessage:
        """Make the message that this device sends."""
        return self.clustering.to_message(self.device_id)

    def labels(self, clusters: Aggregation | Identity, refine: Array | None = None) -> Array:
        """Global cluster of every row, (n_rows,), from the answer to this device or from the aggregation.

        With the rows themselves in `refine` each may move to another cluster that this device plausibly holds.
        """
        if refine is not None:
            self._check_same_rows(refine)
        if isinstance(clusters, Aggregation):
            return self.clustering.induced_labels(clusters.answer(self.to_message()), refine=refine)
        if clusters.device_id != self.device_id:
            raise InvalidInputError(f"expected the identity of {self.device_id!r}; got that of {clusters.device_id!r}")
        return self.clustering.induced_labels(clusters, refine=refine)

    def _check_same_rows(self, rows: Array) -> None:
        """Raise if rows are seen not to be those that were clustered; of weighted rows it can't be seen."""
        found = self.clustering
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
    """The parts of a file of version 1, which held the clustering as a file within the file, as those of version 2."""
    inner, clustering = files.decode(tensors["clustering"].tobytes())
    return {**tensors, **inner}, {**facts, "version": LocalFile.VERSION, "clustering": clustering}
