"""What people get who give no number: summaries of devices, the rule for them, and labels by share."""

import numpy as np
import pytest
from scipy import sparse
from sklearn.cluster import KMeans
from sklearn.metrics import adjusted_rand_score

import kfed
from kfed.datasets import mixture
from kfed.device.pooled_sums import POOLED, sent_sums
from kfed.device.shares import labels_by_share
from kfed.metrics import kmeans_cost
from kfed.simulate import Round


def blobs(n_devices=8, n_points=60, n_clusters=6, gap=7.0, seed=0):
    """Devices that are alike: every cluster is on every device, in a plane."""
    rng = np.random.default_rng(seed)
    angles = 2 * np.pi * np.arange(n_clusters) / n_clusters
    places = gap * np.stack([np.cos(angles), np.sin(angles)], axis=1)
    drawn = rng.integers(n_clusters, size=(n_devices, n_points))
    return {f"{i}": places[own] + rng.normal(size=(n_points, 2)) for i, own in enumerate(drawn)}, drawn.ravel()


# The device -----------------------------------------------------------------------------------------------------


def test_without_a_number_a_device_sends_a_summary_and_says_so():
    devices, _ = blobs(1)
    local = kfed.cluster_device(devices["0"], random_state=0)
    message = local.to_message("site")
    assert local.is_summary
    assert message.details.is_summary
    assert kfed.DeviceMessage.from_bytes(message.to_bytes()) == message
    assert kfed.LocalClustering.from_bytes(local.to_bytes()).to_message("site") == message


@pytest.mark.parametrize("least", [1, 3, 5])
def test_every_center_of_a_summary_stands_for_enough_points_and_none_is_left_out(least):
    devices, _ = blobs(1, n_points=64)
    message = kfed.cluster_device(devices["0"], min_cluster_size=least, random_state=1).to_message("site")
    assert message.counts.min() >= least
    assert message.n_points == 64


def test_rows_that_repeat_are_merged_until_enough_different_ones_are_behind_a_center():
    points = np.repeat(np.arange(12.0)[:, None], 4, axis=0)
    local = kfed.cluster_device(points, random_state=0)
    sent = ~local.withheld
    assert local.counts[sent].sum() == 48
    assert all(len(np.unique(points[local.labels == center])) >= 3 for center in np.flatnonzero(sent))


def test_a_summary_of_many_features_takes_at_most_20_kilobytes():
    points = np.random.default_rng(0).normal(size=(400, 784))
    local = kfed.cluster_device(points, random_state=0, measure_deviation=False)
    message = local.to_message("site")
    assert (local.n_local_clusters, message.details.bits) == (44, 4)
    assert len(message.to_bytes()) <= 20_000


def test_features_that_are_zero_on_a_device_leave_room_for_more_centers():
    rng = np.random.default_rng(0)
    points = rng.random((400, 784)) * (rng.random(784) < 0.7)
    local = kfed.cluster_device(points, random_state=0, measure_deviation=False)
    assert local.n_local_clusters >= 56
    assert len(local.to_message("site").to_bytes()) <= 20_000
    alike = kfed.cluster_device(sparse.csr_array(points), random_state=0, measure_deviation=False)
    assert alike.n_local_clusters == local.n_local_clusters


def test_a_summary_keeps_8_bits_where_they_leave_room_for_many_centers():
    points = np.random.default_rng(0).normal(size=(400, 300))
    local = kfed.cluster_device(points, random_state=0, measure_deviation=False)
    message = local.to_message("site")
    assert (local.n_local_clusters >= 48, message.details.bits, len(message.to_bytes()) <= 20_000) == (True, 8, True)


def test_bits_that_are_asked_for_are_those_of_the_rows_own_centers():
    local = kfed.cluster_device(np.random.default_rng(0).normal(size=(100, 784)), random_state=0)
    message = local.to_message("site", bits=16)
    sent = local.centers[~local.withheld]
    assert message.details.bits == 16
    assert (np.abs(message.centers - sent) <= message.rounding).all()


