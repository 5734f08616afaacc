"""Baselines: they cluster as they should, and count what they communicate in the units of k-FED."""

import warnings
from collections import Counter
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse
from sklearn.cluster import KMeans
from sklearn.mixture import GaussianMixture

import kfed
from kfed import baselines, metrics
from kfed._base import geometry
from kfed.baselines import coreset
from kfed.baselines.federated_kmeans import plus_plus
from kfed.datasets import partition
from kfed.simulate import Communication
from worlds import blobs, mixture_world, same_partition

N_FEATURES = 6


def fleet(n_points=240, n_devices=5, seed=0):
    points = blobs(n_points, N_FEATURES, 4, seed, dtype=np.float32)
    return points, partition.iid(n_points, n_devices, seed)


@given(st.integers(0, 1000))
def test_distributed_lloyd_never_gets_worse_and_its_cost_is_that_of_its_labels(seed):
    points, split = fleet(seed=seed)
    done = baselines.distributed_lloyd(split.of(points), 4, seed)
    costs = [step.cost for step in done.steps]
    assert all(later <= earlier * (1 + 1e-6) for earlier, later in pairwise(costs))
    assert costs[-1] == pytest.approx(
        metrics.partition_cost(points, split.gather(_by_device(done.labels, split))), rel=1e-4
    )


def _by_device(labels, split):
    return np.split(labels, np.cumsum(split.sizes)[:-1])


def test_distributed_lloyd_stops_where_nothing_changes_or_when_told_to():
    points, split = fleet()
    done = baselines.distributed_lloyd(split.of(points), 4)
    assert done.steps[-1].cost == pytest.approx(done.steps[-2].cost)
    short = baselines.distributed_lloyd(split.of(points), 4, max_rounds=2)
    assert [step.cost for step in short.steps] == [step.cost for step in done.steps[:2]]
    assert short.sent.rounds == 3  # the first draws the centers


def test_how_rows_are_spread_changes_what_is_sent_but_not_what_distributed_lloyd_finds():
    points, _ = fleet()
    few, many = (baselines.distributed_lloyd(np.array_split(points, n), 4) for n in (2, 12))
    np.testing.assert_array_equal(few.labels, many.labels)
    np.testing.assert_allclose(few.centers, many.centers, rtol=1e-4)
    assert few.sent.bytes_total < many.sent.bytes_total
    assert few.sent.rounds == many.sent.rounds


def test_a_round_of_distributed_lloyd_is_one_message_up_and_one_down_for_each_device():
    points, split = fleet()
    one, two = (baselines.distributed_lloyd(split.of(points), 4, max_rounds=n).sent for n in (1, 2))
    assert (two.messages - one.messages, one.messages) == (2 * split.n_devices, 2 * split.n_devices + 4)
    centers = 4 * N_FEATURES * 4  # four centers in single precision, up and down
    assert two.bytes_total - one.bytes_total > 2 * split.n_devices * centers


def test_sparse_rows_give_what_dense_ones_give():
    points, split = fleet()
    devices = split.of(points)
    packed = [sparse.csr_matrix(own) for own in devices]
    one, other = baselines.distributed_lloyd(devices, 4, 1), baselines.distributed_lloyd(packed, 4, 1)
    np.testing.assert_array_equal(one.labels, other.labels)
    one, other = baselines.centralized(devices, 4, 1), baselines.centralized(packed, 4, 1)
    assert same_partition(one.labels, other.labels)


def test_pooling_sends_at_least_the_rows_themselves():
    points, split = fleet()
    sent = baselines.centralized(split.of(points), 4).sent
    assert (sent.rounds, sent.messages) == (1, 2 * split.n_devices)
    assert sent.bytes_total > points.nbytes + 8 * len(points)


def test_one_round_counts_the_bytes_of_every_message_and_every_answer():
    world = mixture_world()
    done = baselines.one_round(world.points, world.n_clusters, world.n_local_clusters, world.ids, seed=0)
    messages = [
        local.to_message(name)
        for local, name in zip(world.clusterings(measure_deviation=False), world.ids, strict=True)
    ]
    answers = kfed.aggregate(messages, world.n_clusters)
    up = sum(len(message.to_bytes()) for message in messages)
    down = sum(len(answers.identity(name).to_bytes()) for name in world.ids)
    assert done.sent == Communication(rounds=1, bytes_down=down, bytes_up=up, messages=2 * len(messages))
    assert same_partition(np.concatenate(world.targets), done.labels)


