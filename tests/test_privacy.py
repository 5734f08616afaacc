"""No raw row leaves a device: what a message may hold, and which file may know which."""

from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse
from hypothesis import example, given
from hypothesis import strategies as st

import kfed
import kfed.device.batches
import kfed.device.blocked_rows
from kfed.device import BlockedRows
from kfed.device.algorithm1 import lloyd
from kfed.device.dense_rows import DenseRows
from kfed.device.lloyd import Solution
from kfed.device.settings import DeviceSettings
from kfed.device.withholding import measure


def occurrences(points, row):
    return int((points == row).all(axis=1).sum())


def assert_not_a_rare_row(center, points, min_cluster_size):
    """The center equals no row that occurs too rarely, be it to the bit or but for rounding."""
    rounding = 8 * np.finfo(points.dtype).eps * np.abs(points).max()
    near = int((np.abs(points - center) <= rounding).all(axis=1).sum())
    assert near == 0 or near >= min_cluster_size
    assert occurrences(points, center) == 0 or occurrences(points, center) >= min_cluster_size


@st.composite
def crowded_points(draw):
    """Few places and many points, so that duplicates come in every pattern, often around a middle that is a point."""
    n_features = draw(st.integers(1, 3))
    place = st.lists(st.integers(-2, 2).map(float), min_size=n_features, max_size=n_features)
    places = draw(st.lists(place, min_size=1, max_size=5))
    points = np.array(draw(st.lists(st.sampled_from(places), min_size=1, max_size=8)))
    if draw(st.booleans()):
        middle = np.zeros((draw(st.integers(0, 4)), n_features))
        points = np.vstack([points, -points, middle])
    if draw(st.booleans()):
        points = np.vstack([points, points + 50.0])
    points = points[draw(st.permutations(range(len(points))))]
    return points * draw(st.sampled_from([1.0, 0.1, 1e-30, 1e6]))


DEVICES = {
    "points": crowded_points(),
    "seed": st.integers(0, 100),
    "kind": st.sampled_from(["dense", "float32", "sparse", "blocked"]),
}


def form(points, kind):
    """The points as one of the kinds that a device accepts."""
    if kind == "sparse":
        return scipy.sparse.csr_array(points)
    return points.astype(np.float32) if kind == "float32" else points


@pytest.mark.filterwarnings("ignore:.*before converging:kfed.errors.KFedWarning")
@given(
    **DEVICES,
    n_clusters=st.integers(1, 7),
    min_cluster_size=st.integers(1, 5),
    max_iterations=st.sampled_from([1, 2, 300]),
)
def test_no_center_in_a_message_gives_away_a_row(points, n_clusters, min_cluster_size, seed, kind, max_iterations):
    with pytest.MonkeyPatch.context() as patch:
        if kind == "blocked":
            patch.setattr(kfed.device.batches, "LARGE_BYTES", 0)
            patch.setattr(kfed.device.blocked_rows, "BLOCK_BYTES", 64)
        made = form(points, kind)
        local = kfed.cluster_device(
            made, n_clusters, random_state=seed, min_cluster_size=min_cluster_size, max_iterations=max_iterations
        )
    message = local.to_message("a")
    true_counts = np.bincount(local.labels, minlength=n_clusters)
    sent = np.flatnonzero(~local.withheld)
    np.testing.assert_array_equal(message.counts, true_counts[sent])
    assert (true_counts[sent] >= min_cluster_size).all()
    given_points = points.astype(np.float32) if kind == "float32" else points
    for cluster, center in zip(sent, message.centers, strict=True):
        members = given_points[local.labels == cluster]
        np.testing.assert_allclose(center, members.mean(axis=0), rtol=0, atol=1e-6 * np.abs(points).max())
        assert_not_a_rare_row(center, given_points, min_cluster_size)


@given(
    points=crowded_points(),
    min_cluster_size=st.integers(2, 5),
    seed=st.integers(0, 100),
    kind=st.sampled_from(["dense", "float32", "sparse"]),
)
@example(np.array([[2.0], [1], [2], [2], [-2], [-1], [-2], [-2], [0]]), 3, 10, "dense")  # 0 was merged
def test_no_center_of_a_summary_gives_away_a_row(points, min_cluster_size, seed, kind):
    local = kfed.cluster_device(form(points, kind), random_state=seed, min_cluster_size=min_cluster_size)
    message, sent = local.to_message("a"), np.flatnonzero(~local.withheld)
    given_points = points.astype(np.float32) if kind == "float32" else points
    for cluster, center, count in zip(sent, message.centers, message.counts, strict=True):
        members = given_points[local.labels == cluster]
        assert len(members) == count
        assert len(np.unique(members, axis=0)) >= min_cluster_size
        assert_not_a_rare_row(center, given_points, min_cluster_size)


