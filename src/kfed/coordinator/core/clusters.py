"""`Clusters`: what an aggregated federation answers its devices from. It holds labels, and no device's centers."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np

from kfed._base import geometry
from kfed._base.array import Array, Length
from kfed._base.text import plural
from kfed.errors import DuplicateDeviceError
from kfed.server import Aggregation, KChoice, clusters_for
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
    last_sequence : int
        The last place in the order of arrivals that was aggregated.
    device_ids : tuple of str
        The devices that were aggregated, sorted.
    digests : array of shape (n_devices, 16)
        Digest of the message that each device was aggregated with; zeros where it is not known.
    sequences : array of shape (n_devices,)
        Place of each of these messages in the order of arrivals, which no other message ever gets; 0 where it is not
        known.
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
    reason : str
        How the number of clusters was chosen, if it was not given.
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
    k_choice : KChoice or None
        How the number of clusters was found, if it was not given.
    asked : int or None
        The number of clusters that somebody asked for, if it is not that of the federation.
    found_before : (int, str) or None
        The number that was found before somebody asked for another, and how.
    """

    _kind: ClassVar[str] = "clusters of a federation"
    _version: ClassVar[int] = 2

    version: int
    made_at: float
    last_sequence: int
    device_ids: tuple[str, ...]
    digests: Array
    sequences: Array
    starts: Array
    center_labels: Array
    cluster_centers: Array
    cluster_sizes: Array
    devices_in_cluster: Array
    traversal: Array
    reason: str = ""
    notices: tuple[Notice, ...] = ()
    scale: CommonScale | None = None
    columns: FeatureSchema | None = None
    rounds: int = 1
    rule: str = ""
    k_choice: KChoice | None = None
    asked: int | None = None
    found_before: tuple[int, str] | None = None

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
            last_sequence=int(sequences.max()),
            device_ids=aggregation.messages.device_ids,
            digests=digests,
            sequences=sequences,
            starts=np.searchsorted(aggregation.messages.owners, edges),
            center_labels=aggregation.center_labels.astype(np.int32),
            cluster_centers=aggregation.cluster_centers,
            cluster_sizes=aggregation.cluster_sizes,
            devices_in_cluster=aggregation.devices_in_cluster,
            traversal=aggregation.grouping.traversal,
            reason=str(aggregation.k_choice or ""),
            notices=aggregation.notices[:MAX_NOTICES],
            scale=aggregation.scale,
            columns=aggregation.schema if aggregation.schema.columns else None,
            rule=aggregation.rule,
            k_choice=aggregation.k_choice,
        )

    @cached_property
    def schema(self) -> FeatureSchema:
        """The features of a center; names of plain features are the federation's, which compares them at the door."""
        return self.columns or FeatureSchema(self.cluster_centers.shape[1])

    n_clusters = Length("cluster_centers", 0, "Number of global clusters, k.")

    @property
    def found(self) -> str:
        """How the number of clusters was found, for devices: without the text that may name other devices."""
        choice = self.k_choice
        return "" if choice is None else choice.finding if choice.comparison is None else str(choice)

    def members_among(self, sequences: Mapping[str, int]) -> set[int]:
        """Places of the aggregated messages that are still stored, given the stored place of each device."""
        of_device = zip(self.device_ids, self.sequences.tolist(), strict=True)
        return {sequence for device_id, sequence in of_device if sequences.get(device_id) == sequence}

    def retraced(self, messages: Iterable[tuple[int, bytes]]) -> Clusters:
        """These clusters with the place of each of their messages, found among stored ones by their digests.

        Clusters that the first version saved have no digests, and get those of the messages that their devices have
        now. A message that is not found keeps the place 0, which no stored message has.
        """
        digests, sequences = self.digests.copy(), np.zeros(len(self.device_ids), np.int64)
        has_digests = digests.any()
        for sequence, payload in messages:
            message = DeviceMessage.from_bytes(payload)
            position = self._position(message.device_id)
            if position is not None and (not has_digests or self.has(message)):
                digests[position], sequences[position] = np.frombuffer(message.digest(), np.uint8), sequence
        return replace(self, digests=digests, sequences=sequences)

    def __contains__(self, device_id: str) -> bool:
        return self._position(device_id) is not None

    def labels_of(self, device_id: str) -> Array | None:
        """Global clusters of the centers of a device that was aggregated, or None."""
        position = self._position(device_id)
        return None if position is None else self.center_labels[self.starts[position] : self.starts[position + 1]]

    def has(self, message: DeviceMessage) -> bool:
        """Whether the device of this id was aggregated with this very message."""
        position = self._position(message.device_id)
        return position is not None and self.digests[position].tobytes() == message.digest()

    def _position(self, device_id: str) -> int | None:
        position = bisect_left(self.device_ids, device_id)
        is_there = position < len(self.device_ids) and self.device_ids[position] == device_id
        return position if is_there else None

    @classmethod
    def _from_parts(cls, tensors: dict[str, Array], facts: Mapping[str, Any]) -> Self:
        """Like any other file; format version 1, which had no digests, is read too."""
        return super()._from_parts(tensors, {**facts, "version": cls._version} if facts.get("version") == 1 else facts)

    def _parts(self) -> tuple[dict[str, Array], dict[str, Any]]:
        ids = np.frombuffer("\n".join(self.device_ids).encode(), np.uint8)  # no id holds a line break
        tensors = {name: getattr(self, name) for name in _TENSORS}
        facts = {name: getattr(self, name) for name in ("made_at", "last_sequence", "reason")}
        facts |= {"notices": list(map(list, self.notices))} if self.notices else {}
        scale, schema = columns_to_parts(self.columns, self.scale)
        facts |= ({} if self.rounds == 1 else {"rounds": self.rounds}) | ({"rule": self.rule} if self.rule else {})
        facts |= {name: value for name in ("asked", "found_before") if (value := getattr(self, name)) is not None}
        if self.k_choice is not None:
            tensors, facts = tensors | self.k_choice.tensors(), facts | self.k_choice.file_facts()
        return {**tensors, "device_ids": ids, **scale}, {"clustering": self.version, **facts, **schema}

    @classmethod
    def _restored(cls, tensors: dict[str, Array], facts: Mapping[str, Any]) -> Self:
        ids = tuple(tensors.pop("device_ids").tobytes().decode().split("\n"))
        tensors.setdefault("digests", np.zeros((len(ids), DIGEST_BYTES), np.uint8))  # no message has this digest
        tensors.setdefault("sequences", np.zeros(len(ids), np.int64))
        if "devices_in_cluster" not in tensors:
            tensors["devices_in_cluster"] = _devices_in_cluster(tensors)
        about: dict[str, Any] = {name: facts[name] for name in ("made_at", "last_sequence", "reason")}
        about["notices"] = tuple(Notice(str(code), str(text)) for code, text in facts.get("notices", ()))
        about["columns"], about["scale"] = columns_from_parts(tensors, facts)
        about["rounds"], about["rule"] = int(facts.get("rounds", 1)), str(facts.get("rule", ""))
        about["asked"], before = facts.get("asked"), facts.get("found_before")
        about["found_before"] = None if before is None else (int(before[0]), str(before[1]))
        about["k_choice"] = KChoice.restored(facts, tensors, len(tensors["cluster_centers"]))
        return cls(version=facts["clustering"], device_ids=ids, **about | {name: tensors[name] for name in _TENSORS})


def labels_if_ready(clusters: Clusters | None, message: DeviceMessage) -> Array | None:
    """The global cluster of each center of a message, (n_local_clusters,), or None if its device should ask again.

    That is while there are no clusters, and, after a device replaced its message, while the clusters are still made of
    the message before.
    """
    if clusters is None:
        return None
    try:
        return clusters_for(clusters, message, clusters.labels_of(message.device_id), clusters.has(message))
    except DuplicateDeviceError:
        return None


_TENSORS = (
    "digests",
    "sequences",
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
    return f"{plural(clusters.n_clusters, 'cluster')} of {plural(len(clusters.device_ids), 'device')}"
