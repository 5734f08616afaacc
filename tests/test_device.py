"""Algorithm 1 on one device: its steps on a handful of points, its fixed point, and input that is odd or bad."""

import numpy as np
import pytest
import scipy.sparse
from hypothesis import given
from hypothesis import strategies as st

import kfed
import kfed.device.batches
import kfed.device.blocked_rows
from kfed._base import random, seeding
from kfed.device import algorithm1, lloyd_step, projection
from kfed.device.blocked_rows import BlockedRows
from kfed.device.dense_rows import DenseRows
from kfed.device.sparse_rows import SparseRows
from kfed.theory import DEVIATION_MARGIN, EXACT_FEATURES
from worlds import blobs


def rows_of(points, weights=None):
    points = np.asarray(points, dtype=float)
    return DenseRows(points[None], np.ones((1, len(points))) if weights is None else np.asarray([weights], float))


def lifted(coordinates):
    """Coordinates (n_points, k) of one device, as `project` gives them."""
    coordinates = np.asarray(coordinates, dtype=float)
    stack = np.empty((1, coordinates.shape[1] + 2, len(coordinates)))
    stack[0, :-2] = coordinates.T
    return seeding.lift(stack)


# Step 2: the projection -----------------------------------------------------------------------------------------


def test_the_projection_is_not_centered():
    points = np.array([[100.0, -2.0], [100.1, -1.0], [99.9, 0.0], [100.1, 1.0], [99.9, 2.0]])
    projected = projection.project(rows_of(points), 1, np.full((1, 4), 0.5))[0, 0]
    np.testing.assert_allclose(np.ptp(projected), 0.2, rtol=0.05)  # along (1, 0); centered, it would span 4


@pytest.mark.parametrize("shape", [(30, 5), (8, 40), (60, 50), (400, 30)])
@pytest.mark.parametrize("n_clusters", [1, 3])
@pytest.mark.parametrize("kind", ["dense", "sparse", "blocked", "weighted"])
def test_the_projection_is_on_the_top_right_singular_vectors_of_the_points_as_they_are(shape, n_clusters, kind):
    rng = np.random.default_rng(0)
    strong = rng.normal(size=(shape[0], 3)) @ np.diag([30, 20, 10]) @ np.linalg.qr(rng.normal(size=(shape[1], 3)))[0].T
    points = strong + 0.01 * rng.normal(size=shape)
    weights = rng.uniform(0.5, 2, (1, shape[0])) if kind == "weighted" else np.ones((1, shape[0]))
    rows = {
        "dense": lambda: DenseRows(points[None], weights),
        "weighted": lambda: DenseRows(points[None], weights),
        "sparse": lambda: SparseRows(scipy.sparse.csr_array(points), weights),
        "blocked": lambda: BlockedRows(points, weights),
    }[kind]()
    uniforms = rng.random((1, projection.n_started(n_clusters)))
    projected = projection.project(rows, n_clusters, uniforms)[0, :-2].T
    top = np.linalg.svd(np.sqrt(weights[0])[:, None] * points, full_matrices=False)[2][:n_clusters]
    expected = points @ top.T
    np.testing.assert_allclose(distances(projected), distances(expected), atol=1e-3)


def distances(points):
    return np.linalg.norm(points[:, None] - points[None], axis=2)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("scale", [1e-12, 1.0, 1e12])
def test_bases_are_orthonormal_and_a_vector_that_repeats_others_is_near_zero_in_them(dtype, scale):
    vectors = np.random.default_rng(0).normal(size=(7, 4, 30)) * scale
    vectors[0, 3] = vectors[0, 0] - 2 * vectors[0, 1]
    vectors[1, 2] = 0
    bases = projection._orthonormal(vectors.astype(dtype)).astype(float)
    products = np.matmul(bases, bases.transpose(0, 2, 1))
    expected = np.tile(np.eye(4), (7, 1, 1))
    expected[1, 2, 2] = 0
    rounding = 1e3 * np.finfo(dtype).eps
    np.testing.assert_allclose(products[1:], expected[1:], atol=rounding)
    np.testing.assert_allclose(products[0, :3, :3], np.eye(3), atol=rounding)
    assert products[0, 3, 3] <= 1 + rounding  # whatever rounding made of nothing, it is no longer than a direction


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_change_of_scale_by_a_power_of_two_changes_no_digit_of_a_basis(dtype):
    vectors = np.random.default_rng(0).normal(size=(6, 4, 10)).astype(dtype)
    bases = projection._orthonormal(vectors)
    for exponent in (-60, -20, 20, 60):
        np.testing.assert_array_equal(projection._orthonormal(np.ldexp(vectors, exponent)), bases)
    vectors[2, 3] = 0  # one device with a vector that must be brought to size leaves the others alone
    np.testing.assert_array_equal(projection._orthonormal(vectors)[[0, 1, 3, 4, 5]], bases[[0, 1, 3, 4, 5]])