@given(
    seed=st.integers(0, 10_000),
    n_clusters=st.integers(1, 8),
    min_cluster_size=st.integers(2, 5),
    dtype=st.sampled_from([np.float32, np.float64]),
)
def test_a_row_that_occurs_too_rarely_is_not_in_the_bytes_of_a_message(seed, n_clusters, min_cluster_size, dtype):
    rng = np.random.default_rng(seed)
    places = (10 * rng.normal(size=(rng.integers(1, 9), 3 + seed % 3))).astype(dtype)
    points = np.repeat(places, rng.integers(1, 7, len(places)), axis=0)
    local = kfed.cluster_device(points, n_clusters, random_state=seed, min_cluster_size=min_cluster_size)
    payload = local.to_message("a").to_bytes()
    for place in places:
        if occurrences(points, place) < min_cluster_size:
            assert place.tobytes() not in payload
            assert place.astype(np.float64).tobytes() not in payload


def test_a_row_of_enough_people_may_be_sent_so_the_search_is_able_to_find_one():
    points = np.repeat([[0.25, 0.5, 1.75], [7.7, 8.8, 9.9]], [4, 2], axis=0)
    payload = kfed.cluster_device(points, 2, ids=range(6), random_state=0).to_message("a").to_bytes()
    assert points[0].tobytes() in payload
    assert points[-1].tobytes() not in payload


# Rows that are one row, and people ------------------------------------------------------------------------------


@given(
    **DEVICES,
    n_clusters=st.integers(1, 5),
    min_cluster_size=st.integers(2, 5),
    alike=st.sampled_from([0.0, 1e-7]),
)
def test_a_cluster_that_is_sent_holds_enough_different_rows(points, n_clusters, min_cluster_size, seed, kind, alike):
    points = points * (1 + alike * np.random.default_rng(seed).uniform(size=points.shape))
    with pytest.MonkeyPatch.context() as patch:
        if kind == "blocked":
            patch.setattr(kfed.device.batches, "LARGE_BYTES", 0)
        local = kfed.cluster_device(
            form(points, kind), n_clusters, random_state=seed, min_cluster_size=min_cluster_size
        )
    for cluster in np.flatnonzero(~local.withheld):
        members = points[local.labels == cluster]
        rounded = np.round(members / np.abs(points).max(), 5)
        assert len(np.unique(rounded, axis=0)) >= min_cluster_size


@pytest.mark.parametrize("kind", ["batch", "blocked", "sparse", "fleet"])
def test_different_rows_are_found_wherever_they_stand_among_copies(kind, monkeypatch):
    if kind == "blocked":
        monkeypatch.setattr(kfed.device.batches, "LARGE_BYTES", 0)
    points = np.repeat([[1.0, 5.0]], 9_000, axis=0)
    points[[3_000, 8_990], 0] = 1.5, 1.7

    def is_sent(made):
        if kind == "fleet":
            return not kfed.cluster_fleet([made, made], 1)[1].withheld[0]
        return not kfed.cluster_device(scipy.sparse.csr_array(made) if kind == "sparse" else made, 1).withheld[0]

    assert is_sent(points)
    points[8_990] = points[0]
    assert not is_sent(points)


def test_three_visits_of_one_patient_count_as_one():
    points = np.random.default_rng(0).normal(size=(12, 2))
    visits = np.repeat([0, 1, 2, 3], 3)
    assert not kfed.cluster_device(points, 1, min_cluster_size=4, ids=visits).withheld[0]
    assert kfed.cluster_device(points, 1, min_cluster_size=5, ids=visits).withheld[0]
    assert kfed.cluster_device(points, 1, min_cluster_size=4, ids=np.repeat(["a", "b", "c"], 4)).withheld[0]
    assert not kfed.cluster_device(points, 1, min_cluster_size=5).withheld[0]


def test_a_cluster_that_is_mostly_one_person_is_withheld():
    points = np.random.default_rng(0).normal(size=(12, 2))
    for own, withheld in ((6, False), (7, True)):
        ids = np.maximum(np.arange(12) - own + 1, 0)
        assert kfed.cluster_device(points, 1, min_cluster_size=3, ids=ids).withheld[0] == withheld


