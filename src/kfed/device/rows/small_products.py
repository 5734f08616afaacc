"""Products of the points of a batch with few vectors, cut into pieces that BLAS multiplies where they lie.

A general matrix product first copies both factors into a form of its own, which takes longer than to multiply by a few
vectors. For small products OpenBLAS has kernels that do not; the sizes below are where it chooses them. Other libraries
lose nothing by the cuts, since a piece is still a matrix of hundreds of rows.
"""

from __future__ import annotations

import numpy as np

from kfed._base.array import Array

SMALL_WORK = 10**6
"""The most multiplications of a small product."""

SMALL_RESULT = 1200
"""The most values of the result of a small product with transposed points, which must have `LEAST_FEATURES`."""

LEAST_FEATURES = 32

MOST_VECTORS = 24
"""With more vectors than this a general product is as fast."""

FEW = 4
"""Where no product is small, fewer vectors than this are multiplied one by one."""


def along(points: Array, vectors: Array, out: Array | None = None) -> Array:
    """Inner products of `points` (b, n, d) with `vectors` (b, m, d): (b, m, n), in `out` if given."""
    n_vectors, n_features = vectors.shape[1:]
    products = np.empty((*vectors.shape[:2], points.shape[1]), np.result_type(points, vectors)) if out is None else out
    if 1 < n_vectors <= MOST_VECTORS and n_features >= LEAST_FEATURES:
        n_rows = min(SMALL_RESULT // n_vectors, SMALL_WORK // (n_vectors * n_features))
        rows, rest = _pieces(points, n_rows)
        results, rest_of_results = _pieces(products.transpose(0, 2, 1), n_rows)
        np.matmul(vectors[:, None], rows.transpose(0, 1, 3, 2), out=results.transpose(0, 1, 3, 2))
        np.matmul(vectors, rest.transpose(0, 2, 1), out=rest_of_results.transpose(0, 2, 1))
    elif n_vectors < FEW:
        for row in range(n_vectors):
            np.matmul(vectors[:, row, None], points.transpose(0, 2, 1), out=products[:, row, None])
    else:
        np.matmul(vectors, points.transpose(0, 2, 1), out=products)
    return products


def total(points: Array, weights: Array) -> Array:
    """Sums of `points` (b, n, d) weighted by `weights` (b, m, n): (b, m, d)."""
    n_sums, n_points = weights.shape[1:]
    small = SMALL_WORK // max(1, n_sums * points.shape[2])
    if not 1 < n_sums <= MOST_VECTORS or n_points <= small:
        return np.asarray(np.matmul(weights, points))
    rows, rest = _pieces(points, small)
    own, rest_of_own = _pieces(weights.transpose(0, 2, 1), small)
    sums = np.matmul(own.transpose(0, 1, 3, 2), rows).sum(axis=1)
    sums += np.matmul(rest_of_own.transpose(0, 2, 1), rest)
    return np.asarray(sums)


def _pieces(table: Array, n_rows: int) -> tuple[Array, Array]:
    """Views of `table` (b, n, d): pieces of about `n_rows` rows, (b, n_pieces, rows, d), and the rows that are left."""
    n_rows = max(1, min(table.shape[1], max(8, n_rows // 8 * 8)))
    n_pieces = table.shape[1] // n_rows
    whole = table[:, : n_pieces * n_rows]
    return whole.reshape(len(table), n_pieces, n_rows, table.shape[2]), table[:, n_pieces * n_rows :]