def test_the_inverses_of_cholesky_factors_leave_out_a_row_that_adds_nothing():
    square = np.array([[4.0, 2.0, 2.0], [2.0, 1.0, 1.0], [2.0, 1.0, 10.0]])
    found = projection._inverse_factors(np.stack([square, np.diag([4.0, 9.0, 16.0])]))
    np.testing.assert_allclose(found[0] @ square @ found[0].T, np.diag([1.0, 0.0, 1.0]), atol=1e-12)
    np.testing.assert_allclose(found[1], np.diag([1 / 2, 1 / 3, 1 / 4]))


# Step 2, second half: the approximation -------------------------------------------------------------------------


@given(st.lists(st.sampled_from([0.0, 1e-30, 0.25, 1.0, 3.0]), min_size=1, max_size=70), st.integers(0, 2**32))
def test_points_are_drawn_where_the_cumulative_mass_passes_a_share_of_it(mass, seed):
    mass = np.array(mass)
    uniforms = np.append(np.random.default_rng(seed).random(20), 0.0)
    drawn = seeding.draw(mass, uniforms)
    assert (mass[drawn] > 0).all() or not mass.any()
    assert mass[seeding.draw(mass, np.ones(1))] > 0 or not mass.any()  # a number that rounding brought to one
    ends = np.cumsum(mass)
    slack = 1e-12 * ends[-1]
    assert (ends[drawn] - mass[drawn] <= uniforms * ends[-1] + slack).all()
    assert (ends[drawn] >= uniforms * ends[-1] - slack).all()


def test_a_sample_falls_in_step_with_no_period_of_the_rows():
    costs, weights = np.ones(2**14), np.ones(2**14)
    for seed in range(5):
        rows, _ = seeding.sample_by_cost(costs, weights, 2**11, np.random.default_rng(seed).random(2**11))
        assert np.bincount(rows % 8).min() > 2**11 / 8 / 2


def test_the_approximation_finds_far_apart_places_whatever_the_draws():
    places = np.array([0.0, 100.0, 10_000.0, 10_100.0])
    points = np.repeat(places, 5)[:, None] + np.tile(np.arange(5.0), 4)[:, None]
    for seed in range(50):
        draws = algorithm1.Draws(random.device_keys(seed, [""]), 4, points.dtype)
        seeds = algorithm1.approximate_centers(rows_of(points), lifted(points - points.mean()), 4, draws)
        np.testing.assert_allclose(np.sort(seeds[0, :, 0]) + points.mean(), places + 2, atol=1e-6)


