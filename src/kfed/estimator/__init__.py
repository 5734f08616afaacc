"""scikit-learn's surface: `LocalKMeans` is Algorithm 1 alone, `KFed` the whole of k-FED."""

from kfed.estimator.federated import KFed
from kfed.estimator.local import LocalKMeans

__all__ = [
    "KFed",
    "LocalKMeans",
]
