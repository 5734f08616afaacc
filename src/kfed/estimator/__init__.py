"""scikit-learn's surface: `LocalKMeans` is Algorithm 1 alone, `KFed` the whole of k-FED."""

from kfed.estimator.estimators import KFed, LocalKMeans

__all__ = [
    "KFed",
    "LocalKMeans",
]
