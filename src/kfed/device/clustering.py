"""`LocalClustering`: what Algorithm 1 found on one device. It stays there; its `to_message` is what may leave."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np

from kfed._base import checks
from kfed._base.array import Array, Length, frozen
from kfed._base.indexed import with_index
from kfed._base.text import plural
from kfed.device.facts import ColumnFacts, SentClusters
from kfed.device.private.facts import PrivateFacts
from kfed.device.refine import refined_labels
from kfed.device.shares import labels_by_share
from kfed.device.summaries.summary import within_budget, within_bytes
from kfed.errors import FeatureMismatchError, InvalidInputError
from kfed.wire import Details, DeviceMessage, FeatureSchema, Identity, KfedFile, agreed_scale, second_message

_TENSORS = ("labels", "centers", "counts", "sums_of_squares", "withheld")
_FACTS = ("spectral_deviation", "n_iterations", "feature_names")
_SENT_TENSORS = ("centers", "counts", "sums_of_squares")
_OPTIONAL_FACTS, _UNNAMED = ("refines", "max_bytes"), "unnamed"
_RARE_FACTS = {"converged": True, "is_summary": False}
"""Written to a file only where they are not as usual; files from before they were kept lack them."""


@dataclass(frozen=True, eq=False)
class LocalClustering(KfedFile):
    """Clusters of the points of one device. Made by `cluster_device` or `cluster_fleet`.

    Attributes
    ----------
    labels : array of int, shape (n_points,)
        Local cluster of every point, U^(z).
    centers : array of shape (n_local_clusters, n_features)
        Mean of every local cluster, Theta^(z). A cluster without points (if there are fewer distinct points than
        clusters) has a row, too, but is never sent.
    counts : array of shape (n_local_clusters,)
        Number of points of each cluster, or their total weight.
    sums_of_squares : array of shape (n_local_clusters,)
        Sum of squared distances of the points of each cluster to its center.
    withheld : array of bool, shape (n_local_clusters,)
        Clusters that `to_message` leaves out, since they would reveal rows; see `cluster_device`.
    spectral_deviation : float or None
        Spectral norm of the points of the clusters that are sent, minus their centers, or an upper estimate of it; see
        `cluster_device`. None if it was not measured.
    n_iterations : int
        Lloyd steps that changed something.
    feature_names : tuple of str or None
        Names of the columns, if the points were a data frame.
    converged : bool
        Whether Lloyd ended because nothing changed; False if it was cut short by `max_iterations`.
    is_summary : bool
        Whether the local clusters are a fine summary of the points, and not clusters: no number was given, or
        ``n_local_clusters="auto"`` could not tell how many there are. The message says so.
    columns : ColumnFacts or None
        What is known of the columns, if the points are the rows of a table.
    sent : SentClusters or None
        What `to_message` says of the clusters, where that differs from what they are: sums of squares of small clusters
        are shared out or left out, and small clusters may have borrowed points; see `cluster_device`.
    private : PrivateFacts or None
        With privacy, the noise and the promise; then `centers` and `counts` are noisy.
    scatter : array of shape (n_rows, n_features) or None
        How the points spread in every direction, if that is to be sent; see `with_moments`.
    refines : str or None
        The fingerprint of the global clusters that these are the rows of, in a second message; see `refine_device`.
    max_bytes : int or None
        The most bytes that a message of a summary may take, if that was said.
    index : pandas.Index or None
        The index of the data frame that the points came from. It is not kept in a file.

    Examples
    --------
    >>> points = np.concatenate([np.random.default_rng(0).normal(mean, size=(30, 2)) for mean in (0, 9)])
    >>> local = kfed.cluster_device(points, 2, random_state=0)
    >>> sorted(np.bincount(local.labels).tolist()), local.to_message("north").n_features
    ([30, 30], 2)
    """

    _kind: ClassVar[str] = "local clustering"
    _is_private: ClassVar[bool] = True

    labels: Array
    centers: Array
    counts: Array
    sums_of_squares: Array
    withheld: Array
    spectral_deviation: float | None
    n_iterations: int
    feature_names: tuple[str, ...] | None = None
    converged: bool = True
    is_summary: bool = False
    columns: ColumnFacts | None = None
    sent: SentClusters | None = None
    private: PrivateFacts | None = None
    scatter: Array | None = None
    refines: str | None = None
    max_bytes: int | None = None
    index: Any = None
    _sent_as: set[str] = field(default_factory=set, repr=False)  # its name, and those of its messages

    n_points = Length("labels", 0, "Number of points on the device, n^(z).")
    n_local_clusters = Length("centers", 0, "Number of local clusters, k^(z), empty ones included.")
    n_features = Length("centers", 1, "Number of features of a point, d.")

    @property
    def cost(self) -> float:
        """The k-means cost: sum of squared distances of all points to their centers."""
        return float(self.sums_of_squares.sum(dtype=np.float64))

    def __repr__(self) -> str:
        return (
            f"LocalClustering(n_points={self.n_points}, n_local_clusters={self.n_local_clusters}, "
            f"n_features={self.n_features}, cost={self.cost:.6g}, withheld={int(self.withheld.sum())})"
        )

    def to_message(self, device_id: str, *, bits: int | None = None) -> DeviceMessage:
        """Make the message to send: centers, counts and sums of squares of the clusters that are not withheld.

        With `bits`, 4, 8 or 16, centers are rounded to so many bits a number; the message says how far they may be off.
        """
        self._sent_as.add(device_id)
        message = self._message(device_id, ~self.withheld, self if self.sent is None else self.sent)
        if self.refines is not None:
            message = second_message(message, np.flatnonzero(~self.withheld), self.refines)
        if self.max_bytes is not None and self.refines is None:
            return within_bytes(message, self.max_bytes, bits)
        is_bounded = bits is None and self.is_summary and self.columns is None
        return within_budget(message) if is_bounded else message if bits is None else message.quantised(bits)

    def _message(self, device_id: str, sent: Array, said: LocalClustering | SentClusters) -> DeviceMessage:
        if self.private is not None:
            return self._private_message(device_id, self.private, sent)
        if self.columns is not None:
            return self._table_message(device_id, self.columns, sent)
        sums = said.sums_of_squares[sent]
        n_rows = int(np.count_nonzero(sent[self.labels]))
        return DeviceMessage(
            device_id,
            said.centers[sent],
            said.counts[sent],
            None if np.isnan(sums).any() else sums,
            self.spectral_deviation,
            self.feature_names,
            details=Details.of_device(self.is_summary, self.scatter, n_rows),
        )

    def _private_message(self, device_id: str, private: PrivateFacts, sent: Array) -> DeviceMessage:
        """What was released with noise, and nothing else that depends on the rows."""
        about: dict[str, Any] = {"schema": private.schema, "details": private.details(sent)}
        return DeviceMessage(device_id, self.centers[sent], self.counts[sent], None, None, self.feature_names, **about)

    def _table_message(self, device_id: str, columns: ColumnFacts, sent: Array) -> DeviceMessage:
        """The message about a table, without values that have too few cells behind them."""
        centers, details = columns.told(self.centers)[sent], columns.details(sent, self.scatter)
        details = replace(details, is_summary=self.is_summary)
        assert details.squares is not None
        squares = details.squares.sum(axis=1)
        return DeviceMessage(device_id, centers, self.counts[sent], squares, schema=columns.schema, details=details)

    def induced_labels(self, identity: Identity, *, refine: Any = None) -> Any:
        """Global cluster of every point, (n_points,): the induced clustering of the paper.

        Points of a pandas data frame get a series with its index, others an array.

        A point gets the global cluster of its local cluster's center. A local cluster that was withheld gets the
        nearest of the global centers, which the identity contains; where it does not show one, the device uses
        its own centers of that cluster.

        Parameters
        ----------
        identity : Identity
            The server's answer to this device.
        refine : array, sparse matrix or data frame of shape (n_points, n_features), optional
            The points that were clustered, since they are not kept here. Each then gets the nearest of the global
            clusters that the device plausibly holds: those of its local clusters, and those that are nearest to at
            least three points, and a quarter, of one local cluster. This goes beyond the paper. It splits a local
            cluster that covers two global ones. On a device that sent a summary, see `kfed.device.shares`.
        """
        labels = self.global_clusters(identity)[self.labels] if refine is None else self._refined(identity, refine)
        return with_index(labels, self.index)

    def _refined(self, identity: Identity, refine: Any) -> Array:
        own = self.global_clusters(identity)
        points = self._checked_points(refine) if self.columns is None else self._scaled_cells(refine, identity)
        known = self._completed(identity)
        shown = np.flatnonzero(known.shown)  # all clusters of its own are among them
        centers = known.scaled_centers[shown]
        if self.is_summary:
            shares = None if known.cluster_shares is None else known.cluster_shares[shown]
            return np.asarray(shown[labels_by_share(points, centers, shares, by_size=self.columns is None)])
        return np.asarray(shown[refined_labels(points, self.labels, np.searchsorted(shown, own), centers)])

    def _scaled_cells(self, cells: Array, identity: Identity) -> Array:
        """The cells of a table on the scale of the answer; missing ones are at the mean of all devices."""
        assert self.columns is not None
        cells, schema = self._of_shape(cells), self.columns.schema
        own = agreed_scale(schema).apply(cells) if schema.scaling == "agreed" else cells
        return np.nan_to_num(identity.scaled(own, schema))

    def _checked_points(self, points: Any) -> Any:
        if isinstance(points, bool | np.bool_):
            raise InvalidInputError(f"refine must be the points that were clustered; got {points}: pass refine=points")
        if self.private is not None and self.private.schema is not None:
            raise InvalidInputError("refine is not supported for private tables with a schema; pass refine=None")
        return self._of_shape(checks.finite_table(points, "refine"))

    def _of_shape(self, points: Any) -> Any:
        if points.shape != (self.n_points, self.n_features):
            raise InvalidInputError(
                f"the rows must be those that were clustered, of shape ({self.n_points}, {self.n_features}); got shape "
                f"{points.shape}"
            )
        return points

    def global_clusters(self, identity: Identity) -> Array:
        """Global cluster of every local cluster, (n_local_clusters,)."""
        if not isinstance(identity, Identity):
            raise TypeError(f"identity must be an Identity, the answer to this device; got {type(identity).__name__}")
        if self._sent_as - {_UNNAMED} and identity.device_id not in self._sent_as:
            raise InvalidInputError(
                f"identity must be for {min(self._sent_as - {_UNNAMED})!r}, the id of this device; got the "
                f"identity for {identity.device_id!r}"
            )
        if self.columns is None and identity.n_features != self.n_features:
            raise FeatureMismatchError(
                f"identity must have {plural(self.n_features, 'feature')}; got {identity.n_features} (wrong device)"
            )
        sent = ~self.withheld
        if len(identity) != np.count_nonzero(sent):
            raise InvalidInputError(
                f"identity must name {plural(int(np.count_nonzero(sent)), 'cluster')}, as many as this device sent; "
                f"got {len(identity)}: it is the answer to another message"
            )
        clusters = np.empty(self.n_local_clusters, np.int64)
        clusters[sent] = identity.cluster_ids
        if self.refines is not None:  # its local clusters are the global ones
            clusters[self.withheld] = np.flatnonzero(self.withheld)
            return clusters
        centers, schema = self._known_centers()
        clusters[self.withheld] = self._completed(identity).nearest(centers[self.withheld], schema)
        return clusters

    def _completed(self, identity: Identity) -> Identity:
        return identity.completed((known := self._known_centers())[0][~self.withheld], known[1])

    def _known_centers(self) -> tuple[Array, FeatureSchema]:
        """The local centers, NaN where no cell is behind one, and their features."""
        if self.columns is None:
            return self.centers, FeatureSchema(self.n_features)
        return np.where(self.columns.observed > 0, self.centers, np.nan), self.columns.schema

    def _parts(self) -> tuple[dict[str, Array], dict[str, Any]]:
        tensors = {name: getattr(self, name) for name in _TENSORS}
        tensors |= {f"sent_{name}": getattr(self.sent, name) for name in _SENT_TENSORS if self.sent is not None}
        unusual = {name: getattr(self, name) for name, usual in _RARE_FACTS.items() if getattr(self, name) is not usual}
        facts = {name: getattr(self, name) for name in _FACTS} | unusual
        facts |= {name: own for name in _OPTIONAL_FACTS if (own := getattr(self, name)) is not None}
        if self.private is not None:
            tensors["noise"] = self.private.noise
            facts |= self.private.facts()
        if self.columns is not None:
            tensors |= self.columns.tensors()
            facts |= {"schema": self.columns.schema.facts(), "n_left_out": self.columns.n_left_out}
        return tensors if self.scatter is None else tensors | {"scatter": self.scatter}, facts

    @classmethod
    def _restored(cls, tensors: dict[str, Array], facts: Mapping[str, Any]) -> LocalClustering:
        arrays: dict[str, Any] = {name: frozen(tensors[name]) for name in _TENSORS}
        arrays["withheld"] = frozen(tensors["withheld"].astype(bool))
        names = checks.feature_names(facts["feature_names"], arrays["centers"].shape[1])
        if "sent_centers" in tensors:
            arrays["sent"] = SentClusters(*(frozen(tensors[f"sent_{name}"]) for name in _SENT_TENSORS))
        rare: dict[str, Any] = {name: bool(facts.get(name, usual)) for name, usual in _RARE_FACTS.items()}
        about = {name: facts[name] for name in _FACTS} | {"feature_names": names}
        about |= {name: facts.get(name) for name in _OPTIONAL_FACTS} | {"columns": ColumnFacts.restored(tensors, facts)}
        rare |= {"scatter": frozen(tensors["scatter"])} if "scatter" in tensors else {}
        clustering = cls(**arrays, **about, **rare, private=PrivateFacts.restored(tensors, facts))
        clustering._check_sound()
        return clustering

    def _check_sound(self) -> None:
        """Raise unless the arrays of a file are consistent."""
        sent = [] if self.sent is None else [self.sent.counts, self.sent.sums_of_squares, self.sent.centers[:, 0]]
        columns = [self.counts, self.sums_of_squares, self.withheld, *sent]
        if self.centers.ndim != 2 or self.labels.ndim != 1 or any(c.shape != self.centers.shape[:1] for c in columns):
            raise InvalidInputError("the shapes of its arrays do not match")
        if self.labels.dtype.kind != "i" or not np.isfinite(self.centers).all():
            raise InvalidInputError("its labels must be integers, and its centers finite")
        for name in ("counts", "sums_of_squares"):
            values = getattr(self, name)
            if values.dtype.kind not in "fi" or not ((values >= 0) & (values < np.inf)).all():
                raise InvalidInputError(f"its {name} must be finite and not negative")
        if self.labels.size and not 0 <= self.labels.min() <= self.labels.max() < len(self.centers):
            raise InvalidInputError("its labels must be indices of its centers")
        self.to_message(_UNNAMED)  # raises unless its message would be valid
