"""Algorithm 2 of the paper, k-FED: `group` finds the global clusters, and `clusters_for` those of a device.

`paper_rule` is the algorithm to the letter; the other rules go beyond the paper. A rule takes the messages, k and the
rows that M starts from, and returns a `Grouping`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Protocol

import numpy as np

from kfed._base import geometry, text
from kfed._base.array import Array
from kfed._base.averages import means_by_label
from kfed.errors import DuplicateDeviceError, InvalidInputError, TooFewCentersError
from kfed.server.rules import company, noise, robust, support
from kfed.server.rules.grouping import Grouping
from kfed.server.rules.pooled import pooled_rule
from kfed.server.rules.traversal import farthest_first
from kfed.wire import CommonScale, DeviceMessage, FeatureSchema, Identity, MessageBatch, nearest_clusters, shares_of


def paper_rule(batch: MessageBatch, n_clusters: int, start: Array, n_jobs: int | None) -> Grouping:
    """Steps 2 to 8 of Algorithm 2."""
    centers = batch.centers
    traversal = farthest_first(centers, n_clusters, start, n_jobs)  # steps 2 to 6
    initial_centers = centers[traversal.picks]
    labels = geometry.nearest(centers, initial_centers, n_jobs, traversal.near)  # step 7: one round of Lloyd
    means = means_by_label(centers, labels, initial_centers, n_jobs=n_jobs)
    return Grouping(initial_centers, traversal.distances, labels, means)


def robust_rule(batch: MessageBatch, n_clusters: int, start: Array, n_jobs: int | None) -> Grouping:
    """Algorithm 2 for data that is not clean: see `kfed.server.rules.robust`."""
    kept = robust.without_strays(batch.centers, batch.counts, batch.owners, n_clusters, n_jobs)
    start = np.flatnonzero(np.isin(kept, start))
    if len(start) == 0:
        start = np.array([batch.counts[kept].argmax()])
    traversal = farthest_first(batch.centers[kept], n_clusters, start, n_jobs)
    initial_centers = batch.centers[kept][traversal.picks]
    means = robust.best_centers(batch.centers[kept], noise.weights(batch)[kept], initial_centers, n_jobs)
    labels = geometry.nearest(batch.centers, means, n_jobs)
    strays = np.setdiff1d(np.arange(len(labels)), kept, assume_unique=True)
    return Grouping(initial_centers, traversal.distances, labels, means, strays=strays)


def regions_rule(batch: MessageBatch, n_clusters: int, start: Array, n_jobs: int | None) -> Grouping:
    """Algorithm 2 for messages of regions, which may hold several centers of one cluster and very different counts."""
    centers = batch.centers
    heaviest = start[[batch.counts[start].argmax()]]
    traversal = farthest_first(centers, n_clusters, heaviest, n_jobs)
    initial_centers = centers[traversal.picks]
    labels = geometry.nearest(centers, initial_centers, n_jobs, traversal.near)
    means = means_by_label(centers, labels, initial_centers, batch.counts, n_jobs)
    return Grouping(initial_centers, traversal.distances, labels, means)


RULES: dict[str, Callable[[MessageBatch, int, Array, int | None], Grouping]] = {
    "paper": paper_rule,
    "robust": robust_rule,
    "regions": regions_rule,
    "pooled": pooled_rule,
}

DEFAULT = "default"
"""What to say instead of the name of a rule: then it is the paper's, unless devices sent summaries."""


def rule_for(batch: MessageBatch, rule: str, otherwise: str = "paper") -> str:
    """The name of the rule: by default ``"pooled"`` for summaries, and `otherwise` for clusters of devices."""
    if rule != DEFAULT:
        return rule
    return "pooled" if has_summaries(batch) else otherwise


def has_summaries(batch: MessageBatch) -> bool:
    """Whether a device sent a fine summary instead of the clusters that it looked for."""
    return batch.is_summary is not None


