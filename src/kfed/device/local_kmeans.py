"""Algorithm 1 of the paper (Awasthi and Sheffet's variant of Lloyd's method), on a batch of devices.

Written once, with a batch axis: one device is a batch of one, and gets the same answer to the bit. Nothing here looks
from one device of the batch to another.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from kfed._base import random, seeding
from kfed._base.array import Array
from kfed._base.seeding import draw, squared_distances, stratified
from kfed.device.rows import BlockedRows, Rows

N_TRIES = 4
"""Seedings that are tried; the cheapest is kept. One try fails on some devices where four do not."""

N_POWER_ITERATIONS = 2
"""Subspace iterations: with the extra directions, enough for clusters that can be told apart."""

SMALL_SQUARE = 2.0**-64
"""Squared lengths between this and its inverse leave room, in any precision, for what is computed from them."""

N_POLISHING_STEPS = 1
"""Lloyd steps among the projected points: one costs far less than the step on the original points it saves."""


@dataclass(frozen=True)
class Solution:
    """What Algorithm 1 returns for each device of a batch."""

    labels: Array  # U: (n_devices, n_points)
    centers: Array  # Theta: (n_devices, n_clusters, n_features)
    n_iterations: Array  # (n_devices,)
    settled: Array  # (n_devices,), whether Lloyd ended because nothing changed
    excess: Array | None = None  # (n_devices, n_points), as of `Rows.squared_residuals`; NaN where not settled


def local_kmeans(rows: Rows, n_clusters: int, keys: npt.NDArray[np.uint64], max_iterations: int) -> Solution:
    """Run Algorithm 1 on every device: project, seed, average the core sets, run Lloyd to convergence."""
    draws = Draws(keys, n_clusters, rows.dtype)
    projected = project(rows, n_clusters, draws.rows)  # step 2
    seeds = approximate_centers(rows, projected, n_clusters, draws.seeds)
    centers = core_means(rows, projected, seeds)  # step 3
    return lloyd(rows, centers, max_iterations)  # step 4


class Draws:
    """The random numbers of Algorithm 1: as many as `n_clusters` asks for, whatever the data."""

    def __init__(self, keys: npt.NDArray[np.uint64], n_clusters: int, dtype: np.dtype[Any]) -> None:
        n_rows = _n_started(n_clusters)
        uniforms = random.uniforms(keys, n_rows + seeding.n_draws(n_clusters, N_TRIES)).astype(dtype)
        self.rows, self.seeds = uniforms[:, :n_rows], uniforms[:, n_rows:]


# Step 2, first half: the projection -----------------------------------------------------------------------------


def project(rows: Rows, n_clusters: int, uniforms: Array) -> Array:
    """Points A-hat in the span of the top `n_clusters` right singular vectors, lifted: (n_devices, k + 2, n_points).

    The points are not centered before, as in the paper. The coordinates x are centered after, which changes no
    distance between them and keeps the distances precise. `kfed._base.seeding` says what lifted means.
    """
    n_directions = min(n_clusters, rows.n_points, rows.n_features)
    lifted = np.empty((rows.n_devices, n_directions + 2, rows.n_points), rows.dtype)
    coordinates = lifted[:, :-2]
    is_narrow = _is_narrow(rows, n_clusters)
    directions = _singular_vectors(rows, n_directions) if is_narrow else _iterated(rows, n_directions, uniforms)
    rows.along(directions, out=coordinates)
    coordinates -= np.matmul(coordinates, rows.weights[:, :, None]) / rows.weights.sum(axis=1)[:, None, None]
    return seeding.lift(lifted)


def _is_narrow(rows: Rows, n_clusters: int) -> bool:
    """Whether a full eigenproblem on the shorter side of the points is the cheaper way."""
    shorter = min(rows.n_points, rows.n_features)
    return shorter <= 2 * _n_started(n_clusters) or rows.n_points * rows.n_features >= 20 * shorter**3


def _n_started(n_clusters: int) -> int:
    """Directions of a subspace iteration: at least two extra, in fours as matrix products like them."""
    return 4 * ((n_clusters + 5) // 4)


def _singular_vectors(rows: Rows, n_directions: int) -> Array:
    """Top right singular vectors, from all eigenvectors on the shorter side of the points."""
    if rows.n_features <= rows.n_points:
        _, vectors = np.linalg.eigh(rows.second_moments())
        return vectors[:, :, -n_directions:].transpose(0, 2, 1)
    roots = np.sqrt(rows.weights)
    _, vectors = np.linalg.eigh(rows.inner_products() * roots[:, :, None] * roots[:, None, :])
    return _orthonormal(rows.total(vectors[:, :, -n_directions:].transpose(0, 2, 1) * roots[:, None]))


def _iterated(rows: Rows, n_directions: int, uniforms: Array) -> Array:
    """Top right singular vectors by subspace iteration, the last step of it with the leading directions alone.

    It starts from the points themselves, so that rotating the data rotates every step of it.
    """
    directions = _orthonormal(rows.take(draw(rows.weights, stratified(uniforms))))
    for _ in range(N_POWER_ITERATIONS - 1):
        directions = _orthonormal(rows.total(rows.along(directions) * rows.weights[:, None]))
    leading = _leading(rows.along(directions), rows.weights, n_directions)
    return _orthonormal(rows.total(leading * rows.weights[:, None]))


def _leading(coordinates: Array, weights: Array, n_directions: int) -> Array:
    """The coordinates along the `n_directions` of largest second moment, (n_devices, n_directions, n_points)."""
    moments = np.matmul(coordinates * weights[:, None], coordinates.transpose(0, 2, 1))
    _, vectors = np.linalg.eigh(moments)
    return np.asarray(np.matmul(vectors[:, :, -n_directions:].transpose(0, 2, 1), coordinates))


def _orthonormal(vectors: Array) -> Array:
    """Orthonormal bases of the spans of `vectors` (n_devices, m, n_features), from their Gram matrices.

    A small ridge turns directions that repeat others into vectors near zero instead of an error. It is a share of each
    vector's own size, so that short ones are not drowned.
    """
    gram = _gram(vectors)
    squares = np.einsum("bmm->bm", gram)  # a view
    if not SMALL_SQUARE <= squares.min() <= squares.max() <= 1 / SMALL_SQUARE:
        vectors = _rescaled(vectors)
        gram[:] = _gram(vectors)
    limits = np.finfo(gram.dtype)
    squares *= 1 + 16 * gram.shape[1] * limits.eps
    squares += limits.tiny
    return np.asarray(np.matmul(_inverse_factors(gram), vectors))


def _gram(vectors: Array) -> Array:
    """Inner products of the vectors of each device, (n_devices, m, m); infinite where they overflow."""
    with np.errstate(over="ignore", invalid="ignore"):
        return np.asarray(np.matmul(vectors, vectors.transpose(0, 2, 1)))


def _rescaled(vectors: Array) -> Array:
    """Each vector times the power of two that brings it to about one, so that no digit of it changes."""
    _, exponents = np.frexp(np.abs(vectors).max(axis=2, keepdims=True))
    return np.asarray(np.ldexp(vectors, -exponents))


def _inverse_factors(gram: Array) -> Array:
    """Inverses of the Cholesky factors of a stack of small matrices, by elimination in all of them at once.

    A row that the rows before it leave nothing of becomes zero.
    """
    n_matrices, size, _ = gram.shape
    work = np.zeros((size, 2 * size, n_matrices), gram.dtype)  # a matrix, and what was done to it
    work[:, :size] = gram.transpose(1, 2, 0)
    work[range(size), range(size, 2 * size)] = 1
    for step, pivot_row in enumerate(work):
        pivot_row /= np.sqrt(np.where(pivot_row[step] > 0, pivot_row[step], np.inf))
        work[step + 1 :] -= pivot_row[step + 1 : size, None] * pivot_row
    return np.ascontiguousarray(work[:, size:].transpose(2, 0, 1))


# Step 2, second half: the approximation -------------------------------------------------------------------------


def approximate_centers(rows: Rows, projected: Array, n_clusters: int, uniforms: Array) -> Array:
    """Centers nu of the projected points, (n_devices, n_clusters, k).

    Each of several tries is a greedy k-means++ seeding and a few Lloyd steps among the projected points; the one of the
    lowest cost is kept.
    """
    return cheapest_try(*seeding.coreset(projected, rows.weights), n_clusters, uniforms, N_POLISHING_STEPS)


def cheapest_try(projected: Array, weights: Array, n_clusters: int, uniforms: Array, n_steps: int) -> Array:
    """Run every try for `n_steps` Lloyd steps, and give the centers of the cheapest."""
    picks = seeding.greedy_seeds(projected, weights, n_clusters, N_TRIES, uniforms)
    tries = seeding.points_at(projected, picks.reshape(len(picks), -1))  # (n_devices, n_tries * n_clusters, k)
    by_try = (len(picks) * N_TRIES, n_clusters, -1)
    try_weights = np.repeat(weights, N_TRIES, axis=0)
    for _ in range(n_steps):
        labels, _ = nearest(squared_distances(projected, tries).reshape(by_try))
        members = memberships(labels, try_weights, n_clusters).reshape(*tries.shape[:2], -1)
        sums = np.matmul(members, projected.transpose(0, 2, 1))  # the last of a lifted point is 1: sums to the size
        tries = means(sums[:, :, :-2], sums[:, :, -1], tries)
    costs = squared_distances(projected, tries).reshape(by_try).min(axis=1)
    cheapest = np.einsum("tn,tn->t", costs, try_weights).reshape(-1, N_TRIES).argmin(axis=1)
    return np.asarray(tries.reshape(len(picks), N_TRIES, n_clusters, -1)[np.arange(len(picks)), cheapest])


# Step 3: core sets ----------------------------------------------------------------------------------------------


def core_means(rows: Rows, projected: Array, seeds: Array) -> Array:
    """Means theta of the original points of the core sets S_r, (n_devices, n_clusters, n_features).

    A point is in the core set of a seed if, projected, it is three times as near to it as to any other seed. A seed
    whose core set is empty takes all points that are nearest to it.
    """
    n_clusters = seeds.shape[1]

    def cores(block: slice) -> tuple[Array, Array, Array]:
        labels, first, second = two_nearest(squared_distances(projected[:, :, block], seeds))
        in_core = 9 * first <= second
        return labels, in_core, memberships(labels, rows.weights[:, block] * in_core, n_clusters).sum(axis=2)

    blocks_of_labels, blocks_of_cores, core_sizes = zip(*rows.map_blocks(cores), strict=True)
    labels, in_core = np.concatenate(blocks_of_labels, axis=1), np.concatenate(blocks_of_cores, axis=1)
    in_core |= np.take_along_axis(sum(core_sizes), labels.astype(np.intp), axis=1) == 0
    sums, sizes = sums_by_label(rows, labels, rows.weights * in_core, n_clusters)
    middle = sums.sum(axis=1, keepdims=True) / sizes.sum(axis=1)[:, None, None]
    return means(sums, sizes, np.repeat(middle, n_clusters, axis=1).astype(rows.dtype))


# Step 4: Lloyd --------------------------------------------------------------------------------------------------


def lloyd(rows: Rows, centers: Array, max_iterations: int) -> Solution:
    """Assign every point to the nearest center and average, until nothing changes.

    Devices that are done leave the batch once they are a third of it.
    """
    if isinstance(rows, BlockedRows):
        return bounded_lloyd(rows, centers, max_iterations)
    n_clusters = centers.shape[1]
    excess = np.empty(rows.weights.shape, rows.dtype)
    done = Solution(
        labels=np.empty(rows.weights.shape, label_dtype(n_clusters)),
        centers=np.empty_like(centers),
        n_iterations=np.zeros(rows.n_devices, np.intp),
        settled=np.ones(rows.n_devices, bool),
        excess=excess,
    )
    active = np.arange(rows.n_devices)
    labels = np.full_like(done.labels, -1)
    for _ in range(max_iterations):
        assigned, smallest = nearest(comparisons(rows, centers))
        members = memberships(assigned, rows.weights, n_clusters)
        sizes = members.sum(axis=2)
        if (sizes == 0).any() and reseat_empty(rows, centers, assigned, n_clusters):
            members = memberships(assigned, rows.weights, n_clusters)
            sizes = members.sum(axis=2)
        changed = (assigned != labels).any(axis=1)
        done.n_iterations[active] += changed
        if 3 * np.count_nonzero(changed) <= 2 * len(active):
            done.labels[active], done.centers[active], excess[active] = assigned, centers, smallest
            active, rows, smallest = active[changed], rows.select(changed), smallest[changed]
            assigned, members, sizes, centers = (of[changed] for of in (assigned, members, sizes, centers))
        labels = assigned
        if len(active) == 0:
            break
        centers = means(rows.total(members), sizes, centers)
    done.labels[active], done.centers[active], excess[active] = labels, centers, smallest
    done.settled[done.n_iterations == max_iterations] = False
    excess[~done.settled] = np.nan
    return done


def bounded_lloyd(rows: BlockedRows, centers: Array, max_iterations: int) -> Solution:
    """`lloyd` for one large device, where steps skip the points that can't change cluster.

    A point's slack is how much nearer its own center is than the next. While centers have moved less than that, the
    point keeps its label (Hamerly, "Making k-means even faster", SDM 2010), so late steps cost little. It is over when
    a step that looked at every point has changed nothing.
    """
    state = _Bounds(rows, centers)
    n_iterations, looked_at_all, settled = 0, True, False
    for _ in range(max_iterations):
        changed = state.step()
        n_iterations += changed
        settled = not changed and looked_at_all
        if settled:
            break
        looked_at_all = not changed
        if looked_at_all:
            state.forget()
    return Solution(state.labels, state.exact_means(), np.array([n_iterations]), np.array([settled]))


class _Bounds:
    """Labels of one device's points, sums of the points by label, and the slack of every point."""

    def __init__(self, rows: BlockedRows, centers: Array) -> None:
        self.rows, self.centers, self.n_clusters = rows, centers, centers.shape[1]
        self.labels = np.full((1, rows.n_points), -1, label_dtype(self.n_clusters))
        self.slack = np.full(rows.n_points, -1, rows.dtype)
        self.reach = np.sqrt(rows.squared_residuals(rows.mean[:, None], np.zeros_like(self.labels)))  # from the mean
        self.moved = np.zeros(self.n_clusters, rows.dtype)
        self.sums = np.zeros(centers.shape)
        self.sizes = np.zeros((1, self.n_clusters))

    def step(self) -> bool:
        """One Lloyd step; whether it changed a label."""
        changes = self.rows.map_blocks(self._update)
        self.sums += np.sum([sums for sums, _, _ in changes], axis=0, dtype=np.float64)
        self.sizes += np.sum([sizes for _, sizes, _ in changes], axis=0, dtype=np.float64)
        if (self.sizes < 1e-9 * self.sizes.sum()).any():  # empty, but for what rounding left
            self.sums, self.sizes = self._exact_sums()
            if (self.sizes == 0).any() and reseat_empty(self.rows, self.centers, self.labels, self.n_clusters):
                self.forget()
                self.sums, self.sizes = self._exact_sums()
        before, self.centers = self.centers, means(self.sums, self.sizes, self.centers)
        lengths = np.linalg.norm(self.centers - before, axis=2)[0]
        others = np.where(np.arange(self.n_clusters) == lengths.argmax(), np.sort(lengths)[-2:][0], lengths.max())
        self.moved = (lengths + others).astype(self.rows.dtype)
        return any(changed for _, _, changed in changes)

    def forget(self) -> None:
        """Look at every point in the next step."""
        self.slack.fill(-1)

    def exact_means(self) -> Array:
        """The means by label from the points, free of what rounding left in the running sums."""
        return means(*self._exact_sums(), self.centers)

    def _update(self, block: slice) -> tuple[Array, Array, bool]:
        """Look again at the points of a block whose slack is used up; what that adds to sums and sizes."""
        labels, slack = self.labels[0, block], self.slack[block]
        slack -= self.moved[labels]
        open_points = np.flatnonzero(slack <= 0)
        part = self.rows.part(block).points_at(open_points)
        found, first, second = two_nearest(scores(part, self.centers, self.rows.mean))
        offset = self.reach[:, block][:, open_points] ** 2
        reach = np.sqrt(np.maximum(first + offset, 0)) + np.sqrt(np.maximum(second + offset, 0))
        with np.errstate(invalid="ignore"):  # of one cluster, where the slack is not a number and never used up
            slack[open_points] = ((second - first) / np.maximum(reach, np.finfo(reach.dtype).tiny))[0]
        changed = np.flatnonzero(found[0] != labels[open_points])
        joined = memberships(found[:, changed], part.weights[:, changed], self.n_clusters)
        joined -= memberships(labels[None, open_points[changed]], part.weights[:, changed], self.n_clusters)
        labels[open_points] = found[0]
        return part.points_at(changed).total(joined), joined.sum(axis=2), len(changed) > 0

    def _exact_sums(self) -> tuple[Array, Array]:
        return sums_by_label(self.rows, self.labels, self.rows.weights, self.n_clusters)


