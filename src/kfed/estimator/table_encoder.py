"""`TableEncoder`: the rows of a data frame as the features of a schema, as a step of scikit-learn's pipelines."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, TransformerMixin

from kfed._base import checks
from kfed._base.array import Array
from kfed.errors import InvalidInputError
from kfed.server import ClusterModel
from kfed.site import on_agreed_scale, read_columns
from kfed.wire import FeatureSchema


class TableEncoder(TransformerMixin, BaseEstimator):  # type: ignore[misc]  # scikit-learn has no types
    """Encodes the columns that devices clustered as `kfed label` does; rows that are features already stay as they are.

    An array holds features. So does a data frame with a column for each level of a category, named as features are
    (``ward=Innere``); any other data frame is a table.

    Parameters
    ----------
    schema : FeatureSchema
    clusters : ClusterModel, optional
        Cells that are missing, or of a level that the clusters do not have, are filled in from the center of the
        cluster that the other cells of the row are nearest to: then that cluster is the nearest in the end, as
        `ClusterModel.predict` says. Without, such rows are refused.
    """

    def __init__(self, schema: FeatureSchema, clusters: ClusterModel | None = None) -> None:
        self.schema = schema
        self.clusters = clusters

    def fit(self, X: Any = None, y: Any = None) -> Self:  # noqa: ARG002
        """Do nothing: the schema says it all."""
        return self

    def transform(self, X: Any) -> Array:
        """The features of each row, (n_rows, n_features)."""
        names = checks.feature_names_of(X)
        if names is not None and not self._are_features(names):
            X = on_agreed_scale(read_columns(X, schema=self.schema).values, self.schema)
        elif names is not None:
            X = X[list(self.schema.names or ())]
        checked = checks.table(X, "X")
        values: Array = (checked.toarray() if checks.is_sparse(checked) else checked).astype(np.float64)
        is_missing = np.isnan(values)
        if is_missing.any() and self.clusters is not None:
            # A filled cell is at its own center, and no nearer to another: distances to others only grow.
            nearest = self.clusters.predict(values)
            return np.where(is_missing, self.clusters.cluster_centers[nearest], values)
        if is_missing.any():
            raise InvalidInputError(
                "scikit-learn's KMeans takes no missing cells, and no levels that the clusters do not have; label such "
                "rows with `kfed label`, or with predict of kfed.ClusterModel"
            )
        return values

    def __sklearn_is_fitted__(self) -> bool:
        return True

    def _are_features(self, names: tuple[str, ...]) -> bool:
        """Whether names are those of features. Most features are named like their column, but not those of levels."""
        features, columns = set(self.schema.names or ()), {column.name for column in self.schema.columns or ()}
        return not features <= columns and set(names) >= features