@pytest.mark.parametrize("n_candidates", [1, None])
def test_the_textbook_and_the_library_agree_on_clusters_that_are_far_apart(n_candidates):
    points = blobs(200, 10, 2, seed=3, gap=30.0)
    labels, centers = baselines.textbook_local(points, 2, n_candidates=n_candidates)
    ours = kfed.cluster_device(points, 2, random_state=0)
    assert same_partition(labels, ours.labels)
    np.testing.assert_allclose(np.sort(centers, axis=0), np.sort(ours.centers, axis=0), rtol=1e-9)


@given(st.integers(0, 1000))
def test_the_cost_of_a_partition_is_the_kmeans_cost_with_its_own_means(seed):
    rng = np.random.default_rng(seed)
    points, labels = rng.normal(size=(40, 3)), rng.integers(0, 4, 40)
    names = np.unique(labels, return_inverse=True)[1]
    means = np.array([points[names == name].mean(axis=0) for name in range(names.max() + 1)])
    expected = metrics.kmeans_cost(points, means, names)
    assert metrics.partition_cost(points, labels) == pytest.approx(expected)
    assert metrics.partition_cost(sparse.csr_matrix(points), labels) == pytest.approx(expected)


def test_the_cost_of_a_partition_needs_a_label_for_each_point():
    with pytest.raises(kfed.InvalidInputError, match="labels must have one entry for each of 3 points"):
        metrics.partition_cost(np.eye(3), [0, 1])


METHODS = {
    "weighted centers": baselines.weighted_centers,
    "coreset": baselines.distributed_coreset,
    "federated k-means": baselines.federated_kmeans,
    "Gaussian mixture": baselines.gaussian_mixture,
    "k-FED": baselines.k_fed(2),
}


@pytest.mark.parametrize("method", METHODS)
def test_every_method_has_one_face_and_finds_clusters_that_are_far_apart(method):
    world = mixture_world(n_clusters=4, n_features=6, gap=40.0, points_per_cluster=20)
    done = METHODS[method](world.points, 4, 3)
    assert done.centers.shape == (4, 6)
    assert same_partition(np.concatenate(world.targets), done.labels)
    assert done.sent.rounds >= 1
    assert done.sent.bytes_up > 0


def test_weighted_centers_are_kmeans_of_as_many_copies_of_each_center():
    points, split = fleet(n_points=120, n_devices=4)
    devices = split.of(points)
    local = kfed.cluster_fleet(
        devices, 4, device_ids=[f"device-{i}" for i in range(4)], random_state=0, measure_deviation=False
    )
    messages = [own.to_message("x") for own in local]
    copies = np.concatenate([np.repeat(own.centers, own.counts, axis=0) for own in messages])
    done = baselines.weighted_centers(devices, 3, 0)
    model = KMeans(3, n_init=10, random_state=0).fit(copies)
    np.testing.assert_allclose(np.sort(done.centers, axis=0), np.sort(model.cluster_centers_, axis=0), rtol=1e-4)


@pytest.mark.parametrize("n_drawn", [1, 40])
def test_a_coreset_weighs_as_much_as_all_rows_and_its_cost_is_right_on_average(n_drawn):
    """The weights of each center and of the rows drawn about it add up; the cost of any centers is not biased."""
    points, split = fleet(n_points=60, n_devices=3)
    devices = [own.astype(np.float64) for own in split.of(points)]
    places = blobs(4, N_FEATURES, 4, seed=9)
    local = [coreset._local(own, 4, 0) for own in devices]
    unit = sum(own[2].sum() for own in local) / n_drawn
    costs, weights = [], []
    for seed in range(300 if n_drawn == 40 else 3):
        rng = np.random.default_rng(seed)
        sizes = rng.multinomial(n_drawn, [own[2].sum() / (unit * n_drawn) for own in local])
        parts = [coreset._coreset(own, *of, n, unit, rng) for own, of, n in zip(devices, local, sizes, strict=True)]
        rows, heavy = (np.concatenate(column) for column in zip(*parts, strict=True))
        weights.append(heavy.sum())
        costs.append(heavy @ geometry.squared_distances(rows, places).min(axis=1))
    np.testing.assert_allclose(weights, 60)
    if n_drawn == 40:
        assert np.mean(costs) == pytest.approx(metrics.kmeans_cost(points, places), rel=0.02)


def test_a_coreset_of_many_rows_costs_what_kmeans_on_all_rows_costs_and_sends_rows():
    points = blobs(900, 3, 12, seed=1, gap=2.0)
    devices = np.array_split(points, 6)
    best = baselines.centralized(devices, 5, n_init=10)
    done = baselines.distributed_coreset(devices, 5, n_drawn=1000)
    assert metrics.cost_ratio(points, done.labels, best.labels) < 1.01
    assert done.sent.bytes_up > 1000 * 3 * 8
    assert done.sent.rounds == 2