def test_a_summary_has_at_most_as_many_centers_as_were_asked_for():
    points = np.random.default_rng(0).normal(size=(300, 2))
    assert kfed.cluster_device(points, max_local_clusters=10, random_state=0).n_local_clusters == 10


def test_a_fleet_gives_the_summaries_of_its_devices():
    devices, _ = blobs(3)
    fleet = kfed.cluster_fleet(devices, random_state=0)
    for (name, points), own in zip(devices.items(), fleet, strict=True):
        alone = kfed.cluster_device(points, random_state=0, device_id=name)
        assert own.to_message(name) == alone.to_message(name)


def test_a_private_device_needs_a_number():
    points = np.random.default_rng(0).normal(size=(100, 2))
    with pytest.raises(kfed.InvalidInputError, match="must be a number with privacy"):
        kfed.cluster_device(points, privacy=kfed.Privacy(epsilon=1.0, radius=4.0))


def test_a_sum_of_squares_is_shared_by_clusters_of_similar_variance_over_enough_rows():
    spread, n_rows = np.array([[1.0, 900.0, 2.0, 800.0, 3.0, 700.0]]), np.full((1, 6), 3)
    sent = sent_sums(spread, n_rows, np.ones((1, 6), bool), 3, is_summary=True)
    assert sent.sum() == spread.sum()
    assert sent[0].tolist() == [2.0, 800.0, 2.0, 800.0, 2.0, 800.0]
    assert all(n_rows[0][sent[0] == value].sum() >= POOLED * 3 for value in sent[0])


# The server -----------------------------------------------------------------------------------------------------


def test_the_default_rule_is_the_papers_unless_a_device_sent_a_summary():
    devices, _ = blobs(4)
    looked = [kfed.cluster_device(own, 6, random_state=0).to_message(name) for name, own in devices.items()]
    summaries = [kfed.cluster_device(own, random_state=0).to_message(name) for name, own in devices.items()]
    assert kfed.aggregate(looked, 6).rule == "paper"
    assert kfed.aggregate(summaries, 6).rule == "pooled"
    assert kfed.aggregate([looked[0], *summaries[1:]], 6).rule == "pooled"
    assert kfed.aggregate(summaries, 6, rule="paper").rule == "paper"
    kept = kfed.aggregate(summaries, 6)
    assert kfed.Aggregation.from_bytes(kept.to_bytes()) == kept


@pytest.mark.parametrize("k", [4, 16])
def test_where_clusters_are_separated_the_default_gives_the_papers_answer(k):
    drawn = mixture(16, k, separation=20, points_per_cluster=40)
    by_default = Round.run(drawn.devices, k, random_state=0)
    by_paper = Round.run(drawn.devices, k, drawn.n_local_clusters, random_state=0)
    assert (by_default.aggregation.rule, by_paper.aggregation.rule) == ("pooled", "paper")
    assert adjusted_rand_score(by_paper.labels, by_default.labels) == 1


def test_where_devices_are_alike_the_default_costs_little_more_than_pooled_k_means():
    devices, _ = blobs(gap=4.0)
    points = np.concatenate(list(devices.values()))
    best = KMeans(6, n_init=10, random_state=0).fit(points).inertia_
    ours = Round.run(devices, 6, random_state=0)
    assert kmeans_cost(points, ours.aggregation.cluster_centers) <= 1.03 * best


def test_centers_of_rows_from_several_clusters_hardly_move_the_means():
    rng = np.random.default_rng(0)
    places = np.array([[0.0, 0.0], [10.0, 0.0]])
    pure = [
        kfed.DeviceMessage(f"{i}", places + rng.normal(size=(2, 2)), [6, 6], [0.6, 0.6], details=SUMMARY)
        for i in range(6)
    ]
    mixed = kfed.DeviceMessage("mixed", [[4.0, 0.0]], [6], [6 * 24.0], details=SUMMARY)
    centers = kfed.aggregate([*pure, mixed], 2).cluster_centers
    clean = kfed.aggregate(pure, 2).cluster_centers
    assert np.abs(centers[centers[:, 0].argsort()] - clean[clean[:, 0].argsort()]).max() < 0.05


SUMMARY = kfed.wire.Details(is_summary=True)


