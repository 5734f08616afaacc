"""How good a grouping of device centers is, measured on the rows behind them, from messages alone.

The rows behind a device center lie about it with a known sum of squares. So the sum of their squared distances to any
other place is that, plus their number times the squared distance of the center to it: exact, without a row.

Where cells are missing, the same holds column by column, with the number of cells that were observed: cells that are
not there cost nothing, and explain nothing.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from kfed._base import geometry
from kfed._base.array import Array
from kfed._base.averages import means_by_label
from kfed.wire import BatchDetails, MessageBatch

LEAST_KNOWN = 0.5
"""Share of the rows whose spread must be known for measures of rows; below, device centers are measured."""


@dataclass(frozen=True)
class GroupingQuality:
    """Measures of one grouping, where every row keeps the local cluster that it is in.

    Attributes
    ----------
    cost : float
        Sum of squared distances of the rows to the mean of their cluster, the k-means cost, over all cells that were
        observed; of the device centers alone if devices did not say how far their rows spread.
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
    cells: Array | None = None  # (n_device_centers, n_features) observed behind each value; None if all of them were
    inexact: str = ""  # why costs are not exactly those of the rows, if they are not

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
        cells = None if on_scale.details is None else on_scale.details.observed
        if cells is not None and np.array_equal(cells, np.broadcast_to(counts[:, None], cells.shape)):
            cells = None
        known_of = (on_scale.centers.astype(np.float64), counts, squares, on_scale.owners, share)
        return cls(*known_of, cells, _why_inexact(on_scale, share))

    @property
    def about(self) -> str:
        """A word to say before the share of the variance of the rows: nothing if it is exact."""
        return "about " if self.inexact and self.has_squares else ""

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
        if self.cells is not None:
            return self._cost_of_cells(np.zeros(len(self.counts), np.intp), 1)
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
        if self.cells is not None:
            cost = self._cost_of_cells(labels, n_clusters)
        total, n_rows = self.total, float(self.counts.sum())
        between, degrees = max(total - cost, 0.0), max(n_rows - len(present), 1.0)
        smallest = max(cost, np.finfo(np.float64).eps * total, 1e-300)
        index = between * degrees / (max(len(present) - 1, 1) * smallest)
        explained = between / total if total > 0 else 0.0
        return GroupingQuality(cost, explained, self._silhouette(squares, labels, present), index)

    def _cost_of_cells(self, labels: Array, n_clusters: int) -> float:
        """Sum of squared distances of the observed cells to the mean of those of their cluster and column."""
        assert self.cells is not None
        n_cells, sums = np.zeros((2, n_clusters, self.centers.shape[1]))
        np.add.at(n_cells, labels, self.cells)
        np.add.at(sums, labels, self.cells * self.centers)
        means = sums / np.maximum(n_cells, 1e-300)
        return float(self.squares.sum() + (self.cells * np.square(self.centers - means[labels])).sum())

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


def _why_inexact(batch: MessageBatch, share_known: float) -> str:
    """What keeps costs from being exactly those of the rows that messages speak for; nothing if they are."""
    details = batch.details
    if share_known < 1:
        return "not all devices said how far their rows spread"
    if details is not None and details.noise.any():
        return "messages hold noise"
    if details is not None and details.rounding is not None:
        return "centers are rounded"
    if details is not None and _may_hide_cells(details, batch.counts):
        return "some averages are of too few cells to be told"
    return ""


def _may_hide_cells(details: BatchDetails, counts: Array) -> bool:
    """Whether cells may have been there that messages do not count; second messages leave out what the first did."""
    are_second = any(one.details is not None and one.details.cluster_ids is not None for one in details.messages)
    return bool((details.observed < (counts[:, None] if are_second else 1e-300)).any())