def comparisons(rows: Rows, centers: Array) -> Array:
    """Squared distances of points to centers, less that to the first center, (n_devices, n_clusters, n_points)."""
    result = np.zeros((rows.n_devices, centers.shape[1], rows.n_points), rows.dtype)
    scores(rows, centers[:, 1:], centers[:, 0], out=result[:, 1:])
    return result


def scores(rows: Rows, centers: Array, origins: Array, out: Array | None = None) -> Array:
    """Squared distances of points to centers, less that to `origins` (n_devices, n_features); like `along`.

    Since only differences of positions enter, a large common offset of the points costs no precision.
    """
    shifted = centers - origins[:, None]
    result = rows.along(shifted * shifted.dtype.type(-2), out)
    result += np.einsum("bkd,bkd->bk", shifted, shifted + 2 * origins[:, None])[:, :, None]
    return result


def nearest(distances: Array) -> tuple[Array, Array]:
    """Index of the smallest of `distances` (n_devices, n_clusters, n_points), the lowest of several, and its value."""
    smallest = distances[:, 0].copy()
    labels = np.zeros(smallest.shape, label_dtype(distances.shape[1]))
    for cluster in range(1, distances.shape[1]):
        is_smaller = distances[:, cluster] < smallest
        np.maximum(labels, is_smaller * labels.dtype.type(cluster), out=labels)
        np.minimum(smallest, distances[:, cluster], out=smallest)
    return labels, smallest