def group(
    batch: MessageBatch,
    n_clusters: int,
    rule: str,
    first_device: str | None,
    n_jobs: int | None,
    min_devices: int | None = None,
) -> Grouping:
    """Group the device centers of a batch into `n_clusters` global clusters, by the rule of this name.

    Without `min_devices`, a cluster of the paper's rule may rest on a single device. If there are many devices, the
    robust and the pooled rule ask for two (see `support.usual_min_devices`), unless that leaves too few clusters.
    """
    support.check_any_center(batch)
    if first_device is not None and np.count_nonzero(batch.owners == batch.position(first_device)) == 0:
        raise InvalidInputError(f"first_device must have sent at least one center; {first_device!r} sent none")
    if len(batch.centers) < n_clusters:
        sent = f"{text.plural(len(batch.device_ids), 'device')} sent {text.plural(len(batch.centers), 'center')}"
        raise TooFewCentersError(
            f"n_clusters must be at most the number of device centers; got {n_clusters}, but {sent}: ask for fewer "
            f"clusters, wait for more devices, {_remedy(batch)}"
        )
    usual = support.usual_min_devices(batch) if rule in ("robust", "pooled") else 1
    if (min_devices or usual) > 1:
        found = _supported(batch, n_clusters, rule, first_device, n_jobs, min_devices or usual)
        if found is not None:
            return found
    if (min_devices or 1) > 1:
        raise TooFewCentersError(
            f"with min_devices={min_devices}, fewer than {text.plural(n_clusters, 'cluster')} rest on enough "
            "devices: ask for fewer clusters or fewer devices behind each, or wait for more devices"
        )
    return RULES[rule](batch, n_clusters, _start(batch, n_clusters, first_device), n_jobs)


def _remedy(batch: MessageBatch) -> str:
    """What else can be done about devices that sent few centers, or none."""
    n_silent = batch.n_devices - support.n_senders(batch.owners)
    if n_silent == 0:
        return "or let devices look for more local clusters"
    silent = text.plural(n_silent, "device")
    return f"or lower min_cluster_size where rows are few or have many empty cells ({silent} sent none)"


def _supported(
    batch: MessageBatch, n_clusters: int, rule: str, first_device: str | None, n_jobs: int | None, min_devices: int
) -> Grouping | None:
    """Group so that every cluster rests on `min_devices` devices; None if there are fewer than `n_clusters` such.

    Unless `first_device` names a device, M starts with the heaviest center alone: all centers of one device could
    choose every cluster. Centers that were set aside are labelled like those of late devices.
    """
    first = None if first_device is None else batch.position(first_device)

    def regroup(part: MessageBatch) -> Grouping:
        if rule == "paper" and first is None and len(part.centers) <= company.MAX_CENTERS:
            return company.group_with_company(part, n_clusters, min_devices, n_jobs)
        rows = np.flatnonzero(part.owners == first)
        start = rows if 0 < len(rows) <= n_clusters else np.array([part.counts.argmax()])
        return RULES[rule](part, n_clusters, start, n_jobs)

    weights = support.bounded_counts(batch)
    squares = batch.sums_of_squares * (weights / batch.counts)  # of fewer rows, which spread as before
    bounded = replace(batch, counts=weights, sums_of_squares=squares)
    found = support.supported(bounded, min_devices, regroup, n_clusters)
    if found is None:
        return None
    grouping, rows = found
    set_aside = np.setdiff1d(np.arange(len(batch.centers)), rows, assume_unique=True)
    labels = np.empty(len(batch.centers), np.intp)
    labels[rows] = grouping.center_labels
    labels[set_aside] = geometry.nearest(batch.centers[set_aside], grouping.cluster_centers, n_jobs)
    return replace(grouping, center_labels=labels, set_aside=set_aside, strays=rows[grouping.strays])