@pytest.mark.parametrize("n_local_clusters", [8, pytest.param("auto", marks=pytest.mark.slow)])
def test_rows_in_a_periodic_order_are_sampled_as_well_as_any(n_local_clusters):
    rng = np.random.default_rng(0)
    places = 10.0 * np.array([[i % 3, i // 3] for i in range(8)])
    points = np.tile(places, (2**15, 1)) + 1e-4 * rng.normal(size=(2**18, 2))
    for seed in range(2):
        local = kfed.cluster_device(points, n_local_clusters, random_state=seed, measure_deviation=False)
        assert local.n_local_clusters == 8
        assert local.cost < 0.01


# Step 3: core sets ----------------------------------------------------------------------------------------------


def test_core_sets_use_projected_points_and_average_the_original_ones():
    projected = [[0.0], [1.0], [2.5], [2.6], [9.0], [10.0]]  # seeds at 0 and 10: 3 * 2.5 <= 7.5, and 3 * 2.6 > 7.4
    originals = np.array([[1.0, 50.0], [2.0, -50.0], [6.0, 3.0], [1e6, 1e6], [70.0, 8.0], [90.0, 4.0]])
    seeds = np.array([[[0.0], [10.0]]])
    centers = algorithm1.core_means(rows_of(originals), lifted(projected), seeds)
    np.testing.assert_allclose(centers[0], [[3.0, 1.0], [80.0, 6.0]])


def test_a_point_of_the_core_set_counts_as_much_as_it_weighs():
    originals = np.array([[1.0], [4.0], [90.0]])
    seeds = np.array([[[0.0], [10.0]]])
    rows = rows_of(originals, weights=[1.0, 2.0, 1.0])
    centers = algorithm1.core_means(rows, lifted([[0.0], [0.0], [10.0]]), seeds)
    np.testing.assert_allclose(centers[0], [[3.0], [90.0]])


def test_a_seed_whose_core_set_is_empty_takes_the_points_nearest_to_it():
    projected = [[0.0], [4.0], [6.0]]  # the core of the seed at 10 is empty: 6 is 4 away from it and 6 from the other
    originals = np.array([[0.0, 1.0], [5.0, 5.0], [7.0, 7.0]])
    centers = algorithm1.core_means(rows_of(originals), lifted(projected), np.array([[[0.0], [10.0]]]))
    np.testing.assert_allclose(centers[0], [[0.0, 1.0], [7.0, 7.0]])


# Step 4: Lloyd --------------------------------------------------------------------------------------------------


def test_lloyd_on_five_points():
    points = [[0.0], [1.0], [2.0], [10.0], [11.0]]
    found = algorithm1.lloyd(rows_of(points), np.array([[[0.0], [2.0]]]), 300)
    assert found.labels[0].tolist() == [0, 0, 0, 1, 1]
    np.testing.assert_allclose(found.centers[0], [[1.0], [10.5]])


@given(
    seed=st.integers(0, 10_000),
    shape=st.sampled_from([(5, 2), (40, 3), (33, 50), (90, 8)]),
    n_clusters=st.integers(1, 8),
    grid=st.booleans(),
    kind=st.sampled_from(["dense", "sparse", "blocked"]),
    weighted=st.booleans(),
)
def test_the_answer_is_a_fixed_point_of_lloyd(seed, shape, n_clusters, grid, kind, weighted):
    rng = np.random.default_rng(seed)
    points = np.round(2 * rng.normal(size=shape)) if grid else rng.normal(size=shape)
    weights = rng.uniform(0.1, 3, shape[0]) if weighted else None
    with pytest.MonkeyPatch.context() as patch:
        if kind == "blocked":
            patch.setattr(kfed.device.batches, "LARGE_BYTES", 0)
            patch.setattr(kfed.device.blocked_rows, "BLOCK_BYTES", 256)
        given_points = scipy.sparse.csr_array(points) if kind == "sparse" else points
        options = {"sample_weight": weights, "random_state": seed, "min_cluster_size": 1}
        local = kfed.cluster_device(given_points, n_clusters, **options)
    check_facts(local, points, weights)
    apart = np.linalg.norm(points[:, None] - local.centers, axis=2)
    own = apart[np.arange(len(points)), local.labels]
    np.testing.assert_array_less(own, apart.min(axis=1) + 1e-9)
    assert np.count_nonzero(local.counts) == min(n_clusters, len(np.unique(points, axis=0)))


def check_facts(local, points, weights=None):
    """Centers are means, and counts and sums are what they say, by plain NumPy."""
    weights = np.ones(len(points)) if weights is None else weights
    for cluster in range(local.n_local_clusters):
        members, mass = points[local.labels == cluster], weights[local.labels == cluster]
        np.testing.assert_allclose(local.counts[cluster], mass.sum(), rtol=1e-12)
        if mass.sum():
            center = np.average(members, axis=0, weights=mass)
            np.testing.assert_allclose(local.centers[cluster], center, rtol=1e-9, atol=1e-9)
            spread = ((members - center) ** 2).sum(axis=1) @ mass
            np.testing.assert_allclose(local.sums_of_squares[cluster], spread, rtol=1e-7, atol=1e-7)
    np.testing.assert_allclose(local.cost, local.sums_of_squares.sum(), rtol=1e-12)
    kept = ~local.withheld[local.labels]
    residuals = (np.sqrt(weights)[:, None] * (points - local.centers[local.labels]))[kept]
    expected = np.linalg.norm(residuals, 2) if len(residuals) else 0
    assert_is_upper_estimate(local.spectral_deviation, expected, local.n_features)


def assert_is_upper_estimate(deviation, norm, n_features):
    """The norm itself with few features, and otherwise at most the stated margin above it."""
    margin = DEVIATION_MARGIN if n_features > EXACT_FEATURES else 0.0
    assert norm * (1 - 1e-6) - 1e-6 <= deviation <= norm * (1 + margin) * (1 + 1e-6) + 1e-6


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(
    "spectrum", ["noise", "decaying", "flat", "one direction", "far from zero", "no spread in most"]
)
@pytest.mark.parametrize("shape", [(60, 60), (400, 70), (45, 500), (250, 300), (600, 350)])
@pytest.mark.parametrize("kind", ["dense", "blocked", "sparse"])
def test_the_spectral_deviation_is_the_norm_or_a_little_more(kind, shape, spectrum, dtype, monkeypatch):
    if kind == "blocked":
        monkeypatch.setattr(kfed.device.batches, "LARGE_BYTES", 0)
        monkeypatch.setattr(kfed.device.blocked_rows, "BLOCK_BYTES", 2**15)
    rng = np.random.default_rng(sum(shape))
    points = rng.normal(size=shape)
    if spectrum == "flat":
        left, _, right = np.linalg.svd(points, full_matrices=False)
        points = left @ right
    points *= {"decaying": np.geomspace(1, 1e-3, shape[1]), "no spread in most": np.eye(1, shape[1])[0]}.get(
        spectrum, 1
    )
    points += {"one direction": 0.3 * rng.normal(size=(shape[0], 1)), "far from zero": 100.0}.get(spectrum, 0)
    points = points.astype(dtype)
    given_points = scipy.sparse.csr_array(points) if kind == "sparse" else points
    local = kfed.cluster_device(given_points, 2, random_state=0, min_cluster_size=1)
    kept = ~local.withheld[local.labels]
    residuals = (points.astype(float) - local.centers[local.labels].astype(float))[kept]
    norm = np.linalg.norm(residuals, 2)
    rounding = np.finfo(dtype).eps * np.linalg.norm(points[kept])
    assert norm - 16 * rounding <= local.spectral_deviation <= norm * (1 + DEVIATION_MARGIN) + 16 * rounding


@pytest.mark.slow
def test_on_noise_hardly_any_spectral_deviation_of_a_thousand_devices_is_too_low():
    rng = np.random.default_rng(0)
    ratios = []
    for shape in ((100, 64), (300, 250)):
        fleet = rng.normal(size=(500, *shape)).astype(np.float32)
        for points, found in zip(fleet, kfed.cluster_fleet(list(fleet), 2, random_state=0), strict=True):
            residuals = points.astype(float) - found.centers[found.labels].astype(float)
            ratios.append(found.spectral_deviation / np.linalg.norm(residuals[~found.withheld[found.labels]], 2))
    assert max(ratios) <= 1 + DEVIATION_MARGIN
    assert np.sum(np.array(ratios) < 1 - 1e-5) <= 3  # each has a chance of 1 in 1000 at most


def test_fewer_lloyd_steps_than_are_needed_still_give_means():
    points = np.random.default_rng(0).normal(size=(300, 4))
    for steps in (1, 2, 3):
        local = kfed.cluster_device(points, 8, random_state=0, max_iterations=steps)
        assert local.n_iterations == steps
        assert not local.converged
        assert not kfed.LocalClustering.from_bytes(local.to_bytes()).converged
        check_facts(local, points)
    whole = kfed.cluster_device(points, 8, random_state=0)
    assert whole.converged
    assert kfed.LocalClustering.from_bytes(whole.to_bytes()).converged


def test_the_cost_is_about_that_of_scikit_learn():
    cluster = pytest.importorskip("sklearn.cluster")
    ratios = []
    for seed in range(10):
        points = blobs(300, 10, 8, seed, gap=2.0)
        theirs = cluster.KMeans(8, n_init=1, random_state=seed).fit(points).inertia_
        ratios.append(kfed.cluster_device(points, 8, random_state=seed).cost / theirs)
    assert np.mean(ratios) <= 1.01


@pytest.mark.parametrize("weighted", [False, True])
def test_many_clusters_of_many_points_are_a_fixed_point_of_lloyd_and_cost_what_scikit_learns_do(weighted):
    cluster = pytest.importorskip("sklearn.cluster")
    points, n_clusters = blobs(24_000, 4, 100, seed=0, gap=3.0), 100
    weights = np.random.default_rng(1).integers(1, 4, len(points)) if weighted else None
    assert kfed.device.batches.is_large(points, n_clusters)
    local = kfed.cluster_device(points, n_clusters, sample_weight=weights, random_state=0)
    squares = seeding.squared_distances(lifted(points), local.centers[None])[0]
    own = squares[local.labels, np.arange(len(points))]
    np.testing.assert_allclose(own, squares.min(axis=0), rtol=1e-9, atol=1e-9)
    for label in range(n_clusters):
        members = local.labels == label
        mean = np.average(points[members], axis=0, weights=weights[members] if weighted else None)
        np.testing.assert_allclose(local.centers[label], mean, atol=1e-9)
    theirs = cluster.KMeans(n_clusters, n_init=1, random_state=0).fit(points, sample_weight=weights).inertia_
    assert local.cost <= 1.02 * theirs


def test_lloyd_starts_so_well_on_a_large_device_that_few_steps_are_left_whatever_the_seed():
    rng = np.random.default_rng(0)
    means = 0.75 * np.random.default_rng(1).standard_normal((16, 32))
    own = rng.choice(16, 16, replace=False)[rng.integers(16, size=70_000)]
    points = (means[own] + rng.standard_normal((70_000, 32))).astype(np.float32)
    found = [kfed.cluster_device(points, 16, random_state=seed, measure_deviation=False) for seed in (0, 2, 5)]
    assert max(local.n_iterations for local in found) <= 15
    assert max(local.cost for local in found) <= 1.001 * min(local.cost for local in found)


def test_work_and_not_bytes_alone_makes_a_device_large():
    points = np.zeros((200_000, 2), np.float32)
    assert kfed.device.batches.is_large(points, 100)
    assert not kfed.device.batches.is_large(points, 4)
    assert not kfed.device.batches.is_large(points, "auto")
    assert kfed.device.batches.is_large(points[:30_000], 63)
    assert not kfed.device.batches.is_large(points[:30_000], 32)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_common_offset_does_not_cost_the_clusters(dtype):
    for seed in range(60):
        rng = np.random.default_rng(seed)
        target = rng.integers(5, size=20)
        points = (1000 + (20 * rng.normal(size=(5, 60)))[target] + rng.normal(size=(20, 60))).astype(dtype)
        ideal = sum(((points[target == r] - points[target == r].mean(axis=0)) ** 2).sum() for r in set(target))
        assert kfed.cluster_device(points, 5, random_state=seed).cost <= 1.01 * ideal


@pytest.mark.parametrize("kind", ["batch", "blocked", "fleet"])
@pytest.mark.parametrize("n_clusters", [8, 40])
def test_float32_far_from_the_origin_costs_what_scikit_learn_does(kind, n_clusters, monkeypatch):
    cluster = pytest.importorskip("sklearn.cluster")
    if kind == "blocked":
        monkeypatch.setattr(kfed.device.batches, "LARGE_BYTES", 0)
    for seed in range(3):
        rng = np.random.default_rng(seed)
        points = (1e6 + 3 * rng.normal(size=(8, 6))[rng.integers(8, size=4000)] + rng.normal(size=(4000, 6))).astype(
            "f4"
        )
        near = rng.normal(size=(4000, 6)).astype("f4")
        fleet = {"one": near, "far": points, "two": near}
        local = (
            kfed.cluster_fleet(fleet, n_clusters, random_state=seed)[1]
            if kind == "fleet"
            else kfed.cluster_device(points, n_clusters, random_state=seed, device_id="far")
        )
        squares = ((points[:, None].astype(float) - local.centers.astype(float)) ** 2).sum(axis=2)
        np.testing.assert_array_equal(squares[np.arange(4000), local.labels], squares.min(axis=1))
        theirs = cluster.KMeans(n_clusters, n_init=3, random_state=seed).fit(points.astype(float) - 1e6).inertia_
        assert squares.min(axis=1).sum() <= 1.02 * theirs
        np.testing.assert_allclose(local.cost, squares.min(axis=1).sum(), rtol=1e-5)
        assert local.centers.dtype == local.sums_of_squares.dtype == np.float32


@pytest.mark.parametrize("offset", [0.0, 30.0, 1e4])
@pytest.mark.parametrize("spread", [1e-3, 1.0])
def test_distances_to_centers_are_precise_whatever_they_are_small_against(offset, spread):
    rng = np.random.default_rng(0)
    centers = (offset + rng.normal(size=(2, 3, 40))).astype(np.float32)
    labels = rng.integers(3, size=(2, 64))
    points = (centers[[[0], [1]], labels] + spread * rng.normal(size=(2, 64, 40))).astype(np.float32)
    points[:, 0] = centers[[0, 1], labels[:, 0]]
    rows = DenseRows(points, np.ones((2, 64), np.float32))
    excess = np.take_along_axis(lloyd_step.comparisons(rows, centers), labels[:, None], axis=1)[:, 0]
    excess[1] = np.nan  # not known
    expected = ((points.astype(float) - centers[[[0], [1]], labels].astype(float)) ** 2).sum(axis=2)
    for found in (rows.squared_residuals(centers, labels), rows.squared_residuals(centers, labels, excess)):
        np.testing.assert_allclose(found, expected, rtol=2e-5)
        assert (found[:, 0] == 0).all()


@pytest.mark.parametrize("max_iterations", [1, 2, 300])
def test_the_spread_of_clusters_is_that_of_their_points_settled_or_not(max_iterations):
    fleet = [blobs(120, 6, 5, seed, gap=1.5).astype(np.float32) for seed in range(12)]
    for points, local in zip(fleet, kfed.cluster_fleet(fleet, 5, max_iterations=max_iterations), strict=True):
        squares = ((points.astype(float) - local.centers[local.labels].astype(float)) ** 2).sum(axis=1)
        expected = np.bincount(local.labels, squares, minlength=5)
        np.testing.assert_allclose(local.sums_of_squares, expected, rtol=1e-4)


@pytest.mark.parametrize("n_clusters", [1, 2, 3, 6])
def test_points_are_compared_with_every_center_whatever_their_offset(n_clusters):
    rng = np.random.default_rng(0)
    centers = 1e3 + rng.normal(size=(4, n_clusters, 20))
    points = 1e3 + rng.normal(size=(4, 50, 20))
    squares = ((points[:, None] - centers[:, :, None]) ** 2).sum(axis=3)
    found = lloyd_step.comparisons(DenseRows(points, np.ones((4, 50))), centers)
    np.testing.assert_allclose(found, squares - squares[:, :1], atol=1e-8)


# Degenerate but legal -------------------------------------------------------------------------------------------

DEGENERATE = {
    "fewer points than clusters": (np.random.default_rng(0).normal(size=(3, 2)), 7, 3),
    "one point": (np.array([[3.0, 4.0]]), 2, 1),
    "all points equal": (np.full((20, 3), 0.1), 4, 1),
    "all points zero": (np.zeros((9, 3)), 2, 1),
    "fewer distinct points than clusters": (np.repeat([[0.0, 1.0], [5.0, 5.0], [0.1, 0.1]], 7, axis=0), 5, 3),
    "more clusters than features": (np.random.default_rng(1).normal(size=(50, 2)), 9, 9),
    "one feature": (np.random.default_rng(2).normal(size=(50, 1)), 4, 4),
    "one cluster": (np.random.default_rng(3).normal(size=(50, 3)), 1, 1),
    "a huge common offset": (1e8 + np.random.default_rng(4).normal(size=(60, 3)), 4, 4),
    "collinear": (np.outer(np.arange(40.0), [1.0, 2.0, 3.0]), 4, 4),
    "one far point": (np.vstack([np.random.default_rng(5).normal(size=(40, 3)), [[1e9, 0, 0]]]), 3, 3),
}


@pytest.mark.parametrize("kind", ["dense", "sparse", "blocked", "float32"])
@pytest.mark.parametrize("case", DEGENERATE)
def test_degenerate_points_have_a_defined_answer(case, kind, monkeypatch):
    points, n_clusters, n_filled = DEGENERATE[case]
    if kind == "blocked":
        monkeypatch.setattr(kfed.device.batches, "LARGE_BYTES", 0)
        monkeypatch.setattr(kfed.device.blocked_rows, "BLOCK_BYTES", 100)
    made = {"sparse": scipy.sparse.csr_matrix, "float32": lambda p: p.astype(np.float32)}.get(kind, np.asarray)(points)
    for seed in range(5):
        local = kfed.cluster_device(made, n_clusters, random_state=seed)
        assert local.centers.shape == (n_clusters, points.shape[1])
        assert local.labels.shape == (len(points),)
        for array in (local.centers, local.counts, local.sums_of_squares, local.spectral_deviation):
            assert np.isfinite(array).all()
        assert local.counts.sum() == len(points)
        np.testing.assert_array_equal(np.bincount(local.labels, minlength=n_clusters), local.counts)
        if kind != "float32" or case not in ("a huge common offset", "one far point"):  # lost in its rounding
            assert np.count_nonzero(local.counts) == n_filled


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@given(seed=st.integers(0, 10_000))
def test_nothing_is_ever_not_a_number(dtype, seed):
    rng = np.random.default_rng(seed)
    shape = (int(rng.integers(1, 60)), int(rng.integers(1, 60)))
    rank = int(rng.integers(1, 4))
    points = rng.normal(size=(shape[0], rank)) @ rng.normal(size=(rank, shape[1]))  # as few directions as that
    points = (points + 10.0 ** rng.integers(-3, 7)) * 10.0 ** rng.integers(-6, 6)
    if rng.random() < 0.5:
        points = points[rng.integers(shape[0], size=shape[0])]
    weights = 10.0 ** rng.integers(-6, 6, shape[0]) if rng.random() < 0.5 else None
    options = {"sample_weight": weights, "random_state": seed, "min_cluster_size": 1}
    local = kfed.cluster_device(points.astype(dtype), int(rng.integers(1, 9)), **options)
    for array in (local.centers, local.counts, local.sums_of_squares, local.spectral_deviation):
        assert np.isfinite(array).all()
    assert local.to_message("a").n_features == shape[1]


# What goes in and what comes out --------------------------------------------------------------------------------


def test_inputs_are_never_changed():
    rng = np.random.default_rng(0)
    points, weights = blobs(40, 4, 3, 0), rng.uniform(1, 2, 40)
    sparse = scipy.sparse.csr_matrix(
        (np.array([1.0, 2.0, 3.0, 4.0]), np.array([1, 0, 2, 2]), np.array([0, 2, 4])), shape=(2, 3)
    )  # unsorted, and with an entry given twice
    before = points.copy(), weights.copy(), sparse.data.copy(), sparse.indices.copy(), sparse.indptr.copy()
    for array in (points, weights, sparse.data, sparse.indices, sparse.indptr):
        array.flags.writeable = False
    kfed.cluster_device(points, 3, sample_weight=weights, random_state=0)
    kfed.cluster_fleet([points, points[:7]], 3, sample_weights=[weights, None], random_state=0)
    assert kfed.cluster_device(sparse, 1).centers.tolist() == [[1.0, 0.5, 3.5]]
    for array, was in zip((points, weights, sparse.data, sparse.indices, sparse.indptr), before, strict=True):
        np.testing.assert_array_equal(array, was)


def test_what_comes_out_is_frozen():
    local = kfed.cluster_device(blobs(37, 4, 3, 0), 3, random_state=0)
    in_a_batch = kfed.cluster_fleet([blobs(37, 4, 3, 0)] * 3, 3, random_state=0)[1]
    for found in (local, in_a_batch):
        for name in ("labels", "centers", "counts", "sums_of_squares", "withheld"):
            with pytest.raises(ValueError, match="read-only"):
                getattr(found, name)[...] = 0
            with pytest.raises(AttributeError):
                setattr(found, name, None)
    assert repr(local).startswith("LocalClustering(n_points=37, n_local_clusters=3, n_features=4")


def test_float32_is_computed_in_float32_and_anything_else_in_float64():
    for dtype in (np.float16, np.float32, np.float64, np.int8, np.uint32, bool, object):
        points = np.array([[0, 0], [1, 1], [0, 1], [1, 0]], dtype=dtype)
        expected = np.float32 if dtype == np.float32 else np.float64
        assert kfed.cluster_device(points, 1).centers.dtype == expected
    assert kfed.cluster_device([[0, 1], [2, 3]], 1).centers.tolist() == [[1.0, 2.0]]
    assert kfed.cluster_device(scipy.sparse.csr_array(np.eye(3, dtype=int)), 1).centers.dtype == np.float64


def test_data_frames_bring_their_feature_names():
    pandas, polars = pytest.importorskip("pandas"), pytest.importorskip("polars")
    columns = {"height": [1.0, 2.0, 3.0], "weight": [4, 5, 6]}
    for frame in (pandas.DataFrame(columns), polars.DataFrame(columns)):
        local = kfed.cluster_device(frame, 1)
        assert local.feature_names == ("height", "weight")
        assert local.to_message("a").feature_names == ("height", "weight")
        assert local.centers.tolist() == [[2.0, 5.0]]
    unnamed = kfed.cluster_device(pandas.DataFrame(np.eye(3)), 1)
    assert unnamed.feature_names is None


@pytest.mark.parametrize("order", ["C", "F", "strided"])
def test_the_memory_layout_of_points_does_not_matter(order):
    points = blobs(37, 6, 3, 0)
    made = np.repeat(points, 2, axis=1)[:, ::2] if order == "strided" else np.asarray(points, order=order)
    expected = kfed.cluster_device(points, 3, random_state=0)
    found = kfed.cluster_device(made, 3, random_state=0)
    np.testing.assert_array_equal(found.centers, expected.centers)


@pytest.mark.parametrize(
    "state",
    [
        lambda: 7,
        lambda: np.int32(7),
        lambda: np.random.default_rng(7),
        lambda: np.random.RandomState(7),
    ],
)
def test_the_same_random_state_gives_the_same_answer(state):
    points = np.random.default_rng(0).normal(size=(100, 5))
    one, other = (kfed.cluster_device(points, 6, random_state=state()) for _ in range(2))
    np.testing.assert_array_equal(one.centers, other.centers)


# Bad input ------------------------------------------------------------------------------------------------------

SECRET = 271828.1828

BAD_POINTS = {
    "not a number": ([[1.0, SECRET], [np.nan, 1.0]], "finite.*row 1, column 0"),
    "infinite": ([[1.0, SECRET], [1.0, np.inf], [-np.inf, 1.0]], "2 rows hold NaN.*row 1, column 1"),
    "sparse and not a number": (scipy.sparse.csr_array([[SECRET, np.nan]]), "finite"),
    "no rows": (np.empty((0, 3)), "at least one row"),
    "no sparse rows": (scipy.sparse.csr_array((0, 3)), "at least one row"),
    "no columns": (np.empty((3, 0)), "at least one column"),
    "one axis": ([SECRET, 2.0, 3.0], "two axes"),
    "three axes": (np.full((2, 2, 2), SECRET), "two axes"),
    "a number": (SECRET, "two axes"),
    "one sparse axis": (scipy.sparse.coo_array([SECRET, 0.0]), "two axes"),
    "ragged": ([[SECRET, 2.0], [3.0]], "equally many in each row"),
    "text": ([["271828.1828", "2"]], "numbers"),
    "names in a column": (np.array([["secret 271828.1828", 1.0]], dtype=object), "must be numbers"),
    "complex": ([[SECRET + 1j]], "numbers"),
    "dates": (np.array([["2020-01-01"]], dtype="datetime64[D]"), "numbers"),
    "too large to square": (np.full((5, 2), SECRET * 1e150), "squared"),
    "too large to square in float32": (np.full((5, 2), SECRET * 1e15, np.float32), "squared.*float64"),
}


@pytest.mark.parametrize("through", [kfed.cluster_device, lambda points, k: kfed.cluster_fleet([points], k)])
@pytest.mark.parametrize("case", BAD_POINTS)
def test_bad_points_get_a_clear_error_that_tells_no_value(case, through):
    points, pattern = BAD_POINTS[case]
    with pytest.raises(kfed.InvalidInputError, match=pattern) as caught:
        through(points, 2)
    assert_tells_nothing(caught.value)


def assert_tells_nothing(error):
    """Neither an error nor what it came from shows the secret."""
    while error is not None:
        assert "27182" not in str(error)
        error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)


def test_frames_with_missing_values_or_words_get_a_clear_error():
    pandas, polars = pytest.importorskip("pandas"), pytest.importorskip("polars")
    for frame in (
        pandas.DataFrame({"a": [1.0, None], "b": [SECRET, 2.0]}),
        pandas.DataFrame({"a": pandas.array([1, None], dtype="Int64"), "b": [SECRET, 2.0]}),
        pandas.DataFrame({"a": [1, pandas.NA], "b": [SECRET, 2.0]}),
        pandas.DataFrame({"a": [f"patient {SECRET}", "x"], "b": [1.0, 2.0]}),
        polars.DataFrame({"a": [1.0, None], "b": [SECRET, 2.0]}),
        polars.DataFrame({"a": [f"patient {SECRET}", "x"], "b": [1.0, 2.0]}),
    ):
        with pytest.raises(kfed.InvalidInputError) as caught:
            kfed.cluster_device(frame, 1)
        assert_tells_nothing(caught.value)


GOOD = np.array([[0.0, SECRET], [1.0, 1.0], [2.0, 3.0]])

BAD_SETTINGS = {
    "no clusters": {"n_local_clusters": 0},
    "negative clusters": {"n_local_clusters": -3},
    "half a cluster": {"n_local_clusters": 1.5},
    "a flag for clusters": {"n_local_clusters": True},
    "the points for clusters": {"n_local_clusters": GOOD},
    "the points in a list for clusters": {"n_local_clusters": GOOD.tolist()},
    "no size": {"min_cluster_size": 0},
    "no iterations": {"max_iterations": 0},
    "a weight too many": {"sample_weight": [SECRET] * 4},
    "weights with two axes": {"sample_weight": GOOD},
    "negative weights": {"sample_weight": [1, -SECRET, 1]},
    "weights not a number": {"sample_weight": [1, np.nan, SECRET]},
    "infinite weights": {"sample_weight": [1, np.inf, SECRET]},
    "weights all zero": {"sample_weight": [0, 0, 0]},
    "weights in words": {"sample_weight": ["271828.1828 kg", 1, 1]},
    "weights too large": {"sample_weight": [1e305, SECRET, 1]},
    "a word for a seed": {"random_state": "271828.1828"},
    "points for a seed": {"random_state": GOOD},
    "a number for an id": {"device_id": 7},
    "zero for an id": {"device_id": 0},
    "nothing for an id": {"device_id": None},
    "half a character for an id": {"device_id": "\ud800"},
}


@pytest.mark.parametrize("case", BAD_SETTINGS)
def test_bad_settings_get_a_clear_error_that_tells_no_value(case):
    with pytest.raises(kfed.InvalidInputError) as caught:
        kfed.cluster_device(**{"points": GOOD, "n_local_clusters": 2, **BAD_SETTINGS[case]})
    if case != "a word for a seed":
        assert_tells_nothing(caught.value)
