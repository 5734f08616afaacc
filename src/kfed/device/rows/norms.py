"""Lengths of vectors and spectral norms of matrices, of a whole stack at once."""

from __future__ import annotations

import numpy as np

from kfed._base.array import Array


def squared_lengths(vectors: Array) -> Array:
    """Squared length of each vector along the last axis."""
    return np.asarray(np.matmul(vectors[..., None, :], vectors[..., None])[..., 0, 0])


def spectral_norm(matrices: Array) -> Array:
    """Largest singular value of each matrix of a stack, from the eigenvalues on its shorter side."""
    transposed = matrices.transpose(0, 2, 1)
    is_wide = matrices.shape[1] < matrices.shape[2]
    return root_of_largest(np.matmul(matrices, transposed) if is_wide else np.matmul(transposed, matrices))


def root_of_largest(moments: Array) -> Array:
    """Square root of the largest eigenvalue of each matrix of a stack, (n_matrices,)."""
    return np.sqrt(np.maximum(np.linalg.eigvalsh(moments.astype(np.float64, copy=False))[:, -1], 0))
