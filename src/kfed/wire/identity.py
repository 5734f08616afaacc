"""`Identity`: the one message back to a device, saying which global cluster each of its local clusters became."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from kfed._base import checks, geometry
from kfed._base.array import Array, Length, frozen
from kfed.errors import InvalidInputError
from kfed.wire.file import KfedFile
from kfed.wire.scale import CommonScale, columns_from_parts, columns_to_parts
from kfed.wire.schema import FeatureSchema


@dataclass(frozen=True, eq=False)
class Identity(KfedFile):
    """Which global cluster tau each local cluster of one device is in.

    ``numpy.asarray(identity)`` gives the cluster ids.

    Parameters
    ----------
    device_id : str
        The device that this is for.
    cluster_ids : array of int, shape (n_sent_clusters,)
        Global cluster of each local cluster that the device sent, in the order it sent them.
    cluster_centers : array of shape (n_clusters, n_features)
        Means mu(tau_r) of the global clusters. From these a device labels what it did not send. NaN in the row of a
        cluster whose center is not shown, since too few devices are behind it; see `shown`.
    schema : FeatureSchema, optional
        The features of the centers, where they come from the columns of tables.
    scale : CommonScale, optional
        The scale on which distances are measured, where centers are in the units of tables.
    cluster_shares : array of shape (n_clusters,), optional
        About the share that each cluster has of all rows in clusters whose centers are shown; 0 for others.
        By it a device sees whether it holds other clusters than most.

    Examples
    --------
    >>> identity = Identity("site7", [2, 0], [[0.0, 0.0], [5.0, 5.0], [9.0, 0.0]])
    >>> np.asarray(identity)
    array([2, 0])
    >>> Identity.from_bytes(identity.to_bytes()) == identity
    True
    """

    _kind: ClassVar[str] = "identity"

    device_id: str
    cluster_ids: Array
    cluster_centers: Array
    schema: FeatureSchema | None = None
    scale: CommonScale | None = None
    cluster_shares: Array | None = None

    def __post_init__(self) -> None:
        set_field = object.__setattr__  # the dataclass is frozen
        set_field(self, "device_id", checks.device_id(self.device_id))
        centers = checks.as_array(self.cluster_centers, "cluster_centers")
        if centers.ndim != 2 or centers.dtype.kind not in "fiu" or not _are_finite_or_hidden(centers):
            raise InvalidInputError("cluster_centers must be finite numbers with two axes (clusters, features)")
        ids = checks.as_array(self.cluster_ids, "cluster_ids")
        whole = ids.dtype.kind in "iu" or ids.size == 0
        if not whole or ids.ndim != 1 or (ids < 0).any() or (ids >= len(centers)).any():
            raise InvalidInputError(f"cluster_ids must be a list of whole numbers from 0 to {len(centers) - 1}")
        if self.schema is not None and self.schema.n_features != centers.shape[1]:
            raise InvalidInputError("cluster_centers must have the features of the schema")
        if self.scale is not None:
            self.scale.check(centers.shape[1])
        if self.cluster_shares is not None:
            set_field(self, "cluster_shares", frozen(_checked_shares(self.cluster_shares, len(centers))))
        set_field(self, "cluster_centers", frozen(centers))
        set_field(self, "cluster_ids", frozen(ids.astype(np.int64)))

    n_clusters = Length("cluster_centers", 0, "How many global clusters there are, k.")

    n_features = Length("cluster_centers", 1, "Length of a center, d.")

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
            and np.array_equal(self.cluster_centers, other.cluster_centers, equal_nan=True)
            and (self.schema, self.scale) == (other.schema, other.scale)
            and _as_list(self.cluster_shares) == _as_list(other.cluster_shares)
        )

    def __hash__(self) -> int:
        return hash((self.device_id, self.cluster_ids.tobytes()))

    @property
    def shown(self) -> Array:
        """Which clusters have a center here, bool, (n_clusters,)."""
        return np.asarray(~np.isnan(self.cluster_centers).any(axis=1))

    def completed(self, centers: Array, schema: FeatureSchema) -> Identity:
        """The answer with the device's own centers for those of its clusters that are not shown.

        Parameters
        ----------
        centers : array of shape (n_sent_clusters, n_features)
            What the device sent, with the features of `schema`; NaN where it said nothing.
        """
        held = np.unique(self.cluster_ids[~self.shown[self.cluster_ids]])
        if len(held) == 0:
            return self
        own = np.nan_to_num(self.scaled(centers, schema))
        means = np.stack([own[self.cluster_ids == r].mean(axis=0) for r in held])
        completed = self.cluster_centers.astype(np.result_type(self.cluster_centers, np.float32))
        completed[held] = means if self.scale is None else self.scale.undo(means)
        return replace(self, cluster_centers=completed)

    def scaled(self, values: Array, schema: FeatureSchema) -> Array:
        """Bring values, which have the features of `schema`, onto the scale on which clusters are compared."""
        own = values if self.schema is None else self.schema.align(values, schema)
        return own if self.scale is None else self.scale.apply(own)

    @property
    def scaled_centers(self) -> Array:
        """The centers of the global clusters on that scale."""
        return self.cluster_centers if self.scale is None else self.scale.apply(self.cluster_centers)

    def nearest(self, centers: Array, schema: FeatureSchema) -> Array:
        """The nearest global cluster of each of these centers, (n_centers,), which have the features of `schema`."""
        return nearest_clusters(centers, schema, self.cluster_centers, self.schema, self.scale)

    def _parts(self) -> tuple[dict[str, Array], dict[str, Any]]:
        centers = self.cluster_centers.astype(np.result_type(self.cluster_centers.dtype, np.float32), copy=False)
        columns, schema = columns_to_parts(self.schema, self.scale)
        tensors = {"cluster_ids": self.cluster_ids, "cluster_centers": centers, **columns}
        if self.cluster_shares is not None:
            tensors["cluster_shares"] = self.cluster_shares
        return tensors, {"device_id": self.device_id, **schema}

    @classmethod
    def _restored(cls, tensors: dict[str, Array], facts: Mapping[str, Any]) -> Identity:
        columns = columns_from_parts(tensors, facts)
        said = (tensors["cluster_ids"], tensors["cluster_centers"], *columns, tensors.get("cluster_shares"))
        return cls(facts["device_id"], *said)


def _are_finite_or_hidden(centers: Array) -> bool:
    is_nan = np.isnan(centers)
    return bool((np.isfinite(centers) | is_nan.all(axis=1, keepdims=True)).all())


def _as_list(shares: Array | None) -> list[float] | None:
    return None if shares is None else shares.tolist()


def _checked_shares(shares: Array, n_clusters: int) -> Array:
    shares = checks.as_array(shares, "cluster_shares")
    if shares.shape != (n_clusters,) or shares.dtype.kind not in "fiu" or not ((shares >= 0) & (shares <= 1)).all():
        raise InvalidInputError(f"cluster_shares must be {n_clusters} numbers from 0 to 1")
    return shares.astype(np.float64)


def shares_of(cluster_sizes: Array, cluster_centers: Array) -> Array | None:
    """Which share each cluster has of the rows of all whose centers are shown, or None if these have no rows.

    In two digits: from exact shares, one of two devices could tell how many rows the other has.
    """
    rows = np.where(np.isnan(cluster_centers).any(axis=1), 0.0, cluster_sizes)
    return None if rows.sum() == 0 else np.array([float(f"{share:.1e}") for share in rows / rows.sum()])


def nearest_clusters(
    centers: Array,
    schema: FeatureSchema,
    cluster_centers: Array,
    cluster_schema: FeatureSchema | None,
    scale: CommonScale | None,
) -> Array:
    """The nearest of some clusters for each center, on the scale on which clusters are compared, (n_centers,).

    Where a center is NaN, nothing is known of it: it is taken to be at the mean of all. Clusters whose centers are NaN
    are nobody's.
    """
    hidden = np.isnan(cluster_centers).any(axis=1)
    if len(centers) and hidden.all():
        raise InvalidInputError(
            "no cluster center is visible, so rows cannot be labelled: this device sent no center, and the answer "
            "shows none, since too few devices are behind each cluster"
        )
    if cluster_schema is not None:
        centers = cluster_schema.align(centers, schema)
    if scale is not None:
        centers, cluster_centers = scale.apply(centers), scale.apply(cluster_centers)
    if np.isnan(centers).any():
        centers = np.nan_to_num(centers)
    squares = geometry.squared_distances(centers, np.nan_to_num(cluster_centers))
    squares[:, hidden] = np.inf
    return np.asarray(squares.argmin(axis=1))
