"""Algorithm 1 on one device: its steps on a handful of points, its fixed point, and input that is odd or bad."""

import numpy as np
import pytest
import scipy.sparse
from hypothesis import given
from hypothesis import strategies as st

import kfed
import kfed.device.rows.batches
import kfed.device.rows.blocked
from device_rows import lifted, rows_of
from kfed._base import random, seeding
from kfed.device import BlockedRows, SparseRows, algorithm1
from kfed.device.rows.dense import DenseRows
from kfed.device.steps import projection
from worlds import blobs

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
        monkeypatch.setattr(kfed.device.rows.batches, "LARGE_BYTES", 0)
        monkeypatch.setattr(kfed.device.rows.blocked, "BLOCK_BYTES", 100)
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
    "too large to be sent": (np.full((5, 2), SECRET * 1e100), "at most 1e\\+100 in size"),
    "too small to square": (np.full((5, 2), SECRET * 1e-155), "large enough to be squared"),
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
