"""What a device measures of its clusters, and which of them it withholds (`docs/decisions/0001`)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from kfed._base.array import Array, readonly
from kfed.device.deviation.deviation import deviation_bound
from kfed.device.floor.distinct_rows import are_outweighed, have_enough_ids, have_enough_rows
from kfed.device.floor.pooled_sums import sent_sums
from kfed.device.rows.rows import Rows
from kfed.device.settings import DeviceSettings
from kfed.device.steps.lloyd import Solution
from kfed.device.steps.lloyd_step import comparisons, memberships, smallest_of


@dataclass(frozen=True)
class ClusterFacts:
    """What is measured of a batch: of each cluster, (n_devices, n_clusters), and one deviation per device."""

    counts: Array
    sums_of_squares: Array
    sent_sums_of_squares: Array
    withheld: Array
    deviations: Sequence[float | None]


def measure(
    rows: Rows,
    solution: Solution,
    n_clusters: int,
    settings: DeviceSettings,
    keys: npt.NDArray[np.uint64],
    ids: Array | None = None,
) -> ClusterFacts:
    """Measure the clusters, decide which of them must not leave the device, and measure the deviation of the rest.

    `ids` (n_points,) say whose each row of a single device is, as whole numbers from 0.
    """
    tally = _tally(rows, solution, n_clusters)
    withheld = _is_withheld(rows, solution, tally, settings.min_cluster_size, ids)
    counts: Array = tally.weights if settings.weighted else np.rint(tally.weights).astype(np.int64)
    n_rows = _n_rows(rows, solution, n_clusters) if settings.weighted else counts
    to_send = sent_sums(tally.spread, n_rows, ~withheld, settings.min_cluster_size, settings.summarises)
    deviations: Sequence[float | None] = [None] * rows.n_devices
    if settings.measure_deviation:
        measured = _deviations(rows, solution, tally.spread, withheld, keys)
        too_few = np.isnan(to_send[:, 0])
        deviations = [None if few else norm for few, norm in zip(too_few, measured, strict=True)]
    return ClusterFacts(
        counts=readonly(counts),
        sums_of_squares=readonly(tally.spread.astype(rows.dtype)),
        sent_sums_of_squares=readonly(to_send.astype(rows.dtype)),
        withheld=readonly(withheld),
        deviations=deviations,
    )


@dataclass(frozen=True)
class _ClusterSums:
    """Sums over the points of each cluster, (n_devices, n_clusters) each."""

    weights: Array
    spread: Array  # squared distances to the center
    near_center: Array  # how many points equal the center up to rounding
    equal_center: Array  # how many points equal the center exactly
    heaviest: Array  # the largest weight of one point


def is_withheld(rows: Rows, solution: Solution, settings: DeviceSettings, ids: Array | None = None) -> Array:
    """Tell which clusters must not leave the device, (n_devices, n_clusters)."""
    tally = _tally(rows, solution, solution.centers.shape[1])
    return _is_withheld(rows, solution, tally, settings.min_cluster_size, ids)


def _is_withheld(rows: Rows, solution: Solution, tally: _ClusterSums, least: int, ids: Array | None) -> Array:
    withheld = _reveal_rows(tally, least)
    return withheld | ~_are_of_enough(rows, solution, ~withheld, least, ids)


def _reveal_rows(tally: _ClusterSums, min_cluster_size: int) -> Array:
    """Apply the rule of decision 0001, (n_devices, n_clusters).

    A cluster of fewer than m points weighs less than m times its heaviest, so one inequality covers small clusters and
    clusters that one row dominates.
    """
    withheld = are_outweighed(tally.weights, tally.heaviest, min_cluster_size)
    for on_center in (tally.near_center, tally.equal_center):
        withheld |= (on_center > 0) & (on_center < min_cluster_size)
    return np.asarray(withheld)


def _are_of_enough(rows: Rows, solution: Solution, asked: Array, least: int, ids: Array | None) -> Array:
    """Tell which of the `asked` clusters hold enough different rows, or ids if they are known."""
    if least == 1 or not asked.any():
        return asked
    if ids is not None:
        weights, labels = rows.weights[0, : len(ids)], solution.labels[0, : len(ids)]
        return asked & have_enough_ids(ids, weights, labels, asked.shape[1], least)
    return have_enough_rows(rows, solution.centers, solution.labels, asked, least)


def _n_rows(rows: Rows, solution: Solution, n_clusters: int) -> Array:
    """Rows of each cluster that weigh anything, (n_devices, n_clusters)."""
    is_there = (rows.weights > 0).astype(float)
    return np.stack([np.bincount(*own, minlength=n_clusters) for own in zip(solution.labels, is_there, strict=True)])


def _tally(rows: Rows, solution: Solution, n_clusters: int) -> _ClusterSums:
    centers, labels = solution.centers, solution.labels

    def of_block(block: slice) -> tuple[Array, ...]:
        part = rows.part(block)
        squares = part.squared_residuals(centers, labels[:, block], solution.excess)
        members = memberships(labels[:, block], part.weights, n_clusters)
        spread = np.matmul(members, squares[:, :, None])[:, :, 0]
        on_center = _on_center(part, solution, labels[:, block], squares)
        return members.sum(axis=2), spread, *on_center, members.max(axis=2)

    *additive, heaviest = zip(*rows.map_blocks(of_block), strict=True)
    weights, spread, near, equal = (np.asarray(np.sum(parts, axis=0, dtype=np.float64)) for parts in additive)
    return _ClusterSums(weights, spread, near, equal, np.max(heaviest, axis=0))


def _on_center(part: Rows, solution: Solution, labels: Array, squares: Array) -> tuple[Array, Array]:
    """How many points equal each center up to rounding, and how many exactly, (n_devices, n_clusters) each.

    A point that equals a center is of that center's cluster, unless Lloyd was cut short or clusters were merged. Then
    it is looked for anew, and counts for every cluster with this center: `smallest_of` gives it to the first alone.
    """
    centers = solution.centers
    if not solution.settled.all():
        settled = solution.settled[:, None]
        labels = np.where(settled, labels, smallest_of(comparisons(part, centers))[0])
        squares = np.where(settled, squares, part.squared_residuals(centers, labels))
    largest = np.einsum("bkd,bkd->bk", centers, centers).max(axis=1) + squares.max(axis=1)
    rounding = (16 * np.finfo(part.dtype).eps) ** 2 * largest
    near = (squares <= rounding[:, None]) & (part.weights > 0)
    if not near.any():
        return np.zeros(centers.shape[:2]), np.zeros(centers.shape[:2])
    equal = part.is_center(centers, labels, near)
    of_near, of_equal = (
        memberships(labels, found.astype(part.dtype), centers.shape[1]).sum(axis=2) for found in (near, equal)
    )
    for device in np.flatnonzero(~solution.settled):
        own = centers[device].astype(np.float64)
        of_near[device] = _for_all_there(own, of_near[device], 4 * rounding[device])  # both may be off by the rounding
        of_equal[device] = _for_all_there(own, of_equal[device], 0.0)
    return of_near, of_equal


def _for_all_there(centers: Array, n_points: Array, tolerance: float) -> Array:
    """Add up the points of clusters whose centers are the same, (n_clusters,).

    Examples
    --------
    >>> _for_all_there(np.array([[0.0], [0.0], [2.0]]), np.array([2.0, 0.0, 5.0]), 0.0)
    array([2., 2., 5.])
    """
    result = np.zeros_like(n_points)
    for cluster in np.flatnonzero(n_points):
        result[((centers - centers[cluster]) ** 2).sum(axis=1) <= tolerance] += n_points[cluster]
    return result


def _deviations(
    rows: Rows, solution: Solution, spread: Array, withheld: Array, keys: npt.NDArray[np.uint64]
) -> list[float]:
    """Spectral deviation of the points whose clusters are sent, one per device."""
    roots = np.sqrt((spread * ~withheld).sum(axis=1))
    if not roots.any():
        return [0.0] * rows.n_devices
    weights = rows.weights
    if withheld.any():
        weights = weights * np.take_along_axis(~withheld, solution.labels.astype(np.intp), axis=1)
    norms = deviation_bound(rows, solution.centers, solution.labels, weights, roots, keys)
    deviations: list[float] = np.where(roots > 0, norms, 0).tolist()
    return deviations
