"""`LocalFile`: what a site keeps between sending its message and labelling its rows. It holds no row."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from kfed import _checks, _files
from kfed._averages import means_by_label
from kfed.errors import DuplicateDeviceError, InvalidInputError, MessageError
from kfed.identity import Identity
from kfed.local import LocalClustering
from kfed.message import DeviceMessage
from kfed.server import Aggregation

Array = npt.NDArray[Any]

VERSION = 1


@dataclass(frozen=True, eq=False)
class LocalFile:
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

    device_id: str
    clustering: LocalClustering
    row_ids: Sequence[str] | None = None
    id_column: str | None = None

    def __post_init__(self) -> None:
        _checks.device_id(self.device_id)
        if self.row_ids is not None and len(self.row_ids) != self.clustering.n_points:
            raise InvalidInputError(
                f"row_ids must name each of {self.clustering.n_points} rows, and name {len(self.row_ids)}"
            )

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
            return self.clustering.induced_labels(answer_to(self.to_message(), clusters), refine=refine)
        if clusters.device_id != self.device_id:
            raise InvalidInputError(
                f"the identity must be for device {self.device_id!r}, and is for {clusters.device_id!r}"
            )
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
                f"the rows must be those of {self.device_id!r} that were clustered, in their order and on the same "
                "scale, and are not: their means are not its centers"
            )

    def to_bytes(self) -> bytes:
        """Everything, as safetensors."""
        tensors = {"clustering": np.frombuffer(self.clustering.to_bytes(), np.uint8)}
        if self.row_ids is not None:
            tensors["row_ids"] = np.frombuffer(json.dumps(list(self.row_ids)).encode(), np.uint8)
        facts = {
            "kind": "local file",
            "version": VERSION,
            "device_id": self.device_id,
            "id_column": self.id_column,
        }
        return _files.encode(tensors, facts)

    @classmethod
    def from_bytes(cls, payload: bytes) -> LocalFile:
        """Read what `to_bytes` gave. Raises `MessageError` if it is not sound."""
        tensors, facts = _files.decode(payload)
        _files.check_kind(facts, "local file", VERSION)
        try:
            row_ids = json.loads(tensors["row_ids"].tobytes()) if "row_ids" in tensors else None
            if row_ids is not None and not (isinstance(row_ids, list) and all(isinstance(i, str) for i in row_ids)):
                raise InvalidInputError("its row ids must be strings")
            clustering = LocalClustering.from_bytes(tensors["clustering"].tobytes())
            return cls(facts["device_id"], clustering, row_ids, facts["id_column"])
        except (KeyError, TypeError, ValueError) as error:
            raise MessageError(f"this local file is not sound: {error}") from error

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write to a file that only its owner can read, whole or not at all."""
        _files.write(path, self.to_bytes(), private=True)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> LocalFile:
        """Read from a file; an error names the file."""
        return _files.naming(path, lambda: cls.from_bytes(_files.read(path)))


def answer_to(message: DeviceMessage, clusters: Aggregation) -> Identity:
    """Answer a device, whether it was aggregated or came late.

    Raises
    ------
    DuplicateDeviceError
        If a device with this id was aggregated with another message.
    """
    if message.device_id not in clusters:
        return clusters.assign(message)
    if clusters.message(message.device_id) != message:
        raise DuplicateDeviceError(
            f"device {message.device_id!r} was aggregated with another message than this; use the file "
            "that belongs to the message that was sent, or give the device another id"
        )
    return clusters.identity(message.device_id)
