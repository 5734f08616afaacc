"""How good a grouping of device centers is, measured on the rows behind them, from messages alone.

The rows behind a device center lie about it with a known sum of squares. So the sum of their squared distances to any
other place is that, plus their number times the squared distance of the center to it: exact, without a row.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from kfed._base import geometry
from kfed._base.array import Array
from kfed._base.averages import means_by_label
from kfed.wire import MessageBatch

LEAST_KNOWN = 0.5
"""Share of the rows whose spread must be known for measures of rows; below, device centers are measured."""


@dataclass(frozen=True)
class GroupingQuality:
    """Measures of one grouping, where every row keeps the local cluster that it is in.

    Attributes
    ----------
    cost : float
        Sum of squared distances of the rows to the mean of their cluster, the k-means cost; of the device centers alone
        if devices did not say how far their rows spread.
    explained : float
        Share of the variance of all rows that lies between clusters.
    silhouette : float
        Simplified silhouette: how much nearer rows are to their own mean than to the next one, from -1 to 1. Distances
        are root mean squares over the rows of each device center.
    calinski_harabasz : float
        Variance between clusters over that within them.
    """

    cost: float
    explained: float
    silhouette: float
    calinski_harabasz: float


@dataclass(frozen=True)
class RowMoments:
    """What is known of the rows behind each device center, on the common scale."""

    centers: Array  # (n_device_centers, n_features)
    counts: Array  # (n_device_centers,)
    squares: Array  # (n_device_centers,) of the rows about the center; zeros if devices did not say
    owners: Array  # (n_device_centers,)
    share_known: float  # share of the rows whose device said how far they spread

    @classmethod
    def of(cls, batch: MessageBatch) -> RowMoments:
        """Read them off messages.

        Rows of devices that sent no sums of squares are taken to spread like those of the others. If these others have
        the fewer rows, spreads count as unknown.
        """
        on_scale = batch.rescaled
        counts, squares = on_scale.counts.astype(np.float64), on_scale.sums_of_squares.astype(np.float64)
        known = np.isfinite(squares)
        n_known = float(counts[known].sum())
        share = n_known / max(float(counts.sum()), 1e-300)
        usual = float(squares[known].sum()) / n_known if share >= LEAST_KNOWN else 0.0
        squares = np.where(known, squares, usual * counts) if share >= LEAST_KNOWN else np.zeros(len(counts))
        return cls(on_scale.centers.astype(np.float64), counts, squares, on_scale.owners, share)

    @property
    def has_squares(self) -> bool:
        """Whether spreads are known of most rows."""
        return self.share_known >= LEAST_KNOWN

    @property
    def variances(self) -> Array:
        """Mean squared distance of the rows to their device center, (n_device_centers,)."""
        return self.squares / self.counts

    @property
    def total(self) -> float:
        """Sum of squared distances of all rows to the mean of all."""
        mean = np.average(self.centers, axis=0, weights=self.counts)
        return float(self.squares.sum() + self.counts @ np.square(self.centers - mean).sum(axis=1))

    def means(self, labels: Array, n_clusters: int) -> Array:
        """Means of the rows of each cluster, (n_clusters, n_features); zeros for a cluster without rows."""
        return means_by_label(self.centers, labels, np.zeros((n_clusters, self.centers.shape[1])), self.counts)

    def quality(self, labels: Array, n_clusters: int) -> GroupingQuality:
        """Measure the grouping that puts device center s in cluster ``labels[s]``.

        Examples
        --------
        >>> sent = kfed.DeviceMessage("a", [[0.0], [2.0], [9.0]], counts=[10, 10, 20], sums_of_squares=[5, 5, 10])
        >>> RowMoments.of(MessageBatch.of([sent])).quality(np.array([0, 0, 1]), 2).cost  # 20 rows 1 from their mean
        40.0
        """
        present = np.unique(labels)
        squares = geometry.squared_distances(self.centers, self.means(labels, n_clusters)[present])
        own = squares[np.arange(len(labels)), np.searchsorted(present, labels)]
        cost = float(self.squares.sum() + self.counts @ own)
        total, n_rows = self.total, float(self.counts.sum())
        between, degrees = max(total - cost, 0.0), max(n_rows - len(present), 1.0)
        smallest = max(cost, np.finfo(np.float64).eps * total, 1e-300)
        index = between * degrees / (max(len(present) - 1, 1) * smallest)
        explained = between / total if total > 0 else 0.0
        return GroupingQuality(cost, explained, self._silhouette(squares, labels, present), index)

    def _silhouette(self, squares: Array, labels: Array, present: Array) -> float:
        if len(present) < 2:
            return 0.0
        own = np.arange(len(labels)), np.searchsorted(present, labels)
        inner = np.sqrt(squares[own] + self.variances)
        others = squares.copy()
        others[own] = np.inf
        outer = np.sqrt(others.min(axis=1) + self.variances)
        widths = (outer - inner) / np.maximum(np.maximum(outer, inner), 1e-300)
        return float(np.average(widths, weights=self.counts))
