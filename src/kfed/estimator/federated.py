"""`KFed`: k-FED as a scikit-learn estimator. It checks input as scikit-learn does; a simulated round does the work."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from numbers import Integral
from typing import Any, Literal, Self

import numpy as np
from scipy import sparse
from sklearn.utils._param_validation import Options, StrOptions
from sklearn.utils.validation import check_is_fitted

from kfed._base.array import Array
from kfed._base.heavy_column import CODE
from kfed._base.random import RandomState
from kfed.device import MAX_ITERATIONS, MIN_CLUSTER_SIZE, Privacy, caller_tells_convergence
from kfed.errors import InvalidInputError
from kfed.estimator.heavy_column import warn_of_heavy_column
from kfed.estimator.lost_groups import refuse_groups_as_y, warn_of_lost_groups
from kfed.estimator.nearest_center import AT_LEAST_ONE, NearestCenter
from kfed.estimator.one_table import aggregated_alone
from kfed.server import BUILT_IN_RULES
from kfed.simulate import Devices, Round, are_tables


class KFed(NearestCenter):
    """k-FED: cluster rows that are spread over devices, in one round of communication.

    Parameters
    ----------
    n_clusters : int or "auto"
        Number of global clusters, k; ``"auto"`` compares numbers and takes the best, see `kfed.aggregate`.
    n_local_clusters : int, "auto", sequence or mapping, optional
        Clusters that a device looks for, k^(z): one number for all, one for each device in the order of
        `device_ids_`, or a mapping from device (its group, or its position in a list) to number. By default a device
        sends a fine summary of its rows instead, see `kfed.cluster_device`; with both numbers it is the paper's method.
    rule : {"default", "paper", "pooled", "robust"}
        How the server groups device centers, see `kfed.aggregate`.
    min_devices : int, optional
        Devices that every global cluster must rest on, see `kfed.aggregate`.
    min_cluster_size : int
        A device withholds smaller clusters, see `kfed.cluster_device`.
    random_state : int, Generator, RandomState or None
        The seed. With the id of a device it determines every random choice made there.
    max_iter : int
        At most this many Lloyd steps on a device.
    measure_deviation : bool
        Whether devices also measure their spectral deviation, which `aggregation_.certificate()` needs. On small
        devices this takes as long as clustering them.
    n_jobs : int, optional
        Number of threads; one per core by default and if -1. It does not change the answer.
    progress : bool, optional
        Show a progress bar; None means on a terminal, when it takes a while.
    privacy : kfed.Privacy, optional
        What every device promises for its rows, see `kfed.cluster_device`; `labels_` and `inertia_` are not private.
    rounds : {1, 2}
        With 2, devices send a second message about the global clusters, see `kfed.refine_device`.
    max_bytes : int, optional
        The most bytes that the summary of a device may take, see `kfed.cluster_device`.

    Attributes
    ----------
    cluster_centers_ : array of shape (n_clusters, n_features)
        Means of the device centers of each global cluster. Of one table with fewer distinct rows than clusters it
        has fewer rows, as many as `aggregation_` has clusters; a warning says so.
    labels_ : array of int, shape (n_rows,)
        The induced clustering: each row goes where the server put the center of its local cluster, or with summaries
        to the nearest cluster that its device is likely to hold. In the order of `X`, table by table if it is a list.
        Always an array, as in scikit-learn; with an index it is ``pd.Series(model.labels_, index=X.index)``.
    inertia_ : float
        Sum of squared distances of the rows to the centers of their labels, times their weights. It can be
        more than ``-score(X)``: the induced label is not always that of the nearest center.
    n_iter_ : int
        Most Lloyd steps that a device took.
    aggregation_ : Aggregation
        What the server found: it can answer late devices, and can be saved.
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
    A table without `groups` is one device, and the model that of `LocalKMeans`: `labels_` is what `predict` gives, and
    `n_local_clusters`, `rule`, `min_devices` and `min_cluster_size` do not apply, since nothing is sent to anyone.
    Warnings say so if one of them was set, and if no number of clusters stands out. `GridSearchCV` and `cross_validate`
    keep `groups` for their splitter and fit this special case, with a warning, unless metadata routing is enabled and
    ``set_fit_request(groups=True)`` called.

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
        "n_local_clusters": [None, AT_LEAST_ONE, StrOptions({"auto"}), "array-like", Mapping],
        "n_clusters": [AT_LEAST_ONE, StrOptions({"auto"})],
        "rule": [StrOptions(set(BUILT_IN_RULES - {"regions"}))],
        "min_devices": [None, AT_LEAST_ONE],
        "min_cluster_size": [AT_LEAST_ONE],
        "measure_deviation": ["boolean"],
        "progress": [None, "boolean"],
        "privacy": [None, Privacy],
        "rounds": [Options(Integral, {1, 2})],
        "max_bytes": [None, AT_LEAST_ONE],
    }

    def __init__(
        self,
        n_clusters: int | Literal["auto"] = "auto",
        n_local_clusters: int | Literal["auto"] | Sequence[int] | Mapping[Any, int] | None = None,
        *,
        rule: str = "default",
        min_devices: int | None = None,
        min_cluster_size: int = MIN_CLUSTER_SIZE,
        random_state: RandomState = None,
        max_iter: int = MAX_ITERATIONS,
        measure_deviation: bool = False,
        n_jobs: int | None = None,
        progress: bool | None = False,
        privacy: Privacy | None = None,
        rounds: int = 1,
        max_bytes: int | None = None,
    ) -> None:
        self.n_clusters = n_clusters
        self.n_local_clusters = n_local_clusters
        self.rule = rule
        self.min_devices = min_devices
        self.min_cluster_size = min_cluster_size
        self.random_state = random_state
        self.max_iter = max_iter
        self.measure_deviation = measure_deviation
        self.n_jobs = n_jobs
        self.progress = progress
        self.privacy = privacy
        self.rounds = rounds
        self.max_bytes = max_bytes

    def fit(self, X: Any, y: Any = None, groups: Any = None, sample_weight: Any = None) -> Self:
        """Run one round of k-FED: every device clusters its rows, and the server groups their centers.

        Parameters
        ----------
        X : array, sparse matrix or data frame of shape (n_rows, n_features), or list of such
            All rows, or a list with the rows of each device.
        y : None
            For pipelines and searches of scikit-learn, which give targets to all their parts; here they are ignored.
            From anyone else it is an error without `groups`, for which it is easily mistaken.
        groups : array of shape (n_rows,), optional
            The device of each row of a table: numbers, strings, or anything whose ``str`` can name a device.
        sample_weight : array of shape (n_rows,), or list of arrays in the order of `device_ids_`, optional
            A weight of N equals N copies of the row.

        Returns
        -------
        KFed
        """
        self._validate_params()
        if groups is None:
            refuse_groups_as_y(y)
        if groups is None and not are_tables(X):
            warn_of_lost_groups(self._meant_for_devices())
            return self._fit_central(self._validated(X, reset=True), sample_weight)
        devices = self._devices(X, groups)
        with caller_tells_convergence():
            done = self._round(devices, sample_weight)
        found = done.local.values()
        self.aggregation_ = done.aggregation
        self.device_ids_ = devices.ids
        dtype = np.result_type(*{local.centers.dtype for local in found})
        self.cluster_centers_ = self.aggregation_.cluster_centers.astype(dtype)
        self.n_iter_ = max(local.n_iterations for local in found)
        self._induce(done, devices, sample_weight)
        n_unsettled = sum(not local.converged for local in found)
        n_found = len(np.unique(self.cluster_centers_, axis=0))
        self._warn_unless_found(n_found, self.aggregation_.n_clusters, n_unsettled)
        if CODE not in {notice.code for notice in self.aggregation_.notices}:
            warn_of_heavy_column(devices, self.labels_, self._feature_names)
        return self

    def fit_predict(self, X: Any, y: Any = None, **options: Any) -> Array:
        """Return `labels_` after `fit`, which has the same arguments."""
        return self.fit(X, y, **options).labels_

    def _fit_central(self, X: Any, sample_weight: Any) -> Self:
        found = self._clusters_in(X, sample_weight, self.privacy) if self.n_clusters == "auto" else None
        k = int(self.n_clusters) if found is None else found.n_clusters
        if X.shape[0] < k:
            raise InvalidInputError(f"n_samples={X.shape[0]} should be >= n_clusters={k}")
        local = self._fit_one_device(X, k, sample_weight, privacy=self.privacy)
        self.device_ids_ = ["0"]
        alone = {"0": replace(local, feature_names=self._feature_names)}
        self.aggregation_ = aggregated_alone(alone, found, rule=self.rule, n_jobs=self._n_threads)
        if CODE not in {notice.code for notice in self.aggregation_.notices}:
            warn_of_heavy_column(Devices.by_position([X]), self.labels_, self._feature_names)
        return self

    def _meant_for_devices(self) -> list[str]:
        """Settings that were given, and that only devices use."""
        usual: dict[str, Any] = {"n_local_clusters": None, "rule": "default", "min_devices": None}
        usual |= {"min_cluster_size": MIN_CLUSTER_SIZE, "rounds": 1, "max_bytes": None}
        pairs = ((name, getattr(self, name), own) for name, own in usual.items())
        return [name for name, given, own in pairs if given is not own and (own is None or given != own)]

    def _devices(self, X: Any, groups: Any) -> Devices:
        if not are_tables(X):
            return Devices.by_group(self._validated(X, reset=True), groups)
        if groups is not None:
            raise InvalidInputError("groups must be None if X is a list: each table is a device")
        return Devices.by_position(self._validated_tables(X, reset=True))

    def _validated_tables(self, tables: Sequence[Any], *, reset: bool) -> list[Any]:
        """Check each table; all must have the features of the first, or of those fitted."""
        if not tables:
            raise InvalidInputError("X must be a table or a list of at least one table; got an empty list")
        checked = []
        for position, table in enumerate(tables):
            try:
                checked.append(self._validated(table, reset=reset and position == 0))
            except ValueError as error:
                raise InvalidInputError(f"the table of device '{position}' is invalid: {error}") from error
        return checked

    def _checked(self, X: Any) -> Any:
        """Check new rows; a list of tables is stacked."""
        if not are_tables(X):
            return super()._checked(X)
        check_is_fitted(self)
        tables = self._validated_tables(X, reset=False)
        are_sparse = any(map(sparse.issparse, tables))
        return sparse.vstack(tables, format="csr") if are_sparse else np.concatenate(tables)

    def _round(self, devices: Devices, sample_weight: Any) -> Round:
        """Run one round over the devices, Algorithm 1 on each and Algorithm 2 on what they send."""
        n_local_clusters = self.n_local_clusters
        if not (n_local_clusters is None or isinstance(n_local_clusters, str)):
            n_local_clusters = devices.one_each(n_local_clusters, "n_local_clusters")
        return Round.run(
            dict(zip(devices.ids, devices.tables, strict=True)),
            self.n_clusters,
            n_local_clusters,
            rule=self.rule,
            min_devices=self.min_devices,
            n_jobs=self._n_threads,
            feature_names=self._feature_names,
            sample_weights=None if sample_weight is None else devices.weights(sample_weight),
            random_state=self.random_state,
            min_cluster_size=self.min_cluster_size,
            max_iterations=self.max_iter,
            measure_deviation=self.measure_deviation,
            progress=self.progress,
            privacy=self.privacy,
            rounds=self.rounds,
            max_bytes=self.max_bytes,
        )

    @property
    def _feature_names(self) -> tuple[str, ...] | None:
        return tuple(self.feature_names_in_) if hasattr(self, "feature_names_in_") else None

    def _induce(self, done: Round, devices: Devices, sample_weight: Any) -> None:
        """Label the rows, and compute the inertia: from the statistics of local clusters, if rows kept to these."""
        self.labels_ = np.empty(devices.n_rows, np.int32)
        self.inertia_ = 0.0
        weights = [None] * len(devices.ids) if sample_weight is None else devices.weights(sample_weight)
        every = zip(done.local.items(), done.device_labels(), devices.tables, devices.rows, weights, strict=True)
        for (device_id, local), labels, X, rows, weight in every:
            self.labels_[rows] = labels
            if self.privacy is not None or self.rounds > 1 or local.is_summary:
                own = np.ones(X.shape[0]) if weight is None else weight
                self.inertia_ += float(self._cost(X, self.labels_[rows], own.astype(X.dtype)))
                continue
            clusters = done.clusters[device_id]
            moves = np.linalg.norm(local.centers - self.cluster_centers_[clusters], axis=1).astype(np.float64)
            self.inertia_ += local.cost + float(np.dot(local.counts, moves**2))
