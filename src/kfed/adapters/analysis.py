"""Results for an analyst: what the clusters are, and which devices are unlike all others."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from kfed._base.array import Array
from kfed._base.report import Report, Section, TextTable
from kfed.insight import cluster_report as clusters_alone
from kfed.server import Aggregation, RowMoments


class Unlike(NamedTuple):
    """How far the rows of a device lie from the rows of all others."""

    device_id: str
    times_usual: float
    n_rows: float
    clusters: tuple[int, ...]


def unlike_others(aggregation: Aggregation) -> list[Unlike]:
    """The devices of an aggregation, those first whose rows lie farthest from where the rows of others are.

    Every local cluster of a device is compared with the mean of all *other* devices' rows in its global cluster, or in
    the nearest one if the device has that cluster to itself. `times_usual` is the root mean square of these distances
    over that of the median device: a device of 3 lies three times as far out as usual.

    Examples
    --------
    >>> places = np.array([[0.0, 0.0], [9.0, 0.0]])
    >>> sent = [kfed.DeviceMessage(f"shop {i}", places + i / 10, [50, 50], [90.0, 90.0]) for i in range(6)]
    >>> sent.append(kfed.DeviceMessage("odd", places + 3, [50, 50], [90.0, 90.0]))
    >>> first, second, *_ = unlike_others(kfed.aggregate(sent, n_clusters=2))
    >>> first.device_id, first.times_usual > 3 * second.times_usual
    ('odd', True)
    """
    moments, labels = RowMoments.of(aggregation.messages), aggregation.center_labels
    n_devices = aggregation.messages.n_devices
    rows = np.bincount(moments.owners, moments.counts, n_devices)
    squares = moments.counts * _squared_gaps(moments, labels, aggregation.n_clusters)
    out = np.sqrt(np.bincount(moments.owners, squares, n_devices) / np.maximum(rows, 1e-300))
    usual = max(float(np.median(out[rows > 0])), 1e-300) if (rows > 0).any() else 1.0
    batch, order = aggregation.messages, np.argsort(-out, kind="stable").tolist()
    held = {z: tuple(np.unique(labels[batch.centers_of(z)]).tolist()) for z in order if rows[z] > 0}
    return [Unlike(batch.device_ids[z], float(out[z] / usual), float(rows[z]), held[z]) for z in held]


def _squared_gaps(moments: RowMoments, labels: Array, n_clusters: int) -> Array:
    """Squared distance of each device center to the rows of other devices, (n_device_centers,)."""
    pairs, pair_of = np.unique(moments.owners * n_clusters + labels, return_inverse=True)
    members = np.zeros((len(pairs), moments.centers.shape[1]))
    np.add.at(members, pair_of, moments.counts[:, None] * moments.centers)
    own = np.bincount(pair_of, moments.counts)  # rows of a device in a cluster
    sums, sizes = np.zeros((n_clusters, members.shape[1])), np.bincount(labels, moments.counts, n_clusters)
    np.add.at(sums, pairs % n_clusters, members)
    left = sizes[pairs % n_clusters] - own
    is_alone = left < 0.5 * own.min()
    others = (sums[pairs % n_clusters] - members) / np.where(is_alone, 1, left)[:, None]
    gaps = np.square(moments.centers - others[pair_of]).sum(axis=1)
    means = sums / np.maximum(sizes, 1e-300)[:, None]
    for center in np.flatnonzero(is_alone[pair_of]):  # at most one device has a cluster to itself, so there are few
        elsewhere = means[(np.arange(n_clusters) != labels[center]) & (sizes > 0)]
        distances = np.square(moments.centers[center] - elsewhere).sum(axis=1)
        gaps[center] = distances.min() if len(distances) else 0.0
    return np.asarray(gaps)


def report_with_unlike(aggregation: Aggregation, title: str, n_unlike: int = 10) -> Report:
    """What the clusters are, as `kfed report` shows it, and the devices that are unlike all others.

    Parameters
    ----------
    aggregation : Aggregation
    title : str
    n_unlike : int
        How many devices to name.

    Returns
    -------
    Report
        `kfed.insight.to_html` and `to_markdown` write it.
    """
    report = clusters_alone(aggregation, title)
    rows = tuple(
        (one.device_id, f"{one.n_rows:,.0f}", f"{one.times_usual:.1f}", ", ".join(map(str, one.clusters)))
        for one in unlike_others(aggregation)[:n_unlike]
    )
    heads = ("device", "rows", "times as far from the rows of others as usual", "clusters")
    section = Section("Devices unlike all others", (TextTable("", heads, rows),))
    return replace(report, sections=(*report.sections, section))
