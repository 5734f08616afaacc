"""One-shot Gaussian mixture on messages: devices send centers, counts and spreads; the server runs EM on these."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from kfed._base import geometry
from kfed._base.array import Array
from kfed.baselines.pooling import CountedClusters
from kfed.baselines.weighted_centers import by_rule, weighted_kmeans
from kfed.server import RowMoments
from kfed.wire import MessageBatch


def gaussian_mixture(
    devices: Sequence[Any], n_clusters: int, seed: int = 0, *, n_local_clusters: int | None = None
) -> CountedClusters:
    """Fit a mixture of spherical Gaussians to the messages of k-FED, and give each device center its component.

    It is a `Baseline` whose devices look for `n_local_clusters` clusters each, by default for `n_clusters`.

    References
    ----------
    Vasconcelos and Lippman, "Learning mixture hierarchies", NIPS 1998: EM on summaries, where a summary of n rows
    counts as n rows of its mean and its spread.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> near, far = rng.normal(size=(20, 2)), rng.normal(size=(30, 2)) + 9
    >>> sorted(gaussian_mixture([near, far], n_clusters=2).centers.round().astype(int).tolist())
    [[0, 0], [9, 9]]
    """

    def rule(batch: MessageBatch, k: int) -> Array:
        moments = RowMoments.of(batch)
        start = weighted_kmeans(batch.centers, batch.counts, k, seed)[0]
        return np.asarray(mixture_of(moments.centers, moments.counts, moments.squares, start).near.argmax(axis=1))

    return by_rule(f"Gaussian mixture from seed {seed}", rule, devices, n_clusters, n_local_clusters, seed)


@dataclass(frozen=True, eq=False)
class SphericalMixture:
    """A mixture: shares (k,), means (k, d), variances (k,), and the share of each summary in each component (n, k).

    Examples
    --------
    >>> summaries = np.array([[0.0], [1.0], [9.0]])
    >>> found = mixture_of(summaries, np.array([10, 10, 20]), np.array([10.0, 10.0, 20.0]), summaries[[0, 2]])
    >>> found.shares, found.means.ravel(), found.near.argmax(axis=1)
    (array([0.5, 0.5]), array([0.5, 9. ]), array([0, 0, 1]))
    """

    shares: Array
    means: Array
    variances: Array
    near: Array


def mixture_of(
    centers: Array, counts: Array, squares: Array, start: Array, *, n_steps: int = 100, least: float = 1e-6
) -> SphericalMixture:
    """EM on summaries of rows: their means, numbers and sums of squares; `start` has the first means.

    Examples
    --------
    >>> summaries = np.array([[0.0], [1.0], [9.0]])  # each the mean of so many rows, which spread so far
    >>> counts = np.array([10, 10, 20])
    >>> mixture_of(summaries, counts, 1.0 * counts, start=summaries[[0, 2]]).variances.round(2)
    array([1.25, 1.  ])
    """
    d = centers.shape[1]
    near = np.eye(len(start))[geometry.nearest(centers, start)]
    shares, means, variances = _maximised(near, centers, counts, squares, least)
    for _ in range(n_steps):
        gaps = geometry.squared_distances(centers, means) + (squares / counts)[:, None]
        logs = np.log(np.maximum(shares, 1e-300)) - 0.5 * counts[:, None] * (gaps / variances + d * np.log(variances))
        near = np.exp(logs - logs.max(axis=1, keepdims=True))
        near /= near.sum(axis=1, keepdims=True)
        before = means
        shares, means, variances = _maximised(near, centers, counts, squares, least)
        if np.allclose(before, means, rtol=1e-9, atol=1e-12):
            break
    return SphericalMixture(shares, means, variances, near)


def _maximised(near: Array, centers: Array, counts: Array, squares: Array, least: float) -> tuple[Array, Array, Array]:
    """Shares, means and variances of the components that the summaries are in."""
    sizes = np.maximum(counts @ near, 1e-300)
    means = (near * counts[:, None]).T @ centers / sizes[:, None]
    about = squares[:, None] + counts[:, None] * geometry.squared_distances(centers, means)
    return sizes / sizes.sum(), means, (near * about).sum(axis=0) / (sizes * centers.shape[1]) + least