def test_a_center_without_any_spread_is_pure_even_if_it_is_a_cluster_of_its_own():
    rng = np.random.default_rng(0)
    places = np.array([[0.0, 0.0], [10.0, 0.0]])
    sent = [
        kfed.DeviceMessage(f"{i}", places + rng.normal(size=(2, 2)), [6, 6], [6.0, 6.0], details=SUMMARY)
        for i in range(6)
    ]
    alone = kfed.DeviceMessage("far", [[0.0, 60.0]], [1], [0.0], details=SUMMARY)
    centers = kfed.aggregate([*sent, alone], 3, min_devices=1).cluster_centers
    assert np.abs(centers - [0.0, 60.0]).max(axis=1).min() < 1e-6


def test_without_any_number_the_clusters_are_found():
    devices, classes = blobs(10, n_clusters=5, gap=9.0)
    done = Round.run(devices, random_state=0)
    assert done.aggregation.n_clusters == 5
    assert done.aggregation.k_choice.is_reliable
    assert done.aggregation.k_comparison.recommended == 5
    assert adjusted_rand_score(classes, done.labels) > 0.97


def test_data_without_clusters_ends_in_the_table_and_not_in_an_error():
    rng = np.random.default_rng(0)
    devices = {f"{i}": rng.normal(size=(50, 3)) for i in range(6)}
    with pytest.warns(kfed.AggregationWarning, match="no number of clusters stands out"):
        done = Round.run(devices, random_state=0)
    assert done.aggregation.n_clusters == done.aggregation.k_comparison.best


def test_one_row_on_one_device_is_no_reason_to_fail():
    local = kfed.cluster_device(np.ones((3, 2)), min_cluster_size=1, random_state=0)
    assert kfed.aggregate([local.to_message("a")]).n_clusters == 1


# The labels -----------------------------------------------------------------------------------------------------


def test_a_row_between_two_clusters_gets_the_one_that_its_device_holds():
    rng = np.random.default_rng(0)
    centers = np.array([[0.0, 0.0], [2.5, 0.0], [0.0, 2.5], [2.5, 2.5]])
    own = centers[1] + rng.normal(size=(200, 2))
    nearest = np.square(own[:, None] - centers).sum(axis=2).argmin(axis=1)
    assert np.mean(nearest == 1) < 0.85
    assert np.mean(labels_by_share(own, centers) == 1) > 0.97


def test_on_a_device_that_holds_all_clusters_alike_rows_get_the_nearest():
    rng = np.random.default_rng(0)
    centers = np.array([[0.0, 0.0], [5.0, 0.0], [0.0, 5.0], [5.0, 5.0]])
    points = np.concatenate([center + rng.normal(size=(50, 2)) for center in centers])
    nearest = np.square(points[:, None] - centers).sum(axis=2).argmin(axis=1)
    assert np.mean(labels_by_share(points, centers) == nearest) > 0.97


def test_a_single_row_of_a_far_cluster_keeps_it():
    rng = np.random.default_rng(0)
    points = np.concatenate([rng.normal(size=(80, 2)), [[30.0, 0.0]]])
    assert labels_by_share(points, np.array([[0.0, 0.0], [30.0, 0.0]]))[-1] == 1


def test_labels_by_share_do_not_depend_on_the_place_of_the_origin_or_on_sparseness():
    rng = np.random.default_rng(0)
    points, centers = rng.normal(size=(90, 3)), 1.5 * rng.normal(size=(4, 3))
    labels = labels_by_share(points, centers)
    assert np.array_equal(labels_by_share(points + 1e4, centers + 1e4), labels)
    assert np.array_equal(labels_by_share(sparse.csr_array(points), centers), labels)


@pytest.mark.slow
def test_the_estimator_needs_no_number():
    devices, classes = blobs(10, n_clusters=5, gap=9.0)
    model = kfed.KFed(random_state=0).fit(list(devices.values()))
    assert len(model.cluster_centers_) == 5
    assert adjusted_rand_score(classes, model.labels_) > 0.97
    alone = kfed.KFed(random_state=0).fit(np.concatenate(list(devices.values())))
    assert len(alone.cluster_centers_) == 5
