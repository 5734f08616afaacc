"""Products with few vectors are the same whatever pieces they are cut into."""

import numpy as np
import pytest

from kfed.device.rows import small_products

SHAPES = [(3, 100, 64, 3), (2, 1000, 100, 8), (1, 601, 784, 4), (2, 5, 40, 7), (2, 1300, 33, 1), (2, 9, 2, 3)]
ODD_SHAPES = [(1, 9, 2, 6), (3, 104, 64, 3), (2, 3000, 40, 30), (1, 0, 40, 3), (1, 7000, 64, 24)]


@pytest.mark.parametrize("shape", SHAPES + ODD_SHAPES)
def test_products_in_pieces_are_those_of_whole_matrices(shape: tuple[int, int, int, int]) -> None:
    n_devices, n_points, n_features, n_vectors = shape
    rng = np.random.default_rng(0)
    points = rng.normal(size=(n_devices, n_points, n_features))
    vectors = rng.normal(size=(n_devices, n_vectors, n_features))
    weights = rng.normal(size=(n_devices, n_vectors, n_points))
    expected = np.matmul(vectors, points.transpose(0, 2, 1))
    around = np.zeros((n_devices, n_vectors + 2, n_points + 5))
    small_products.along(points, vectors, out=around[:, 1:-1, 2:-3])
    np.testing.assert_allclose(small_products.along(points, vectors), expected, atol=1e-11)
    np.testing.assert_allclose(around[:, 1:-1, 2:-3], expected, atol=1e-11)
    assert not around[:, [0, -1]].any()
    assert not around[:, :, [0, 1, -3, -2, -1]].any()
    np.testing.assert_allclose(small_products.total(points, weights), np.matmul(weights, points), atol=1e-10)
