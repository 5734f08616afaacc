"""`cluster_device`: Algorithm 1 on the points of one device, from checked input to a `LocalClustering`."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from kfed._base import checks, pool, random
from kfed._base.array import Array, readonly
from kfed._base.indexed import index_of
from kfed._base.random import RandomState
from kfed.device.advice import column_of_all, rows_to_warn_of
from kfed.device.algorithm1 import local_kmeans
from kfed.device.choosing import MAX_LOCAL_CLUSTERS, choose_local_k
from kfed.device.clustering import LocalClustering
from kfed.device.convergence import warn_unless_converged
from kfed.device.facts import SentClusters
from kfed.device.floor.borrowing import with_borrowed
from kfed.device.floor.withholding import is_withheld, measure
from kfed.device.private.privacy import Privacy, cluster_privately
from kfed.device.rows.batches import rows_of_one
from kfed.device.rows.far_rows import are_far, are_tiny, in_double
from kfed.device.rows.rows import Rows
from kfed.device.settings import MAX_ITERATIONS, MIN_CLUSTER_SIZE, DeviceSettings
from kfed.device.summaries.summary import fitting, merged_and_split, n_summary_centers, n_zero_features, under_long_name
from kfed.errors import DeviceWarning, InvalidInputError


def cluster_device(
    points: Any,
    n_local_clusters: int | Literal["auto"] | None = None,
    *,
    max_local_clusters: int = MAX_LOCAL_CLUSTERS,
    sample_weight: Any = None,
    ids: Any = None,
    random_state: RandomState = None,
    device_id: str = "",
    min_cluster_size: int = MIN_CLUSTER_SIZE,
    max_bytes: int | None = None,
    small_clusters: Literal["withhold", "borrow"] = "withhold",
    max_iterations: int = MAX_ITERATIONS,
    measure_deviation: bool = True,
    n_jobs: int | None = None,
    privacy: Privacy | None = None,
) -> LocalClustering:
    """Cluster the points of one device (Algorithm 1 of the paper), or summarise them.

    Parameters
    ----------
    points : array, sparse matrix or data frame of shape (n_points, n_features)
        A^(z). float32 is computed in float32, unless the points lie so far from the origin that it cannot resolve
        their spread; then, as for anything else, centers are computed and sent in float64. Sparse rows stay sparse.
    n_local_clusters : int or "auto", optional
        k^(z). It may exceed the number of distinct points: then some clusters stay empty. ``"auto"`` takes the
        largest number of clusters that lie at least four standard deviations apart. Without a number the points are
        summarised by as many centers as `min_cluster_size` and 20 kB allow; see the notes.
    max_local_clusters : int
        The largest number of clusters that ``"auto"`` tries, and of centers of a summary.
    sample_weight : array of shape (n_points,), optional
        Weights of the points; a weight of N equals N copies of the point.
    ids : array of shape (n_points,), optional
        The person, or other owner, of each point: numbers or text. Only used to count; neither sent nor kept. With
        `privacy`, which protects single points, none may occur twice.
    random_state : int, Generator, RandomState or None
        The seed. Together with `device_id` it determines every random choice.
    device_id : str
        Devices that share a seed but not an id make different random choices.
    min_cluster_size : int
        A cluster is withheld from the message if it has fewer different points than this, if a single row holds more
        than ``1 / min_cluster_size`` of its weight, or if its center equals a row that occurs fewer times than this.
        With `ids`, it is withheld if it has points of fewer ids than this, or more than half of it is of one id.
        Sums of squares are sent over at least three times as many points: those of smaller clusters are shared out
        among them, and a device with fewer points than that sends no sum of squares and no deviation.
    small_clusters : {"withhold", "borrow"}
        With ``"borrow"``, a cluster of fewer than `min_cluster_size` points takes in the nearest points of clusters
        that can spare them, and what is sent is the mean of all these. Labels, centers and counts here stay as they
        are. It helps where many clusters are small; a single point far from all others is better withheld.
    max_iterations : int
        The largest number of Lloyd steps; they end earlier once nothing changes. A `DeviceWarning` says if there
        were too few, but not of a summary; if scikit-learn is imported, it is its ``ConvergenceWarning``, too.
    measure_deviation : bool
        Also measure the spectral deviation, which the server's certificate needs. With up to 32 features, or points,
        it is exact; otherwise it is an upper estimate, at most 4 % too high. With more
        than 32 of both, a random start is used: with a chance of at most 1 in 1000, the estimate is too low. A
        `DeviceWarning` names a column that outweighs all others.
    n_jobs : int, optional
        Number of threads for a large device, by default one per core. It does not change the answer.
    privacy : Privacy, optional
        Find the clusters by noisy steps instead, so that the message of the result is differentially private. The noise
        comes from the operating system and not from `random_state`; `min_cluster_size`, `max_iterations` and
        `measure_deviation` do not apply.
    max_bytes : int, optional
        The most bytes that the message of a summary may take: it has fewer centers, or rounded ones, where it must.

    Returns
    -------
    LocalClustering

    Notes
    -----
    With ``"auto"`` the points are clustered in the directions in which they spread wider than noise: for every number
    of clusters up to 16 (`max_local_clusters`, and a fifth of the points), and once for up to 64 clusters, of which
    those that are not apart are merged. The largest number is taken for which every two clusters lie at least four
    standard deviations apart along the line through their centers, or more if they have few points. Parts of one
    cluster do not lie that far apart, whatever its shape. The result is what that number would give.

    If no two clusters are apart, yet the points fill a region more evenly than one Gaussian does, there may be many
    clusters that cannot be told: ``is_summary`` is then True, and there are as many local clusters as the points allow.

    Without a number, ``is_summary`` is True, too. There is a center for every `min_cluster_size` points, but no more
    than `max_local_clusters`; clusters that are smaller than that in the end are merged with their nearest, so that all
    points are behind some center. Where the centers take more than 20 kB, the message holds 16, 8 or 4 bits of each
    value, with eight bytes more for each feature if some lie far from others.

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
    names, index = checks.feature_names_of(points), index_of(points)
    points = checks.table(points, "points")
    summarises = n_local_clusters is None
    if n_local_clusters is not None:
        n_local_clusters = checks.positive_integer_or_auto(n_local_clusters, "n_local_clusters")
    was_asked = isinstance(n_local_clusters, int)
    weights = checks.sample_weight(sample_weight, points)
    checks.clusterable(points, "points", weights)
    whose = None if ids is None else _numbered(ids, points.shape[0])
    checks.device_ids([device_id])
    settings = DeviceSettings.checked(
        max_local_clusters=max_local_clusters,
        min_cluster_size=min_cluster_size,
        max_iterations=max_iterations,
        measure_deviation=measure_deviation,
        weighted=sample_weight is not None,
        small_clusters=small_clusters,
        summarises=summarises,
    )
    keys = random.device_keys(random.as_seed(random_state), [device_id])
    check_max_bytes(max_bytes, n_local_clusters, privacy)
    if n_local_clusters is None:
        n_local_clusters = "auto" if privacy else summary_size(points, settings)
    if privacy is not None:
        if whose is not None and whose.max() + 1 < len(whose):
            raise InvalidInputError(
                "privacy protects single points, not all points of one owner, but some ids occur more than once: keep "
                "or average one point for each id, or leave out ids if points are what is to be protected"
            )
        with pool.one_blas_thread():
            private = cluster_privately(points, n_local_clusters, privacy, int(keys[0]), weights, names)
        return replace(private, index=index, _sent_as={device_id} - {""})

    def cluster(n_clusters: int | Literal["auto"]) -> LocalClustering:
        rows = rows_of_one(points, weights, n_clusters, n_jobs)
        found = cluster_rows(rows, n_clusters, keys, settings, [points.shape[0]], [names], whose)[0]
        return found if max_bytes is None else replace(found, max_bytes=max_bytes)

    with pool.one_blas_thread():
        if max_bytes is None or n_local_clusters == "auto":
            found = cluster(n_local_clusters)
        else:
            found = fitting(cluster, under_long_name, n_local_clusters)
    columns = column_of_all(points, found.labels, names) if measure_deviation and min_cluster_size > 1 else ()
    for notice in (*rows_to_warn_of(found, min_cluster_size, was_asked=was_asked), *columns):
        warnings.warn(DeviceWarning(notice.text, notice.code), stacklevel=2)
    warn_unless_converged([found], max_iterations)
    return replace(found, index=index, _sent_as={device_id} - {""})


