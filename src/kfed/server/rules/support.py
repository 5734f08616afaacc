"""`min_devices`: every cluster rests on several devices, so that fewer cannot make one, whatever they send.

Beyond the paper. A rule groups the centers; clusters of fewer than `min_devices` devices are set aside, and the rule
groups the rest again, until no such cluster is left. If at most t devices are malicious, ``min_devices = t + 1`` puts
an honest device into every cluster.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Protocol, TypeVar

import numpy as np

from kfed._base import geometry, pool, text
from kfed._base.array import Array
from kfed.errors import TooFewCentersError
from kfed.wire import MessageBatch, Notice

MANY_DEVICES = 30
"""From this many devices on, the robust and the pooled rule ask for two devices behind each cluster."""

MOST_TIMES = 10.0
"""No device weighs more than this many times the median device."""

MOST_SHARE = 0.25
"""Nor does any have more than this share of the weight of all, where there are enough devices for that."""

FAR_OUT = 100.0
"""Centers this many times as far out as those of most devices would blur all distances, which round by the largest."""

MOST_EXAMINED, MOST_NAMED = 1001, 20

MOST_VOTES = 2.0
"""A device that sent more than this many times as many centers as the median device has no more votes for that."""

NOT_SMALL = 0.5
"""Share of the points of the smallest cluster that could be a cluster, too."""

MAX_TURNS = 50
"""How often centers of honest devices are set aside and the others grouped again."""

MOST_CHANCES = 3
"""A device of which centers had to be set aside this many times chooses no cluster any more."""


def check_any_center(batch: MessageBatch) -> None:
    """Raise if no device has sent a center."""
    if len(batch.centers) == 0:
        raise TooFewCentersError(
            f"no device sent a center ({text.plural(len(batch.device_ids), 'device')}): clusters that are too small, "
            "or whose rows are too alike, are not sent. Let devices look for fewer local clusters, use a smaller "
            "min_cluster_size, or wait for larger devices; if the values of a column are large and close together, "
            "subtract a constant from it"
        )


def usual_min_devices(batch: MessageBatch) -> int:
    """The default of `min_devices`: two if there are many devices, else one.

    Examples
    --------
    >>> sent = [kfed.DeviceMessage(f"{i}", [[0.0]], [5]) for i in range(30)]
    >>> usual_min_devices(MessageBatch.of(sent)), usual_min_devices(MessageBatch.of(sent[1:]))
    (2, 1)
    """
    return 2 if n_senders(batch.owners) >= MANY_DEVICES else 1


def n_senders(owners: Array) -> int:
    """Devices that sent a center; owners are sorted."""
    return int(np.count_nonzero(np.diff(owners))) + 1 if len(owners) else 0


def part_of(batch: MessageBatch, rows: Array) -> MessageBatch:
    """Only these centers; the devices keep their positions."""
    return replace(
        batch,
        centers=take(batch.centers, rows),
        owners=take(batch.owners, rows),
        counts=take(batch.counts, rows),
        sums_of_squares=take(batch.sums_of_squares, rows),
        details=None,
    )


def take(column: Array, rows: Array) -> Array:
    """Rows of a column, ascending and distinct; the column itself if it is all of them."""
    return column if len(rows) == len(column) else column[rows]


def bounded_counts(batch: MessageBatch) -> Array:
    """Counts as weights, with devices that are much heavier than the others scaled down, (n_device_centers,).

    Examples
    --------
    >>> sent = [kfed.DeviceMessage(f"{i}", [[0.0], [1.0]], [5, 15]) for i in range(9)]
    >>> heavy = kfed.DeviceMessage("heavy", [[0.0], [1.0]], [2**53, 2**53])
    >>> bounded_counts(MessageBatch.of([*sent, heavy]))[-4:].tolist()
    [5.0, 15.0, 30.0, 30.0]
    """
    weights = batch.counts.astype(np.float64)
    totals = np.bincount(batch.owners, weights, minlength=batch.n_devices)
    present = totals[totals > 0]
    limit = min(MOST_TIMES * float(np.median(present)), _limit_by_share(present))
    return np.asarray(weights * np.minimum(1, limit / np.maximum(totals, 1e-300))[batch.owners])


def _limit_by_share(totals: Array) -> float:
    """Find the limit c for which the heaviest device has `MOST_SHARE` of the weight that is left.

    If the j heaviest are cut down to c, and R is the weight of the others, then c = share (j c + R).
    """
    ordered = np.sort(totals)[::-1]
    rest = ordered.sum() - np.cumsum(ordered)
    for j in range(1, min(len(ordered), int(1 / MOST_SHARE))):
        limit = MOST_SHARE * rest[j - 1] / (1 - MOST_SHARE * j)
        if limit >= ordered[j]:
            return float(limit)
    return float("inf") if len(ordered) <= 1 / MOST_SHARE else float(ordered[int(1 / MOST_SHARE)])


def devices_in(labels: Array, owners: Array, n_clusters: int) -> Array:
    """How many devices each cluster rests on, (n_clusters,); owners are sorted.

    Examples
    --------
    >>> devices_in(np.array([0, 1, 1, 0, 0]), np.array([0, 0, 0, 1, 2]), 2)
    array([3, 1])
    """
    pairs = np.sort(owners.astype(np.int64) * n_clusters + labels, kind="stable")  # fast, as they are nearly sorted
    is_new = np.diff(pairs, prepend=-1) > 0
    return np.bincount(pairs[is_new] % n_clusters, minlength=n_clusters)


def devices_behind(batch: MessageBatch, labels: Array, rows: Array, n_clusters: int) -> Array:
    """How many devices the mean of each cluster rests on, in the feature that fewest know, (n_clusters,).

    The means are those of these rows of the device centers.
    """
    if batch.details is None or batch.scale is None:
        return devices_in(labels[rows], batch.owners[rows], n_clusters)
    is_known = batch.details.observed[rows] > 0
    by_feature = [devices_in(labels[rows[own]], batch.owners[rows[own]], n_clusters) for own in is_known.T]
    return np.asarray(np.min(by_feature, axis=0))


class GroupedCenters(Protocol):
    """Device centers in clusters."""

    @property
    def center_labels(self) -> Array:
        """The cluster of each center, or -1, (n_device_centers,)."""

    @property
    def n_clusters(self) -> int:
        """Number of clusters."""


Found = TypeVar("Found", bound=GroupedCenters)


def supported(
    batch: MessageBatch, min_devices: int, group: Callable[[MessageBatch], Found], least: int = 1
) -> tuple[Found, Array] | None:
    """Group centers so that every cluster rests on `min_devices` devices: the clusters, and the rows they are of.

    None if fewer than `least` centers are left, if a cluster is left without any, or if it takes too many turns: fewer
    than `min_devices` devices cannot cause that, since each is out after `MOST_CHANCES`.
    """
    rows = without_far(batch, min_devices)
    chances = np.full(batch.n_devices, MOST_CHANCES)
    for _ in range(MOST_CHANCES * min_devices + MAX_TURNS):
        if len(rows) < least:
            break
        part = part_of(batch, rows)
        found = group(part)
        is_out = _are_alone(found, part.owners, min_devices)
        if is_out is None or not is_out.any():
            return None if is_out is None else (found, rows)
        chances[np.unique(part.owners[is_out])] -= 1
        rows = rows[~is_out & (chances[part.owners] > 0)]
    return None


def _are_alone(found: GroupedCenters, owners: Array, min_devices: int) -> Array | None:
    """Tell which centers are in clusters of too few devices; None if a cluster has no centers at all."""
    labels = found.center_labels
    counted = labels >= 0
    n_devices = devices_in(labels[counted], owners[counted], found.n_clusters)
    if (n_devices == 0).any():
        return None
    return np.asarray(counted & (n_devices < min_devices)[labels])


def without_far(batch: MessageBatch, min_devices: int) -> Array:
    """Rows of all centers, without those so far out that they blur all distances, if too few devices sent such ones."""
    middle, usual = _middle(batch)
    distances = np.empty(len(batch.centers))
    for block in pool.blocks(len(distances), geometry.rows_per_block(1, batch.n_features)):
        distances[block] = np.linalg.norm(batch.centers[block] - middle, axis=1)
    is_far = distances > FAR_OUT * usual
    are_kept = usual == 0 or n_senders(batch.owners[is_far]) >= min_devices
    return np.arange(len(is_far)) if are_kept else np.flatnonzero(~is_far)


def _middle(batch: MessageBatch) -> tuple[Array, float]:
    """The median of devices' means, and how far out the farthest center of most devices is; of a sample of devices."""
    edges = np.flatnonzero(np.diff(batch.owners, prepend=-1, append=batch.n_devices))
    some = np.random.default_rng(0).permutation(len(edges) - 1)[:MOST_EXAMINED]
    own = [batch.centers[edges[i] : edges[i + 1]].astype(np.float64) for i in some]
    middle = np.median([centers.mean(axis=0) for centers in own], axis=0)
    return middle, float(np.median([np.linalg.norm(centers - middle, axis=1).max() for centers in own]))


