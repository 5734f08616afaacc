"""How far centers moved, as far as it matters to the points of each cluster: the bounds of `bounded_lloyd`."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from kfed._base import pool
from kfed._base.array import Array
from kfed.device.steps.lloyd_step import DISTANCES


class NearMoves:
    """The slack that points of each cluster lose when centers move; centers far from their own take none of it.

    See Rysavy and Hamerly, "Geometric methods to accelerate k-means algorithms", SDM 2016, for bounds of this kind.
    """

    # Let x be a point of center a, and c another center. If r is at least |x - a| for all points of a, then
    # |x - c| - |x - a| >= |c - a| - 2 |x - a| >= |c - a| - 2 r. And no slack is more than the gap |b - a| was when it
    # was measured, b being the nearest other center: |x - b| - |x - a| <= |b - a|. So while |c - a| >= 2 r + gap, c is
    # no nearer to x than the slack says, however far it moved.

    def __init__(self, centers: Array) -> None:
        self._centers = centers  # (n_clusters, n_features)
        self._radii = np.zeros(len(centers))
        self._gaps = np.concatenate([distances.min(axis=1) for _, distances in _distances(centers)])

    def widen(self, radii: Array) -> None:
        """Points of each cluster were seen as far as this from its center, (n_clusters,)."""
        np.maximum(self._radii, radii, out=self._radii)

    def to(self, centers: Array) -> Array:
        """Move the centers; return the slack that points of each cluster lose, (n_clusters,)."""
        lengths = np.linalg.norm(centers - self._centers, axis=1)
        self._centers = centers
        self._radii += lengths
        reach = 2 * self._radii + self._gaps
        largest = np.empty_like(lengths)  # of the moves of near centers
        for block, distances in _distances(centers):
            largest[block] = np.where(distances < reach[block, None], lengths, 0).max(axis=1)
            self._gaps[block] = np.maximum(self._gaps[block], distances.min(axis=1))
        return np.asarray(lengths + largest)


def _distances(centers: Array) -> Iterator[tuple[slice, Array]]:
    """Distances of some centers at a time to all, infinite to themselves, (n_some, n_clusters)."""
    centered = (centers - centers.mean(axis=0)).astype(np.float64)
    squares = np.einsum("kd,kd->k", centered, centered)
    for block in pool.blocks(len(centers), max(1, DISTANCES // len(centers))):
        products = np.matmul(centered[block], centered.T)
        distances = np.sqrt(np.maximum(squares[block, None] + squares - 2 * products, 0))
        rows = np.arange(len(distances))
        distances[rows, block.start + rows] = np.inf
        yield block, distances
