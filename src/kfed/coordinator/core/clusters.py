"""`Clusters`: what an aggregated federation answers its devices from. It holds labels, and no device's centers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np

from kfed._base import geometry
from kfed._base.array import Array, Length
from kfed._base.text import plural
from kfed.coordinator.core.how_many import HowMany
from kfed.coordinator.core.members import Members
from kfed.errors import DuplicateDeviceError
from kfed.server import Aggregation, clusters_for
from kfed.wire import (
    DIGEST_BYTES,
    CommonScale,
    DeviceMessage,
    FeatureSchema,
    KfedFile,
    Notice,
    columns_from_parts,
    columns_to_parts,
)

MAX_NOTICES = 100


@dataclass(frozen=True, eq=False)
class Clusters(KfedFile):
    """The global clusters of a federation.

    Attributes
    ----------
    version : int
        Counts the clusterings of this federation.
    made_at : float
        When, in seconds since 1970.
    members : Members
        The messages that they were made of.
    starts : array of shape (n_devices + 1,)
        Where in `center_labels` the labels of each device begin.
    center_labels : array of shape (n_device_centers,)
        Global cluster of each device center.
    cluster_centers : array of shape (n_clusters, n_features)
    cluster_sizes : array of shape (n_clusters,)
        Points behind each cluster.
    devices_in_cluster : array of shape (n_clusters,)
        Devices that the center of each cluster rests on.
    traversal : array
        Farthest-first distances.
    how_many : HowMany
        How the number of clusters was chosen.
    notices : tuple of Notice
        What to look at before relying on these clusters.
    scale : CommonScale or None
        The scale on which devices were compared, if they sent the units of their tables.
    columns : FeatureSchema or None
        The features, where they come from the columns of tables.
    rounds : int
        2 if second messages of devices moved the centers.
    rule : str
        The rule that grouped the centers of devices; empty where that was not kept.
    """

    _kind: ClassVar[str] = "clusters of a federation"
    _version: ClassVar[int] = 2

    version: int
    made_at: float
    members: Members
    starts: Array
    center_labels: Array
    cluster_centers: Array
    cluster_sizes: Array
    devices_in_cluster: Array
    traversal: Array
    how_many: HowMany
    notices: tuple[Notice, ...] = ()
    scale: CommonScale | None = None
    columns: FeatureSchema | None = None
    rounds: int = 1
    rule: str = ""

    @classmethod
    def of(
        cls,
        aggregation: Aggregation,
        digests: Array,
        sequences: Array,
        previous: Clusters | None,
        *,
        version: int,
        made_at: float,
    ) -> Clusters:
        """Keep the parts of an aggregation that are needed to answer devices; known clusters keep their ids."""
        if previous is not None:
            old, new = (_comparable(own, aggregation) for own in (previous, aggregation))
            aggregation = aggregation.renumbered(stable_ids(old, new))
        edges = np.arange(aggregation.messages.n_devices + 1)
        return cls(
            version=version,
            made_at=made_at,
            members=Members(aggregation.messages.device_ids, digests, sequences, int(sequences.max())),
            starts=np.searchsorted(aggregation.messages.owners, edges),
            center_labels=aggregation.center_labels.astype(np.int32),
            cluster_centers=aggregation.cluster_centers,
            cluster_sizes=aggregation.cluster_sizes,
            devices_in_cluster=aggregation.devices_in_cluster,
            traversal=aggregation.grouping.traversal,
            how_many=HowMany.of(aggregation.k_choice),
            notices=aggregation.notices[:MAX_NOTICES],
            scale=aggregation.scale,
            columns=aggregation.schema if aggregation.schema.columns else None,
            rule=aggregation.rule,
        )

    @cached_property
    def schema(self) -> FeatureSchema:
        """The features of a center; names of plain features are the federation's, which compares them at the door."""
        return self.columns or FeatureSchema(self.cluster_centers.shape[1])

    n_clusters = Length("cluster_centers", 0, "Number of global clusters, k.")

    def labels_of(self, device_id: str) -> Array | None:
        """Global clusters of the centers of a device that was aggregated, or None."""
        position = self.members.position(device_id)
        return None if position is None else self.center_labels[self.starts[position] : self.starts[position + 1]]

    def is_late(self, device_id: str) -> bool:
        """Whether a device was not aggregated: `clusters_for` gives its centers the nearest clusters."""
        return self.labels_of(device_id) is None

    @classmethod
    def _from_parts(cls, tensors: dict[str, Array], facts: Mapping[str, Any]) -> Self:
        """Like any other file; format version 1, which had no digests, is read too."""
        return super()._from_parts(tensors, {**facts, "version": cls._version} if facts.get("version") == 1 else facts)

    def _parts(self) -> tuple[dict[str, Array], dict[str, Any]]:
        ids = np.frombuffer("\n".join(self.members.device_ids).encode(), np.uint8)  # no id holds a line break
        tensors = {"device_ids": ids, "digests": self.members.digests, "sequences": self.members.sequences}
        tensors |= {name: getattr(self, name) for name in _TENSORS}
        facts: dict[str, Any] = {
            "clustering": self.version,
            "made_at": self.made_at,
            "last_sequence": self.members.last_sequence,
        }
        facts |= {"notices": [[*own, own.told_to, own.told] for own in self.notices]} if self.notices else {}
        facts |= ({} if self.rounds == 1 else {"rounds": self.rounds}) | ({"rule": self.rule} if self.rule else {})
        of_choice, chosen = self.how_many.parts()
        scale, schema = columns_to_parts(self.columns, self.scale)
        return tensors | of_choice | scale, facts | chosen | schema

    @classmethod
    def _restored(cls, tensors: dict[str, Array], facts: Mapping[str, Any]) -> Self:
        ids = tuple(tensors.pop("device_ids").tobytes().decode().split("\n"))
        digests = tensors.get("digests", np.zeros((len(ids), DIGEST_BYTES), np.uint8))  # no message has this digest
        sequences = tensors.get("sequences", np.zeros(len(ids), np.int64))
        if "devices_in_cluster" not in tensors:
            tensors["devices_in_cluster"] = _devices_in_cluster(tensors)
        columns, scale = columns_from_parts(tensors, facts)
        return cls(
            version=facts["clustering"],
            made_at=facts["made_at"],
            members=Members(ids, digests, sequences, facts["last_sequence"]),
            how_many=HowMany.restored(tensors, facts, len(tensors["cluster_centers"])),
            notices=tuple(map(_notice, facts.get("notices", ()))),
            scale=scale,
            columns=columns,
            rounds=int(facts.get("rounds", 1)),
            rule=str(facts.get("rule", "")),
            **{name: tensors[name] for name in _TENSORS},
        )


