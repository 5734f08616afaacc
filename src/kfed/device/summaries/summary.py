"""A fine summary of the points of a device: as many centers as the floor and a budget of bytes allow.

Who does not know how many clusters a device holds sends this instead. Local clusters that are too small to be sent are
merged with those near them, by Ward's distance, until every center stands for enough points: then no point is left out,
and no center has fewer points behind it than the floor asks. What became large by it is split. Beyond the paper.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, TypeVar

import numpy as np

from kfed._base import checks, geometry
from kfed._base.array import Array
from kfed.device.rows.rows import Rows
from kfed.device.steps.lloyd import Solution
from kfed.device.steps.lloyd_step import means, sums_by_label
from kfed.device.summaries.splitting import split
from kfed.errors import InvalidInputError
from kfed.wire import LEAST_KEPT, DeviceMessage

Kept = TypeVar("Kept")

SUMMARY_BYTES = 20_000
"""A summary takes no more than this, unless a few centers do."""

LEAST_CENTERS = 16
"""So many centers are sent even if they take more bytes."""

ENOUGH = 48
"""Where 8 bits a value leave room for fewer centers, they have 4 bits: more centers are worth more than finer ones."""

STATISTICS_BYTES, HEADER_BYTES, PACKED_BYTES = 32, 400, 100
"""Bytes of a center beside its values, of a message beside its centers, and how many more with 4 bits."""

LONG_NAME = 64
"""Messages of devices with names of up to so many letters stay within the bytes that they may take."""

STEP = 4
"""Devices of 4 bits have a multiple of this many centers, so that those that are alike are clustered together."""


def n_summary_centers(n_points: int, n_features: int, min_cluster_size: int, most: int, n_zeros: int = 0) -> int:
    """How many centers a summary may have: enough points for each, at most `most`, and few enough bytes.

    `n_zeros` features are zero in every point; with 4 bits a value they take no room.

    Examples
    --------
    >>> n_summary_centers(60, 2, 3, 64), n_summary_centers(600, 784, 3, 64), n_summary_centers(600, 784, 3, 64, 190)
    (20, 44, 56)
    """
    affordable = _affordable(n_features)
    if affordable < ENOUGH:
        n_bytes = -(-max(n_features - n_zeros, -(-n_features // LEAST_KEPT)) // 2)
        affordable = max(affordable, _affordable(n_bytes, PACKED_BYTES + n_features // 8) // STEP * STEP)
    return max(1, min(most, affordable, n_points // min_cluster_size))


def _affordable(n_bytes: int, n_beside: int = 0) -> int:
    """How many centers may be sent whose values take so many bytes each, and others that many."""
    return max(LEAST_CENTERS, (SUMMARY_BYTES - HEADER_BYTES - n_beside) // (STATISTICS_BYTES + n_bytes))


def n_zero_features(points: Any) -> int:
    """How many features are zero in every point, if that decides how many centers there are."""
    n_features = int(points.shape[1])
    if _affordable(n_features) >= ENOUGH:
        return 0
    if checks.is_sparse(points):
        return n_features - len(np.unique(points.indices))
    return n_features - int(np.count_nonzero(points.any(axis=0)))


def within_budget(message: DeviceMessage) -> DeviceMessage:
    """Round the centers of a summary to 16, 8 or 4 bits a value if its message would be too large otherwise.

    A message with the scatter is never rounded: the scatter takes more bytes, and its bounds would become wide.
    """
    if message.details is not None and {"scatter", "sketch"} & message.details.tensors().keys():
        return message
    n_values, n_bytes = message.centers.size, message.centers.nbytes
    room = SUMMARY_BYTES - HEADER_BYTES - STATISTICS_BYTES * message.n_local_clusters
    if n_bytes <= room:
        return message
    return message.quantised(16 if 2 * n_values <= room else 8 if n_values <= room else 4)


class TooManyBytesError(InvalidInputError):
    """A message that takes more bytes than it may."""

    def __init__(self, n_bytes: int, max_bytes: int, n_centers: int, n_scatter: int) -> None:
        scatter = f", {n_scatter:,} of them for the scatter that moments ask for" if n_scatter else ""
        super().__init__(f"the message takes {n_bytes:,} bytes{scatter}; max_bytes is {max_bytes:,}: allow more")
        self.n_bytes, self.max_bytes, self.n_centers = n_bytes, max_bytes, n_centers


def within_bytes(message: DeviceMessage, max_bytes: int, bits: int | None) -> DeviceMessage:
    """Round a message just enough to stay within `max_bytes`; with `bits`, round it to exactly that many.

    A message with the scatter is rounded only if `bits` is given. Raises `TooManyBytesError` if it stays too large.
    """
    tensors = {} if message.details is None else message.details.tensors()
    n_scatter = sum(tensors[name].nbytes for name in ("scatter", "sketch") if name in tensors)
    choices = [bits] if bits is not None else [None] if n_scatter else [None, 16, 8, 4]
    sizes = []
    for own in choices:
        rounded = message if own is None else message.quantised(own)
        sizes.append(len(rounded.to_bytes()))
        if sizes[-1] <= max_bytes:
            return rounded
    raise TooManyBytesError(min(sizes), max_bytes, message.n_local_clusters, n_scatter)


def under_long_name(found: Any) -> DeviceMessage:
    """Make the message of a clustering under a long name, without recording that name as sent."""
    message: DeviceMessage = replace(found, _sent_as=set()).to_message("x" * LONG_NAME)
    return message


def fitting(cluster: Callable[[int], Kept], message_of: Callable[[Kept], DeviceMessage], n_centers: int) -> Kept:
    """Cluster into as many of `n_centers` centers as the message of the result has room for; see `within_bytes`."""
    while True:
        found = cluster(n_centers)
        try:
            message_of(found)
            return found
        except TooManyBytesError as error:
            if min(n_centers, error.n_centers) <= 1:
                raise
            n_centers = min(n_centers, error.n_centers)
            n_centers = max(1, min(n_centers - 1, int(n_centers * error.max_bytes / error.n_bytes)))


def merged_and_split(rows: Rows, solution: Solution, withheld: Callable[[Solution], Array]) -> Solution:
    """Local clusters that may all be sent, and about as many as were asked for; see `merged`."""
    solution = merged(rows, solution, withheld)
    parts = split(rows, solution)
    return solution if parts is solution else merged(rows, parts, withheld)


def merged(rows: Rows, solution: Solution, withheld: Callable[[Solution], Array]) -> Solution:
    """Merge local clusters that would be withheld with their nearest, until none is left that can be merged.

    `withheld` says of a solution which of its clusters must not leave the device, (n_devices, n_clusters).
    """
    n_clusters = solution.centers.shape[1]
    for _ in range(n_clusters):
        sizes = sums_by_label(rows, solution.labels, rows.weights, n_clusters)[1]
        small = withheld(solution) & (sizes > 0)
        small[np.count_nonzero(sizes, axis=1) == 1] = False
        if not small.any():
            break
        solution = _joined(rows, solution, sizes, small)
    return solution


def _joined(rows: Rows, solution: Solution, sizes: Array, small: Array) -> Solution:
    """Every small cluster merged with another one, small or not."""
    n_clusters = solution.centers.shape[1]
    labels, centers, settled = solution.labels.copy(), solution.centers.copy(), solution.settled.copy()
    for device in np.flatnonzero(small.any(axis=1)):
        names = _ward(centers[device].astype(np.float64), sizes[device].copy(), small[device].copy())
        labels[device] = names.astype(labels.dtype)[labels[device]]
        settled[device] = False
    sums = sums_by_label(rows, labels, rows.weights, n_clusters)
    return replace(solution, labels=labels, centers=means(*sums, centers), settled=settled, excess=None)


def _ward(centers: Array, sizes: Array, small: Array) -> Array:
    """The cluster that each cluster becomes part of, (n_clusters,); the cheapest merger of a small one comes first.

    Merging a and b raises the sum of squares by |a - b|^2 n_a n_b / (n_a + n_b) (Ward, JASA 1963).

    Examples
    --------
    >>> _ward(np.array([[0.0], [1.0], [9.0], [9.5]]), np.array([5.0, 1.0, 1.0, 2.0]), np.array([0, 1, 1, 1]) > 0)
    array([0, 0, 3, 3])
    """
    names = np.arange(len(sizes))
    costs = geometry.squared_distances(centers, centers)
    while small.any():
        there = sizes > 0
        mergers = sizes[:, None] * sizes / np.maximum(sizes[:, None] + sizes, 1e-300) * costs
        mergers[~(small[:, None] & there)] = np.inf
        np.fill_diagonal(mergers, np.inf)
        one, other = np.unravel_index(mergers.argmin(), mergers.shape)
        if not np.isfinite(mergers[one, other]):
            break
        total = sizes[one] + sizes[other]
        centers[other] = (sizes[one] * centers[one] + sizes[other] * centers[other]) / total
        sizes[other], sizes[one] = total, 0.0
        small[[one, other]] = False
        names[names == one] = other
        costs[other] = costs[:, other] = geometry.squared_distances(centers, centers[[other]])[:, 0]
    return names
