"""`Presence`: which clusters are on which devices, and the sizes that the paper's conditions are made of."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from kfed._base.array import Array


@dataclass(frozen=True)
class Presence:
    """Which clusters are on which devices: one entry for each non-empty T_r^(z), the piece of cluster r on device z.

    Examples
    --------
    >>> presence = Presence.of(np.array([0, 0, 0, 1, 1]), np.array([0, 0, 1, 1, 1]), n_clusters=2)
    >>> presence.sizes, presence.cluster_sizes
    (array([2., 1., 2.]), array([2., 3.]))
    >>> presence.size_imbalance, presence.max_local_clusters, presence.smallest_device
    (3.0, 2, 2.0)
    >>> presence.smallest_size
    2.0
    >>> presence.active_pairs.tolist()
    [[0, 1]]
    """

    devices: Array  # (n_pieces,), in order
    clusters: Array  # (n_pieces,)
    sizes: Array  # n_r^(z): (n_pieces,)
    n_clusters: int  # k

    @classmethod
    def of(cls, devices: Array, clusters: Array, weights: Array | None = None, *, n_clusters: int) -> Presence:
        """Add up points by device and cluster, given the device, the cluster and the weight (by default 1) of each."""
        keys = devices.astype(np.int64) * n_clusters + clusters
        pieces, members = np.unique(keys, return_inverse=True)
        sizes = np.bincount(members, weights, minlength=len(pieces)).astype(np.float64)
        return cls(pieces // n_clusters, pieces % n_clusters, sizes, n_clusters)

    @cached_property
    def cluster_sizes(self) -> Array:
        """n_r, (n_clusters,)."""
        return np.bincount(self.clusters, self.sizes, minlength=self.n_clusters)

    @cached_property
    def smallest_device(self) -> float:
        """Points of the smallest device that has any: n_min in the paper's text."""
        return _least(np.bincount(self.devices, self.sizes))

    @cached_property
    def smallest_size(self) -> float:
        """n_min, as the proofs use it: no device and no cluster has fewer points."""
        return min(self.smallest_device, _least(self.cluster_sizes))

    @cached_property
    def size_imbalance(self) -> float:
        """m0: the smallest number such that every piece has at least one part in m0 of its cluster."""
        return float((self.cluster_sizes[self.clusters] / self.sizes).max(initial=1.0))

    @cached_property
    def max_local_clusters(self) -> int:
        """k': the most clusters on a device."""
        return int(np.bincount(self.devices).max(initial=0))

    @property
    def is_heterogeneous(self) -> bool:
        """Whether k' <= sqrt(k), the definition of a heterogeneous network."""
        return self.max_local_clusters**2 <= self.n_clusters

    @cached_property
    def is_active(self) -> Array:
        """Whether some device holds both clusters of a pair, (n_clusters, n_clusters)."""
        from scipy.sparse import csr_array

        ones = np.ones(len(self.sizes), np.int32)
        shape = (int(self.devices.max(initial=-1)) + 1, self.n_clusters)
        incidence = csr_array((ones, (self.devices, self.clusters)), shape=shape)
        active = (incidence.T @ incidence).toarray() > 0
        np.fill_diagonal(active, False)
        return np.asarray(active)

    @property
    def active_pairs(self) -> Array:
        """Pairs that share a device, (n_pairs, 2), the lower number first."""
        return np.argwhere(np.triu(self.is_active, 1))

    @property
    def inactive_pairs(self) -> Array:
        """Pairs that share no device, (n_pairs, 2), the lower number first."""
        exists = self.cluster_sizes > 0
        return np.argwhere(np.triu(np.outer(exists, exists) & ~self.is_active, 1))


def _least(sizes: Array) -> float:
    return float(sizes[sizes > 0].min(initial=np.inf))
