"""`refine_device`: what a device says in a second message, once it knows the global clusters.

The rows of its first message are counted again, now by global cluster: one Lloyd step over all devices. Both messages
count the same cells, and rows move from one sum to another only in groups that are large enough (`group_moves`). So the
difference of the two messages keeps to the same floor as each of them. Squares tell nothing new: their total follows
from the first message and the means of the second, and each group gets its share by its number of rows minus one.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from kfed._base import checks
from kfed._base.array import Array, readonly
from kfed.device.clustering import LocalClustering
from kfed.device.facts import ColumnFacts, SentClusters
from kfed.device.floor.cell_floor import is_dominated, rest_on_one
from kfed.device.floor.distinct_rows import are_outweighed, have_enough_ids
from kfed.device.floor.group_moves import move_in_groups, stay_whole
from kfed.device.floor.told_cells import CellMoments, ToldCells
from kfed.device.settings import MIN_CLUSTER_SIZE
from kfed.errors import InvalidInputError
from kfed.wire import Identity, clusters_fingerprint


def refine_device(
    local: LocalClustering,
    identity: Identity,
    points: Any,
    *,
    sample_weight: Any = None,
    ids: Any = None,
    min_cluster_size: int = MIN_CLUSTER_SIZE,
) -> LocalClustering:
    """Cluster the rows of a device by the global clusters, for a second message.

    Every row goes to the nearest of the global clusters that the device plausibly holds, as in
    ``LocalClustering.induced_labels(identity, refine=points)``; fewer rows than the floor never move alone.

    Parameters
    ----------
    local : LocalClustering
        What the device found, and sent.
    identity : Identity
        The answer to it.
    points : array, sparse matrix or data frame of shape (n_points, n_features)
        The points that were clustered.
    sample_weight, ids, min_cluster_size
        As they were given to `cluster_device`.

    Returns
    -------
    LocalClustering
        Its local clusters are the global ones; its `to_message` is the second message, for `aggregate_refined`.

    Raises
    ------
    InvalidInputError
        If the first message was private, since a second one would exceed the privacy that it promised; or if small
        clusters borrowed rows; or if these are not the points that were clustered.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> tables = {name: rng.normal(size=(200, 2)) for name in ("north", "south")}
    >>> local = {name: kfed.cluster_device(rows, 6, device_id=name, random_state=0) for name, rows in tables.items()}
    >>> first = kfed.aggregate([own.to_message(name) for name, own in local.items()], 3, rule="robust")
    >>> again = {name: refine_device(own, first.identity(name), tables[name]) for name, own in local.items()}
    >>> second = kfed.aggregate_refined(first, [own.to_message(name) for name, own in again.items()])
    >>> second.n_clusters, int(second.cluster_sizes.sum())
    (3, 400)
    """
    _check(local, min_cluster_size)
    own = local.global_clusters(identity)
    wanted = np.asarray(local.induced_labels(identity, refine=points))
    cells = ToldCells.of(local, points, sample_weight, ids, min_cluster_size)
    cells.check(local)
    told = wanted[cells.positions]
    if min_cluster_size > 1 and len(told):
        told = _checked_moves(cells, own, told, min_cluster_size, identity.n_clusters)
    moments = cells.moments(told, identity.n_clusters)
    labels = wanted.copy()
    labels[cells.positions] = told
    return _as_clustering(local, identity, labels, moments, np.ptp(cells.weights) > 0 if len(told) else False)


def _check(local: LocalClustering, min_cluster_size: int) -> None:
    checks.positive_integer(min_cluster_size, "min_cluster_size")
    if local.private is not None:
        raise InvalidInputError(
            "a private device sends only one message: a second one about the same rows would exceed the privacy "
            "promised by the first"
        )
    if local.refines is not None:
        raise InvalidInputError("this clustering is a second message already; a device sends at most two messages")
    if local.sent is not None and not np.array_equal(local.sent.centers, local.centers):
        raise InvalidInputError(
            "a second message is not possible after borrowing: small clusters borrowed rows in the first, so both "
            "together could reveal single rows; use small_clusters='withhold'"
        )


def _checked_moves(cells: ToldCells, own: Array, wanted: Array, floor: int, n_clusters: int) -> Array:
    """Global cluster of each told row, so that both messages together keep to the floor of decision 0001."""
    labels = wanted
    while True:
        labels = move_in_groups(cells, own, labels, floor, n_clusters)
        reveal = _reveal(cells, labels, cells.moments(labels, n_clusters), floor)
        again = stay_whole(cells, own, labels, np.flatnonzero(reveal))
        if np.array_equal(again, labels):
            return labels
        labels = again


def _reveal(cells: ToldCells, labels: Array, moments: CellMoments, floor: int) -> Array:
    """Clusters whose mean would show a row, as decision 0001 lists them, (n_clusters,)."""
    n_clusters = len(moments.counts)
    eps = np.finfo(cells.values.dtype if cells.values.dtype.kind == "f" else np.float64).eps
    largest = np.square(moments.means).sum(axis=1).max() + moments.distances.max()
    on_center = np.bincount(labels[moments.distances <= (16 * eps) ** 2 * largest], minlength=n_clusters)
    reveal = (on_center > 0) & (on_center < floor)
    heaviest = np.zeros(n_clusters)
    np.maximum.at(heaviest, labels, cells.weights)
    reveal |= are_outweighed(moments.counts, heaviest, floor) & (moments.counts > 0)
    if cells.is_person:
        reveal |= ~have_enough_ids(cells.whose, cells.weights, labels, n_clusters, floor) & (moments.counts > 0)
    if cells.is_told is not None:
        for cluster in np.flatnonzero(moments.counts > 0):
            own = labels == cluster
            ids = cells.whose[own] if cells.is_person else None
            of_one = rest_on_one(cells.is_told[own], cells.weights[own], ids, floor)
            reveal[cluster] |= (of_one & (moments.observed[cluster] > 0)).any()
    if len(cells.numbers):
        told = cells.values if cells.is_told is None else np.where(cells.is_told, cells.values, 0)
        dominated = is_dominated(told, cells.weights, labels, cells.numbers, moments.means.shape) & (
            moments.observed > 0
        )
        reveal |= dominated.any(axis=1)
    return np.asarray(reveal)


def _as_clustering(
    local: LocalClustering, identity: Identity, labels: Array, moments: CellMoments, is_weighted: bool
) -> LocalClustering:
    """The clusters as what a device found; one without told rows is at its global center, and is not sent."""
    is_there = moments.counts > 0
    shared = _shared_squares(local, moments)
    nowhere = np.nan_to_num(identity.cluster_centers)
    if local.columns is not None and identity.schema is not None:
        nowhere = local.columns.schema.align(nowhere, identity.schema)
    centers = np.where(moments.observed > 0, moments.means, nowhere).astype(local.centers.dtype)
    counts = moments.counts if is_weighted else np.rint(moments.counts).astype(np.int64)
    sums = shared.sum(axis=1)
    columns = None
    if local.columns is not None:
        unsaid = moments.observed == 0
        columns = ColumnFacts(local.columns.schema, moments.observed, shared, unsaid, local.columns.n_left_out)
    return replace(
        local,
        labels=readonly(labels.astype(local.labels.dtype)),
        centers=readonly(centers),
        counts=readonly(counts),
        sums_of_squares=readonly(moments.squares.sum(axis=1)),
        withheld=readonly(~is_there),
        spectral_deviation=None,
        is_summary=False,
        columns=columns,
        sent=SentClusters(centers, counts, sums.astype(centers.dtype)),
        refines=clusters_fingerprint(identity.cluster_centers),
    )


def _shared_squares(local: LocalClustering, moments: CellMoments) -> Array:
    """Squares about the means, (n_clusters, n_features), or (n_clusters, 1) if the first message had one for a center.

    Their total is what the first message leaves for these means, whatever it told; NaN if it told none.
    """
    sent, totals = ~local.withheld, moments.observed.sum(axis=0)
    overall = (moments.observed * moments.means).sum(axis=0) / np.where(totals > 0, totals, 1)
    between = moments.observed * np.square(moments.means - overall)
    if local.columns is None:
        said = local.sums_of_squares if local.sent is None else local.sent.sums_of_squares
        before = local.counts[sent, None] * np.square(local.centers[sent].astype(np.float64) - overall)
        left = np.array([said[sent].sum(dtype=np.float64) + before.sum() - between.sum()])
    else:
        of_columns = local.columns.details(sent, None)
        assert of_columns.observed is not None
        assert of_columns.squares is not None
        before = of_columns.observed * np.square(local.columns.told(local.centers)[sent] - overall)
        left = of_columns.squares.sum(axis=0) + before.sum(axis=0) - between.sum(axis=0)
    there = moments.observed[:, : len(left)] > 0 if local.columns is not None else moments.counts[:, None] > 0
    freedom = np.where(there, np.maximum(moments.n_rows - 1, 1)[:, None], 0)
    return np.asarray(np.maximum(left, 0) * freedom / np.maximum(freedom.sum(axis=0), 1))
