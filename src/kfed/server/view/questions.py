"""`Questions`: what people ask of clusters beyond the answers to devices: what they are, and where a row belongs."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Protocol

from kfed._base.array import Array
from kfed._base.notebook import InNotebook
from kfed._base.report import Block
from kfed.server.view.optimality import Optimality, optimality
from kfed.server.view.prediction import HasCenters, distances, predict
from kfed.server.view.profile import Profile
from kfed.server.view.shown import aggregation_blocks
from kfed.wire import MessageBatch

if TYPE_CHECKING:
    from matplotlib.axes import Axes


class _Grouped(Protocol):
    @property
    def messages(self) -> MessageBatch: ...

    @property
    def center_labels(self) -> Array: ...

    @property
    def n_clusters(self) -> int: ...


class Questions(InNotebook):
    """The part of `Aggregation` that describes clusters and labels rows."""

    def predict(self: HasCenters, X: Any) -> Any:
        """The cluster of rows that need not come from any device, (n_rows,): the nearest mean mu(tau_r).

        Rows of a pandas data frame get a series with its index, others an array.

        Parameters
        ----------
        X : array, sparse matrix or data frame of shape (n_rows, n_features)
            In the units of `cluster_centers`. The columns of a data frame are taken by their names, where devices
            named theirs; categories are columns of text, and flags (yes, no), dates and missing cells (n/a) may be
            words. A level that no device named counts as `other`, where that is a level, and else as missing. An
            `AggregationWarning` names columns of tables that lie far from those of the devices.
        """
        return predict(self, X)

    def transform(self: HasCenters, X: Any) -> Array:
        """Distance of each row to each cluster, (n_rows, n_clusters), on `scale` if there is one; see `predict`."""
        return distances(self, X)

    def profile(self: _Grouped) -> Profile:
        """What each cluster is: size, devices, and every column in the units of the tables, compared with all rows."""
        return Profile.of(self.messages, self.center_labels, self.n_clusters)

    def optimality(self: _Grouped) -> Optimality:
        """How far the cost can be from the best possible; needs devices that sent their scatter (``--moments``)."""
        return optimality(self.messages, self.center_labels, self.n_clusters)

    def plot(self: Any, path: str | os.PathLike[str] | None = None, ax: Axes | None = None) -> Axes:
        """Draw the device centers and the clusters; `path` and `ax` are as in `Certificate.plot`."""
        from kfed.server.view.plots import plot_centers

        return plot_centers(self, path, ax)

    def _shown(self: Any) -> Iterable[Block]:
        return aggregation_blocks(self)