def check_max_bytes(max_bytes: Any, n_local_clusters: Any, privacy: Privacy | None) -> None:
    """Raise unless bytes may be bounded here."""
    if max_bytes is None:
        return
    checks.positive_integer(max_bytes, "max_bytes")
    if n_local_clusters is not None or privacy is not None:
        raise InvalidInputError("max_bytes bounds a summary; leave out max_bytes, or n_local_clusters and privacy")


def summary_size(points: Any, settings: DeviceSettings) -> int:
    """How many centers the summary of these points may have."""
    n_points, n_features = points.shape
    floor, most = settings.min_cluster_size, settings.max_local_clusters
    return n_summary_centers(n_points, n_features, floor, most, n_zero_features(points))


def _numbered(ids: Any, n_points: int) -> Array:
    """The owner of each point, as whole numbers from 0."""
    given = np.asarray(ids)
    if given.shape != (n_points,):
        raise InvalidInputError(f"ids must have one entry per point, shape ({n_points},); got shape {given.shape}")
    return np.asarray(np.unique(given, return_inverse=True)[1].reshape(-1))


def cluster_rows(
    rows: Rows,
    n_clusters: int | Literal["auto"],
    keys: npt.NDArray[np.uint64],
    settings: DeviceSettings,
    sizes: Sequence[int],
    names: Sequence[tuple[str, ...] | None],
    ids: Array | None = None,
) -> list[LocalClustering]:
    """Run Algorithm 1 on a batch, one result per device; `sizes` are their numbers of points without padding."""
    devices = _BatchFacts(keys, sizes, names, ids)
    far = are_far(rows) | are_tiny(rows)
    if not far.any():
        return _cluster(rows, n_clusters, settings, devices)
    parts = []
    for own, own_rows in ((np.flatnonzero(far), in_double), (np.flatnonzero(~far), lambda near: near)):
        if len(own):
            found = _cluster(own_rows(rows.select(own)), n_clusters, settings, devices.select(own))
            parts += list(zip(own.tolist(), found, strict=True))
    return [local for _, local in sorted(parts, key=lambda part: part[0])]


