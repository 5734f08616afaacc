"""scikit-learn's surface: `LocalKMeans` is Algorithm 1, `KFed` the whole of k-FED, `to_sklearn` the clusters alone."""

from kfed.estimator.exported import to_sklearn
from kfed.estimator.federated import KFed
from kfed.estimator.local import LocalKMeans

__all__ = [
    "KFed",
    "LocalKMeans",
    "to_sklearn",
]
