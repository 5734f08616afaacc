"""The part that both estimators share: predict, transform and score by the nearest cluster center."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from numbers import Integral
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, ClusterMixin, TransformerMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import pairwise_distances_argmin
from sklearn.metrics.pairwise import euclidean_distances
from sklearn.utils._param_validation import Interval, Options
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data

from kfed._base import geometry, pool
from kfed._base.array import Array
from kfed._base.text import plural
from kfed.device import BlockedRows, LocalClustering, Privacy, SparseRows, caller_tells_convergence, cluster_device
from kfed.errors import AggregationWarning, InvalidInputError
from kfed.estimator.refusals import refuse_without_cells
from kfed.server import Aggregation, aggregate, row_advice

AT_LEAST_ONE = Interval(Integral, 1, None, closed="left")

WIDENED_ELEMENTS = 2**23
"""Numbers that are held in float64 at once, if rows are float32 and centers float64: 64 megabytes."""


class NearestCenter(
    ClassNamePrefixFeaturesOutMixin,  # type: ignore[misc]  # scikit-learn has no types
    TransformerMixin,  # type: ignore[misc]
    ClusterMixin,  # type: ignore[misc]
    BaseEstimator,  # type: ignore[misc]
):
    """Assigns rows to the nearest of `cluster_centers_`."""

    cluster_centers_: Array
    labels_: Array
    inertia_: float
    n_iter_: int
    n_features_in_: int

    _parameter_constraints: dict[str, list[Any]] = {  # noqa: RUF012  # scikit-learn looks for a plain dict
        "n_clusters": [AT_LEAST_ONE],
        "random_state": ["random_state", np.random.Generator],
        "max_iter": [AT_LEAST_ONE],
        "n_jobs": [None, AT_LEAST_ONE, Options(Integral, {-1})],
    }

    def predict(self, X: Any) -> Array:
        """Return the index of the nearest cluster center of each row.

        Parameters
        ----------
        X : array, sparse matrix or data frame of shape (n_rows, n_features)

        Returns
        -------
        array of int, shape (n_rows,)
            An array of a data frame, too, as in scikit-learn, whatever ``set_output`` says. To keep the index, use
            ``pd.Series(model.predict(X), index=X.index)``; `Aggregation.predict` keeps it itself.

        Warns
        -----
        AggregationWarning
            If the rows lie so far from all clusters that they seem to be on another scale.
        """
        X = self._checked(X)
        for notice in () if sparse.issparse(X) else row_advice(X, None, self.cluster_centers_, None):
            warnings.warn(AggregationWarning(notice.text, notice.code), stacklevel=2)
        return self._nearest(X)

    def transform(self, X: Any) -> Array:
        """Return the distances of each row to the cluster centers, (n_rows, n_clusters); `X` is as in `predict`."""
        X = self._checked(X)
        dtype = np.result_type(X.dtype, self.cluster_centers_.dtype)
        centers = self.cluster_centers_.astype(dtype, copy=False)
        if sparse.issparse(X):
            X = X.astype(dtype, copy=False)
        else:  # centering first keeps precision if all rows share a large offset
            origin = geometry.middle(centers)
            X, centers = X - origin, centers - origin
        distances: Array = euclidean_distances(X, centers)
        return distances

    def score(self, X: Any, y: Any = None, sample_weight: Any = None) -> float:  # noqa: ARG002
        """Return minus the k-means cost: the sum of squared distances of the rows to their nearest centers.

        `X` is as in `predict`, and `sample_weight` as in `fit`; `y` is ignored.
        """
        X = self._checked(X)
        return -self._cost(X, self._nearest(X), weights_of_rows(sample_weight, X))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags

    @property
    def _n_features_out(self) -> int:
        return int(self.cluster_centers_.shape[0])

    @property
    def _n_threads(self) -> int | None:
        return None if self.n_jobs == -1 else self.n_jobs

    def _validated(self, X: Any, *, reset: bool) -> Any:
        """Check rows as scikit-learn does, keeping CSR and float32; `reset` to learn the features from them."""
        try:
            return validate_data(self, X, reset=reset, accept_sparse="csr", dtype=[np.float64, np.float32], order="C")
        except (TypeError, ValueError) as error:
            refuse_without_cells(X, error)
            raise

    def _checked(self, X: Any) -> Any:
        """Check new rows; they stay in their own precision, as those that were fitted."""
        check_is_fitted(self)
        return self._validated(X, reset=False)

    def _fit_one_device(
        self,
        X: Any,
        n_clusters: int,
        sample_weight: Any,
        *,
        privacy: Privacy | None = None,
    ) -> LocalClustering:
        """Fit one checked table by Algorithm 1. Nothing is sent, so no cluster is withheld."""
        weights = weights_of_rows(sample_weight, X)
        with caller_tells_convergence():
            local = cluster_device(
                X,
                n_clusters,
                sample_weight=None if sample_weight is None else weights,
                random_state=self.random_state,
                min_cluster_size=1,
                max_iterations=self.max_iter,
                measure_deviation=getattr(self, "measure_deviation", False),  # of KFed alone
                n_jobs=self._n_threads,
                privacy=privacy,
            )
        if privacy is not None and local.withheld.all():
            raise InvalidInputError("the noise hides every cluster; see the warning for what would help")
        self.cluster_centers_ = local.centers[local.counts > 0]
        self.labels_ = self._nearest(X)
        self.inertia_ = self._cost(X, self.labels_, weights)
        self.n_iter_ = local.n_iterations
        self._warn_unless_found(len(self.cluster_centers_), n_clusters, n_unsettled=int(not local.converged))
        return local

    def _clusters_in(self, X: Any, sample_weight: Any, privacy: Privacy | None) -> Aggregation:
        """The clusters that a summary of all rows shows."""
        weights = None if sample_weight is None else weights_of_rows(sample_weight, X)
        how: dict[str, Any] = {"random_state": self.random_state, "n_jobs": self._n_threads, "privacy": privacy}
        summary = cluster_device(X, min_cluster_size=1, sample_weight=weights, measure_deviation=False, **how)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", AggregationWarning)
            return aggregate([summary.to_message("0")], n_jobs=self._n_threads)

    def _warn_unless_found(self, n_found: int, n_clusters: int, n_unsettled: int) -> None:
        """Warn if there are fewer distinct clusters than asked for, or if Lloyd was cut short."""
        if n_found < n_clusters:
            warnings.warn(
                f"found {plural(n_found, 'distinct cluster')}, fewer than n_clusters={n_clusters}: "
                "X may have duplicate rows",
                ConvergenceWarning,
                stacklevel=4,
            )
        if n_unsettled:
            warnings.warn(
                f"{plural(n_unsettled, 'device')} stopped at max_iter={self.max_iter} before converging: "
                "increase max_iter",
                ConvergenceWarning,
                stacklevel=4,
            )

    def _nearest(self, X: Any) -> Array:
        labels = np.empty(X.shape[0], np.int32)
        for block, rows, centers in self._widened(X):
            if sparse.issparse(rows):
                labels[block] = pairwise_distances_argmin(rows, centers)
            else:
                labels[block] = geometry.nearest(rows, centers, self._n_threads)
        return labels

    def _cost(self, X: Any, labels: Array, weights: Array) -> float:
        """Sum the squared distances of rows to the centers of their labels, times their weights."""
        cost = 0.0
        for block, points, centers in self._widened(X):
            own = weights[block].astype(centers.dtype)
            rows = (SparseRows if sparse.issparse(points) else BlockedRows)(points, own[None])
            squares = rows.squared_residuals(centers[None], labels[None, block])[0]
            cost += float(np.dot(own.astype(np.float64), squares))
        return cost

    def _widened(self, X: Any) -> Iterator[tuple[slice, Any, Array]]:
        """Blocks of rows, and the centers, both in the wider of their dtypes.

        Centers of float32 rows are float64 where float32 cannot tell them apart, far from the origin: so they are never
        rounded to the dtype of the rows. Rows that have the wider dtype, or are sparse, are one block.
        """
        dtype = np.result_type(X.dtype, self.cluster_centers_.dtype)
        centers = self.cluster_centers_.astype(dtype, copy=False)
        if X.dtype == dtype or sparse.issparse(X):
            yield slice(0, X.shape[0]), X.astype(dtype, copy=False), centers
            return
        for block in pool.blocks(X.shape[0], max(1, WIDENED_ELEMENTS // X.shape[1])):
            yield block, X[block].astype(dtype), centers


def weights_of_rows(sample_weight: Any, X: Any) -> Array:
    """Return one weight for each row of `X`, in its dtype; None means a weight of 1."""
    weights: Array = _check_sample_weight(sample_weight, X, dtype=X.dtype)
    return weights
