"""`Identity`: the one message back to a device, saying which global cluster each of its local clusters became."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from kfed import _checks, _files
from kfed.errors import InvalidInputError, MessageError

Array = npt.NDArray[Any]

VERSION = 1


@dataclass(frozen=True, eq=False)
class Identity:
    """Which global cluster tau each local cluster of one device is in.

    ``numpy.asarray(identity)`` gives the cluster ids.

    Parameters
    ----------
    device_id : str
        The device that this is for.
    cluster_ids : array of int, shape (n_sent_clusters,)
        Global cluster of each local cluster that the device sent, in the order it sent them.
    cluster_centers : array of shape (n_clusters, n_features)
        Means mu(tau_r) of the global clusters. From these a device labels what it did not send.

    Examples
    --------
    >>> identity = Identity("site7", [2, 0], [[0.0, 0.0], [5.0, 5.0], [9.0, 0.0]])
    >>> np.asarray(identity)
    array([2, 0])
    >>> Identity.from_bytes(identity.to_bytes()) == identity
    True
    """

    device_id: str
    cluster_ids: Array
    cluster_centers: Array

    def __post_init__(self) -> None:
        set_field = object.__setattr__  # the dataclass is frozen
        set_field(self, "device_id", _checks.device_id(self.device_id))
        centers = _checks.as_array(self.cluster_centers, "cluster_centers")
        if centers.ndim != 2 or centers.dtype.kind not in "fiu" or not np.isfinite(centers).all():
            raise InvalidInputError("cluster_centers must be finite numbers with two axes (clusters, features)")
        ids = _checks.as_array(self.cluster_ids, "cluster_ids")
        whole = ids.dtype.kind in "iu" or ids.size == 0
        if not whole or ids.ndim != 1 or (ids < 0).any() or (ids >= len(centers)).any():
            raise InvalidInputError(f"cluster_ids must be a list of whole numbers from 0 to {len(centers) - 1}")
        set_field(self, "cluster_centers", _checks.frozen(centers))
        set_field(self, "cluster_ids", _checks.frozen(ids.astype(np.int64)))

    @property
    def n_clusters(self) -> int:
        """How many global clusters there are, k."""
        return int(self.cluster_centers.shape[0])

    @property
    def n_features(self) -> int:
        """Length of a center, d."""
        return int(self.cluster_centers.shape[1])

    def __array__(self, dtype: npt.DTypeLike | None = None, copy: bool | None = None) -> Array:
        return np.array(self.cluster_ids, dtype=dtype, copy=copy) if copy else np.asarray(self.cluster_ids, dtype=dtype)

    def __len__(self) -> int:
        return len(self.cluster_ids)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Identity):
            return NotImplemented
        return (
            self.device_id == other.device_id
            and np.array_equal(self.cluster_ids, other.cluster_ids)
            and np.array_equal(self.cluster_centers, other.cluster_centers)
        )

    def __hash__(self) -> int:
        return hash((self.device_id, self.cluster_ids.tobytes()))

    def to_bytes(self) -> bytes:
        """The identity as it goes over the wire."""
        facts = {"kind": "identity", "version": VERSION, "device_id": self.device_id}
        centers = self.cluster_centers.astype(np.result_type(self.cluster_centers.dtype, np.float32), copy=False)
        return _files.encode({"cluster_ids": self.cluster_ids, "cluster_centers": centers}, facts)

    @classmethod
    def from_bytes(cls, payload: bytes) -> Identity:
        """Read an identity, trusting nothing in it. Raises `MessageError` if it is not sound."""
        tensors, facts = _files.decode(payload)
        _files.check_kind(facts, "identity", VERSION)
        try:
            return cls(facts["device_id"], tensors["cluster_ids"], tensors["cluster_centers"])
        except (InvalidInputError, KeyError, TypeError, ValueError) as error:
            raise MessageError(f"this identity is not sound: {error}") from error

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the identity to a file, whole or not at all."""
        _files.write(path, self.to_bytes())

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Identity:
        """Read an identity from a file; an error names the file."""
        return _files.naming(path, lambda: cls.from_bytes(_files.read(path)))
