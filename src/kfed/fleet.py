"""Many devices at once, for simulation: batches that fit the cache, a worker pool, and the answer of each device alone.

Devices of one padded size and one k^(z) share a batch. What a device gets does not depend on its batch, on the other
devices or on the number of workers: it is what `cluster_device` gives it.
"""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, pairwise
from math import ceil, prod
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from kfed import _checks, _pool, _progress, _random
from kfed._auto_local_k import MAX_LOCAL_CLUSTERS
from kfed._random import RandomState
from kfed._rows import Rows
from kfed.device import (
    MAX_ITERATIONS,
    MIN_CLUSTER_SIZE,
    Settings,
    cluster_rows,
    is_large,
    padded_size,
    rows_of_one,
    stacked,
)
from kfed.errors import FeatureMismatchError, InvalidInputError
from kfed.local import LocalClustering

Array = npt.NDArray[Any]

BATCH_BYTES = 3 * 2**22
"""Bytes of points in a batch: few enough for the cache, enough that Python's own time does not count."""


def cluster_fleet(
    points: Sequence[Any] | Mapping[str, Any] | Array,
    n_local_clusters: int | Literal["auto"] | Sequence[int | Literal["auto"]],
    *,
    max_local_clusters: int = MAX_LOCAL_CLUSTERS,
    device_ids: Sequence[str] | None = None,
    sample_weights: Sequence[Any] | None = None,
    random_state: RandomState = None,
    min_cluster_size: int = MIN_CLUSTER_SIZE,
    max_iterations: int = MAX_ITERATIONS,
    measure_deviation: bool = True,
    n_jobs: int | None = None,
    progress: bool | None = None,
) -> list[LocalClustering]:
    """Run Algorithm 1 on every device of a simulated fleet.

    Parameters
    ----------
    points : sequence of (n_points, n_features) arrays, or mapping from device id to such
        The points of each device: dense, sparse or data frames, of any sizes.
    n_local_clusters : int, "auto", or sequence of such
        k^(z), one for all or one a device; ``"auto"`` is chosen for each device alone.
    device_ids : sequence of str, optional
        Names of the devices, which their random numbers depend on. Without names, on the seed alone.
    sample_weights : sequence of arrays, optional
        Weights of each device's points.
    progress : bool, optional
        Show a progress bar; by default on a terminal, when it takes a while.
    max_local_clusters, random_state, min_cluster_size, max_iterations, measure_deviation, n_jobs
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
    n_clusters = _n_local_clusters(n_local_clusters, n_devices)
    for name, values in (("device_ids", ids), ("sample_weights", weights), ("n_local_clusters", n_clusters)):
        if len(values) != n_devices:
            raise InvalidInputError(f"{name} must have one entry for each of {n_devices} devices")
    settings = Settings(
        max_local_clusters=_checks.positive_integer(max_local_clusters, "max_local_clusters"),
        min_cluster_size=_checks.positive_integer(min_cluster_size, "min_cluster_size"),
        max_iterations=_checks.positive_integer(max_iterations, "max_iterations"),
        measure_deviation=measure_deviation,
    )
    _checks.device_ids(ids)
    keys = _random.device_keys(_random.as_seed(random_state), ids)
    devices = [_device(i, points[i], weights[i], n_clusters[i], keys[i]) for i in range(n_devices)]
    _check_same_width(devices)
    return _cluster(devices, settings, n_jobs, progress)


def _n_local_clusters(given: Any, n_devices: int) -> list[int | Literal["auto"]]:
    """k^(z) of every device."""
    if np.ndim(given) == 0:
        return [_checks.positive_integer_or_auto(given, "n_local_clusters")] * n_devices
    return [_checks.positive_integer_or_auto(own, "n_local_clusters") for own in given]


@dataclass(slots=True, eq=False)
class _Device:
    """One device of the fleet."""

    position: int
    points: Any
    weights: Array | None
    n_clusters: int | Literal["auto"]
    key: np.uint64
    names: tuple[str, ...] | None

    @property
    def name(self) -> str:
        """What errors call its points."""
        return f"points of device {self.position}"

    @property
    def batch(self) -> tuple[Any, ...]:
        """Devices with the same value here can share a batch."""
        if _checks.is_sparse(self.points) or is_large(self.points):
            return (self.position,)
        return padded_size(len(self.points)), self.n_clusters, self.points.dtype, self.weights is None


def _device(position: int, points: Any, weights: Any, n_clusters: int | Literal["auto"], key: np.uint64) -> _Device:
    """A device whose points have the right form; whether they are finite is checked by the batch."""
    device = _Device(position, points, None, n_clusters, key, _checks.feature_names_of(points))
    device.points = _checks.table(points, device.name)
    device.weights = _checks.sample_weight(weights, device.points.shape[0], device.points.dtype)
    return device


def _check_same_width(devices: list[_Device]) -> None:
    for device in devices:
        if device.points.shape[1] != devices[0].points.shape[1]:
            raise FeatureMismatchError(
                f"all devices must have the same features, and device 0 has {devices[0].points.shape[1]} where "
                f"device {device.position} has {device.points.shape[1]}"
            )


def _cluster(
    devices: list[_Device], settings: Settings, n_jobs: int | None, progress: bool | None
) -> list[LocalClustering]:
    """Batches side by side, one worker each; then large devices one after the other, with all workers."""
    all_batches = list(_batches(devices, n_workers=n_jobs or _pool.available_cores()))
    large = [batch for batch in all_batches if is_large(batch[0].points)]
    batches = [batch for batch in all_batches if not is_large(batch[0].points)]
    results: dict[int, LocalClustering] = {}
    with _progress.bar("clustering devices", len(devices), progress) as advance:
        found = chain(
            _pool.map_in_order(_Worker(settings), batches, n_jobs),
            (_solve_alone(batch[0], settings, n_jobs) for batch in large),
        )
        for batch, clusterings in zip(batches + large, found, strict=True):
            results.update(zip((device.position for device in batch), clusterings, strict=True))
            advance(len(batch))
    return [results[position] for position in range(len(devices))]


def _batches(devices: list[_Device], n_workers: int) -> Iterator[list[_Device]]:
    """Devices that can share a batch, in batches that fit the cache, as many for each worker."""
    groups: dict[tuple[Any, ...], list[_Device]] = defaultdict(list)
    for device in devices:
        groups[device.batch].append(device)
    for group in groups.values():
        bytes_each = padded_size(group[0].points.shape[0]) * group[0].points.shape[1] * group[0].points.dtype.itemsize
        n_batches = ceil(len(group) / max(1, BATCH_BYTES // bytes_each))
        if n_batches > 1:
            n_batches = min(n_workers * ceil(n_batches / n_workers), len(group))
        edges = [len(group) * edge // n_batches for edge in range(n_batches + 1)]
        for first, last in pairwise(edges):
            yield group[first:last]


class _Worker(threading.local):
    """Solves batches, each thread in memory of its own that it uses again for the next batch."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._memory = np.empty(0, np.uint8)

    def __call__(self, batch: list[_Device]) -> list[LocalClustering]:
        if _checks.is_sparse(batch[0].points):
            return _solve_alone(batch[0], self._settings)
        rows = stacked([device.points for device in batch], [device.weights for device in batch], self._allocate)
        with np.errstate(over="ignore", invalid="ignore"):
            sum_of_squares = rows.squared_lengths.sum()
        if not _checks.is_tame(sum_of_squares, rows.weights):
            for device in batch:
                _checks.finite(device.points, device.name, device.weights)
        return _solve(batch, rows, self._settings)

    def _allocate(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
        n_bytes = prod(shape) * dtype.itemsize
        if n_bytes > self._memory.size:
            self._memory = np.empty(n_bytes, np.uint8)
        return self._memory[:n_bytes].view(dtype).reshape(shape)


def _solve_alone(device: _Device, settings: Settings, n_jobs: int | None = None) -> list[LocalClustering]:
    _checks.finite(device.points, device.name, device.weights)
    return _solve([device], rows_of_one(device.points, device.weights, n_jobs), settings)


def _solve(batch: list[_Device], rows: Rows, settings: Settings) -> list[LocalClustering]:
    settings = replace(settings, weighted=batch[0].weights is not None)
    keys = np.array([device.key for device in batch])
    sizes = [device.points.shape[0] for device in batch]
    with _pool.one_blas_thread():
        return cluster_rows(rows, batch[0].n_clusters, keys, settings, sizes, [device.names for device in batch])
