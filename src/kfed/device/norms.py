"""Lengths of vectors and spectral norms of matrices, of a whole stack at once."""

from __future__ import annotations

import numpy as np

from kfed._base.array import Array

N_SQUARINGS, MAX_SQUARINGS = 3, 24
"""Bounds are computed from so many squarings on. Noise takes three or four."""

N_POWER_ITERATIONS = 4


def squared_lengths(vectors: Array) -> Array:
    """Squared length of each vector along the last axis."""
    return np.asarray(np.matmul(vectors[..., None, :], vectors[..., None])[..., 0, 0])


def spectral_norm(matrices: Array) -> Array:
    """Largest singular value of each matrix of a stack, from the eigenvalues on its shorter side."""
    return root_of_largest(shorter_moments(matrices))


def shorter_moments(matrices: Array) -> Array:
    """Products of each matrix of a stack with itself, on its shorter side."""
    transposed = matrices.transpose(0, 2, 1)
    wide = matrices.shape[1] < matrices.shape[2]
    return np.asarray(np.matmul(matrices, transposed) if wide else np.matmul(transposed, matrices))


def root_of_largest(moments: Array) -> Array:
    """Square root of the largest eigenvalue of each matrix of a stack, (n_matrices,)."""
    return np.sqrt(np.maximum(np.linalg.eigvalsh(moments.astype(np.float64, copy=False))[:, -1], 0))


def root_of_largest_bound(moments: Array, starts: Array, tightness: float) -> Array:
    """Upper bound of `root_of_largest`, at most `tightness` times too high, (n_matrices,).

    It takes a few squarings of the matrices, which are much faster than their eigenvalues. `starts` are vectors,
    (n_matrices, size), as near to the first eigenvectors as may be; any will do.
    """
    # If l is the largest eigenvalue of G, that of G^p is l^p. Any bounds of that one, whose ratio is at most the size,
    # become tight by the p-th root. Powers are scaled at times, which keeps them in range.
    scales = np.maximum(np.einsum("bii->b", moments), np.finfo(moments.dtype).tiny)
    powers = moments / scales[:, None, None]
    log_scales, left, found = np.log(scales.astype(np.float64)), np.arange(len(moments)), np.zeros(len(moments))
    for n_squarings in range(1, MAX_SQUARINGS + 1):
        powers = np.matmul(powers, powers)
        if n_squarings < N_SQUARINGS:
            continue
        lower, upper = _bounds_of_largest(powers, starts)
        is_loose = np.log(upper / lower) > 2 * np.log(tightness) * 2**n_squarings
        done = ~is_loose
        found[left[done]] = np.exp((log_scales[done] + np.log(upper[done]) / 2**n_squarings) / 2)
        if done.all():
            break
        left, powers, starts, scales = (of[is_loose] for of in (left, powers, starts, upper))
        powers = powers / scales.astype(powers.dtype)[:, None, None]
        log_scales = log_scales[is_loose] + np.log(scales) / 2**n_squarings
    return found


def _bounds_of_largest(matrices: Array, starts: Array) -> tuple[Array, Array]:
    """Bounds of the largest eigenvalue of each positive semidefinite matrix of a stack; tiny instead of zero."""
    # For a unit vector x, let r = x'Hx and h = Hx - r x. Along x and across it, H is [[r, h'], [h, B]], and no larger
    # eigenvalue is possible than that of [[r, |h|], [|h|, |B|]]. For |B| the Frobenius norm serves, which is what |H|
    # leaves: |B|^2 = |H|^2 - r^2 - 2 |h|^2. So the bound is r if x is the first eigenvector and the others are small.
    # From below, r serves, and so does |H|^2 / trace(H), the mean of the eigenvalues weighted by themselves.
    vectors = _iterated(matrices, starts)
    products = np.matmul(matrices, vectors[:, :, None])[:, :, 0]
    along = np.einsum("bi,bi->b", vectors, products).astype(np.float64)
    across = np.maximum(squared_lengths(products) - along**2, 0)
    squares = np.einsum("bij,bij->b", matrices, matrices)
    rest = np.sqrt(np.maximum(squares - along**2 - 2 * across, 0))
    upper = (along + rest) / 2 + np.sqrt(((along - rest) / 2) ** 2 + across)
    tiny = np.finfo(matrices.dtype).tiny
    lower = np.maximum(along, squares / np.maximum(np.einsum("bii->b", matrices), tiny))
    return np.maximum(lower, tiny), np.maximum(upper, tiny)


def _iterated(matrices: Array, vectors: Array) -> Array:
    """Unit vectors after a few power iterations; zero stays zero."""
    for _ in range(N_POWER_ITERATIONS):
        vectors = np.matmul(matrices, vectors[:, :, None])[:, :, 0]
        largest = np.maximum(np.abs(vectors).max(axis=1, keepdims=True), np.finfo(matrices.dtype).tiny)
        vectors = vectors / largest
    return np.asarray(vectors / np.maximum(np.sqrt(squared_lengths(vectors)), np.finfo(matrices.dtype).tiny)[:, None])
