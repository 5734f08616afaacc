"""`cluster_fleet`: Algorithm 1 on many devices at once, for simulation.

Devices of one padded size and one k^(z) share a batch that fits the cache, and workers take batches. The result of a
device does not depend on its batch or on the number of workers: it is what `cluster_device` returns for that device.
"""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, pairwise
from math import ceil, prod
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from kfed._base import checks, pool, random
from kfed._base.array import Array
from kfed._base.progress import progress_bar
from kfed._base.random import RandomState
from kfed.device.choosing import MAX_LOCAL_CLUSTERS
from kfed.device.cluster import check_max_bytes, cluster_rows, summary_size
from kfed.device.clustering import LocalClustering
from kfed.device.convergence import warn_unless_converged
from kfed.device.private.privacy import Privacy, cluster_privately
from kfed.device.rows.batches import is_large, padded_size, rows_of_one, stacked
from kfed.device.rows.rows import Rows
from kfed.device.settings import MAX_ITERATIONS, MIN_CLUSTER_SIZE, DeviceSettings
from kfed.device.summaries.summary import fitting, under_long_name
from kfed.errors import FeatureMismatchError, InvalidInputError

BATCH_BYTES = 2**23
"""Bytes of points in a batch: few enough for the workers to share the cache, enough to make Python's overhead small."""


def cluster_fleet(
    points: Sequence[Any] | Mapping[str, Any] | Array,
    n_local_clusters: int | Literal["auto"] | Sequence[int | Literal["auto"]] | None = None,
    *,
    max_local_clusters: int = MAX_LOCAL_CLUSTERS,
    max_bytes: int | None = None,
    device_ids: Sequence[str] | None = None,
    sample_weights: Sequence[Any] | None = None,
    random_state: RandomState = None,
    min_cluster_size: int = MIN_CLUSTER_SIZE,
    small_clusters: Literal["withhold", "borrow"] = "withhold",
    max_iterations: int = MAX_ITERATIONS,
    measure_deviation: bool = True,
    n_jobs: int | None = None,
    progress: bool | None = None,
    privacy: Privacy | None = None,
) -> list[LocalClustering]:
    """Run Algorithm 1 on every device of a simulated fleet.

    Parameters
    ----------
    points : sequence of (n_points, n_features) arrays, or mapping from device id to such an array
        The points of each device: dense, sparse or data frames, of any sizes.
    n_local_clusters : int, "auto", or sequence of int or "auto", optional
        k^(z), one for all devices or one for each; with ``"auto"`` each device chooses its own. Without it, every
        device summarises its points, see `cluster_device`.
    device_ids : sequence of str, optional
        Names of the devices. Random choices depend on the seed and the name; without names, on the seed only.
    sample_weights : sequence of arrays, optional
        Weights of each device's points.
    progress : bool, optional
        Whether to show a progress bar. By default it is shown on a terminal if the work takes a while.
    max_local_clusters, random_state, min_cluster_size, small_clusters, max_iterations, measure_deviation
        As in `cluster_device`.
    n_jobs, privacy, max_bytes
        As in `cluster_device`.

    Returns
    -------
    list of LocalClustering
        In the order of `points`; each equals ``cluster_device(points[i], ..., device_id=device_ids[i])``.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> fleet = [rng.normal(size=(50 + 10 * i, 3)) for i in range(4)]
    >>> [local.n_points for local in cluster_fleet(fleet, 2, random_state=0)]
    [50, 60, 70, 80]
    """
    if isinstance(points, Mapping):
        device_ids, points = list(points), list(points.values())
    n_devices = len(points)
    weights = [None] * n_devices if sample_weights is None else sample_weights
    ids = [""] * n_devices if device_ids is None else device_ids
    checks.device_ids(ids)
    tables = [_table(position, own) for position, own in enumerate(points)]
    settings = DeviceSettings.checked(
        max_local_clusters=max_local_clusters,
        min_cluster_size=min_cluster_size,
        max_iterations=max_iterations,
        measure_deviation=measure_deviation,
        small_clusters=small_clusters,
        summarises=n_local_clusters is None and privacy is None,
    )
    check_max_bytes(max_bytes, n_local_clusters, privacy)
    if settings.summarises:
        n_local_clusters = [summary_size(own, settings) for own in tables]
    n_clusters = _n_local_clusters(n_local_clusters, n_devices)
    for name, values in (("device_ids", ids), ("sample_weights", weights), ("n_local_clusters", n_clusters)):
        if len(values) != n_devices:
            raise InvalidInputError(f"{name} must have one entry per device ({n_devices}); got {len(values)}")
    fleet = _CheckedInput(
        points=tables,
        weights=[checks.sample_weight(own, table) for own, table in zip(weights, tables, strict=True)],
        n_clusters=n_clusters,
        keys=random.device_keys(random.as_seed(random_state), ids),
        names=[checks.feature_names_of(own) for own in points],
    )
    _check_same_width(fleet)
    if privacy is not None:
        own = pool.map_in_order(lambda position: _privately(fleet, position, privacy), range(n_devices), n_jobs)
        return _named(own, ids)
    found = _cluster(fleet, settings, n_jobs, progress)
    if max_bytes is not None:
        found = [_within(own, fleet, z, settings, n_jobs, max_bytes) for z, own in enumerate(found)]
    warn_unless_converged(found, max_iterations)
    return _named(found, ids)


