"""When k-FED is proved to be right: the quantities of section 3 of the paper, from sizes, distances and one norm.

Both sides use these: `kfed.separation` with the norm measured on the data, `kfed.certificate` with an interval
for it from messages alone. Whatever is about pairs of clusters is a symmetric array of shape (n_clusters,
n_clusters), NaN where there is no pair: on the diagonal, and where a cluster has no points.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from kfed._base import geometry, pool
from kfed._base.array import Array

REQUIRED_RATIO = 100.0
"""c: "any c >= 100 is sufficient for our arguments", says the paper."""

INACTIVE_FACTOR = 10.0
"""What the main theorem asks of inactive pairs in place of c."""

_BLOCK_ELEMENTS = 2**20


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
    >>> presence.active_pairs.tolist()
    [[0, 1]]
    """

    devices: Array  # (n_pieces,), in order
    clusters: Array  # (n_pieces,)
    sizes: Array  # n_r^(z): (n_pieces,)
    n_clusters: int  # k

    @classmethod
    def of(cls, devices: Array, clusters: Array, weights: Array | None = None, *, n_clusters: int) -> Presence:
        """Count what is where, given the device, the cluster and the weight (by default 1) of each of many things."""
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
        """n_min, as the paper's text defines it: points of the smallest device that has any."""
        sizes = np.bincount(self.devices, self.sizes)
        return float(sizes[sizes > 0].min(initial=np.inf))

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


# The two scales, and what the theorem and the corollary ask ------------------------------------------------------


def active_scales(deviation: float, presence: Presence) -> Array:
    """Delta_r = k' norm(A - C) / sqrt(n_r), (n_clusters,)."""
    return presence.max_local_clusters * deviation * _inverse_roots(presence.cluster_sizes)


def inactive_scale(deviation: float, presence: Presence) -> float:
    """Give lambda = sqrt(k') norm(A - C) / sqrt(n_min)."""
    return float(np.sqrt(presence.max_local_clusters / presence.smallest_device) * deviation)


def separation_ratios(distances: Array, deviation: float, presence: Presence) -> Array:
    """c_rs, the distance of two means over 2 sqrt(m0) (Delta_r + Delta_s)."""
    scales = sums_of_pairs(active_scales(deviation, presence))
    return over(distances, 2 * np.sqrt(presence.size_imbalance) * scales)


def required_separations(deviation: float, presence: Presence, required_ratio: float = REQUIRED_RATIO) -> Array:
    """Find the distance that the main theorem asks of a pair.

    c sqrt(m0) (Delta_r + Delta_s) of an active pair, and 10 sqrt(m0) lambda of an inactive one.
    """
    scales = sums_of_pairs(active_scales(deviation, presence))
    least = np.where(np.isnan(scales), np.nan, INACTIVE_FACTOR * inactive_scale(deviation, presence))
    root = np.sqrt(presence.size_imbalance)
    return np.asarray(root * np.where(presence.is_active, required_ratio * scales, least))


def corollary_separations(deviation: float, presence: Presence, required_ratio: float = REQUIRED_RATIO) -> Array:
    """Find the distance that the corollary asks of a pair, if k' <= sqrt(k).

    f sqrt(m0) norm(A - C) (1 / sqrt(n_r) + 1 / sqrt(n_s)), where f is c sqrt(k) for an active pair and 10 k^(1/4) for
    an inactive one.
    """
    n_clusters = presence.n_clusters
    factors = np.where(presence.is_active, required_ratio * n_clusters**0.5, INACTIVE_FACTOR * n_clusters**0.25)
    return np.asarray(factors * np.sqrt(presence.size_imbalance) * proximity_gaps(deviation, presence.cluster_sizes))


def proximity_gaps(deviation: float, sizes: Array) -> Array:
    """(1 / sqrt(n_r) + 1 / sqrt(n_s)) norm(A - C), by how much the proximity condition wants its own mean nearer."""
    return sums_of_pairs(deviation * _inverse_roots(sizes))


def is_met_in_text_only(attained: Array, presence: Presence) -> Array:
    """Find pairs that are far enough apart if n_min is the smallest device, but not if it is the smallest cluster.

    The paper's text defines n_min as the former; the proof for inactive pairs uses that no cluster is smaller.
    """
    sizes = presence.cluster_sizes
    share = np.sqrt(min(1.0, sizes[sizes > 0].min() / presence.smallest_device))
    return np.asarray(~presence.is_active & (attained >= 1) & (attained * share < 1))


# Arithmetic of pairs ---------------------------------------------------------------------------------------------


def sums_of_pairs(values: Array) -> Array:
    """``values[r] + values[s]``, NaN on the diagonal."""
    sums = values[:, None] + values
    np.fill_diagonal(sums, np.nan)
    return np.asarray(sums)


def over(distances: Array, lengths: Array) -> Array:
    """Distances as multiples of lengths. Two means at one place are zero apart, even where the length is zero too."""
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        ratios = np.where(distances > 0, distances / lengths, 0.0)
    ratios[np.isnan(lengths)] = np.nan
    return ratios


def _inverse_roots(sizes: Array) -> Array:
    return 1 / np.sqrt(np.where(sizes > 0, sizes, np.nan))


# Means -----------------------------------------------------------------------------------------------------------


def cluster_means(points: Any, labels: Array, weights: Array, n_clusters: int) -> Array:
    """Average the points of each cluster in double precision, (n_clusters, n_features), NaN if it has none."""
    from scipy.sparse import csc_array

    sums = np.zeros((n_clusters, points.shape[1]))
    for block in pool.blocks(points.shape[0], max(1, _BLOCK_ELEMENTS // points.shape[1])):
        own = weights[block].astype(np.float64)
        members = csc_array((own, labels[block], np.arange(len(own) + 1)), shape=(n_clusters, len(own)))
        partial = members @ points[block].astype(np.float64)
        sums += partial if isinstance(partial, np.ndarray) else partial.toarray()
    sizes = np.bincount(labels, weights, minlength=n_clusters)
    return np.asarray(sums / np.where(sizes > 0, sizes, np.nan)[:, None])


def distances_of(means: Array) -> Array:
    """Distances between means, (n_clusters, n_clusters)."""
    return np.asarray(np.sqrt(geometry.squared_distances(means, means)))
