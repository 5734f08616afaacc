"""Algorithm 1 on one device: points in, a `LocalClustering` out. The points go no further than this file."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from kfed._base import checks, pool, random
from kfed._base.array import Array, readonly
from kfed._base.random import RandomState
from kfed.device.choosing import MAX_LOCAL_CLUSTERS, choose_local_k
from kfed.device.clustering import LocalClustering
from kfed.device.local_kmeans import Solution, comparisons, local_kmeans, memberships, nearest
from kfed.device.rows import BlockedRows, DenseRows, Rows, SparseRows

MIN_CLUSTER_SIZE = 3
MAX_ITERATIONS = 300

LARGE_BYTES = 2**23
"""A device with more bytes of points than this is walked in blocks by all workers instead of by one."""


def cluster_device(
    points: Any,
    n_local_clusters: int | Literal["auto"],
    *,
    max_local_clusters: int = MAX_LOCAL_CLUSTERS,
    sample_weight: Any = None,
    random_state: RandomState = None,
    device_id: str = "",
    min_cluster_size: int = MIN_CLUSTER_SIZE,
    max_iterations: int = MAX_ITERATIONS,
    measure_deviation: bool = True,
    n_jobs: int | None = None,
) -> LocalClustering:
    """Cluster the points of one device (Algorithm 1 of the paper).

    Parameters
    ----------
    points : array, sparse matrix or data frame of shape (n_points, n_features)
        A^(z). float32 is computed in float32, anything else in float64; sparse rows stay sparse.
    n_local_clusters : int or "auto"
        k^(z). More than there are distinct points is allowed: the clusters too many stay empty. ``"auto"`` is the
        largest number of clusters that lie at least four standard deviations apart, see the notes.
    max_local_clusters : int
        The most clusters that ``"auto"`` looks for.
    sample_weight : array of shape (n_points,), optional
        A weight of N equals N copies of the point.
    random_state : int, Generator, RandomState or None
        The seed. With `device_id` it determines every random choice.
    device_id : str
        Devices that share a seed but not an id make different random choices.
    min_cluster_size : int
        What a message may say. A cluster is withheld from it if it has fewer points than this, if one row makes up more
        than one part in `min_cluster_size` of its weight, or if its center equals a row that occurs less often.
    max_iterations : int
        At most this many Lloyd steps; they end before, when nothing changes.
    measure_deviation : bool
        Also measure the spectral deviation, which the server's certificate asks for. On many small devices this takes
        as long as clustering them.
    n_jobs : int, optional
        Number of threads for a large device, by default one per core. It does not change the answer.

    Returns
    -------
    LocalClustering

    Notes
    -----
    With ``"auto"`` the points are clustered for every number of clusters up to `max_local_clusters` (and a fifth of the
    points), in the directions in which they spread wider than noise does. The largest number is taken for which every
    two clusters lie four standard deviations apart, or more if they have few points, along the line through their
    centers; parts of one cluster do not, whatever its shape. The answer is what that number would give.

    References
    ----------
    Awasthi and Sheffet, "Improved spectral-norm bounds for clustering", APPROX 2012; as Algorithm 1 in Dennis, Li and
    Smith, "Heterogeneity for the Win: One-Shot Federated Clustering", ICML 2021.

    Examples
    --------
    >>> points = np.array([[0.0, 0.1], [0.1, 0.0], [0.0, 0.0], [9.0, 9.1], [9.1, 9.0], [9.0, 9.0], [50.0, 0.0]])
    >>> local = cluster_device(points, n_local_clusters=3, random_state=0)
    >>> sorted(local.counts.tolist())
    [1, 3, 3]
    >>> local.to_message("site7").n_local_clusters  # the center of the single point would be that point
    2
    """
    names = checks.feature_names_of(points)
    points = checks.table(points, "points")
    n_local_clusters = checks.positive_integer_or_auto(n_local_clusters, "n_local_clusters")
    weights = checks.sample_weight(sample_weight, points)
    checks.finite(points, "points", weights)
    checks.device_ids([device_id])
    settings = Settings(
        max_local_clusters=checks.positive_integer(max_local_clusters, "max_local_clusters"),
        min_cluster_size=checks.positive_integer(min_cluster_size, "min_cluster_size"),
        max_iterations=checks.positive_integer(max_iterations, "max_iterations"),
        measure_deviation=measure_deviation,
        weighted=sample_weight is not None,
    )
    keys = random.device_keys(random.as_seed(random_state), [device_id])
    with pool.one_blas_thread():
        rows = rows_of_one(points, weights, n_jobs)
        return cluster_rows(rows, n_local_clusters, keys, settings, [points.shape[0]], [names])[0]


@dataclass(frozen=True)
class Settings:
    """What is the same for all devices of a fleet."""

    max_local_clusters: int = MAX_LOCAL_CLUSTERS
    min_cluster_size: int = MIN_CLUSTER_SIZE
    max_iterations: int = MAX_ITERATIONS
    measure_deviation: bool = True
    weighted: bool = False


def rows_of_one(points: Any, weights: Array | None, n_jobs: int | None = None) -> Rows:
    """The points of one device that shares no batch, in the form that suits their size and kind."""
    if not checks.is_sparse(points) and not is_large(points):
        return stacked([points], [weights])
    own_weights = np.ones(points.shape[0], points.dtype) if weights is None else weights
    if checks.is_sparse(points):
        return SparseRows(points, own_weights[None])
    return BlockedRows(points, own_weights[None], n_jobs)


def is_large(points: Any) -> bool:
    """Whether a device gets all workers to itself."""
    return not checks.is_sparse(points) and points.nbytes > LARGE_BYTES


def padded_size(n_points: int) -> int:
    """Points that a device is padded to, alone or in company, so that devices of like size can share a batch.

    It adds at most one part in sixteen, and at most seven points.
    """
    step = min(8, 1 << max(0, n_points.bit_length() - 5))
    return -(-n_points // step) * step


def stacked(
    points: Sequence[Array], weights: Sequence[Array | None], allocate: Callable[..., Array] = np.empty
) -> DenseRows:
    """Devices of one padded size as a batch, all of them weighted or none.

    A device is padded with copies of its first point, of weight zero.
    """
    n_points = padded_size(len(points[0]))
    if len(points) == 1 and len(points[0]) == n_points:
        stack = points[0][None]
    else:
        stack = allocate((len(points), n_points, points[0].shape[1]), points[0].dtype)
        np.concatenate(list(_padded(points, n_points)), out=stack.reshape(-1, stack.shape[2]))
    is_point = np.arange(n_points) < np.array([len(own) for own in points])[:, None]
    stacked_weights = is_point.astype(stack.dtype)
    given = [own for own in weights if own is not None]
    if given:
        stacked_weights[is_point] = np.concatenate(given)
    return DenseRows(stack, stacked_weights)


def _padded(points: Sequence[Array], n_points: int) -> Iterator[Array]:
    for own in points:
        yield own
        if len(own) < n_points:
            yield np.repeat(own[:1], n_points - len(own), axis=0)


def cluster_rows(
    rows: Rows,
    n_clusters: int | Literal["auto"],
    keys: npt.NDArray[np.uint64],
    settings: Settings,
    sizes: Sequence[int],
    names: Sequence[tuple[str, ...] | None],
) -> list[LocalClustering]:
    """Run Algorithm 1 on a batch and say what came of it, device by device; `sizes` are their points less padding."""
    if n_clusters == "auto":
        return _cluster_by_choice(rows, keys, settings, sizes, names)
    solution = local_kmeans(rows, n_clusters, keys, settings.max_iterations)
    facts = _measure(rows, solution, n_clusters, settings)
    labels = readonly(solution.labels.astype(np.int32))
    by_device = zip(
        (own[:size] for own, size in zip(labels, sizes, strict=True)),
        readonly(solution.centers),
        facts.counts,
        facts.sums_of_squares,
        facts.withheld,
        facts.deviations,
        solution.n_iterations.tolist(),
        names,
        strict=True,
    )
    return [LocalClustering(*own) for own in by_device]


def _cluster_by_choice(
    rows: Rows,
    keys: npt.NDArray[np.uint64],
    settings: Settings,
    sizes: Sequence[int],
    names: Sequence[tuple[str, ...] | None],
) -> list[LocalClustering]:
    """Choose a number of clusters for each device, and cluster together those that got the same."""
    chosen = choose_local_k(rows, settings.max_local_clusters, keys)
    found: dict[int, LocalClustering] = {}
    for n_clusters in np.unique(chosen).tolist():
        own = [device for device, k in enumerate(chosen.tolist()) if k == n_clusters]
        own_sizes, own_names = [sizes[device] for device in own], [names[device] for device in own]
        clusterings = cluster_rows(rows.select(np.array(own)), n_clusters, keys[own], settings, own_sizes, own_names)
        found.update(zip(own, clusterings, strict=True))
    return [found[device] for device in range(rows.n_devices)]


@dataclass(frozen=True)
class _Facts:
    """Statistics of every cluster of a batch, each (n_devices, n_clusters), and a deviation a device."""

    counts: Array
    sums_of_squares: Array
    withheld: Array
    deviations: Sequence[float | None]


def _measure(rows: Rows, solution: Solution, n_clusters: int, settings: Settings) -> _Facts:
    """Counts and spread of the clusters, and which of them must not leave the device."""
    centers, labels = solution.centers, solution.labels

    def of_block(block: slice) -> tuple[Array, ...]:
        part = rows.part(block)
        squares = part.squared_residuals(centers, labels[:, block], solution.excess)
        members = memberships(labels[:, block], part.weights, n_clusters)
        spread = np.matmul(members, squares[:, :, None])[:, :, 0]
        on_center = _on_center(part, solution, labels[:, block], squares)
        return members.sum(axis=2), spread, *on_center, members.max(axis=2)

    by_block = zip(*rows.map_blocks(of_block), strict=True)
    weights, spread, near, equal = (_summed(next(by_block)) for _ in range(4))
    heaviest = np.max(next(by_block), axis=0)
    least = settings.min_cluster_size
    enough = least - min(1e-6 * least, 0.5)  # a sum of equal weights may fall short of their multiple by its rounding
    withheld = (weights == 0) | (weights < enough * heaviest)
    for on_center in (near, equal):
        withheld |= (on_center > 0) & (on_center < least)
    counts: Array = weights if settings.weighted else np.rint(weights).astype(np.int64)
    deviations: Sequence[float | None] = [None] * rows.n_devices
    if settings.measure_deviation:
        sent = np.take_along_axis(~withheld, labels.astype(np.intp), axis=1)
        deviations = _deviation(rows, centers, labels, rows.weights * sent, spread * ~withheld)
    return _Facts(readonly(counts), readonly(spread.astype(rows.dtype)), readonly(withheld), deviations)


def _summed(parts: Sequence[Array]) -> Array:
    """The sum over blocks, in double precision."""
    return np.asarray(np.sum(parts, axis=0, dtype=np.float64))


def _on_center(part: Rows, solution: Solution, labels: Array, squares: Array) -> tuple[Array, Array]:
    """How many points equal each center up to rounding, and how many exactly, (n_devices, n_clusters) each.

    A point that equals a center is of that center's cluster, unless Lloyd was cut short: then it is looked for anew.
    """
    centers = solution.centers
    if not solution.settled.all():
        settled = solution.settled[:, None]
        labels = np.where(settled, labels, nearest(comparisons(part, centers))[0])
        squares = np.where(settled, squares, part.squared_residuals(centers, labels))
    largest = np.einsum("bkd,bkd->bk", centers, centers).max(axis=1) + squares.max(axis=1)
    rounding = (16 * np.finfo(part.dtype).eps) ** 2 * largest
    near = (squares <= rounding[:, None]) & (part.weights > 0)
    if not near.any():
        return np.zeros(centers.shape[:2]), np.zeros(centers.shape[:2])
    equal = part.is_center(centers, labels, near)
    of_near, of_equal = (memberships(labels, found.astype(part.dtype), centers.shape[1]) for found in (near, equal))
    return of_near.sum(axis=2), of_equal.sum(axis=2)


def _deviation(rows: Rows, centers: Array, labels: Array, weights: Array, spread: Array) -> list[float]:
    if not spread.any():
        return [0.0] * rows.n_devices
    norms: list[float] = np.where(spread.any(axis=1), rows.residual_norm(centers, labels, weights), 0).tolist()
    return norms
