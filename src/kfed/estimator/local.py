"""`LocalKMeans`: Algorithm 1 alone, as a scikit-learn estimator."""

from __future__ import annotations

from typing import Any, Self

from kfed._base.random import RandomState
from kfed.device import MAX_ITERATIONS
from kfed.estimator.nearest_center import NearestCenter


class LocalKMeans(NearestCenter):
    """Algorithm 1 of the paper alone: k-means on one table, by spectral projection and core sets.

    Parameters
    ----------
    n_clusters : int
        Number of clusters. If there are fewer distinct rows, fewer clusters are found.
    random_state : int, Generator, RandomState or None
        The seed.
    max_iter : int
        At most this many Lloyd steps.
    n_jobs : int, optional
        Number of threads for a large table; one per core by default and if -1. It does not change the answer.

    Attributes
    ----------
    cluster_centers_ : array of shape (n_clusters, n_features)
        Fewer rows if there are fewer distinct rows than clusters; a warning says so.
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
    kfed.cluster_device : The same as a function, with a message for a server.
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
        self._fit_one_device(self._validated(X, reset=True), self.n_clusters, sample_weight)
        return self
