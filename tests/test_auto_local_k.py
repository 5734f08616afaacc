"""`n_local_clusters="auto"`: a device finds its own number of clusters, alone or in a fleet."""

import time

import numpy as np
import pytest
import scipy.sparse
from hypothesis import given
from hypothesis import strategies as st

import kfed
import kfed.device.batches
import kfed.device.blocked_rows
from kfed._base import files, seeding
from worlds import assert_same_clustering, few_examples, mixture_world, rotation, same_partition


def places(n_places, n_features, gap, rng):
    """Places that are all `gap` apart, or at least that where there are more than features."""
    if n_places <= n_features:
        return np.linalg.qr(rng.normal(size=(n_features, n_features)))[0][:n_places] * gap / np.sqrt(2)
    found = rng.normal(size=(n_places, n_features))
    apart = np.linalg.norm(found[:, None] - found, axis=2)
    apart[np.diag_indices(n_places)] = np.inf
    return found * gap / apart.min()


def device(kind, n_clusters, *, n_features=60, points_per_cluster=40, gap=10.0, seed=0):
    """Points of one device, and the cluster of each."""
    rng = np.random.default_rng(seed)
    target = rng.permutation(np.repeat(np.arange(n_clusters), points_per_cluster))
    if kind == "low-rank":  # points and noise in six of the dimensions only
        flat = places(n_clusters, 6, gap, rng)[target] + rng.normal(size=(len(target), 6))
        return flat @ np.linalg.qr(rng.normal(size=(n_features, 6)))[0].T, target
    noise = rng.normal(size=(len(target), n_features))
    if kind == "anisotropic":
        noise *= np.linspace(0.1, 2, n_features)
    if kind == "stretched":
        noise *= np.r_[3.0, 2.5, 2.0, np.full(n_features - 3, 0.7)]
    if kind == "uniform":
        noise = rng.uniform(-np.sqrt(3), np.sqrt(3), size=noise.shape)
    return places(n_clusters, n_features, gap, rng)[target] + noise, target


KINDS = ["isotropic", "anisotropic", "stretched", "low-rank", "uniform"]


# Right ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("n_clusters", [1, 2, 4, 7])
@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in (1, 2, 3))])
def test_the_number_of_clusters_is_found(kind, n_clusters, seed):
    points, target = device(kind, n_clusters, gap=12.0, seed=seed)
    local = kfed.cluster_device(points, "auto", random_state=seed)
    assert local.n_local_clusters == n_clusters
    assert same_partition(local.labels, target)


@pytest.mark.parametrize("n_features", [1, 2, 5])
def test_the_number_of_clusters_is_found_in_few_dimensions(n_features):
    for n_clusters in (1, 2, 4, 7):
        points, _ = device("isotropic", n_clusters, n_features=n_features, points_per_cluster=60, gap=15.0)
        assert kfed.cluster_device(points, "auto", random_state=0).n_local_clusters == n_clusters


def test_more_clusters_than_ten_are_found():
    points, _ = device("isotropic", 14)
    assert kfed.cluster_device(points, "auto", random_state=0).n_local_clusters == 14


@pytest.mark.parametrize(
    ("side", "n_points"),
    [(5, 2000), *(pytest.param(*larger, marks=pytest.mark.slow) for larger in ((6, 1500), (7, 3000)))],
)
def test_more_clusters_than_sixteen_are_found(side, n_points):
    rng = np.random.default_rng(side)
    means = 20 * np.array([(i, j) for i in range(side) for j in range(side)], float)
    points = means[rng.integers(len(means), size=n_points)] + rng.normal(size=(n_points, 2))
    local = kfed.cluster_device(points, "auto", random_state=0)
    assert local.n_local_clusters == len(means)
    assert not local.is_summary


def many_clusters(n_points=150):
    """Points of 64 clusters, too few to tell them."""
    rng = np.random.default_rng(0)
    means = 6 * np.array([(i, j) for i in range(8) for j in range(8)], float)
    return means[rng.integers(64, size=n_points)] + rng.normal(size=(n_points, 2))


def test_clusters_too_many_to_be_told_are_summarised_and_not_sent_as_one_center():
    local = kfed.cluster_device(many_clusters(), "auto", random_state=0)
    assert local.is_summary
    assert local.n_local_clusters == 150 // 5
    assert kfed.cluster_device(many_clusters(), "auto", max_local_clusters=8, random_state=0).n_local_clusters == 8
    assert not kfed.cluster_device(many_clusters(), 30, random_state=0).is_summary


def test_a_file_says_whether_it_is_a_summary_and_one_from_before_still_loads():
    local = kfed.cluster_device(many_clusters(), "auto", random_state=0)
    assert kfed.LocalClustering.from_bytes(local.to_bytes()).is_summary
    tensors, facts = files.decode(local.to_bytes())
    del facts["is_summary"]
    assert not kfed.LocalClustering.from_bytes(files.encode(tensors, facts)).is_summary


