"""`LocalKMeans` and `KFed`: Algorithm 1 alone, and the whole of k-FED, as scikit-learn estimators.

They are thin: input is checked as scikit-learn checks it, and the functions of the library do the work.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import ceil, sqrt
from typing import Any, Self

import numpy as np
from scipy import sparse
from sklearn.utils._param_validation import StrOptions
from sklearn.utils.validation import check_is_fitted

from kfed._base.random import RandomState
from kfed.device import MAX_ITERATIONS, MIN_CLUSTER_SIZE, LocalClustering, cluster_fleet
from kfed.errors import InvalidInputError
from kfed.estimator.nearest_center import AT_LEAST_ONE, NearestCenter
from kfed.server import Aggregation, aggregate
from kfed.simulate import Devices, are_tables


class LocalKMeans(NearestCenter):
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
        Number of threads for a large table; one per core by default and if -1. It does not change the answer.

    Attributes
    ----------
    cluster_centers_ : array of shape (n_clusters, n_features)
    labels_ : array of int, shape (n_rows,)
        Nearest center of every row that was fitted.
    inertia_ : float
        Sum of squared distances of the rows to their nearest centers, times their weights.
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
        self._fit_one_device(self._validated(X, reset=True), sample_weight)
        return self


class KFed(NearestCenter):
    """k-FED: cluster rows that are spread over devices, in one round of communication.

    Parameters
    ----------
    n_clusters : int
        Number of global clusters, k.
    n_local_clusters : int, sequence or mapping, optional
        Clusters that a device looks for, k^(z): one number for all, one a device in the order of
        `device_ids_`, or a mapping from device (its group, or its position in a list) to number. By default
        the square root of `n_clusters`, rounded up: the heterogeneous case that the paper is about.
    rule : {"paper", "robust"}
        How the server groups device centers, see `kfed.aggregate`.
    min_cluster_size : int
        How small a cluster a device keeps to itself, see `kfed.cluster_device`.
    random_state : int, Generator, RandomState or None
        The seed. With the id of a device it determines every random choice made there.
    max_iter : int
        At most this many Lloyd steps on a device.
    measure_deviation : bool
        Whether devices also say how far their points spread, so that the paper's conditions can be checked on
        `aggregation_`. On small devices this takes as long as clustering them.
    n_jobs : int, optional
        Number of threads; one per core by default and if -1. It does not change the answer.
    progress : bool, optional
        Show a progress bar; None means on a terminal, when it takes a while.

    Attributes
    ----------
    cluster_centers_ : array of shape (n_clusters, n_features)
        Means of the device centers of each global cluster.
    labels_ : array of int, shape (n_rows,)
        The induced clustering: each row goes where the server put the center of its local cluster. In the
        order of the rows of `X`; if `X` is a list of tables, in the order of the list.
    inertia_ : float
        Sum of squared distances of the rows to the centers of their labels, times their weights. It can be
        more than ``-score(X)``: the induced label is not always that of the nearest center.
    n_iter_ : int
        Most Lloyd steps that a device took.
    aggregation_ : Aggregation
        What the server knows: it serves late devices, and can be saved.
    device_ids_ : list of str
        Names of the devices: ``str`` of each group, in the sorted order of the groups, or of the position in
        a list. Rows whose groups have the same ``str`` are on one device.
    n_features_in_ : int
    feature_names_in_ : array of str, shape (n_features,)
        Only if the columns of `X` had names.

    See Also
    --------
    kfed.cluster_fleet, kfed.aggregate : The two halves as functions.

    Notes
    -----
    A table without `groups` is one device, the centralized special case. Then the model is that of
    `LocalKMeans`: the device looks for `n_clusters` clusters, `labels_` is what `predict` gives, and
    `n_local_clusters`, `rule` and `min_cluster_size` do not apply, since nothing is sent to anyone.

    References
    ----------
    Dennis, Li and Smith, "Heterogeneity for the Win: One-Shot Federated Clustering", ICML 2021.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> corners = np.array([[0.0, 0.0], [0.0, 9.0], [9.0, 0.0], [9.0, 9.0]])
    >>> seen = {"north": [0, 1], "east": [1, 2], "south": [2, 3]}  # each device has two of the four clusters
    >>> tables = [np.repeat(corners[own], 20, axis=0) + rng.normal(size=(40, 2)) for own in seen.values()]
    >>> model = KFed(n_clusters=4, n_local_clusters=2, random_state=0)
    >>> model.fit(np.concatenate(tables), groups=np.repeat(list(seen), 40)).device_ids_
    ['east', 'north', 'south']
    >>> sorted(np.bincount(model.labels_).tolist())
    [20, 20, 40, 40]
    >>> bool((model.fit(tables).predict(corners) == model.labels_[[0, 20, 60, 100]]).all())
    True
    """

    _parameter_constraints: dict[str, list[Any]] = {  # noqa: RUF012  # scikit-learn looks for a plain dict
        **NearestCenter._parameter_constraints,
        "n_local_clusters": [None, AT_LEAST_ONE, "array-like", Mapping],
        "rule": [StrOptions({"paper", "robust"})],
        "min_cluster_size": [AT_LEAST_ONE],
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
        """Run one round of k-FED: every device clusters its rows, and the server groups their centers.

        Parameters
        ----------
        X : array, sparse matrix or data frame of shape (n_rows, n_features), or list of such
            All rows, or a list with the rows of each device.
        y : ignored
        groups : array of shape (n_rows,), optional
            The device of each row of a table: numbers, strings, or anything whose ``str`` can name a device.
        sample_weight : array of shape (n_rows,), or list of arrays in the order of `device_ids_`, optional
            A weight of N equals N copies of the row.

        Returns
        -------
        KFed
        """
        self._validate_params()
        if groups is None and not are_tables(X):
            return self._fit_central(self._validated(X, reset=True), sample_weight)
        devices = self._devices(X, groups)
        found = self._cluster(devices, sample_weight)
        self.aggregation_ = self._aggregate(found, devices.ids, self.n_clusters)
        self.device_ids_ = devices.ids
        dtype = np.result_type(*{local.centers.dtype for local in found})
        self.cluster_centers_ = self.aggregation_.cluster_centers.astype(dtype)
        self.n_iter_ = max(local.n_iterations for local in found)
        self._induce(found, devices)
        return self

    def _fit_central(self, X: Any, sample_weight: Any) -> Self:
        if X.shape[0] < self.n_clusters:
            raise InvalidInputError(f"n_samples={X.shape[0]} should be >= n_clusters={self.n_clusters}")
        local = self._fit_one_device(X, sample_weight, measure_deviation=self.measure_deviation)
        self.device_ids_ = ["0"]
        self.aggregation_ = self._aggregate([local], self.device_ids_, int(np.count_nonzero(local.counts)))
        return self

    def _devices(self, X: Any, groups: Any) -> Devices:
        if not are_tables(X):
            return Devices.by_group(self._validated(X, reset=True), groups)
        if groups is not None:
            raise InvalidInputError("groups must be left out if X is a list, where each table is a device")
        return Devices.by_position(self._validated_tables(X, reset=True))

    def _validated_tables(self, tables: Sequence[Any], *, reset: bool) -> list[Any]:
        """Check tables one by one; all must have the features of the first, or of those fitted."""
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
        """Check new rows; those of a list of tables are put one below the other."""
        if not are_tables(X):
            return super()._checked(X)
        check_is_fitted(self)
        tables = self._validated_tables(X, reset=False)
        are_sparse = any(map(sparse.issparse, tables))
        stacked = sparse.vstack(tables, format="csr") if are_sparse else np.concatenate(tables)
        return stacked.astype(np.result_type(stacked.dtype, self.cluster_centers_.dtype), copy=False)

    def _cluster(self, devices: Devices, sample_weight: Any) -> list[LocalClustering]:
        """Run Algorithm 1 on every device."""
        default = ceil(sqrt(self.n_clusters))
        n_local_clusters = default if self.n_local_clusters is None else self.n_local_clusters
        return cluster_fleet(
            devices.tables,
            devices.one_each(n_local_clusters, "n_local_clusters"),
            device_ids=devices.ids,
            sample_weights=None if sample_weight is None else devices.weights(sample_weight),
            random_state=self.random_state,
            min_cluster_size=self.min_cluster_size,
            max_iterations=self.max_iter,
            measure_deviation=self.measure_deviation,
            n_jobs=self._n_threads,
            progress=self.progress,
        )

    def _aggregate(self, found: list[LocalClustering], device_ids: list[str], n_clusters: int) -> Aggregation:
        """Run Algorithm 2 on what the devices send."""
        names = tuple(self.feature_names_in_) if hasattr(self, "feature_names_in_") else None
        messages = [
            replace(local, feature_names=names).to_message(device_id)
            for local, device_id in zip(found, device_ids, strict=True)
        ]
        return aggregate(messages, n_clusters, rule=self.rule, n_jobs=self._n_threads)

    def _induce(self, found: list[LocalClustering], devices: Devices) -> None:
        """Label the rows, and sum up what that costs; the statistics of local clusters are enough for it."""
        self.labels_ = np.empty(devices.n_rows, np.int32)
        self.inertia_ = 0.0
        for local, device_id, rows in zip(found, devices.ids, devices.rows, strict=True):
            clusters = local.global_clusters(self.aggregation_.identity(device_id))
            self.labels_[rows] = clusters[local.labels]
            moves = np.linalg.norm(local.centers - self.cluster_centers_[clusters], axis=1).astype(np.float64)
            self.inertia_ += local.cost + float(np.dot(local.counts, moves**2))
