"""`to_sklearn`: global clusters as a fitted estimator of scikit-learn's own parts."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from sklearn.cluster import KMeans
from sklearn.exceptions import ConvergenceWarning
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from kfed.estimator.table_encoder import TableEncoder
from kfed.server import Aggregation, ClusterModel
from kfed.wire import CommonScale, FeatureSchema


def to_sklearn(clusters: Aggregation | ClusterModel) -> Any:
    """Make a fitted `KMeans` of clusters, after a fitted `StandardScaler` if rows are compared on a scale.

    It predicts what `Aggregation.predict` does, for rows whose features are numbers in the order of the devices. Save
    it with joblib, or convert it with what converts scikit-learn's models; it needs no kfed to be used. As a `KMeans`
    that was fitted in double precision, it takes rows in no other: convert float32 rows with ``rows.astype(float)``.

    If devices clustered tables with categories, flags or dates, or on an agreed scale, a `TableEncoder` comes first, so
    that it takes data frames with the columns of those tables, in their units, as `kfed label` does, also with missing
    cells and unknown levels; that step needs kfed, and ``model[1:]`` is without. Arrays hold features.

    Examples
    --------
    >>> sent = [kfed.DeviceMessage("a", [[0.0, 0.0], [9.0, 0.0]], [10, 20])]
    >>> result = kfed.aggregate(sent, n_clusters=2)
    >>> bool((to_sklearn(result).predict([[8.0, 1.0]]) == result.predict([[8.0, 1.0]])).all())
    True
    """
    scale = clusters.scale
    centers = clusters.cluster_centers.astype(np.float64)
    model_of = clusters if isinstance(clusters, ClusterModel) else ClusterModel.of(clusters)
    encoders = [TableEncoder(clusters.schema, model_of)] if _is_encoded(clusters.schema) else []
    names = None if encoders else clusters.schema.names
    if scale is not None:
        return make_pipeline(*encoders, _scaler(scale, names), _k_means(scale.apply(centers), None))
    model = _k_means(centers, names)
    return make_pipeline(*encoders, model) if encoders else model


def _is_encoded(schema: FeatureSchema) -> bool:
    """Whether the features of a schema are something else than the numbers in a table."""
    columns = schema.columns or ()
    return any(column.kind != "number" for column in columns) or (bool(columns) and schema.scaling == "agreed")


def _k_means(centers: Any, names: tuple[str, ...] | None) -> KMeans:
    model = KMeans(n_clusters=len(centers), init=np.ascontiguousarray(centers), n_init=1, max_iter=1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # of clusters that share a center
        model.fit(centers)  # every center is its own nearest: the centers stay as they are
    model.cluster_centers_ = np.ascontiguousarray(centers)
    return _named(model, names)


def _scaler(scale: CommonScale, names: tuple[str, ...] | None) -> StandardScaler:
    scaler = StandardScaler().fit(np.zeros((1, len(scale.shift))))
    scaler.mean_, scaler.scale_, scaler.var_ = scale.shift.copy(), scale.scale.copy(), scale.scale**2
    return _named(scaler, names)


def _named(fitted: Any, names: tuple[str, ...] | None) -> Any:
    if names is not None:
        fitted.feature_names_in_ = np.array(names, dtype=object)
    return fitted