def test_ids_must_be_one_for_each_point():
    with pytest.raises(
        kfed.InvalidInputError, match=r"ids must have one entry per point, shape \(3,\); got shape \(2,\)"
    ):
        kfed.cluster_device(np.zeros((3, 1)), 1, ids=[1, 2])


# Sums of squares of few rows ------------------------------------------------------------------------------------


def ways(n_rows, total, sum_of_squares, lowest=0, highest=99):
    """Every choice of whole numbers between two bounds with this sum and sum of squares, in increasing order."""
    if n_rows == 1:
        return [(total,)] if lowest <= total <= highest and total**2 == sum_of_squares else []
    return [
        (first, *rest)
        for first in range(lowest, total // n_rows + 1)
        for rest in ways(n_rows - 1, total - first, sum_of_squares - first**2, first, highest)
    ]


def recovered(message):
    """What whoever reads a message of one column of whole numbers finds out: the only rows that fit to a center."""
    sums = message.sums_of_squares
    found = []
    for center, count, about_mean in zip(message.centers[:, 0], message.counts, sums, strict=True):
        total = round(center * count)
        squares = about_mean + count * center**2
        fits = ways(int(count), total, round(squares)) if abs(squares - round(squares)) < 1e-6 else []
        found += fits if len(fits) == 1 else []
    return found


def test_three_whole_numbers_are_recovered_from_an_exact_sum_of_squares_and_not_from_a_message():
    rng = np.random.default_rng(0)
    n_sent, by_exact, by_message = 0, 0, 0
    for seed in range(60):
        ages = np.concatenate([rng.integers(low, low + 15, 3) for low in (5, 30, 55, 80)]).astype(float)[:, None]
        local = kfed.cluster_device(ages, 4, random_state=seed)
        rows = {tuple(sorted(map(int, ages[local.labels == cluster, 0]))) for cluster in range(4)}
        as_before = replace(local, sent=None).to_message("a")
        n_sent += as_before.n_local_clusters
        by_exact += len(rows.intersection(recovered(as_before)))
        message = local.to_message("a")
        by_message += 0 if message.sums_of_squares is None else len(rows.intersection(recovered(message)))
    assert by_exact > n_sent / 3
    assert by_message < n_sent / 50


def test_few_rows_send_neither_sum_of_squares_nor_norm():
    points = np.random.default_rng(0).normal(size=(9, 2))
    assert kfed.cluster_device(points, 1).to_message("a").sums_of_squares is not None
    message = kfed.cluster_device(points[:8], 1).to_message("a")
    assert message.counts.tolist() == [8]
    assert (message.sums_of_squares, message.spectral_deviation) == (None, None)


@given(seed=st.integers(0, 10_000), min_cluster_size=st.integers(1, 6), weighted=st.booleans())
def test_sums_of_squares_are_shared_out_within_a_device_and_large_clusters_keep_their_own(
    seed, min_cluster_size, weighted
):
    rng = np.random.default_rng(seed)
    points = rng.normal(size=(rng.integers(1, 120), 2)) + 9 * rng.integers(5, size=(1, 2))
    weights = rng.uniform(0.5, 1, len(points)) if weighted else None
    local = kfed.cluster_device(points, 5, sample_weight=weights, random_state=seed, min_cluster_size=min_cluster_size)
    sent, n_rows = ~local.withheld, np.bincount(local.labels, minlength=5)
    sums = local.to_message("a").sums_of_squares
    least = 3 * min_cluster_size if min_cluster_size > 1 else 0
    if not sent.any() or n_rows[sent].sum() < least:
        assert sums is None
        return
    np.testing.assert_allclose(sums.sum(), local.sums_of_squares[sent].sum())
    own = sums == local.sums_of_squares[sent]
    assert n_rows[sent][~own].sum() == 0 or n_rows[sent][~own].sum() >= least
    if (n_rows[sent] >= least).all():
        assert own.all()


def test_what_is_sent_of_small_clusters_is_kept_with_the_local_clustering():
    points = np.random.default_rng(0).normal(size=(40, 2))
    local = kfed.cluster_device(points, 5, random_state=0)
    again = kfed.LocalClustering.from_bytes(local.to_bytes())
    assert again.to_message("a") == local.to_message("a")
    assert again.cost == local.cost
    assert local.to_message("a") != replace(local, sent=None).to_message("a")


# Clusters that borrow ---------------------------------------------------------------------------------------------


def small_and_large(seed=0):
    rng = np.random.default_rng(seed)
    return np.concatenate([rng.normal(size=(30, 2)), [[9.0, 0.0], [9.2, 0.3]], rng.normal((0, 30), size=(30, 2))])


def test_a_small_cluster_borrows_the_nearest_rows_and_labels_stay():
    points = small_and_large()
    alone = kfed.cluster_device(points, 3, random_state=0)
    local = kfed.cluster_device(points, 3, random_state=0, small_clusters="borrow")
    np.testing.assert_array_equal(local.labels, alone.labels)
    np.testing.assert_array_equal(local.centers, alone.centers)
    small = local.labels[30]
    assert alone.withheld.tolist() == [cluster == small for cluster in range(3)]
    assert not local.withheld.any()
    home = points[:30]
    lent = ((home - points[30:32].mean(axis=0)) ** 2).sum(axis=1).argmin()
    message = local.to_message("a")
    np.testing.assert_allclose(message.centers[small], np.vstack([points[30:32], home[lent]]).mean(axis=0))
    np.testing.assert_allclose(message.centers[local.labels[0]], np.delete(home, lent, axis=0).mean(axis=0))
    assert message.n_points == len(points)
    assert kfed.LocalClustering.from_bytes(local.to_bytes()).to_message("a") == message
    (of_fleet,) = kfed.cluster_fleet([points], 3, random_state=0, small_clusters="borrow")
    assert of_fleet.to_message("a") == message


@given(
    points=crowded_points(),
    n_clusters=st.integers(1, 6),
    min_cluster_size=st.integers(2, 4),
    seed=st.integers(0, 100),
    kind=st.sampled_from(["dense", "sparse", "blocked"]),
)
def test_clusters_that_borrow_keep_to_the_floor(points, n_clusters, min_cluster_size, seed, kind):
    with pytest.MonkeyPatch.context() as patch:
        if kind == "blocked":
            patch.setattr(kfed.device.batches, "LARGE_BYTES", 0)
        local = kfed.cluster_device(
            form(points, kind),
            n_clusters,
            random_state=seed,
            min_cluster_size=min_cluster_size,
            small_clusters="borrow",
        )
    message = local.to_message("a")
    assert (message.counts >= min_cluster_size).all()
    assert message.n_points <= len(points)
    for center in message.centers:
        assert_not_a_rare_row(center, points, min_cluster_size)
    if message.n_points == len(points):
        np.testing.assert_allclose(
            message.counts @ message.centers, points.sum(axis=0), atol=1e-9 * np.abs(points).sum() + 1e-300
        )


@pytest.mark.filterwarnings("ignore:.*before converging:kfed.errors.KFedWarning")
@given(
    points=crowded_points(),
    data=st.data(),
    n_clusters=st.integers(1, 5),
    min_cluster_size=st.integers(1, 4),
    seed=st.integers(0, 100),
    max_iterations=st.sampled_from([1, 300]),
)
def test_weights_cannot_carry_a_row_out(points, data, n_clusters, min_cluster_size, seed, max_iterations):
    weight = st.sampled_from([0.0, 0.1, 1.0, 1.0, 2.0, 1e3, 1e9])
    weights = np.array(data.draw(st.lists(weight, min_size=len(points), max_size=len(points))))
    weights[0] = 1.0
    local = kfed.cluster_device(
        points, n_clusters, sample_weight=weights, random_state=seed, min_cluster_size=min_cluster_size,
        max_iterations=max_iterations,
    )  # fmt: skip
    present = points[weights > 0]
    for cluster, center in zip(np.flatnonzero(~local.withheld), local.to_message("a").centers, strict=True):
        own = weights[local.labels == cluster]
        assert np.count_nonzero(own) >= min_cluster_size
        assert own.max() <= own.sum() / min_cluster_size * (1 + 1e-5)
        assert_not_a_rare_row(center, present, min_cluster_size)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_equal_weights_withhold_what_no_weights_would(dtype):
    points = np.random.default_rng(0).normal(size=(40, 3)).astype(dtype)
    for n_points in range(3, 41):
        for weight in (0.1, 0.7, 1 / 3):
            for size in (n_points, n_points + 1):
                local = kfed.cluster_device(
                    points[:n_points], 1, sample_weight=np.full(n_points, weight), min_cluster_size=size
                )
                assert local.withheld.tolist() == [size > n_points]


def test_a_row_of_huge_weight_is_not_sent_as_the_center_of_three():
    points = np.array([[1.5, 2.5, 3.5], [1.6, 2.4, 3.6], [1.4, 2.6, 3.4], [1.5, 2.4, 3.5]])
    local = kfed.cluster_device(points, 1, sample_weight=[1e15, 1, 1, 1])
    np.testing.assert_allclose(local.centers[0], points[0])
    assert local.withheld.all()
    assert local.to_message("a").n_local_clusters == 0


def test_a_center_that_misses_a_row_by_its_rounding_alone_is_not_sent():
    points = np.array([[0.1, 1.1, 2.1], [0.2, 1.2, 2.2], [0.3, 1.3, 2.3]])
    assert points.mean(axis=0).tolist() != points[1].tolist()
    np.testing.assert_allclose(points.mean(axis=0), points[1], rtol=1e-15)
    for made in (points, points.astype(np.float32), scipy.sparse.csr_array(points)):
        assert kfed.cluster_device(made, 1).to_message("a").n_local_clusters == 0


def test_rows_closer_than_rounding_to_a_center_do_not_hide_the_one_that_equals_it():
    step = 2.0**-30
    points = np.array([[1 - step, 1, 1], [1, 1, 1], [1 + step, 1, 1]])
    tiny = np.array([[-1, 0, 0], [0, 0, 0], [1, 0, 0]]) * 1e-30
    for made in (points, scipy.sparse.csr_array(points), tiny.astype(np.float32), 1e-100 * tiny):
        assert kfed.cluster_device(made, 1).to_message("a").n_local_clusters == 0


@pytest.mark.parametrize("settled", [True, False])
def test_where_lloyd_was_cut_short_a_row_of_another_cluster_may_equal_a_center_too(settled):
    points = np.array([[0.0], [4.0], [8.0], [12.0], [6.0], [100.0], [101.0], [102.0]])
    labels = np.array([[0, 0, 0, 0, 1, 1, 1, 1]])  # the fifth point is of the second cluster and the mean of the first
    centers = np.array([[[6.0], [77.25]]])
    rows = DenseRows(points[None], np.ones((1, 8)))
    solution = Solution(labels, centers, np.array([1]), np.array([settled]))
    facts = measure(rows, solution, 2, DeviceSettings(), np.zeros(1, np.uint64))
    assert facts.withheld[0].tolist() == [not settled, False]


@pytest.mark.parametrize("kind", ["dense", "blocked"])
def test_a_device_knows_whether_lloyd_was_cut_short(kind):
    points = np.random.default_rng(0).normal(size=(200, 3))
    rows = BlockedRows(points, np.ones((1, 200))) if kind == "blocked" else DenseRows(points[None], np.ones((1, 200)))
    centers = points[None, :6]
    n_steps = int(lloyd(rows, centers.copy(), 300).n_iterations[0])
    for max_iterations, settled in ((1, False), (n_steps, False), (300, True)):
        assert lloyd(rows, centers.copy(), max_iterations).settled.tolist() == [settled]


def test_what_is_withheld_is_in_no_statistic_that_is_sent():
    crowd = np.random.default_rng(0).normal(size=(30, 3))
    alone = np.vstack([crowd, [[500.0, 500.0, 500.0], [501.0, 500.0, 500.0]]])
    local = kfed.cluster_device(alone, 2, random_state=0)
    message = local.to_message("a")
    assert message.counts.tolist() == [30]
    residuals = crowd - crowd.mean(axis=0)
    np.testing.assert_allclose(message.spectral_deviation, np.linalg.norm(residuals, 2))
    np.testing.assert_allclose(message.sums_of_squares, [(residuals**2).sum()])


@pytest.mark.parametrize("n_points", [1, 2, 3, 4])
def test_a_device_of_few_points_sends_nothing_that_it_should_not_and_is_served(n_points):
    points = np.random.default_rng(n_points).normal(size=(n_points, 3))
    local = kfed.cluster_device(points, 2, random_state=0, min_cluster_size=5)
    message = kfed.DeviceMessage.from_bytes(local.to_message("small").to_bytes())
    assert (message.n_local_clusters, message.n_points) == (0, 0)
    assert message.spectral_deviation is None
    others = kfed.DeviceMessage("other", [[0.0, 0.0, 0.0], [50.0, 50.0, 50.0]], [9, 9])
    result = kfed.aggregate([message, others], 2)
    home = int(result.identity("other").cluster_ids[0])
    for identity in (result.identity("small"), kfed.aggregate([others], 2).assign(message)):
        assert len(identity) == 0
        assert local.induced_labels(identity).tolist() == [home] * n_points


def test_the_saved_local_clustering_holds_no_point():
    points = np.random.default_rng(0).normal(size=(40, 4))
    local = kfed.cluster_device(points, 3, random_state=0)
    payload = local.to_bytes()
    assert not any(row.tobytes() in payload for row in points)


# The boundary in the imports ------------------------------------------------------------------------------------