def test_the_first_centers_are_drawn_as_kmeans_plus_plus_draws_them():
    """Three rows at 0, 1 and 3: chances of every ordered pair, from the squared distances by hand."""
    devices = [np.array([[0.0], [1.0]]), np.array([[3.0]])]
    rng = np.random.default_rng(0)
    drawn = Counter(tuple(plus_plus(devices, 2, rng)[0].ravel().tolist()) for _ in range(1500))
    textbook = {(0, 1): 1 / 10, (0, 3): 9 / 10, (1, 0): 1 / 5, (1, 3): 4 / 5, (3, 0): 9 / 13, (3, 1): 4 / 13}
    assert drawn.keys() == textbook.keys()
    for pair, chance in textbook.items():
        assert drawn[pair] / 1500 == pytest.approx(chance / 3, abs=0.04)


def test_federated_kmeans_is_lloyd_on_all_rows_from_its_first_centers():
    points, split = fleet()
    devices = [own.astype(np.float64) for own in split.of(points)]
    start, _ = plus_plus(devices, 4, np.random.default_rng(5))
    model = KMeans(4, init=start, n_init=1, tol=0, algorithm="lloyd").fit(np.concatenate(devices))
    done = baselines.federated_kmeans(devices, 4, 5)
    np.testing.assert_array_equal(done.labels, model.labels_)
    np.testing.assert_allclose(done.centers, model.cluster_centers_)
    assert done.sent.rounds == 4 + len(done.steps)


def test_rows_that_are_all_the_same_have_first_centers_too():
    start, _ = plus_plus([np.ones((3, 2)), np.ones((1, 2))], 3, np.random.default_rng(0))
    np.testing.assert_array_equal(start, np.ones((3, 2)))


def test_a_mixture_of_messages_of_one_row_each_is_that_of_scikit_learn_on_the_rows():
    points = blobs(200, 2, 3, seed=2, gap=3.0)
    start = points[[0, 50, 100]]
    ours = baselines.mixture_of(points, np.ones(200), np.zeros(200), start, n_steps=1000)
    theirs = GaussianMixture(3, covariance_type="spherical", means_init=start, tol=0, max_iter=1000, reg_covar=1e-6)
    first = np.eye(3)[np.linalg.norm(points[:, None] - start, axis=2).argmin(axis=1)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        theirs.weights_init = first.mean(axis=0)
        theirs.means_init = first.T @ points / first.sum(axis=0)[:, None]
        squares = np.square(points[:, None] - theirs.means_init).sum(axis=2)
        theirs.precisions_init = 1 / ((first * squares).sum(axis=0) / (2 * first.sum(axis=0)) + 1e-6)
        theirs.fit(points)
    np.testing.assert_allclose(ours.means, theirs.means_, atol=1e-3)
    np.testing.assert_allclose(ours.variances, theirs.covariances_, rtol=1e-3)
    np.testing.assert_allclose(ours.shares, theirs.weights_, atol=1e-3)


def test_a_message_of_many_rows_counts_as_that_many_rows_of_its_mean_and_spread():
    rng = np.random.default_rng(4)
    rows = [rng.normal(size=(30, 2)) + place for place in ([0, 0], [0.5, 0], [30, 0], [30, 1])]
    centers = np.array([own.mean(axis=0) for own in rows])
    squares = np.array([np.square(own - own.mean(axis=0)).sum() for own in rows])
    found = baselines.mixture_of(centers, np.full(4, 30.0), squares, centers[[0, 2]])
    for component, own in enumerate((np.concatenate(rows[:2]), np.concatenate(rows[2:]))):
        np.testing.assert_allclose(found.means[component], own.mean(axis=0))
        assert found.variances[component] == pytest.approx(own.var(axis=0).mean(), rel=1e-4)


def test_methods_are_measured_on_the_same_devices_with_the_same_seeds():
    world = mixture_world(n_clusters=4, n_features=6, points_per_cluster=10)
    methods = {"k-FED": baselines.k_fed(2), "pooled": baselines.centralized}
    found = baselines.compare(methods, world.points, 4, range(2), classes=world.targets, data="mixture")
    assert [(row["method"], row["seed"], row["data"]) for row in found.rows] == [
        (method, seed, "mixture") for seed in range(2) for method in methods
    ]
    assert all(row["ari"] == 1 and row["cost_ratio"] == pytest.approx(1) for row in found.rows)
    assert found.paired("k-FED", "pooled", "bytes").mean_difference < 0