def _notice(saved: Sequence[Any]) -> Notice:
    """A notice as it was saved; without who may be told, as it once was, for the administrator alone."""
    code, text, told_to, told = (*saved, (), "")[:4]
    return Notice(str(code), str(text), None if told_to is None else tuple(map(str, told_to)), str(told))


def labels_if_ready(clusters: Clusters | None, message: DeviceMessage) -> Array | None:
    """The global cluster of each center of a message, (n_local_clusters,), or None if its device should ask again.

    That is while there are no clusters, and, after a device replaced its message, while the clusters are still made of
    the message before.
    """
    if clusters is None:
        return None
    try:
        return clusters_for(clusters, message, clusters.labels_of(message.device_id), clusters.members.has(message))
    except DuplicateDeviceError:
        return None


_TENSORS = (
    "starts",
    "center_labels",
    "cluster_centers",
    "cluster_sizes",
    "devices_in_cluster",
    "traversal",
)


def _devices_in_cluster(tensors: dict[str, Array]) -> Array:
    """Devices with a center in each cluster, where clusters were saved before this was."""
    owners = np.repeat(np.arange(len(tensors["starts"]) - 1), np.diff(tensors["starts"]))
    pairs = np.unique(np.stack([owners, tensors["center_labels"]]), axis=1)
    return np.bincount(pairs[1], minlength=len(tensors["cluster_centers"]))


def _comparable(own: Clusters | Aggregation, now: Aggregation) -> Array:
    """The centers of clusters with the features, and on the scale, that clusters have now."""
    centers = now.schema.align(own.cluster_centers, own.schema)
    return centers if now.scale is None else now.scale.apply(centers)


def stable_ids(old_centers: Array, new_centers: Array) -> Array:
    """Ids for new clusters: each keeps the id of the old cluster that it matches.

    Old and new centers are matched so that the sum of squared distances is smallest. Clusters without a match get the
    ids that are left. Where there are fewer clusters than before, an id beyond the last one cannot be kept.

    Examples
    --------
    >>> stable_ids(np.array([[0.0], [5.0], [9.0]]), np.array([[9.1], [0.2], [5.0]])).tolist()
    [2, 0, 1]
    >>> stable_ids(np.array([[0.0], [5.0]]), np.array([[5.0], [70.0], [0.0]])).tolist()
    [1, 2, 0]
    """
    from scipy.optimize import linear_sum_assignment

    n_clusters = len(new_centers)
    old, new = linear_sum_assignment(geometry.squared_distances(old_centers, new_centers))
    ids = np.full(n_clusters, -1)
    kept = old < n_clusters
    ids[new[kept]] = old[kept]
    ids[ids < 0] = np.setdiff1d(np.arange(n_clusters), ids)
    return ids


def in_words(clusters: Clusters | None) -> str:
    """What came of a clustering, in a few words."""
    if clusters is None:
        return "gathering again"
    return f"{plural(clusters.n_clusters, 'cluster')} from {plural(len(clusters.members), 'device')}"