def _start(batch: MessageBatch, n_clusters: int, first_device: str | None) -> Array:
    """Rows of the centers that M starts from, Theta^(z) of one device.

    Of a device with more than `n_clusters` centers, only the one of most points.
    """
    n_devices = len(batch.device_ids)
    sizes = np.bincount(batch.owners, minlength=n_devices)
    if first_device is None:
        n_points = np.bincount(batch.owners, weights=batch.counts, minlength=n_devices)
        fits = (sizes > 0) & (sizes <= n_clusters)
        position = int(np.where(fits if fits.any() else sizes > 0, n_points, -1).argmax())
    else:
        position = batch.position(first_device)
    rows = np.arange(len(batch.owners))[batch.centers_of(position)]
    return rows if len(rows) <= n_clusters else rows[[batch.counts[rows].argmax()]]


# Answers --------------------------------------------------------------------------------------------------------


class Clustered(Protocol):
    """What it takes to answer devices."""

    @property
    def schema(self) -> FeatureSchema:
        """The features of all devices."""

    @property
    def cluster_centers(self) -> Array:
        """Means of the global clusters, (n_clusters, n_features)."""

    @property
    def cluster_sizes(self) -> Array:
        """Points in each global cluster, (n_clusters,)."""

    @property
    def scale(self) -> CommonScale | None:
        """The scale on which distances are measured, where centers are in the units of tables."""


def clusters_for(clustered: Clustered, message: DeviceMessage, labels: Array | None, is_same: bool) -> Array:
    """The global cluster of each center of a message, (n_local_clusters,), whether its device was aggregated or not.

    This is the one place that decides. An answer is given to a message, not to a name:

    - no device of this id was aggregated: the device is *late*, and each of its centers gets the nearest cluster;
    - this very message was aggregated: its centers get the clusters that they are in;
    - another message was aggregated under this id: that is refused. Only people know which of the two is meant. Who
      wants the new one to count takes the old one out first (`Aggregation.without`); then the device is late.

    Parameters
    ----------
    labels : array or None
        Clusters of the centers that the device of this id was aggregated with; None if there was no such device.
    is_same : bool
        Whether they are the centers of this very message.
    """
    if labels is None:
        return _nearest(clustered, message)
    if not is_same:
        raise DuplicateDeviceError(
            f"device {message.device_id!r} was aggregated with a different message; send the message that was "
            "aggregated, or remove the device first"
        )
    return labels


def assign(clustered: Clustered, message: DeviceMessage) -> Identity:
    """Answer a late device: the nearest mean mu(tau_r) for each of its centers, in k' k distances."""
    return identity_of(clustered, message.device_id, _nearest(clustered, message))


def _nearest(clustered: Clustered, message: DeviceMessage) -> Array:
    clustered.schema.check_same(message.schema, "the aggregation", repr(message.device_id))
    clusters = (clustered.cluster_centers, clustered.schema, clustered.scale)
    return nearest_clusters(message.known_centers, message.schema, *clusters)


def identity_of(clustered: Clustered, device_id: str, cluster_ids: Array) -> Identity:
    """The answer to a device whose centers are in these clusters."""
    schema = clustered.schema if clustered.schema.columns is not None else None
    shares = shares_of(clustered.cluster_sizes, clustered.cluster_centers)
    return Identity(device_id, cluster_ids, clustered.cluster_centers, schema, clustered.scale, shares)


def relayed(answer: Identity, device_id: str, own: Array, sent: Array, n_features: int) -> Identity:
    """The answer to a device whose centers are in clusters `own`, from a parent server's answer to clusters `sent`."""
    if len(answer) != len(sent) or answer.n_features != n_features:
        raise InvalidInputError(
            f"answer must name {text.plural(len(sent), 'cluster')} of {text.plural(n_features, 'feature')}, as sent; "
            f"got {len(answer)} of {answer.n_features}: it is the answer to another message"
        )
    return replace(answer, device_id=device_id, cluster_ids=answer.cluster_ids[np.searchsorted(sent, own)])
