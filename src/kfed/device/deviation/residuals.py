"""Products with R, the points of each device minus their own centers."""

from __future__ import annotations

from copy import copy
from typing import Any

import numpy as np
import numpy.typing as npt

from kfed._base import random
from kfed._base.array import Array
from kfed.device.rows.dense import DenseRows
from kfed.device.rows.rows import Rows
from kfed.device.steps.lloyd_step import FEW_CENTERS, memberships

N_STARTS = 2
"""Vectors of each device that are multiplied at once: two take two thirds of the steps of one."""

_KEY = np.uint64(0x6C616E637A6F7300)
"""Makes the draws of a start independent of those of the clustering."""


class Residuals:
    """R of a batch of devices: each row times sqrt(weight), divided by the scale of its device, (n_devices,)."""

    def __init__(self, rows: Rows, centers: Array, labels: Array, weights: Array, scales: Array) -> None:
        self._rows, self._centers, self._labels = rows, centers, labels
        self._weights = weights
        self._inverse = (1 / scales).astype(rows.dtype)[:, None]
        self._factors = weights * self._inverse
        self._moments = self._second_moments()
        self._all_members: Array | None = None
        if isinstance(rows, DenseRows) and self._n_clusters <= FEW_CENTERS:
            self._all_members = self._members(slice(None))

    @property
    def has_moments(self) -> bool:
        """Whether `times` does not look at the points."""
        return self._moments is not None

    def start(self, keys: npt.NDArray[np.uint64]) -> Array:
        """R^T u, (n_devices, N_STARTS, n_features), for each u uniform in the cube of side 1 around 0."""
        along = _uniforms(keys, self._rows.n_points, self._rows.dtype)
        along *= np.sqrt(self._weights)[:, None]
        return self._added(self._rows.map_blocks(lambda block: self._back(along[:, :, block], block)))

    def times(self, vectors: Array) -> Array:
        """R^T R v for each of `vectors` (n_devices, N_STARTS, n_features); each block of points is read once."""
        if self._moments is not None:
            return np.asarray(np.matmul(vectors, self._moments))
        along_centers = np.matmul(vectors, self._centers.transpose(0, 2, 1))

        def of_block(block: slice) -> Array:
            along = self._rows.part(block).along(vectors)
            along -= self._at_own(along_centers, block)
            along *= self._factors[:, None, block]
            return self._back(along, block)

        return self._added(self._rows.map_blocks(of_block))

    def select(self, devices: Array) -> Residuals:
        """Only these devices of the batch."""
        some = copy(self)
        for name in ("_centers", "_labels", "_weights", "_inverse", "_factors", "_moments", "_all_members"):
            of = getattr(self, name)
            setattr(some, name, None if of is None else of[devices])
        if self._moments is None:
            some._rows = self._rows.select(devices)
        return some

    def _second_moments(self) -> Array | None:
        """R^T R of each device, (n_devices, n_features, n_features), or None if it is not worth it."""
        if not self._rows.is_tall:
            return None
        moments = self._rows.residual_moments(self._centers, self._labels, self._weights)
        if moments is not None:
            for _ in range(2):  # the square might overflow
                moments *= self._inverse[:, :, None]
        return moments

    def _back(self, along: Array, block: slice) -> Array:
        by_cluster = self._by_cluster(along, block).astype(along.dtype, copy=False)
        return np.asarray(self._rows.part(block).total(along) - np.matmul(by_cluster, self._centers))

    def _at_own(self, by_cluster: Array, block: slice) -> Array:
        """What each point's cluster has, (n_devices, N_STARTS, n_points)."""
        if self._n_clusters <= FEW_CENTERS:
            return np.asarray(np.matmul(by_cluster, self._members(block)))
        return np.take_along_axis(by_cluster, self._labels[:, None, block].astype(np.intp), axis=2)

    def _by_cluster(self, along: Array, block: slice) -> Array:
        """Sums over the points of each cluster, (n_devices, N_STARTS, n_clusters)."""
        if self._n_clusters <= FEW_CENTERS:
            return np.asarray(np.matmul(along, self._members(block).transpose(0, 2, 1)))
        runs = np.arange(along[:, :, 0].size).reshape(*along.shape[:2], 1)
        cells = self._labels[:, None, block] + runs * self._n_clusters
        sums = np.bincount(cells.ravel(), along.ravel(), minlength=runs.size * self._n_clusters)
        return np.asarray(sums.reshape(*along.shape[:2], self._n_clusters))

    @property
    def _n_clusters(self) -> int:
        return int(self._centers.shape[1])

    def _members(self, block: slice) -> Array:
        """1 for each point in its own cluster, 0 in others, (n_devices, n_clusters, n_points)."""
        if self._all_members is not None:
            return self._all_members
        labels = self._labels[:, block]
        return memberships(labels, np.ones(labels.shape, self._rows.dtype), self._n_clusters)

    def _added(self, parts: list[Array]) -> Array:
        return np.asarray(sum(parts[1:], start=parts[0]) * self._inverse[:, :, None])


def _uniforms(keys: npt.NDArray[np.uint64], n_points: int, dtype: np.dtype[Any]) -> Array:
    """Numbers in (-1/2, 1/2) from each key, (n_devices, N_STARTS, n_points)."""
    n_words = -(-n_points * N_STARTS // 4)  # of four draws each
    drawn = random.words(keys ^ _KEY, n_words).view(np.int16)[:, : n_points * N_STARTS].astype(dtype)
    drawn += dtype.type(0.5)
    drawn *= dtype.type(2.0**-16)
    return drawn.reshape(len(keys), N_STARTS, n_points)
