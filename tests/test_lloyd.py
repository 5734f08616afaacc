"""Step 4 of Algorithm 1: Lloyd's iterations, plain, bounded and in blocks."""

from functools import cache

import numpy as np
import pytest
import scipy.sparse
from hypothesis import given
from hypothesis import strategies as st

import kfed
import kfed.device.batches
import kfed.device.blocked_rows
from device_rows import lifted, rows_of
from kfed._base import seeding
from kfed.device import algorithm1, lloyd_step
from kfed.device.dense_rows import DenseRows
from kfed.device.near_moves import NearMoves
from kfed.theory import DEVIATION_MARGIN, EXACT_FEATURES
from worlds import blobs

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
@pytest.mark.parametrize(
    "shape",
    [(60, 60), (400, 70), (45, 500), *(pytest.param(s, marks=pytest.mark.slow) for s in [(250, 300), (600, 350)])],
)
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


@pytest.mark.parametrize("far", [10.0, 1e4, 1e5, 1e6])
def test_measuring_the_spectral_deviation_changes_no_label(far):
    rng = np.random.default_rng(0)
    groups = rng.integers(4, size=400)
    points = rng.normal(size=(400, 40))
    points[:, 0] += far * (groups // 2)  # beside this, second moments in single precision lose the other direction
    points[:, 1] += 20 * (groups % 2)
    measured, plain = (
        kfed.cluster_device(points.astype(np.float32), 4, random_state=0, measure_deviation=is_measured)
        for is_measured in (True, False)
    )
    np.testing.assert_array_equal(measured.labels, plain.labels)


@pytest.mark.filterwarnings("ignore:.*before converging:kfed.errors.KFedWarning")
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


@pytest.mark.slow
@pytest.mark.parametrize("weighted", [False, True])
def test_many_clusters_of_many_points_are_a_fixed_point_of_lloyd_and_cost_what_scikit_learns_do(weighted):
    cluster = pytest.importorskip("sklearn.cluster")
    points, n_clusters = blobs(24_000, 4, 100, seed=0, gap=3.0), 100
    weights = np.random.default_rng(1).integers(1, 4, len(points)) if weighted else None
    assert kfed.device.batches.is_large(points, n_clusters)
    local = kfed.cluster_device(points, n_clusters, sample_weight=weights, random_state=0)
    squares = seeding.lifted_distances(lifted(points), local.centers[None])[0]
    own = squares[local.labels, np.arange(len(points))]
    np.testing.assert_allclose(own, squares.min(axis=0), rtol=1e-9, atol=1e-9)
    for label in range(n_clusters):
        members = local.labels == label
        mean = np.average(points[members], axis=0, weights=weights[members] if weighted else None)
        np.testing.assert_allclose(local.centers[label], mean, atol=1e-9)
    theirs = cluster.KMeans(n_clusters, n_init=1, random_state=0).fit(points, sample_weight=weights).inertia_
    assert local.cost <= 1.02 * theirs


@pytest.mark.slow
def test_lloyd_starts_so_well_on_a_large_device_that_few_steps_are_left_whatever_the_seed():
    rng = np.random.default_rng(0)
    means = 0.75 * np.random.default_rng(1).standard_normal((16, 32))
    own = rng.choice(16, 16, replace=False)[rng.integers(16, size=70_000)]
    points = (means[own] + rng.standard_normal((70_000, 32))).astype(np.float32)
    found = [kfed.cluster_device(points, 16, random_state=seed, measure_deviation=False) for seed in (0, 2, 5)]
    assert max(local.n_iterations for local in found) <= 15
    assert max(local.cost for local in found) <= 1.001 * min(local.cost for local in found)


@given(seed=st.integers(0, 10_000), n_features=st.integers(1, 4), n_clusters=st.integers(2, 40))
def test_points_lose_no_more_slack_than_the_moves_of_near_centers_say(seed, n_features, n_clusters):
    rng = np.random.default_rng(seed)
    points, centers = rng.normal(size=(200, n_features)), rng.normal(size=(n_clusters, n_features))
    labels, slack = slack_of(points, centers)
    radii = np.zeros(n_clusters)
    np.maximum.at(radii, labels, np.linalg.norm(points - centers[labels], axis=1))
    near_moves = NearMoves(centers)
    near_moves.widen(radii)
    for _ in range(5):
        centers = centers + rng.exponential(size=(n_clusters, 1)) ** 4 * rng.normal(size=centers.shape) / 100
        lost = near_moves.to(centers)
        slack -= lost[labels]
        distances = np.linalg.norm(points[:, None] - centers, axis=2)
        own = distances[np.arange(len(points)), labels]
        distances[np.arange(len(points)), labels] = np.inf
        assert (distances.min(axis=1) - own >= slack - 1e-9).all()


def slack_of(points, centers):
    """The nearest center of each point, and how much farther the next is."""
    distances = np.linalg.norm(points[:, None] - centers, axis=2)
    first, second = np.sort(distances, axis=1)[:, :2].T
    return distances.argmin(axis=1), second - first


def test_moves_of_far_centers_cost_no_slack():
    centers = np.array([[0.0], [2.0], [100.0]])
    near_moves = NearMoves(centers)
    near_moves.widen(np.array([1.0, 1.0, 1.0]))
    lost = near_moves.to(np.array([[0.0], [2.0], [130.0]]))
    assert lost.tolist() == [0.0, 0.0, 30.0]


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


@cache
def far_points(seed, offset):
    rng = np.random.default_rng(seed)
    points = offset + 3 * rng.normal(size=(8, 6))[rng.integers(8, size=4000)] + rng.normal(size=(4000, 6))
    return points.astype("f4"), rng.normal(size=(4000, 6)).astype("f4")


@cache
def cost_by_scikit_learn(n_clusters, seed, offset):
    cluster = pytest.importorskip("sklearn.cluster")
    points, _ = far_points(seed, offset)
    return cluster.KMeans(n_clusters, n_init=3, random_state=seed).fit(points.astype(float) - offset).inertia_


@pytest.mark.parametrize("kind", ["batch", "blocked", "fleet"])
@pytest.mark.parametrize(("n_clusters", "offset"), [(8, 1e6), (8, 1e7), pytest.param(40, 1e6, marks=pytest.mark.slow)])
def test_float32_far_from_the_origin_costs_what_scikit_learn_does(kind, n_clusters, offset, monkeypatch):
    if kind == "blocked":
        monkeypatch.setattr(kfed.device.batches, "LARGE_BYTES", 0)
    for seed in range(3):
        points, near = far_points(seed, offset)
        fleet = {"one": near, "far": points, "two": near}
        local = (
            kfed.cluster_fleet(fleet, n_clusters, random_state=seed)[1]
            if kind == "fleet"
            else kfed.cluster_device(points, n_clusters, random_state=seed, device_id="far")
        )
        squares = ((points[:, None].astype(float) - local.centers.astype(float)) ** 2).sum(axis=2)
        np.testing.assert_array_equal(squares[np.arange(4000), local.labels], squares.min(axis=1))
        assert squares.min(axis=1).sum() <= 1.02 * cost_by_scikit_learn(n_clusters, seed, offset)
        np.testing.assert_allclose(local.cost, squares.min(axis=1).sum(), rtol=1e-5)
        assert local.centers.dtype == local.sums_of_squares.dtype == np.float64  # float32 would round them


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


@pytest.mark.filterwarnings("ignore:.*before converging:kfed.errors.KFedWarning")
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
