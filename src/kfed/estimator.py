"""`LocalKMeans` and `KFed`: Algorithm 1 alone, and the whole of k-FED, as scikit-learn estimators.

They are thin: input is checked as scikit-learn checks it, and the functions of the library do the work.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import ceil, sqrt
from numbers import Integral
from typing import Any, Self

import numpy as np
import numpy.typing as npt
from scipy import sparse
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, ClusterMixin, TransformerMixin
from sklearn.metrics import pairwise_distances_argmin
from sklearn.metrics.pairwise import euclidean_distances
from sklearn.utils._param_validation import Interval, Options, StrOptions
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data

from kfed import _geometry
from kfed._devices import Devices, are_tables
from kfed._random import RandomState
from kfed._rows import BlockedRows, SparseRows
from kfed.device import MAX_ITERATIONS, MIN_CLUSTER_SIZE, cluster_device
from kfed.errors import InvalidInputError
from kfed.fleet import cluster_fleet
from kfed.local import LocalClustering
from kfed.message import DeviceMessage
from kfed.server import Aggregation, aggregate

Array = npt.NDArray[Any]

_AT_LEAST_ONE = Interval(Integral, 1, None, closed="left")


class _NearestCenter(  # type: ignore[misc]  # scikit-learn has no types
    ClassNamePrefixFeaturesOutMixin, TransformerMixin, ClusterMixin, BaseEstimator
):
    """What is done with `cluster_centers_`, wherever they came from."""

    cluster_centers_: Array
    labels_: Array
    inertia_: float
    n_iter_: int
    n_features_in_: int

    _parameter_constraints: dict[str, list[Any]] = {  # noqa: RUF012  # scikit-learn's way
        "n_clusters": [_AT_LEAST_ONE],
        "random_state": ["random_state", np.random.Generator],
        "max_iter": [_AT_LEAST_ONE],
        "n_jobs": [None, _AT_LEAST_ONE, Options(Integral, {-1})],
    }

    def predict(self, X: Any) -> Array:
        """Index of the nearest cluster center of each row.

        Parameters
        ----------
        X : array, sparse matrix or data frame of shape (n_rows, n_features)

        Returns
        -------
        array of int, shape (n_rows,)
        """
        return self._nearest(self._checked(X))

    def transform(self, X: Any) -> Array:
        """Distances of each row to the cluster centers.

        Parameters
        ----------
        X : array, sparse matrix or data frame of shape (n_rows, n_features)

        Returns
        -------
        array of shape (n_rows, n_clusters)
        """
        X = self._checked(X)
        centers = self._centers_like(X)
        if not sparse.issparse(X):  # a large offset that all rows share costs no precision
            origin = _geometry.middle(centers)
            X, centers = X - origin, centers - origin
        distances: Array = euclidean_distances(X, centers)
        return distances

    def score(self, X: Any, y: Any = None, sample_weight: Any = None) -> float:  # noqa: ARG002
        """Minus the k-means cost: the sum of squared distances of the rows to their nearest center.

        Parameters
        ----------
        X : array, sparse matrix or data frame of shape (n_rows, n_features)
        y : ignored
        sample_weight : array of shape (n_rows,), optional

        Returns
        -------
        float
        """
        X = self._checked(X)
        return -self._cost(X, self._nearest(X), _weights(sample_weight, X))

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
        return None if self.n_jobs == -1 else self.n_jobs  # type: ignore[no-any-return]

    def _validated(self, X: Any, *, reset: bool) -> Any:
        """Rows as float32 or float64, dense or CSR; `reset` says that they are the ones to learn from."""
        return validate_data(
            self, X, reset=reset, accept_sparse="csr", dtype=[np.float64, np.float32], order="C"
        )

    def _checked(self, X: Any) -> Any:
        """New rows, in a dtype that loses nothing of them or of the centers."""
        check_is_fitted(self)
        X = self._validated(X, reset=False)
        return X.astype(np.result_type(X.dtype, self.cluster_centers_.dtype), copy=False)

    def _centers_like(self, X: Any) -> Array:
        return self.cluster_centers_.astype(X.dtype, copy=False)

    def _nearest(self, X: Any) -> Array:
        centers = self._centers_like(X)
        if sparse.issparse(X):
            return np.asarray(pairwise_distances_argmin(X, centers), dtype=np.int32)
        return _geometry.nearest(X, centers, self._n_threads).astype(np.int32)

    def _cost(self, X: Any, labels: Array, weights: Array) -> float:
        """Weighted sum of squared distances of rows to the centers of their labels."""
        rows = (SparseRows if sparse.issparse(X) else BlockedRows)(X, weights[None])
        squares = rows.squared_residuals(self._centers_like(X)[None], labels[None])[0]
        return float(np.dot(weights.astype(np.float64), squares))


class LocalKMeans(_NearestCenter):
    """Algorithm 1 of the paper alone: k-means on one table, by spectral projection and core sets.

    Parameters
    ----------
    n_clusters : int
        Number of clusters. More than there are distinct rows is allowed: the clusters too many stay empty.
    random_state : int, Generator, RandomState or None
        The seed.
    max_iter : int
        At most this many Lloyd steps.
    n_jobs : int, optional
        Number of threads for a large table, by default and for -1 one per core. It does not change the answer.

    Attributes
    ----------
    cluster_centers_ : array of shape (n_clusters, n_features)
    labels_ : array of int, shape (n_rows,)
        Nearest center of every row that was fitted.
    inertia_ : float
        Sum of squared distances of the rows to their nearest center, times their weights.
    n_iter_ : int
        Lloyd steps that changed something.
    n_features_in_ : int
    feature_names_in_ : array of str, shape (n_features,)
        Only if the columns of `X` had names.

    See Also
    --------
    kfed.cluster_device : The same as a function, whose answer can be sent to a server.
    KFed : Many devices.

    References
    ----------
    Awasthi and Sheffet, "Improved spectral-norm bounds for clustering", APPROX 2012.

    Examples
    --------
    >>> X = np.array([[0.0, 0.1], [0.1, 0.0], [9.0, 9.1], [9.1, 9.0]])
    >>> model = LocalKMeans(n_clusters=2, random_state=0).fit(X)
    >>> bool(model.labels_[0] == model.labels_[1] != model.labels_[2] == model.labels_[3])
    True
    >>> round(model.inertia_, 6)
    0.02
    """

    def __init__(
        self,
        n_clusters: int = 8,
        *,
        random_state: RandomState = None,
        max_iter: int = MAX_ITERATIONS,
        n_jobs: int | None = None,
    ) -> None:
        self.n_clusters = n_clusters
        self.random_state = random_state
        self.max_iter = max_iter
        self.n_jobs = n_jobs

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:  # noqa: ARG002
        """Find the clusters of the rows of one table.

        Parameters
        ----------
        X : array, sparse matrix or data frame of shape (n_rows, n_features)
        y : ignored
        sample_weight : array of shape (n_rows,), optional
            A weight of N equals N copies of the row.

        Returns
        -------
        LocalKMeans
        """
        self._validate_params()
        X = self._validated(X, reset=True)
        weights = _weights(sample_weight, X)
        local = cluster_device(
            X,
            self.n_clusters,
            sample_weight=weights,
            random_state=self.random_state,
            max_iterations=self.max_iter,
            measure_deviation=False,
            n_jobs=self._n_threads,
        )
        self.cluster_centers_ = local.centers.copy()
        self.labels_ = self._nearest(X)
        self.inertia_ = self._cost(X, self.labels_, weights)
        self.n_iter_ = local.n_iterations
        return self


class KFed(_NearestCenter):
    """k-FED: cluster rows that are spread over devices, in one round of communication.

    Parameters
    ----------
    n_clusters : int
        Number of global clusters, k.
    n_local_clusters : int, sequence or mapping, optional
        Clusters that a device looks for, k^(z): one number for all, one a device in the order of `device_ids_`, or a
        mapping from device to number. By default the square root of `n_clusters`, rounded up: the heterogeneous regime
        in which the paper's guarantee is strongest.
    rule : {"paper", "robust"}
        How the server groups device centers, see `kfed.aggregate`.
    min_cluster_size : int
        What devices keep to themselves, see `kfed.cluster_device`.
    random_state : int, Generator, RandomState or None
        The seed. With the id of a device it determines every random choice made there.
    max_iter : int
        At most this many Lloyd steps on a device.
    measure_deviation : bool
        Whether devices also say how far their points spread, for the paper's conditions to be checked on
        `aggregation_`. On small devices this takes as long as clustering them.
    n_jobs : int, optional
        Number of threads, by default and for -1 one per core. It does not change the answer.
    progress : bool, optional
        Show a progress bar; None means on a terminal, when it takes a while.

    Attributes
    ----------
    cluster_centers_ : array of shape (n_clusters, n_features)
        Means of the device centers of each global cluster.
    labels_ : array of int, shape (n_rows,)
        The induced clustering: each row goes where the server put the center of its local cluster. In the order of
        the rows of `X`; of a list of tables, in the order of the list.
    inertia_ : float
        Sum of squared distances of the rows to the centers of their labels, times their weights. With devices it may
        exceed ``-score(X)``, since the induced label is not always the nearest center.
    n_iter_ : int
        Most Lloyd steps that a device took.
    aggregation_ : Aggregation
        What the server knows: it serves late devices and can be saved.
    device_ids_ : list of str
        Names of the devices: ``str`` of each distinct group, sorted as the groups are, or of the position in a list.
    n_features_in_ : int
    feature_names_in_ : array of str, shape (n_features,)
        Only if the columns of `X` had names.

    See Also
    --------
    kfed.cluster_fleet, kfed.aggregate : The two halves as functions.

    Notes
    -----
    Without `groups`, a table is one device: the centralized special case. It looks for `n_clusters` clusters, its
    centers are the cluster centers, and `n_local_clusters` and `min_cluster_size` do not apply, since nothing is sent
    to anyone. `labels_` is then what `predict` gives, and the model is that of `LocalKMeans`.

    References
    ----------
    Dennis, Li and Smith, "Heterogeneity for the Win: One-Shot Federated Clustering", ICML 2021.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> corners = np.array([[0.0, 0.0], [0.0, 9.0], [9.0, 0.0], [9.0, 9.0]])
    >>> seen_by = {"north": [0, 1], "east": [1, 2], "south": [2, 3]}  # each device has two of the four clusters
    >>> devices = [np.repeat(corners[own], 20, axis=0) + rng.normal(size=(40, 2)) for own in seen_by.values()]
    >>> model = KFed(n_clusters=4, n_local_clusters=2, random_state=0)
    >>> model.fit(np.concatenate(devices), groups=np.repeat(list(seen_by), 40)).device_ids_
    ['east', 'north', 'south']
    >>> np.bincount(model.labels_).tolist() in ([20, 40, 40, 20], [40, 20, 20, 40])
    True
    >>> bool((model.fit(devices).predict(corners) == model.labels_[[0, 20, 60, 100]]).all())
    True
    """

    _parameter_constraints: dict[str, list[Any]] = {  # noqa: RUF012
        **_NearestCenter._parameter_constraints,
        "n_local_clusters": [None, _AT_LEAST_ONE, "array-like", Mapping],
        "rule": [StrOptions({"paper", "robust"})],
        "min_cluster_size": [_AT_LEAST_ONE],
        "measure_deviation": ["boolean"],
        "progress": [None, "boolean"],
    }

    def __init__(
        self,
        n_clusters: int = 8,
        n_local_clusters: int | Sequence[int] | Mapping[Any, int] | None = None,
        *,
        rule: str = "paper",
        min_cluster_size: int = MIN_CLUSTER_SIZE,
        random_state: RandomState = None,
        max_iter: int = MAX_ITERATIONS,
        measure_deviation: bool = False,
        n_jobs: int | None = None,
        progress: bool | None = False,
    ) -> None:
        self.n_clusters = n_clusters
        self.n_local_clusters = n_local_clusters
        self.rule = rule
        self.min_cluster_size = min_cluster_size
        self.random_state = random_state
        self.max_iter = max_iter
        self.measure_deviation = measure_deviation
        self.n_jobs = n_jobs
        self.progress = progress

    def fit(self, X: Any, y: Any = None, groups: Any = None, sample_weight: Any = None) -> Self:  # noqa: ARG002
        """Run one round of k-FED: every device clusters its rows, the server groups their centers.

        Parameters
        ----------
        X : array, sparse matrix or data frame of shape (n_rows, n_features), or list of such
            All rows, or a list with the rows of each device.
        y : ignored
        groups : array of shape (n_rows,), optional
            The device of each row: numbers, strings or anything whose ``str`` names it. Without groups, a table is one
            device.
        sample_weight : array of shape (n_rows,), or list with an array for each device, optional
            A weight of N equals N copies of the row.

        Returns
        -------
        KFed
        """
        self._validate_params()
        is_central = groups is None and not are_tables(X)
        devices = self._devices(X, groups)
        weights = (
            None if sample_weight is None else devices.split_weights(_all_weights(sample_weight, devices))
        )
        found = self._cluster(devices, weights, is_central)
        self.aggregation_: Aggregation = aggregate(
            self._messages(found, devices.ids), self.n_clusters, rule=self.rule, n_jobs=self._n_threads
        )
        self.device_ids_ = devices.ids
        self.n_iter_ = max(local.n_iterations for local in found)
        self.cluster_centers_ = self.aggregation_.cluster_centers.astype(found[0].centers.dtype)
        if is_central:
            (table,) = devices.tables
            self.labels_ = self._nearest(table)
            self.inertia_ = self._cost(table, self.labels_, _weights(sample_weight, table))
        else:
            self._induce(found, devices)
        return self

    def _devices(self, X: Any, groups: Any) -> Devices:
        """The tables of the devices, checked as scikit-learn checks a table."""
        if not are_tables(X):
            X = self._validated(X, reset=True)
            return Devices.one(X) if groups is None else Devices.by_group(X, groups)
        if groups is not None:
            raise InvalidInputError(
                "groups must be left out when X is a list of tables, which says it all, and came"
            )
        return Devices.by_position(self._validated_tables(X, reset=True))

    def _validated_tables(self, tables: Sequence[Any], *, reset: bool) -> list[Any]:
        if not tables:
            raise InvalidInputError("X must be a table or a list of at least one table, and is an empty list")
        checked = []
        for position, table in enumerate(tables):
            try:
                checked.append(self._validated(table, reset=reset and position == 0))
            except ValueError as error:
                raise InvalidInputError(f"the table of device '{position}' will not do: {error}") from error
        return checked

    def _checked(self, X: Any) -> Any:
        """New rows, of one table or of a list of tables."""
        if not are_tables(X):
            return super()._checked(X)
        check_is_fitted(self)
        tables = self._validated_tables(X, reset=False)
        return super()._checked(
            (sparse.vstack if any(map(sparse.issparse, tables)) else np.concatenate)(tables)
        )

    def _cluster(
        self, devices: Devices, weights: list[Array] | None, is_central: bool
    ) -> list[LocalClustering]:
        """Algorithm 1 on every device."""
        default = ceil(sqrt(self.n_clusters))
        n_local_clusters = default if self.n_local_clusters is None else self.n_local_clusters
        if is_central and devices.n_rows < self.n_clusters:
            raise InvalidInputError(f"n_samples={devices.n_rows} should be >= n_clusters={self.n_clusters}")
        return cluster_fleet(
            devices.tables,
            self.n_clusters if is_central else devices.one_each(n_local_clusters, "n_local_clusters"),
            device_ids=None if is_central else devices.ids,
            sample_weights=weights,
            random_state=self.random_state,
            min_cluster_size=1 if is_central else self.min_cluster_size,
            max_iterations=self.max_iter,
            measure_deviation=self.measure_deviation,
            n_jobs=self._n_threads,
            progress=self.progress,
        )

    def _messages(self, found: list[LocalClustering], device_ids: list[str]) -> list[DeviceMessage]:
        names = getattr(self, "feature_names_in_", None)
        names = None if names is None else tuple(names.tolist())
        return [
            replace(local, feature_names=names).to_message(device_id)
            for local, device_id in zip(found, device_ids, strict=True)
        ]

    def _induce(self, found: list[LocalClustering], devices: Devices) -> None:
        """Set the induced labels, and their cost, for which the statistics of the local clusters are enough."""
        self.labels_ = np.empty(devices.n_rows, np.int32)
        self.inertia_ = 0.0
        for local, device_id, rows in zip(found, devices.ids, devices.rows, strict=True):
            clusters = local.global_clusters(self.aggregation_.identity(device_id))
            self.labels_[rows] = clusters[local.labels]
            moves = np.linalg.norm(local.centers - self.cluster_centers_[clusters], axis=1).astype(np.float64)
            self.inertia_ += local.cost + float(np.dot(local.counts, moves**2))


def _weights(sample_weight: Any, X: Any) -> Array:
    """One weight a row, of the dtype of the rows; None means one each."""
    weights: Array = _check_sample_weight(sample_weight, X, dtype=X.dtype)
    return weights


def _all_weights(sample_weight: Any, devices: Devices) -> Array:
    """One weight a row of all devices, from an array of them or from a list with an array a device."""
    flat = np.hstack(sample_weight) if isinstance(sample_weight, (list, tuple)) else sample_weight
    return _weights(flat, np.empty(devices.n_rows, devices.tables[0].dtype))
