"""Devices and rows that, it seems, were not put on the scale that all agreed on."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from kfed._base import geometry, text
from kfed._base.array import Array
from kfed._base.heavy_column import some_rows
from kfed.wire import DeviceMessage, MessageBatch, Notice

CODE = "other scale"

TOLD = "all centers of this device lie far from the others: are its rows on the agreed scale?"

FAR_OUT = 10.0
"""A device is on another scale, it seems, if its centers lie this many times as far out as those of most devices."""

MOST_SITES = 1_000
"""More devices than this were not set up by hand, each by somebody who could forget something."""

FEWEST_ROWS = 5
"""The mean of fewer rows says nothing."""


def off_scale(batch: MessageBatch) -> Iterator[Notice]:
    """Name the devices whose rows, it seems, were not put on the scale of the others.

    Examples
    --------
    >>> from kfed import DeviceMessage
    >>> sent = [DeviceMessage(name, [[0.5 * at], [at]], [9, 9]) for name, at in {"a": 1, "b": -2, "c": 170}.items()]
    >>> [found.text for found in off_scale(MessageBatch.of(sent))]
    ["all centers of 'c' are more than 10 times as far from the middle as those of most devices: are its rows ...?"]
    """
    present, owners = np.unique(batch.owners, return_inverse=True)
    if len(present) == 2:
        yield from _of_two(batch, present)
    if not 3 <= len(present) <= MOST_SITES:
        return
    centers = batch.centers.astype(np.float64)
    out = np.linalg.norm(centers - np.median(centers, axis=0), axis=1)
    nearest, farthest = np.full(len(present), np.inf), np.zeros(len(present))
    np.minimum.at(nearest, owners, out)
    np.maximum.at(farthest, owners, out)
    usual = np.median(farthest)
    far = np.flatnonzero(nearest > FAR_OUT * usual)
    if usual > 0 and len(far):
        ids = [batch.device_ids[position] for position in present[far]]
        yield Notice.about(
            ids,
            CODE,
            f"all centers of {text.listed(list(map(repr, ids)))} are more than {FAR_OUT:g} times as far from the "
            f"middle as those of most devices: are {'its' if len(far) == 1 else 'their'} rows on the agreed scale?",
            TOLD,
        )


def _of_two(batch: MessageBatch, present: Array) -> Iterator[Notice]:
    """The same of two devices, where none is usual: its rows must be more spread about its own centers, too.

    Other groups lie elsewhere, but are about as wide as those of the other device; on another scale they are not.
    """
    if batch.schema.columns is not None:  # devices that sent columns sent their scale
        return
    for own, other in (present, present[::-1]):
        known, found = (_of_device(batch, position) for position in (other, own))
        if not found.variance > FAR_OUT**2 * known.variance > 0:
            continue
        middle = np.average(known.centers, axis=0, weights=known.counts)
        size, out = (np.average((one.centers - middle) ** 2, axis=0, weights=one.counts) for one in (known, found))
        if 2 * np.count_nonzero(out > FAR_OUT**2 * (size + known.variance)) >= batch.n_features:
            yield Notice.about(
                [batch.device_ids[own]],
                CODE,
                f"the rows of {batch.device_ids[own]!r} are more than {FAR_OUT:g} times as spread out and as far from "
                "the middle as those of the other device: are they on the agreed scale?",
                TOLD,
            )


class _Sent(NamedTuple):
    """What one device sent, with the variance of its rows about its centers, per feature."""

    centers: Array
    counts: Array
    variance: float


def _of_device(batch: MessageBatch, position: int) -> _Sent:
    rows = batch.owners == position
    counts = batch.counts[rows].astype(np.float64)
    with np.errstate(over="ignore"):  # of sums of squares beyond reason
        variance = float(batch.sums_of_squares[rows].sum() / (counts.sum() * batch.n_features))
    return _Sent(batch.centers[rows].astype(np.float64), counts, variance)


def late_off_scale(message: DeviceMessage, cluster_centers: Array) -> Iterator[Notice]:
    """Say that a late device was not put on the scale of the clusters, it seems.

    Examples
    --------
    >>> late = DeviceMessage("late", [[70.0], [110.0]], [9, 9])
    >>> next(late_off_scale(late, np.array([[-1.0], [1.0]]))).text
    "all centers of 'late' are more than 10 times as far from the middle as any cluster: are its rows on ... scale?"
    """
    if _all_far_out(message.centers, cluster_centers):
        yield Notice.about(
            [message.device_id],
            CODE,
            f"all centers of {message.device_id!r} are more than {FAR_OUT:g} times as far from the middle as any "
            "cluster: are its rows on the agreed scale?",
        )


def rows_off_scale(rows: Array, cluster_centers: Array) -> Iterator[Notice]:
    """Say that new rows were not put on the scale of the clusters, it seems.

    Single rows lie far from every center where there are many features, so the means of those that are nearest to one
    center are looked at, as a device would send them.

    Examples
    --------
    >>> [notice.code for notice in rows_off_scale(np.full((5, 1), 70.0), np.array([[-1.0], [1.0]]))]
    ['other scale']
    """
    if len(rows) < FEWEST_ROWS:
        return
    rows = rows[some_rows(len(rows))].astype(np.float64)
    shown = cluster_centers[~np.isnan(cluster_centers).any(axis=1)].astype(np.float64)
    labels = geometry.nearest(rows, shown)
    groups = [rows[labels == label] for label in np.flatnonzero(np.bincount(labels) >= FEWEST_ROWS)]
    means = [own.mean(axis=0) for own in groups]
    errors = [own.var(axis=0).sum() / len(own) for own in groups]
    if groups and _all_far_out(np.array(means), shown, np.array(errors)):
        yield Notice(
            CODE,
            f"the new rows are more than {FAR_OUT:g} times as far from the middle as any cluster: are they on the "
            "agreed scale?",
        )


def _all_far_out(points: Array, cluster_centers: Array, errors: Array | float = 0.0) -> bool:
    """Whether all points, whose squared errors are given, lie far outside of all clusters."""
    centers = cluster_centers.astype(np.float64)
    middle = np.median(centers, axis=0)
    usual = np.linalg.norm(centers - middle, axis=1).max()
    squares = np.square(points - middle).sum(axis=1) - errors
    return bool(len(points) and usual > 0 and squares.min() > (FAR_OUT * usual) ** 2)