def most_claimed(values: Array, owners: Array, min_devices: int) -> float:
    """The largest value that `min_devices` devices reach: fewer devices that exaggerate cannot raise it beyond that.

    Examples
    --------
    >>> most_claimed(np.array([1.0, 3.0, 2.0, 9.0, 8.0]), np.array([0, 0, 1, 2, 2]), min_devices=2)
    3.0
    """
    starts = np.flatnonzero(np.diff(owners, prepend=-1))
    claims = np.sort(np.maximum.reduceat(values, starts))
    return float(claims[-min(min_devices, len(claims))])


def median(values: Array, owners: Array) -> float:
    """The median of values that devices sent; one that sent many more counts at most `MOST_VOTES` times the usual.

    Examples
    --------
    >>> median(np.array([1, 2, 3, 4]), np.array([0, 1, 2, 3]))
    2.5
    >>> median(np.array([1, 2, 3, 9, 9, 9, 9, 9, 9]), np.array([0, 1, 2, 3, 3, 3, 3, 3, 3]))
    3.0
    """
    sizes = np.bincount(owners)
    votes = np.minimum(1, MOST_VOTES * np.median(sizes[sizes > 0]) / np.maximum(sizes, 1))
    if votes.min() == 1:
        return float(np.median(values))
    order = np.argsort(values, kind="stable")
    shares = np.cumsum(votes[owners[order]])
    return float(values[order[np.searchsorted(shares, shares[-1] / 2)]])


