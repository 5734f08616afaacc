"""What k-FED is compared with: pooling, coresets, many rounds. All share one interface, and count what they send.

::

    central = baselines.centralized(devices, n_clusters=10, seed=0)           # every row leaves its device
    lloyd = baselines.distributed_lloyd(devices, n_clusters=10, seed=0)       # many rounds
    many = baselines.federated_kmeans(devices, n_clusters=10, seed=0)         # many rounds, from a k-means++ start
    few = baselines.distributed_coreset(devices, n_clusters=10, seed=0)       # two rounds; weighted rows leave
    heavy = baselines.weighted_centers(devices, n_clusters=10, seed=0)        # one round; k-means on device centers
    soft = baselines.gaussian_mixture(devices, n_clusters=10, seed=0)         # one round; EM on messages
    ours = baselines.k_fed(n_local_clusters=2)(devices, n_clusters=10, seed=0)
    central.centers, central.labels, central.sent                             # Communication: rounds, messages, bytes

    baselines.compare({"k-FED": baselines.k_fed(2), "mine": my_method}, devices, 10, seeds=range(10)).to_frame()
"""

from kfed.baselines.centralized import Centralized, centralized, rows_message
from kfed.baselines.comparison import Baseline, FoundClusters, compare, k_fed
from kfed.baselines.coreset import distributed_coreset
from kfed.baselines.distributed_lloyd import DistributedLloyd, Step, distributed_lloyd
from kfed.baselines.federated_kmeans import federated_kmeans
from kfed.baselines.gaussian_mixture import SphericalMixture, gaussian_mixture, mixture_of
from kfed.baselines.one_round import OneRound, one_round
from kfed.baselines.pooling import CountedClusters
from kfed.baselines.textbook import textbook_local
from kfed.baselines.weighted_centers import weighted_centers

__all__ = [
    "Baseline",
    "Centralized",
    "CountedClusters",
    "DistributedLloyd",
    "FoundClusters",
    "OneRound",
    "SphericalMixture",
    "Step",
    "centralized",
    "compare",
    "distributed_coreset",
    "distributed_lloyd",
    "federated_kmeans",
    "gaussian_mixture",
    "k_fed",
    "mixture_of",
    "one_round",
    "rows_message",
    "textbook_local",
    "weighted_centers",
]
