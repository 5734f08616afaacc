"""Algorithm 2 of the paper, k-FED: `paper_rule` is it to the letter; the other rules go beyond the paper.

A rule takes the messages, k and the rows that M starts from, and returns a `Grouping`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from kfed._base import geometry, text
from kfed._base.array import Array
from kfed._base.averages import means_by_label
from kfed.errors import InvalidInputError, TooFewCentersError
from kfed.server import company, noise, robust, support
from kfed.server.grouping import Grouping
from kfed.server.pooled import pooled_rule
from kfed.server.traversal import farthest_first
from kfed.wire import MessageBatch


def paper_rule(batch: MessageBatch, n_clusters: int, start: Array, n_jobs: int | None) -> Grouping:
    """Steps 2 to 8 of Algorithm 2."""
    centers = batch.centers
    traversal = farthest_first(centers, n_clusters, start, n_jobs)  # steps 2 to 6
    initial_centers = centers[traversal.picks]
    labels = geometry.nearest(centers, initial_centers, n_jobs, traversal.near)  # step 7: one round of Lloyd
    means = means_by_label(centers, labels, initial_centers, n_jobs=n_jobs)
    return Grouping(initial_centers, traversal.distances, labels, means)


def robust_rule(batch: MessageBatch, n_clusters: int, start: Array, n_jobs: int | None) -> Grouping:
    """Algorithm 2 for data that is not clean: see `kfed.server.robust`."""
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


def group(
    batch: MessageBatch,
    n_clusters: int,
    rule: str,
    first_device: str | None,
    n_jobs: int | None,
    min_devices: int | None = None,
) -> Grouping:
    """Group the device centers of a batch into `n_clusters` global clusters, by the rule of this name.

    Without `min_devices`, the paper's rule takes clusters of any one device. The robust and the pooled rule ask for two
    among many devices, see `support.usual_min_devices`, if there are as many such clusters.
    """
    if len(batch.centers) < n_clusters:
        sent = f"{text.plural(len(batch.device_ids), 'device')} sent {text.plural(len(batch.centers), 'center')}"
        raise TooFewCentersError(
            f"n_clusters must be at most the number of device centers; got {n_clusters}, but {sent}: ask for fewer "
            "clusters, wait for more devices, or let devices look for more local clusters"
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


def _supported(
    batch: MessageBatch, n_clusters: int, rule: str, first_device: str | None, n_jobs: int | None, min_devices: int
) -> Grouping | None:
    """Group so that every cluster rests on `min_devices` devices; None if there are not as many such clusters.

    No device chooses where M starts, since one that starts with k centers would choose all clusters. Centers that were
    set aside are labelled like those of late devices.
    """
    first = None if first_device is None else batch.position(first_device)

    def regroup(part: MessageBatch) -> Grouping:
        if rule == "paper" and len(part.centers) <= company.MAX_CENTERS:
            return company.group_with_company(part, n_clusters, min_devices, n_jobs)
        rows = np.flatnonzero(part.owners == first)
        start = rows if 0 < len(rows) <= n_clusters else np.array([part.counts.argmax()])
        return RULES[rule](part, n_clusters, start, n_jobs)

    bounded = replace(batch, counts=support.bounded_counts(batch))
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
        if sizes[position] == 0:
            raise InvalidInputError(f"first_device must have sent at least one center; {first_device!r} sent none")
    rows = np.arange(len(batch.owners))[batch.centers_of(position)]
    return rows if len(rows) <= n_clusters else rows[[batch.counts[rows].argmax()]]
