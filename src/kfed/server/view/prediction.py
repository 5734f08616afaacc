"""The cluster of rows that were never on a device: the nearest mean, on the scale on which devices were compared."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Protocol

import numpy as np

from kfed._base import checks, geometry, pool
from kfed._base.array import Array
from kfed._base.indexed import index_of, with_index
from kfed._base.text import plural, quoted, verb
from kfed.errors import AggregationWarning, FeatureMismatchError, InvalidInputError
from kfed.server.notices.of_columns import row_advice
from kfed.server.notices.of_levels import new_level_advice
from kfed.server.view.frame_cells import number_feature, words_of
from kfed.wire import Column, CommonScale, FeatureSchema, Notice, level_features

BLOCK_ELEMENTS = 2**20


class HasCenters(Protocol):
    """What rows are compared with: an `Aggregation`, a `ClusterModel` or an `Identity`."""

    @property
    def cluster_centers(self) -> Array:
        """Means of the clusters, (n_clusters, n_features), in the units that devices sent."""

    @property
    def schema(self) -> FeatureSchema | None:
        """The features of the centers, where they are known."""

    @property
    def scale(self) -> CommonScale | None:
        """The scale on which distances are measured, where centers are in the units of tables."""


def _warn(notice: Notice) -> None:
    warnings.warn(AggregationWarning(notice.text, notice.code), stacklevel=5)  # where `predict` of a result is called


def predict(clusters: HasCenters, X: Any) -> Any:
    """The nearest cluster of each row, ties to the lowest, (n_rows,); see `distances`.

    Rows of a pandas data frame get a series with its index, others an array.
    """
    points, centers = _comparable(clusters, X, _warn)
    n_empty = int(_are_empty(points).sum())
    if n_empty:
        rows = f"{plural(n_empty, 'row')} without a filled cell {verb(n_empty, 'is', 'are')}"
        _warn(Notice("no filled cell", f"{rows} in cluster 0, since nothing tells another"))
    if checks.is_sparse(points) or np.isnan(points).any() or np.isnan(centers).any():
        labels = np.concatenate([own.argmin(axis=1) for own in _squares(points, centers, clusters.scale)])
    else:
        scaled = points.astype(np.float64) if clusters.scale is None else clusters.scale.apply(points)
        labels = geometry.nearest(scaled, centers)
    return with_index(labels, index_of(X))


def distances(clusters: HasCenters, X: Any, tell: Callable[[Notice], None] = _warn) -> Array:
    """Distance of each row to each cluster center, (n_rows, n_clusters).

    Parameters
    ----------
    clusters : HasCenters
    X : array, sparse matrix or data frame of shape (n_rows, n_features)
        In the units of `cluster_centers`. The columns of a data frame are taken by their names, where devices named
        theirs; a category may be one column of text, and flags (yes, no), dates and missing cells (n/a) may be words.
        A level that the clusters do not have counts as `other`, where that is a level, and else as missing. Where cells
        are missing (NaN), distances are those of the other cells; without any they are NaN, too.
    tell : callable
        Is called with a notice for each column that lies far from that of the devices; by default it warns.
    """
    points, centers = _comparable(clusters, X, tell)
    found = np.concatenate([np.sqrt(own) for own in _squares(points, centers, clusters.scale)])
    found[_are_empty(points)] = np.nan
    return found


def _are_empty(points: Any) -> Array:
    """Which rows have no filled cell, (n_rows,)."""
    return np.zeros(points.shape[0], bool) if checks.is_sparse(points) else np.isnan(points).all(axis=1)


def _comparable(clusters: HasCenters, X: Any, tell: Callable[[Notice], None]) -> tuple[Any, Array]:
    """Rows with the features of the clusters, and the centers on the scale of distances."""
    notices: list[Notice] = []
    points, centers = points_of(X, clusters.schema, notices), clusters.cluster_centers.astype(np.float64)
    if points.shape[1] != centers.shape[1]:
        raise FeatureMismatchError(
            f"X has {points.shape[1]} {'feature' if points.shape[1] == 1 else 'features'}; expected {centers.shape[1]}"
        )
    if np.isnan(centers).all():
        raise InvalidInputError("the answer shows no cluster center, so there is nothing to compare rows with")
    if not checks.is_sparse(points):
        notices += row_advice(points, clusters.schema, centers, clusters.scale)
    for notice in notices:
        tell(notice)
    return points, centers if clusters.scale is None else clusters.scale.apply(centers)


def _squares(points: Any, centers: Array, scale: CommonScale | None) -> Iterator[Array]:
    """Squared distances over the cells that are there, block by block; infinite to centers that are not shown."""
    hidden = np.isnan(centers).any(axis=1)
    for block in pool.blocks(points.shape[0], max(1, BLOCK_ELEMENTS // centers.size)):
        rows = points[block].toarray() if checks.is_sparse(points) else points[block]
        differences = (rows if scale is None else scale.apply(rows))[:, None] - centers  # direct: exact near ties
        squares = np.nan_to_num(np.square(differences), copy=False, nan=0.0).sum(axis=2)
        squares[:, hidden] = np.inf
        yield squares


def points_of(X: Any, schema: FeatureSchema | None, notices: list[Notice]) -> Any:
    """Rows as numbers in the order of the features of `schema`; only those of tables may be missing. Adds notices."""
    names = checks.feature_names_of(X)
    if schema is not None and names is not None and schema.names is not None:
        X = _by_name(X, names, schema, notices)
    if schema is None or schema.columns is None:
        return checks.finite_table(X, "X")
    points = checks.table(X, "X")
    if np.isinf(points.data if checks.is_sparse(points) else points).any():
        raise InvalidInputError("X must be finite, or missing (NaN); some values are infinite")
    return points


def _by_name(X: Any, names: Sequence[str], schema: FeatureSchema, notices: list[Notice]) -> Array:
    """The features of a data frame, by name: one each, or those of a category from its column of text."""
    features: dict[str, Any] = {}
    columns = {column.name: column for column in schema.columns or ()}
    for name in names:
        column = columns.get(name, Column(name))
        if column.kind == "category":
            words, codes = words_of(X[name], column.levels)
            notices += new_level_advice(column, words, codes)
            features |= zip(column.features, level_features(column, words, codes).T, strict=True)
        elif schema.names is not None and name in schema.names:
            features[name] = number_feature(X[[name]].to_numpy()[:, 0], column)
    missing = [name for name in schema.names or () if name not in features]
    if missing:
        raise FeatureMismatchError(f"X must have the columns that devices sent; it has no {quoted(missing)}")
    return np.column_stack([features[name] for name in schema.names or ()])
