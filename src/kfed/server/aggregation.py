"""`Aggregation`: the global clusters that Algorithm 2 found, and everything needed to answer devices from them."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar, Literal, Self

import numpy as np
import numpy.typing as npt

from kfed._base import checks
from kfed._base.array import Array, Length, readonly, readonly_fields
from kfed.errors import AggregationWarning, InvalidInputError, UnknownDeviceError
from kfed.server import aggregation_file
from kfed.server.algorithm2 import assign, clusters_for, group, identity_of, relayed, rule_for
from kfed.server.k.choice import KChoice
from kfed.server.k.finding import find_k
from kfed.server.notices.of_clusters import advice, mixed_up
from kfed.server.notices.of_columns import column_advice, late_advice
from kfed.server.notices.of_scale import off_scale
from kfed.server.rules.grouping import Grouping
from kfed.server.rules.own import rule_name
from kfed.server.rules.support import devices_behind, set_aside_notice
from kfed.server.summary import summarize, total_counts
from kfed.server.view.questions import Questions
from kfed.theory import Certificate
from kfed.wire import CommonScale, DeviceMessage, FeatureSchema, Identity, KfedFile, MessageBatch, Notice


@dataclass(frozen=True)
class AggregationSettings:
    """What was asked of an aggregation.

    Attributes
    ----------
    first_device : str or None
        The device that the traversal starts from.
    min_devices : int or None
        How many devices every cluster must rest on.
    rounds : int
        1, or 2 if devices sent a second message; see `kfed.aggregate_refined`.
    """

    first_device: str | None = None
    min_devices: int | None = None
    rounds: int = 1

    def without(self, device_id: str) -> AggregationSettings:
        """The settings for the same devices without this one."""
        return replace(self, first_device=None) if self.first_device == device_id else self


@dataclass(frozen=True, eq=False)
class Aggregation(Questions, KfedFile):
    """The global clusters of many devices. Made by `aggregate`; never changes.

    Attributes
    ----------
    messages : MessageBatch
        What the devices sent, as columns: `device_ids`, `centers` with `owners` and `counts`, and so on.
    rule : str
        The rule that grouped the device centers.
    grouping : Grouping
        How the rule grouped the device centers, on the common scale: M, the traversal, the centers that were set aside.
    k_choice : KChoice or None
        How `n_clusters` was found, if it was not given.
    settings : AggregationSettings
        What was asked of it: `first_device`, `min_devices` and `rounds`.

    Examples
    --------
    >>> sent = [DeviceMessage(f"{i}", [[0.0, 0.0], [9.0, 9.0]], [40, 60]) for i in range(3)]
    >>> result = kfed.aggregate(sent, 2)
    >>> result.cluster_sizes, np.asarray(result.identity("1"))
    (array([120, 180]), array([0, 1]))
    """

    _kind: ClassVar[str] = "aggregation"

    messages: MessageBatch
    rule: str
    grouping: Grouping
    k_choice: KChoice | None = None
    settings: AggregationSettings = AggregationSettings()

    def __post_init__(self) -> None:
        readonly_fields(self.grouping)

    n_clusters = Length("cluster_centers", 0, "Number of global clusters, k.")

    @property
    def schema(self) -> FeatureSchema:
        """The features of all devices."""
        return self.messages.schema

    @property
    def scale(self) -> CommonScale | None:
        """The scale on which devices were compared, if they sent the units of their tables."""
        return self.messages.scale

    @property
    def center_labels(self) -> Array:
        """For each device center, its global cluster: tau."""
        return self.grouping.center_labels

    @property
    def cluster_centers(self) -> Array:
        """Means mu(tau_r) of the global clusters, (n_clusters, n_features), in the units that devices sent.

        An average that a device withheld is replaced by the overall mean, so these can differ from the means over told
        cells that `profile` shows.
        """
        centers = self.grouping.cluster_centers
        return centers if self.scale is None else readonly(self.scale.undo(centers))

    @property
    def cluster_sizes(self) -> Array:
        """Points (or weight) behind each global cluster, (n_clusters,)."""
        return readonly(total_counts(self.messages.counts, self.center_labels, self.n_clusters))

    @property
    def devices_in_cluster(self) -> Array:
        """Devices behind the center of each cluster, (n_clusters,); for tables, those of the column with the fewest."""
        unused = np.union1d(self.grouping.set_aside, self.grouping.strays)
        rows = np.setdiff1d(np.arange(len(self.center_labels)), unused, assume_unique=True)
        return readonly(devices_behind(self.messages, self.center_labels, rows, self.n_clusters))

    @cached_property
    def notices(self) -> tuple[Notice, ...]:
        """What to look at before relying on these clusters, each with a code for programs."""
        about = (
            self.messages.owners,
            self.center_labels,
            self.n_clusters,
            self.k_choice,
            self.rule,
            self.settings.rounds,
        )
        mixtures = mixed_up(self.messages.rescaled, self.grouping.cluster_centers)
        columns = column_advice(self.messages, self.center_labels)
        return (*self._about_set_aside(), *columns, *off_scale(self.messages.rescaled), *mixtures, *advice(*about))

    def _about_set_aside(self) -> list[Notice]:
        if len(self.grouping.set_aside) == 0:
            return []
        kept = np.setdiff1d(np.arange(len(self.center_labels)), self.grouping.set_aside, assume_unique=True)
        return [set_aside_notice(self.messages, kept, self.settings.min_devices or 2)]

    def __repr__(self) -> str:
        messages = self.messages
        return (
            f"Aggregation(n_clusters={self.n_clusters}, n_devices={messages.n_devices}, "
            f"n_device_centers={len(messages.centers)}, n_features={messages.n_features}, rule={self.rule!r})"
        )

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Aggregation):
            return NotImplemented
        return self.to_bytes() == other.to_bytes()

    __hash__ = None  # type: ignore[assignment]

    def __contains__(self, device_id: object) -> bool:
        return device_id in self.messages

    def identity(self, device_id: str) -> Identity:
        """The answer to a device that was aggregated."""
        if device_id not in self:
            raise UnknownDeviceError(
                f"device {device_id!r} is not among the devices that were aggregated; assign its message instead"
            )
        return identity_of(self, device_id, self.center_labels[self.messages.rows_of(device_id)])

    def answer(self, message: DeviceMessage) -> Identity:
        """The answer to any device, by its message.

        A device that was aggregated with this message gets its identity. A device with another id is late, and gets
        the nearest clusters. Unlike `assign`, this does not warn if the device lies far from the clusters.

        Raises
        ------
        DuplicateDeviceError
            If a device of this id was aggregated with another message.
        """
        device_id, is_known = message.device_id, message.device_id in self
        labels = self.center_labels[self.messages.rows_of(device_id)] if is_known else None
        is_same = is_known and self.messages.message(device_id) == message
        return identity_of(self, device_id, clusters_for(self, message, labels, is_same))

    def assign(self, message: DeviceMessage) -> Identity:
        """The answer to a late device: the nearest mean mu(tau_r) for each of its centers.

        It takes k' k distances; nothing is recomputed and nobody else is affected. An `AggregationWarning` says
        what lies far from the clusters, or from the columns of the devices that were aggregated. Only this warning
        reads what those devices sent; the answer does not.
        """
        for notice in late_advice(self, self.messages, message):
            warnings.warn(AggregationWarning(notice.text, notice.code), stacklevel=2)
        return assign(self, message)

    def to_message(self, device_id: str) -> DeviceMessage:
        """Summarise as a message for a parent server: mean, count and spread of all points of each global cluster.

        A cluster without device centers, and centers that were set aside, are left out. There is no spectral deviation:
        it is not known exactly here. `relay` answers the devices behind it.

        Parameters
        ----------
        device_id : str
            The name of this server at its parent.
        """
        present, labels = np.unique(self.center_labels, return_inverse=True)
        sent = summarize(self.messages, labels, len(present), self.grouping.set_aside)
        about: dict[str, Any] = {"schema": self.schema, "details": sent.details}
        return DeviceMessage(device_id, sent.means, sent.counts, sent.sums_of_squares, **about)

    def relay(self, device_id: str, answer: Identity) -> Identity:
        """Turn the parent server's answer to `to_message` into the answer to one of this server's devices.

        Parameters
        ----------
        device_id : str
            A device that was aggregated here.
        answer : Identity
            The parent server's answer, with its clusters and centers.
        """
        own, sent = self.identity(device_id).cluster_ids, np.unique(self.center_labels)
        return relayed(answer, device_id, own, sent, self.schema.n_features)

    def without(self, device_id: str, *, n_jobs: int | None = None) -> Aggregation:
        """The aggregation as if this device had never joined; an "auto" number of clusters is found anew."""
        if self.settings.rounds > 1:
            raise InvalidInputError(
                "cannot remove a device after the second round; remove it from the first aggregation, then refine again"
            )
        asked = self.settings.without(device_id)
        n_clusters: int | Literal["auto"] = "auto" if self.k_choice else self.n_clusters
        how = (self.rule, asked.first_device, n_jobs, asked.min_devices)
        return aggregate_batch(self.messages.without(device_id), n_clusters, *how)

    def renumbered(self, cluster_ids: npt.ArrayLike) -> Aggregation:
        """The same clusters under other ids: cluster r becomes ``cluster_ids[r]``, a permutation of 0 to k - 1."""
        new_ids = checks.as_array(cluster_ids, "cluster_ids")
        if sorted(new_ids.tolist()) != list(range(self.n_clusters)):
            raise InvalidInputError(f"cluster_ids must be the numbers 0 to {self.n_clusters - 1} in some order")
        return replace(self, grouping=self.grouping.renumbered(new_ids))

    def certificate(self, required_ratio: float = 100.0) -> Certificate:
        """Whether the paper's main theorem, with this c, covers these clusters; from the messages alone."""
        return Certificate.of(self.messages.rescaled, self.center_labels, self.n_clusters, required_ratio)

    def _parts(self) -> tuple[dict[str, Array], dict[str, Any]]:
        tensors, choice = aggregation_file.columns(self.messages, self.grouping), self.k_choice
        asked = self.settings
        facts = {
            "rule": self.rule,
            "first_device": asked.first_device,
            "feature_names": self.schema.names,
            **(choice.file_facts() if choice else {"k_choice": None}),
            **({} if asked.min_devices is None else {"min_devices": asked.min_devices}),
            **({} if asked.rounds == 1 else {"rounds": asked.rounds}),
        }
        return tensors | (choice.tensors() if choice else {}), facts

    @classmethod
    def _restored(cls, tensors: dict[str, Array], facts: Mapping[str, Any]) -> Self:
        messages, grouping = aggregation_file.restored(tensors, facts["feature_names"])
        if facts["first_device"] is not None:
            messages.position(facts["first_device"])
        rule = rule_name(facts["rule"])
        choice = KChoice.restored(facts, tensors, len(grouping.cluster_centers))
        min_devices = facts.get("min_devices")
        if min_devices is not None:
            checks.positive_integer(min_devices, "min_devices")
        if facts.get("rounds", 1) not in (1, 2):
            raise InvalidInputError("its rounds must be 1 or 2")
        asked = AggregationSettings(facts["first_device"], min_devices, int(facts.get("rounds", 1)))
        return cls(messages, rule, grouping, choice, asked)


def aggregate_batch(
    messages: MessageBatch,
    n_clusters: int | Literal["auto"],
    rule: str,
    first_device: str | None = None,
    n_jobs: int | None = None,
    min_devices: int | None = None,
) -> Aggregation:
    """`kfed.aggregate` behind its checks, and without its warnings."""
    rule = rule_for(messages, rule)
    choice = find_k(messages, rule, n_jobs, min_devices) if n_clusters == "auto" else None
    k = choice.n_clusters if choice else int(n_clusters)
    grouping = group(messages.rescaled, k, rule, first_device, n_jobs, min_devices)
    return Aggregation(messages, rule, grouping, choice, AggregationSettings(first_device, min_devices))