def two_nearest(distances: Array) -> tuple[Array, Array, Array]:
    """Index of the smallest distance, that distance, and the second smallest (infinite if there is one cluster)."""
    smallest = distances[:, 0].copy()
    second = np.full_like(smallest, np.inf)
    for cluster in range(1, distances.shape[1]):
        np.minimum(second, np.maximum(smallest, distances[:, cluster]), out=second)
        np.minimum(smallest, distances[:, cluster], out=smallest)
    return nearest(distances)[0], smallest, second


def memberships(labels: Array, weights: Array, n_clusters: int) -> Array:
    """The weight of each point in its own cluster and zero in others, (n_devices, n_clusters, n_points)."""
    clusters = np.arange(n_clusters, dtype=labels.dtype)
    return np.asarray((labels[:, None] == clusters[:, None]) * weights[:, None])


def sums_by_label(rows: Rows, labels: Array, weights: Array, n_clusters: int) -> tuple[Array, Array]:
    """Weighted sums of the points of each cluster, and the clusters' weights."""

    def of_block(block: slice) -> tuple[Array, Array]:
        members = memberships(labels[:, block], weights[:, block], n_clusters)
        return rows.part(block).total(members), members.sum(axis=2)

    sums, sizes = zip(*rows.map_blocks(of_block), strict=True)
    return np.stack(sums).sum(axis=0, dtype=np.float64), np.stack(sizes).sum(axis=0, dtype=np.float64)