def _named(found: Iterable[LocalClustering], ids: Sequence[str]) -> list[LocalClustering]:
    """The same, each with the name of its device, so that the answer to another is refused."""
    named = list(found)
    for own, name in zip(named, ids, strict=True):
        own._sent_as.update({name} - {""})
    return named


def _within(
    found: LocalClustering,
    fleet: _CheckedInput,
    position: int,
    settings: DeviceSettings,
    n_jobs: int | None,
    max_bytes: int,
) -> LocalClustering:
    """What was found, or fewer centers if their message would take more bytes."""

    def cluster(n_clusters: int) -> LocalClustering:
        if n_clusters == fleet.n_clusters[position]:
            return replace(found, max_bytes=max_bytes)
        fewer = replace(fleet, n_clusters=[n_clusters] * len(fleet.points))
        return replace(_solve_alone(fewer, [position], settings, n_jobs)[0], max_bytes=max_bytes)

    fitted: LocalClustering = fitting(cluster, under_long_name, int(fleet.n_clusters[position]))
    return fitted


def _n_local_clusters(given: Any, n_devices: int) -> list[int | Literal["auto"]]:
    """k^(z) of every device."""
    if np.ndim(given) == 0:
        return [checks.positive_integer_or_auto(given, "n_local_clusters")] * n_devices
    return [checks.positive_integer_or_auto(own, "n_local_clusters") for own in given]


@dataclass(frozen=True)
class _CheckedInput:
    """Checked input of the devices, by position."""

    points: list[Any]
    weights: list[Array | None]
    n_clusters: list[int | Literal["auto"]]
    keys: npt.NDArray[np.uint64]
    names: list[tuple[str, ...] | None]


def _table(position: int, points: Any) -> Any:
    """Points in the right form; `_BatchWorker` checks that they are finite."""
    return points if checks.is_table(points) else checks.table(points, _name(position))


def _name(position: int) -> str:
    """The name of a device's points in errors."""
    return f"points of device {position}"


def _privately(fleet: _CheckedInput, position: int, privacy: Privacy) -> LocalClustering:
    points, weights = fleet.points[position], fleet.weights[position]
    checks.clusterable(points, _name(position), weights)
    key, names = int(fleet.keys[position]), fleet.names[position]
    return cluster_privately(points, fleet.n_clusters[position], privacy, key, weights, names)


def _check_same_width(fleet: _CheckedInput) -> None:
    widths = [own.shape[1] for own in fleet.points]
    for position, width in enumerate(widths):
        if width != widths[0]:
            raise FeatureMismatchError(
                f"all devices must have the same features; device 0 has {widths[0]}, device {position} has {width}"
            )


def _cluster(
    fleet: _CheckedInput, settings: DeviceSettings, n_jobs: int | None, progress: bool | None
) -> list[LocalClustering]:
    """Cluster batches in parallel, one worker each; then large devices one by one, with all workers."""
    all_batches = list(_batches(fleet, n_workers=n_jobs or pool.available_cores()))
    are_large = [is_large(fleet.points[first], fleet.n_clusters[first]) for first, *_ in all_batches]
    large = [batch for batch, alone in zip(all_batches, are_large, strict=True) if alone]
    batches = [batch for batch, alone in zip(all_batches, are_large, strict=True) if not alone]
    results: dict[int, LocalClustering] = {}
    with progress_bar("clustering devices", len(fleet.points), progress) as advance:
        found = chain(
            pool.map_in_order(_BatchWorker(fleet, settings), batches, n_jobs),
            (_solve_alone(fleet, batch, settings, n_jobs) for batch in large),
        )
        for batch, clusterings in zip(batches + large, found, strict=True):
            results.update(zip(batch, clusterings, strict=True))
            advance(len(batch))
    return [results[position] for position in range(len(fleet.points))]


