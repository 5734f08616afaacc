"""One-shot federated clustering: find the groups in data that never leaves its devices.

On each device, then on the server, then on each device again::

    local = kfed.cluster_device(points, n_local_clusters=4)    # Algorithm 1; stays on the device
    message = local.to_message("hospital-7")                   # a few centers: all that leaves
    result = kfed.aggregate(messages, n_clusters=16)           # Algorithm 2, on the server
    identity = result.identity("hospital-7")                   # the one answer back
    labels = local.induced_labels(identity)                    # on the device
    late = result.assign(other_message)                        # a device that came late
    result.certificate().verdict                               # whether the paper's theorem covers it

`cluster_fleet` simulates many devices at once; `KFed` and `LocalKMeans` are scikit-learn estimators. The method is that
of Dennis, Li and Smith, "Heterogeneity for the Win: One-Shot Federated Clustering" (ICML 2021).
"""

from typing import TYPE_CHECKING, Any

from kfed._version import __version__ as __version__
from kfed.device import LocalClustering, Privacy, cluster_device, cluster_fleet, refine_device
from kfed.errors import (
    AggregationWarning,
    CorruptFileError,
    DeviceWarning,
    DivergedError,
    DuplicateDeviceError,
    EngineError,
    FeatureMismatchError,
    InvalidInputError,
    KFedError,
    KFedWarning,
    MessageError,
    MissingDataError,
    MissingExtraError,
    NoReliableKError,
    OutputExistsError,
    PrivacyWarning,
    TableWarning,
    TooFewCentersError,
    UnknownDeviceError,
    VersionError,
)
from kfed.separation import SeparationReport, separation_report
from kfed.server import (
    Aggregation,
    ClusterModel,
    KChoice,
    KComparison,
    aggregate,
    aggregate_refined,
    aggregate_tree,
    choose_n_clusters,
    compare_k,
)
from kfed.theory import Certificate
from kfed.wire import DeviceMessage, FeatureSchema, Identity

if TYPE_CHECKING:
    from kfed.estimator import KFed, LocalKMeans

__all__ = [
    "Aggregation",
    "AggregationWarning",
    "Certificate",
    "ClusterModel",
    "CorruptFileError",
    "DeviceMessage",
    "DeviceWarning",
    "DivergedError",
    "DuplicateDeviceError",
    "EngineError",
    "FeatureMismatchError",
    "FeatureSchema",
    "Identity",
    "InvalidInputError",
    "KChoice",
    "KComparison",
    "KFed",
    "KFedError",
    "KFedWarning",
    "LocalClustering",
    "LocalKMeans",
    "MessageError",
    "MissingDataError",
    "MissingExtraError",
    "NoReliableKError",
    "OutputExistsError",
    "Privacy",
    "PrivacyWarning",
    "SeparationReport",
    "TableWarning",
    "TooFewCentersError",
    "UnknownDeviceError",
    "VersionError",
    "aggregate",
    "aggregate_refined",
    "aggregate_tree",
    "choose_n_clusters",
    "cluster_device",
    "cluster_fleet",
    "compare_k",
    "refine_device",
    "separation_report",
]


def __getattr__(name: str) -> Any:
    """Import the estimators, and scikit-learn with them, when one is first asked for."""
    if name in ("KFed", "LocalKMeans"):
        from kfed import estimator

        return getattr(estimator, name)
    raise AttributeError(f"module 'kfed' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])