def may_lack_a_cluster(batch: MessageBatch, rows: Array, labels: Array) -> bool:
    """Whether the centers of one device that were set aside could be a cluster: they are not small next to the others.

    Examples
    --------
    >>> batch = MessageBatch.of([kfed.DeviceMessage(name, [[0.0], [9.0]], [50, 120]) for name in "ab"])
    >>> may_lack_a_cluster(batch, np.arange(4), np.array([0, 1, 0, 1]))
    False
    >>> may_lack_a_cluster(batch, np.array([0, 2]), np.array([0, 0]))
    True
    """
    is_out = np.ones(len(batch.owners), bool)
    is_out[rows] = False
    largest = np.bincount(batch.owners[is_out], batch.counts[is_out], batch.n_devices).max()
    sizes = np.bincount(labels[labels >= 0], batch.counts[rows][labels >= 0])
    return bool(largest >= max(1.0, NOT_SMALL * sizes.min()))


def set_aside_notice(batch: MessageBatch, rows: Array, min_devices: int) -> Notice:
    """Name the devices that have centers outside of these rows, those with the most such centers first.

    Examples
    --------
    >>> sent = [kfed.DeviceMessage(name, [[0.0], [9.0]], [50, 50]) for name in "abc"]
    >>> set_aside_notice(MessageBatch.of(sent), np.arange(5), min_devices=2).text
    "1 center of 'c' was set aside: fewer than 2 devices have a cluster there"
    """
    is_out = np.ones(len(batch.owners), bool)
    is_out[rows] = False
    devices, n_centers = np.unique(batch.owners[is_out], return_counts=True)
    ids = [batch.device_ids[device] for device in devices[np.argsort(-n_centers, kind="stable")]]
    names, n_set_aside = text.listed(list(map(repr, ids)), limit=MOST_NAMED), int(n_centers.sum())
    return Notice.about(
        ids,
        "set aside",
        f"{text.plural(n_set_aside, 'center')} of {names} {text.verb(n_set_aside, 'was', 'were')} set aside: fewer "
        f"than {min_devices} devices have a cluster there",
        "centers of this device were set aside: too few devices have a cluster there",
    )