@dataclass(frozen=True)
class _BatchFacts:
    """What is known of the devices of a batch beside their rows."""

    keys: npt.NDArray[np.uint64]
    sizes: Sequence[int]  # numbers of points without padding
    names: Sequence[tuple[str, ...] | None]
    ids: Array | None = None  # whose each row is, of a single device

    def select(self, some: npt.NDArray[np.intp]) -> _BatchFacts:
        """Only these devices."""
        sizes, names = ([of[device] for device in some.tolist()] for of in (self.sizes, self.names))
        return _BatchFacts(self.keys[some], sizes, names, self.ids)


def _cluster(
    rows: Rows, n_clusters: int | Literal["auto"], settings: DeviceSettings, devices: _BatchFacts
) -> list[LocalClustering]:
    if n_clusters == "auto":
        return _cluster_by_choice(rows, settings, devices)
    rows.needs_moments = settings.measure_deviation
    solution = local_kmeans(rows, n_clusters, devices.keys, settings.max_iterations)
    converged = solution.settled if solution.goes_round is None else solution.settled | solution.goes_round
    if settings.summarises:
        withheld = partial(is_withheld, rows, settings=settings, ids=devices.ids)
        solution = merged_and_split(rows, solution, withheld)
    sent_solution = with_borrowed(rows, solution, settings.min_cluster_size) if settings.borrows else solution
    sent_facts = measure(rows, sent_solution, n_clusters, settings, devices.keys, devices.ids)
    local_facts = sent_facts
    if settings.borrows:
        without = replace(settings, measure_deviation=False)
        local_facts = measure(rows, solution, n_clusters, without, devices.keys, devices.ids)
    labels = readonly(solution.labels.astype(np.int32))
    centers, sums, sent_centers, sent_sums = (
        readonly(of.astype(rows.dtype, copy=False))
        for of in (
            solution.centers,
            local_facts.sums_of_squares,
            sent_solution.centers,
            sent_facts.sent_sums_of_squares,
        )
    )
    differ = (sums != sent_sums).any(axis=1) | (local_facts.counts != sent_facts.counts).any(axis=1)
    return [
        LocalClustering(
            labels=labels[device, :size],
            centers=centers[device],
            counts=local_facts.counts[device],
            sums_of_squares=sums[device],
            withheld=sent_facts.withheld[device],
            spectral_deviation=sent_facts.deviations[device],
            n_iterations=int(solution.n_iterations[device]),
            feature_names=devices.names[device],
            converged=bool(converged[device]),
            is_summary=settings.summarises,
            sent=SentClusters(sent_centers[device], sent_facts.counts[device], sent_sums[device]) if differs else None,
        )
        for device, (size, differs) in enumerate(zip(devices.sizes, differ.tolist(), strict=True))
    ]


def _cluster_by_choice(rows: Rows, settings: DeviceSettings, devices: _BatchFacts) -> list[LocalClustering]:
    """Choose a number of clusters for each device, and cluster devices with the same number as one batch."""
    chosen, is_summary = choose_local_k(rows, settings.max_local_clusters, devices.keys)
    found: dict[int, LocalClustering] = {}
    for n_clusters in np.unique(chosen).tolist():
        own = np.flatnonzero(chosen == n_clusters)
        clusterings = _cluster(rows.select(own), n_clusters, settings, devices.select(own))
        found.update(zip(own.tolist(), clusterings, strict=True))
    return [replace(found[device], is_summary=bool(is_summary[device])) for device in range(rows.n_devices)]