def _batches(fleet: _CheckedInput, n_workers: int) -> Iterator[list[int]]:
    """Group devices into batches that fit the cache, the same number of batches for each worker."""
    groups: dict[tuple[Any, ...], list[int]] = defaultdict(list)
    for form, alike in _by_form(fleet).items():
        points = fleet.points[alike[0]]
        if checks.is_sparse(points) or is_large(points, fleet.n_clusters[alike[0]]):
            yield from ([position] for position in alike)
        else:
            groups[padded_size(len(points)), *form[2:]] += alike
    for group in groups.values():
        points = fleet.points[group[0]]
        bytes_each = padded_size(len(points)) * points.shape[1] * points.itemsize
        n_batches = ceil(len(group) / max(1, BATCH_BYTES // bytes_each))
        if n_batches > 1:
            n_batches = min(n_workers * ceil(n_batches / n_workers), len(group))
        edges = [len(group) * edge // n_batches for edge in range(n_batches + 1)]
        for first, last in pairwise(edges):
            yield group[first:last]


def _by_form(fleet: _CheckedInput) -> dict[tuple[Any, ...], list[int]]:
    """Positions of the devices by type, shape and precision of their points, use of weights, and k^(z)."""
    forms: dict[tuple[Any, ...], list[int]] = defaultdict(list)
    for position, (points, weights, n_clusters) in enumerate(
        zip(fleet.points, fleet.weights, fleet.n_clusters, strict=True)
    ):
        forms[type(points), points.shape, points.dtype.itemsize, weights is None, n_clusters].append(position)
    return forms


class _BatchWorker(threading.local):
    """Solves batches; each thread has its own memory, which it reuses for the next batch."""

    def __init__(self, fleet: _CheckedInput, settings: DeviceSettings) -> None:
        self._fleet, self._settings = fleet, settings
        self._memory = np.empty(0, np.uint8)

    def __call__(self, batch: list[int]) -> list[LocalClustering]:
        points = [self._fleet.points[position] for position in batch]
        if checks.is_sparse(points[0]):
            return _solve_alone(self._fleet, batch, self._settings)
        rows = stacked(points, [self._fleet.weights[position] for position in batch], self._allocate)
        with np.errstate(over="ignore", invalid="ignore"):
            sums_of_squares = rows.squared_lengths.sum(axis=1)
            extremes = sums_of_squares.min(), sums_of_squares.sum()
        if not all(checks.is_in_range(own, rows.weights) for own in extremes):
            for position in batch:
                checks.clusterable(self._fleet.points[position], _name(position), self._fleet.weights[position])
        return _solve(self._fleet, batch, rows, self._settings)

    def _allocate(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
        n_bytes = prod(shape) * dtype.itemsize
        if n_bytes > self._memory.size:
            self._memory = np.empty(n_bytes, np.uint8)
        return self._memory[:n_bytes].view(dtype).reshape(shape)


def _solve_alone(
    fleet: _CheckedInput, batch: list[int], settings: DeviceSettings, n_jobs: int | None = None
) -> list[LocalClustering]:
    """Solve a batch of one large or sparse device."""
    points, weights = fleet.points[batch[0]], fleet.weights[batch[0]]
    checks.clusterable(points, _name(batch[0]), weights)
    return _solve(fleet, batch, rows_of_one(points, weights, fleet.n_clusters[batch[0]], n_jobs), settings)


def _solve(fleet: _CheckedInput, batch: list[int], rows: Rows, settings: DeviceSettings) -> list[LocalClustering]:
    settings = replace(settings, weighted=fleet.weights[batch[0]] is not None)
    n_clusters = fleet.n_clusters[batch[0]]
    sizes = [fleet.points[position].shape[0] for position in batch]
    names = [fleet.names[position] for position in batch]
    with pool.one_blas_thread():
        return cluster_rows(rows, n_clusters, fleet.keys[batch], settings, sizes, names)
