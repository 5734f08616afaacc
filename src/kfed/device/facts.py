"""What a local clustering knows beside its clusters: about the columns, and about what is sent instead of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from kfed._base.array import Array, frozen
from kfed.wire import Details, FeatureSchema


@dataclass(frozen=True, eq=False)
class ColumnFacts:
    """What a device says of the columns of its table, beside the centers.

    Attributes
    ----------
    schema : FeatureSchema
    observed, squares : arrays of shape (n_local_clusters, n_features)
        Cells behind each value of a center that is sent, and the sum of their squared distances to it.
    withheld : array of bool, shape (n_local_clusters, n_features)
        Values of centers with too few cells behind them to be sent.
    centers : array of shape (n_local_clusters, n_features) or None
        The centers as they are sent, where levels that few rows have count as others; None if they are sent as is.
    n_left_out : int or None
        Rows in no cluster that is sent: those of clusters that are withheld, and those with too few filled cells. None
        if there are some, but too few to be told.
    """

    schema: FeatureSchema
    observed: Array
    squares: Array
    withheld: Array
    n_left_out: int | None
    centers: Array | None = None

    def told(self, centers: Array) -> Array:
        """What may be told of these centers, with 0 where nothing may be."""
        return np.where(self.withheld, 0, centers if self.centers is None else self.centers)

    def details(self, sent: Array, scatter: Array | None) -> Details:
        """What the message says of the clusters that are sent."""
        observed, squares = (np.where(self.withheld, 0, of)[sent] for of in (self.observed, self.squares))
        return Details(observed=observed, squares=squares, n_left_out=self.n_left_out, scatter=scatter)

    def tensors(self) -> dict[str, Array]:
        """The arrays, for a file."""
        told = {} if self.centers is None else {"told_centers": self.centers}
        return {"observed": self.observed, "squares": self.squares, "cells_withheld": self.withheld, **told}

    @classmethod
    def restored(cls, tensors: Mapping[str, Array], facts: Mapping[str, Any]) -> Self | None:
        """What a file says of columns; None if it says nothing of them."""
        if "schema" not in facts:
            return None
        return cls(
            FeatureSchema.restored(facts["schema"]),
            frozen(tensors["observed"]),
            frozen(tensors["squares"]),
            frozen(tensors["cells_withheld"].astype(bool)),
            facts["n_left_out"],
            frozen(tensors["told_centers"]) if "told_centers" in tensors else None,
        )


@dataclass(frozen=True, eq=False)
class SentClusters:
    """Local clusters as a message tells them, where that is not as they are (`docs/decisions/0001`).

    Attributes
    ----------
    centers : array of shape (n_local_clusters, n_features)
    counts : array of shape (n_local_clusters,)
    sums_of_squares : array of shape (n_local_clusters,)
        NaN where they are left out.
    """

    centers: Array
    counts: Array
    sums_of_squares: Array