@pytest.mark.parametrize("n_outliers", [1, 2, 3])
def test_an_outlier_gets_a_cluster_of_its_own_and_no_other_loses_its_place(n_outliers):
    points, target = device("isotropic", 4)
    rng = np.random.default_rng(n_outliers)
    out = 100 * rng.normal(size=(n_outliers, 60))
    local = kfed.cluster_device(np.concatenate([points, out]), "auto", random_state=0)
    assert local.n_local_clusters == 4 + n_outliers
    assert local.withheld.sum() == n_outliers
    assert same_partition(local.labels[: len(target)], target)


@given(
    seed=st.integers(0, 10**6),
    n_points=st.integers(1, 300),
    n_features=st.sampled_from([1, 2, 10, 50]),
    n_wide=st.integers(0, 2),
)
def test_one_gaussian_however_long_is_hardly_ever_cut(seed, n_points, n_features, n_wide):
    rng = np.random.default_rng(seed)
    points = rng.normal(size=(n_points, n_features))
    points[:, :n_wide] *= 8
    assert kfed.cluster_device(points, "auto", random_state=seed).n_local_clusters <= 2


def test_copies_of_a_few_points_are_as_many_clusters():
    for dtype in (np.float32, np.float64):
        points = np.repeat(np.random.default_rng(0).normal(size=(3, 20)), 15, axis=0).astype(dtype)
        local = kfed.cluster_device(points, "auto", random_state=0)
        assert sorted(local.counts.tolist()) == [15, 15, 15]
    assert kfed.cluster_device(np.ones((30, 4)), "auto").n_local_clusters == 1


@pytest.mark.parametrize("n_points", [1, 2, 3, 9])
def test_fewer_than_ten_points_are_one_cluster(n_points):
    points = 50.0 * np.arange(n_points)[:, None]
    assert kfed.cluster_device(points, "auto").n_local_clusters == 1


def test_no_more_clusters_are_found_than_the_bound():
    points, _ = device("isotropic", 4)
    for bound in (1, 2, 3, 4, 9):
        local = kfed.cluster_device(points, "auto", max_local_clusters=bound, random_state=0)
        assert local.n_local_clusters <= bound
    assert local.n_local_clusters == 4


# Laws -----------------------------------------------------------------------------------------------------------


@given(data=st.data(), seed=st.integers(0, 10**6))
@few_examples
def test_auto_is_what_its_number_gives(data, seed):
    n_clusters = data.draw(st.integers(1, 5))
    points, _ = device(data.draw(st.sampled_from(KINDS)), n_clusters, n_features=20, points_per_cluster=12, seed=seed)
    auto = kfed.cluster_device(points, "auto", random_state=seed, device_id="a")
    given_k = kfed.cluster_device(points, auto.n_local_clusters, random_state=seed, device_id="a")
    assert_same_clustering(auto, given_k)


def fleet_of_all_kinds(dtype=np.float64):
    """Devices of several sizes and numbers of clusters, some of which share a batch."""
    fleet = [
        device(kind, n_clusters, n_features=20, points_per_cluster=size, seed=n_clusters)[0].astype(dtype)
        for kind in KINDS
        for n_clusters, size in [(1, 24), (2, 12), (3, 8), (4, 30), (1, 4)]
    ]
    return [*fleet, scipy.sparse.csr_array(fleet[3]), fleet[0][:1]]


@pytest.mark.parametrize("dtype", [pytest.param(np.float32, marks=pytest.mark.slow), np.float64])
def test_a_device_in_a_fleet_gets_what_it_gets_alone_to_the_bit_with_one_thread_or_three(dtype):
    fleet = fleet_of_all_kinds(dtype)
    ids = [f"device {i}" for i in range(len(fleet))]
    alone = [
        kfed.cluster_device(points, "auto", random_state=3, device_id=name)
        for points, name in zip(fleet, ids, strict=True)
    ]
    assert len({local.n_local_clusters for local in alone}) >= 4
    for n_jobs in (1, 3):
        found = kfed.cluster_fleet(fleet, "auto", device_ids=ids, random_state=3, n_jobs=n_jobs)
        for local, own in zip(found, alone, strict=True):
            assert_same_clustering(local, own)


def test_large_devices_in_a_fleet_get_what_they_get_alone(monkeypatch):
    monkeypatch.setattr(kfed.device.batches, "LARGE_BYTES", 2**11)
    monkeypatch.setattr(kfed.device.blocked_rows, "BLOCK_BYTES", 2**10)
    fleet = fleet_of_all_kinds()[:8]
    for points, local in zip(fleet, kfed.cluster_fleet(fleet, "auto", random_state=0), strict=True):
        assert_same_clustering(local, kfed.cluster_device(points, "auto", random_state=0, n_jobs=2))


@pytest.mark.parametrize("n_local_clusters", [3, "auto"])
def test_devices_of_so_many_points_that_a_sample_is_seeded_from_may_share_a_batch(n_local_clusters):
    rng = np.random.default_rng(0)
    options = {"max_local_clusters": 3, "random_state": 0}
    size = seeding.CORESET_SIZE + 1_000
    fleet = [np.concatenate([rng.normal(size=(n, 1)), rng.normal(8, 1, size=(size - n, 1))]) for n in (9_000, 22_000)]
    found = kfed.cluster_fleet(fleet, n_local_clusters, **options)
    for points, local in zip(fleet, found, strict=True):
        assert_same_clustering(local, kfed.cluster_device(points, n_local_clusters, **options))


