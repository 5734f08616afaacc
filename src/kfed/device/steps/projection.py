"""Step 2 of Algorithm 1, first half: the points in the span of their top right singular vectors."""

from __future__ import annotations

import numpy as np

from kfed._base import seeding
from kfed._base.array import Array
from kfed._base.seeding import draw, stratified
from kfed.device.rows.rows import Rows

N_POWER_ITERATIONS = 2
"""Subspace iterations; with the extra directions, enough for clusters that can be told apart."""

SMALL_SQUARE = 2.0**-64
"""Squared lengths between this and its inverse are far from underflow and overflow, in either precision."""


def project(rows: Rows, n_clusters: int, uniforms: Array) -> Array:
    """Points A-hat in the span of the top `n_clusters` right singular vectors, lifted: (n_devices, k + 2, n_points).

    As in the paper, the points are not centered before the projection. The coordinates are centered after it, which
    changes no distance between them and keeps the distances precise. `kfed._base.seeding` explains lifted points.
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
    """Whether a full eigenproblem on the shorter side of the points is cheaper than subspace iteration."""
    shorter = min(rows.n_points, rows.n_features)
    return shorter <= 2 * n_started(n_clusters) or rows.n_points * rows.n_features >= 20 * shorter**3


def n_started(n_clusters: int) -> int:
    """Number of directions of a subspace iteration: at least two extra, and a multiple of four for fast products."""
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
    """Top right singular vectors by subspace iteration, whose last step has the leading directions only.

    It starts from points of the device, so that rotating the data rotates every step.
    """
    start = _orthonormal(rows.take(draw(rows.weights, stratified(uniforms))))
    if not rows.shares_moments:
        return _by_points(rows, start, n_directions)
    directions, is_precise = _by_moments(rows.second_moments(), start, n_directions)
    if not is_precise.all():
        directions[~is_precise] = _by_points(rows.select(~is_precise), start[~is_precise], n_directions)
    return directions


def _by_points(rows: Rows, directions: Array, n_directions: int) -> Array:
    """Iterate with products of the points A: each step multiplies by A^T A."""
    for _ in range(N_POWER_ITERATIONS - 1):
        directions = _orthonormal(rows.total(rows.along(directions) * rows.weights[:, None]))
    coordinates = rows.along(directions)
    vectors, _ = _leading(np.matmul(coordinates * rows.weights[:, None], coordinates.transpose(0, 2, 1)), n_directions)
    return _orthonormal(rows.total(np.matmul(vectors, coordinates) * rows.weights[:, None]))


def _by_moments(moments: Array, directions: Array, n_directions: int) -> tuple[Array, Array]:
    """Iterate with the second moments A^T A, and say for which devices that is precise, (n_devices,).

    The moments are off by a few eps of their trace, and a direction by that over its own moment, which has to be small.
    """
    for _ in range(N_POWER_ITERATIONS - 1):
        directions = _orthonormal(np.matmul(directions, moments))
    products = np.matmul(directions, moments)
    vectors, smallest = _leading(np.matmul(products, directions.transpose(0, 2, 1)), n_directions)
    is_precise = smallest >= np.sqrt(np.finfo(moments.dtype).eps) * np.einsum("bii->b", moments)
    return _orthonormal(np.matmul(vectors, products)), is_precise


def _leading(moments: Array, n_directions: int) -> tuple[Array, Array]:
    """The `n_directions` of largest second moment, (n_devices, n_directions, m), and the smallest of their moments."""
    values, vectors = np.linalg.eigh(moments)
    return vectors[:, :, -n_directions:].transpose(0, 2, 1), values[:, -n_directions]


def _orthonormal(vectors: Array) -> Array:
    """Orthonormal bases of the spans of `vectors` (n_devices, m, n_features), from their Gram matrices.

    A small ridge turns directions that repeat others into vectors near zero instead of an error. It is relative to the
    length of each vector, so that short vectors keep their directions.
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
    """Each vector times the power of two that brings its largest value to about one; this is free of rounding."""
    _, exponents = np.frexp(np.abs(vectors).max(axis=2, keepdims=True))
    return np.asarray(np.ldexp(vectors, -exponents))


def _inverse_factors(gram: Array) -> Array:
    """Inverses of the Cholesky factors of a stack of small matrices, by elimination in all of them at once.

    A vector in the span of those before it gets a row of zeros.
    """
    # If G = L L^T, the row operations that turn G into L^T are L^-1, so they turn [G | I] into [L^T | L^-1]; and
    # L^-1 V has orthonormal rows if G = V V^T, since (L^-1 V)(L^-1 V)^T = L^-1 G L^-T = I. A pivot is the squared
    # distance of a vector from the span of those before it, plus the ridge of `_orthonormal`: 16 m eps of its squared
    # length, which is more than m steps of elimination lose to rounding. A pivot that is not positive all the same
    # counts as infinite, which makes its row zero.
    n_matrices, size, _ = gram.shape
    work = np.zeros((size, 2 * size, n_matrices), gram.dtype)  # a matrix, and what was done to it
    work[:, :size] = gram.transpose(1, 2, 0)
    work[range(size), range(size, 2 * size)] = 1
    for step, pivot_row in enumerate(work):
        pivot_row /= np.sqrt(np.where(pivot_row[step] > 0, pivot_row[step], np.inf))
        work[step + 1 :] -= pivot_row[step + 1 : size, None] * pivot_row
    return np.ascontiguousarray(work[:, size:].transpose(2, 0, 1))
