"""`ClusterModel`: the clusters alone, without the messages that they were found from; small enough for anywhere."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np

from kfed._base import checks, text
from kfed._base.array import Array, Length, frozen
from kfed._base.notebook import InNotebook
from kfed._base.report import Block, Paragraph, TextTable
from kfed.errors import InvalidInputError
from kfed.server.aggregation import Aggregation
from kfed.server.view.prediction import distances, predict
from kfed.wire import (
    CommonScale,
    FeatureSchema,
    KfedFile,
    columns_from_parts,
    columns_to_parts,
    dates_of,
    shown_value,
)

MOST_SHOWN, MOST_FEATURES = 50, 10


@dataclass(frozen=True, eq=False)
class ClusterModel(InNotebook, KfedFile):
    """Centers of global clusters, with all that labelling new rows needs. It knows no device.

    Made by ``ClusterModel.of(aggregation)`` or `kfed export`. It pickles small; an `Aggregation` pickles with all that
    devices sent.

    Attributes
    ----------
    cluster_centers : array of shape (n_clusters, n_features)
        In the units that devices sent.
    cluster_sizes : array of shape (n_clusters,)
        Points (or weight) behind each cluster.
    schema : FeatureSchema
    scale : CommonScale or None
        The scale on which distances are measured, where centers are in the units of tables.

    Examples
    --------
    >>> sent = [kfed.DeviceMessage("a", [[0.0, 0.0], [9.0, 0.0]], [10, 20])]
    >>> model = ClusterModel.of(kfed.aggregate(sent, n_clusters=2))
    >>> model.predict([[8.0, 1.0]]) == model.predict([[9.0, 0.0]])
    array([ True])
    >>> ClusterModel.from_bytes(model.to_bytes()).cluster_sizes.tolist() == model.cluster_sizes.tolist()
    True
    """

    _kind: ClassVar[str] = "model"

    cluster_centers: Array
    cluster_sizes: Array
    schema: FeatureSchema
    scale: CommonScale | None = None

    def __post_init__(self) -> None:
        set_field = object.__setattr__  # the dataclass is frozen
        centers = checks.finite_table(self.cluster_centers, "cluster_centers")
        sizes = checks.as_array(self.cluster_sizes, "cluster_sizes")
        if sizes.shape != centers.shape[:1] or not np.isfinite(sizes).all() or (sizes < 0).any():
            raise InvalidInputError(f"cluster_sizes must be {len(centers)} numbers that are not negative")
        if self.schema.n_features != centers.shape[1]:
            raise InvalidInputError("cluster_centers must have the features of the schema")
        if self.scale is not None:
            self.scale.check(centers.shape[1])
        set_field(self, "cluster_centers", frozen(centers))
        set_field(self, "cluster_sizes", frozen(sizes))

    @classmethod
    def of(cls, aggregation: Aggregation) -> Self:
        """The model of an aggregation."""
        return cls(aggregation.cluster_centers, aggregation.cluster_sizes, aggregation.schema, aggregation.scale)

    n_clusters = Length("cluster_centers", 0, "Number of clusters, k.")

    def predict(self, X: Any) -> Any:
        """The cluster of each row, as `Aggregation.predict` gives it."""
        return predict(self, X)

    def transform(self, X: Any) -> Array:
        """Distance of each row to each cluster, as `Aggregation.transform` gives it."""
        return distances(self, X)

    def _shown(self) -> Iterable[Block]:
        names = list(self.schema.names or [f"feature {position}" for position in range(self.schema.n_features)])
        size = f"{text.plural(self.n_clusters, 'cluster')} of {text.plural(self.schema.n_features, 'feature')}"
        yield Paragraph(f"{size}; no message of a device is in it")
        centers = self.cluster_centers[:MOST_SHOWN, :MOST_FEATURES]
        rows = tuple(
            (str(r), f"{self.cluster_sizes[r]:,.0f}", *map(shown_value, centers[r].tolist(), dates_of(self.schema)))
            for r in range(len(centers))
        )
        yield TextTable("", ("cluster", "rows", *names[:MOST_FEATURES]), rows)

    def _parts(self) -> tuple[dict[str, Array], dict[str, Any]]:
        columns, facts = columns_to_parts(self.schema, self.scale)
        tensors = {"cluster_centers": self.cluster_centers, "cluster_sizes": self.cluster_sizes, **columns}
        return tensors, {"feature_names": self.schema.names, **facts}

    @classmethod
    def _restored(cls, tensors: dict[str, Array], facts: Mapping[str, Any]) -> Self:
        schema, scale = columns_from_parts(tensors, facts)
        centers = tensors["cluster_centers"]
        schema = schema or FeatureSchema(centers.shape[1], facts["feature_names"])
        return cls(centers, tensors["cluster_sizes"], schema, scale)