def test_a_fleet_may_have_numbers_for_some_devices():
    fleet = [device("isotropic", k, n_features=20)[0] for k in (2, 3, 3)]
    found = kfed.cluster_fleet(fleet, ["auto", 2, "auto"], random_state=0)
    assert [local.n_local_clusters for local in found] == [2, 2, 3]
    bounded = kfed.cluster_fleet(fleet, "auto", max_local_clusters=2, random_state=0)
    assert max(local.n_local_clusters for local in bounded) <= 2


@given(seed=st.integers(0, 10**6), exponent=st.integers(-20, 20), kind=st.sampled_from(KINDS))
@few_examples
def test_rotating_or_scaling_the_points_does_not_change_the_number(seed, exponent, kind):
    points, _ = device(kind, 1 + seed % 5, n_features=15, points_per_cluster=15, seed=seed)
    one, other = (
        kfed.cluster_device(some, "auto", random_state=seed)
        for some in (points, 2.0**exponent * points @ rotation(15, seed))
    )
    assert one.n_local_clusters == other.n_local_clusters
    assert same_partition(one.labels, other.labels)


def test_shifting_the_points_does_not_change_the_number():
    points, target = device("isotropic", 4)
    local = kfed.cluster_device(points + 1000, "auto", random_state=0)
    assert same_partition(local.labels, target)


@given(seed=st.integers(0, 10**6))
@few_examples
def test_a_weight_of_n_equals_n_copies(seed):
    points, _ = device("isotropic", 1 + seed % 4, n_features=8, points_per_cluster=12, seed=seed)
    weights = np.random.default_rng(seed).integers(1, 4, len(points))
    weighted = kfed.cluster_device(points, "auto", sample_weight=weights, random_state=seed)
    copied = kfed.cluster_device(np.repeat(points, weights, axis=0), "auto", random_state=seed)
    assert weighted.n_local_clusters == copied.n_local_clusters


def test_sparse_rows_get_what_dense_rows_get():
    points, target = device("isotropic", 4)
    local = kfed.cluster_device(scipy.sparse.csr_matrix(points), "auto", random_state=0)
    assert same_partition(local.labels, target)


def test_of_many_points_a_sample_is_enough(monkeypatch):
    monkeypatch.setattr(seeding.coreset, "__defaults__", (128,))
    points, _ = device("isotropic", 4, points_per_cluster=100)
    assert kfed.cluster_device(points, "auto", random_state=0).n_local_clusters == 4


# The whole round ------------------------------------------------------------------------------------------------


def test_a_round_without_any_number_given_finds_the_clusters():
    world = mixture_world(16, 60, gap=12.0, points_per_cluster=30)
    points = [own.copy() for own in world.points]
    points[0][0] = 500.0
    found = kfed.cluster_fleet(points, "auto", device_ids=world.ids, random_state=0)
    sent = [local.to_message(name) for local, name in zip(found, world.ids, strict=True)]
    result = kfed.aggregate(sent, "auto", rule="robust")
    assert result.n_clusters == 16
    labels = [local.induced_labels(result.identity(name)) for local, name in zip(found, world.ids, strict=True)]
    assert same_partition(np.concatenate(labels)[1:], np.concatenate(world.targets)[1:])


# Cost and input -------------------------------------------------------------------------------------------------


def test_it_takes_less_than_half_a_second_on_a_thousand_points_of_a_hundred_features():
    points, _ = device("isotropic", 4, n_features=100, points_per_cluster=250)

    def taken():
        started = time.process_time()
        kfed.cluster_device(points, "auto", random_state=0, n_jobs=1)
        return time.process_time() - started

    assert any(taken() < 0.5 for _ in range(3))


@pytest.mark.parametrize("value", ["automatic", "", "4", 2.5, 0, True])
def test_another_word_or_number_is_refused(value):
    points = np.random.default_rng(0).normal(size=(30, 3))
    for cluster in (lambda: kfed.cluster_device(points, value), lambda: kfed.cluster_fleet([points], value)):
        with pytest.raises(kfed.InvalidInputError, match="n_local_clusters must be a whole number"):
            cluster()
    with pytest.raises(kfed.InvalidInputError, match="max_local_clusters must be a whole number"):
        kfed.cluster_device(points, "auto", max_local_clusters=0)


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_the_number_is_right_in_99_of_100_devices_at_ten_standard_deviations(kind):
    wanted = np.repeat([1] if kind == "stretched" else [1, 2, 4, 7], 25)  # its widest direction is too wide for more
    fleet = [device(kind, k, n_features=100, points_per_cluster=50, seed=seed)[0] for seed, k in enumerate(wanted)]
    found = kfed.cluster_fleet(fleet, "auto", random_state=0)
    n_right = sum(local.n_local_clusters == k for local, k in zip(found, wanted, strict=True))
    assert n_right >= 0.99 * len(wanted)