def means(sums: Array, sizes: Array, otherwise: Array) -> Array:
    """Means from sums and weights; a cluster of no weight keeps its place in `otherwise`."""
    filled = (sizes > 0)[:, :, None]
    averages = np.divide(sums, sizes[:, :, None], out=otherwise.astype(sums.dtype), where=filled)
    return np.asarray(averages, dtype=otherwise.dtype)


def label_dtype(n_clusters: int) -> np.dtype[Any]:
    """The smallest integer type that holds every cluster's index and -1."""
    return np.dtype(np.int8 if n_clusters < 2**7 else np.int16 if n_clusters < 2**15 else np.int32)


def reseat_empty(rows: Rows, centers: Array, labels: Array, n_clusters: int) -> bool:
    """Give each empty cluster the point that is farthest from its own center, in `labels`; whether any could be.

    Points that sit on their center up to rounding stay: then there are fewer distinct points than clusters.
    """
    weighted = rows.weights > 0
    distances = np.where(weighted, rows.squared_residuals(centers, labels), 0)
    rounding = (16 * np.finfo(rows.dtype).eps) ** 2 * np.einsum("bkd,bkd->bk", centers, centers).max(axis=1)
    reseated = False
    for device in range(rows.n_devices):
        sizes = np.bincount(labels[device][weighted[device]], minlength=n_clusters)
        for cluster in np.flatnonzero(sizes == 0):
            point = distances[device].argmax()
            if distances[device, point] > rounding[device] and sizes[labels[device, point]] > 1:
                sizes[labels[device, point]] -= 1
                labels[device, point] = cluster
                reseated = True
            distances[device, point] = 0
    return reseated
