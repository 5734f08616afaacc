"""What people get who give no number: summaries of devices, the rule for them, and labels by share."""

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.cluster import KMeans
from sklearn.datasets import load_digits
from sklearn.metrics import adjusted_rand_score
from sklearn.preprocessing import scale

import kfed
from kfed.baselines import centralized
from kfed.datasets import mixture
from kfed.device import POOLED
from kfed.device.floor.pooled_sums import sent_sums
from kfed.device.shares import labels_by_share
from kfed.metrics import kmeans_cost
from kfed.simulate import Round
from kfed.site import cluster_file


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


SUMMARY = kfed.wire.Details(is_summary=True)


def summaries_of_two_clusters(sums_of_squares):
    rng = np.random.default_rng(0)
    places = np.array([[0.0, 0.0], [10.0, 0.0]])
    return [
        kfed.DeviceMessage(f"{i}", places + rng.normal(size=(2, 2)), [6, 6], sums_of_squares, details=SUMMARY)
        for i in range(6)
    ]


def test_centers_of_rows_from_several_clusters_hardly_move_the_means():
    pure = summaries_of_two_clusters(sums_of_squares=[0.6, 0.6])
    mixed = kfed.DeviceMessage("mixed", [[4.0, 0.0]], [6], [6 * 24.0], details=SUMMARY)
    centers = kfed.aggregate([*pure, mixed], 2).cluster_centers
    clean = kfed.aggregate(pure, 2).cluster_centers
    assert np.abs(centers[centers[:, 0].argsort()] - clean[clean[:, 0].argsort()]).max() < 0.05


def test_one_heavy_device_does_not_make_mixed_centers_believed():
    pure = [
        kfed.DeviceMessage(f"{i}", [[0.0, 0.1 * (i % 3)], [10.0, 0.1 * (i % 3)]], [6, 6], [0.6, 0.6], details=SUMMARY)
        for i in range(40)
    ]
    mixed = [kfed.DeviceMessage(f"mixed {i}", [[4.0, 0.0]], [6], [6 * 24.0], details=SUMMARY) for i in range(8)]
    heavy = kfed.DeviceMessage("heavy", [[0.0, 0.1], [10.0, 0.1]], [5, 20_000], [0.5, 2000.0], details=SUMMARY)
    centers = kfed.aggregate([*pure, *mixed, heavy], 2).cluster_centers
    assert centers[:, 0].min() < 0.1  # 0.67 if mixed centers weigh as much as others


def test_a_center_without_any_spread_is_pure_even_if_it_is_a_cluster_of_its_own():
    sent = summaries_of_two_clusters(sums_of_squares=[6.0, 6.0])
    alone = kfed.DeviceMessage("far", [[0.0, 60.0]], [1], [0.0], details=SUMMARY)
    centers = kfed.aggregate([*sent, alone], 3, min_devices=1).cluster_centers
    assert np.abs(centers - [0.0, 60.0]).max(axis=1).min() < 1e-6


def test_among_many_devices_a_center_of_a_heavy_one_is_as_wide_as_its_rows_are():
    places = np.array([[0.0, 0.0], [10.0, 0.0]])
    sent = [kfed.DeviceMessage(f"{i}", places, [6, 6], [6.0, 6.0], details=SUMMARY) for i in range(30)]
    heavy = kfed.DeviceMessage("heavy", [[2.0, 0.0], [8.0, 0.0]], [6000, 6000], [6000.0, 6000.0], details=SUMMARY)
    centers = kfed.aggregate([*sent, heavy], 2).cluster_centers
    assert centers[:, 0].min() == pytest.approx(2.0 * 60 / 240)  # it counts as ten devices, see `bounded_counts`


def test_without_the_floor_the_default_is_as_good_as_pooled_k_means_on_scaled_digits():
    points = load_digits().data
    points = scale(points[:, points.std(axis=0) > 0])
    best = KMeans(10, n_init=5, random_state=0).fit(points).inertia_
    devices = {f"{i}": points[i::12] for i in range(12)}
    ours = Round.run(devices, 10, random_state=0, min_cluster_size=1)
    assert kmeans_cost(points, ours.aggregation.cluster_centers) <= 1.015 * best


def test_without_any_number_the_clusters_are_found(few_compared):
    devices, classes = blobs(10, n_clusters=5, gap=9.0)
    done = Round.run(devices, random_state=0)
    assert done.aggregation.n_clusters == 5
    assert done.aggregation.k_choice.is_reliable
    assert done.aggregation.k_choice.comparison.recommended == 5
    assert adjusted_rand_score(classes, done.labels) > 0.97


def test_data_without_clusters_ends_in_the_table_and_not_in_an_error(few_compared):
    rng = np.random.default_rng(0)
    devices = {f"{i}": rng.normal(size=(50, 3)) for i in range(6)}
    with pytest.warns(kfed.AggregationWarning, match="no number of clusters stands out"):
        done = Round.run(devices, random_state=0)
    assert done.aggregation.n_clusters == done.aggregation.k_choice.comparison.best == 2, "which claims least"
    assert "k = 2 is the smallest of 2 to" in done.aggregation.k_choice.reason


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


def test_on_a_device_as_unbalanced_as_all_rows_get_the_nearest():
    rng = np.random.default_rng(0)
    centers, sizes = np.array([[0.0, 0.0], [3.0, 0.0], [0.0, 3.0]]), [140, 30, 30]
    points = np.repeat(centers, sizes, axis=0) + rng.normal(size=(200, 2))
    nearest = np.square(points[:, None] - centers).sum(axis=2).argmin(axis=1)
    assert np.array_equal(labels_by_share(points, centers, np.array([0.7, 0.15, 0.15])), nearest)
    assert np.mean(labels_by_share(points, centers) == nearest) < 0.97  # others hold as much of each


def thyroid_like(seed):
    """Five measures of 150 people in health and 35 and 30 in two diseases, each measure in standard deviations."""
    rng = np.random.default_rng(seed)
    means = np.array([[110, 9.2, 1.7, 1.3, 2.5], [96, 17.7, 4.2, 0.97, 0.0], [122, 3.6, 1.1, 13, 19]])
    deviations = np.array([[8, 2, 0.5, 0.5, 2], [18, 4, 2.2, 0.4, 0.3], [9, 2, 0.5, 12, 15]])
    classes = rng.permutation(np.repeat(np.arange(3), [150, 35, 30]))
    points = means[classes] + deviations[classes] * rng.normal(size=(215, 5))
    return (points - points.mean(axis=0)) / points.std(axis=0), classes


def test_a_small_unbalanced_table_is_labelled_as_well_as_by_pooled_k_means():
    agreement = []
    for seed in range(5):
        points, classes = thyroid_like(seed)
        alone = centralized([points], 3, n_init=10).labels
        devices = {f"{i}": own for i, own in enumerate(np.array_split(points, 10))}
        apart = Round.run(devices, 3, random_state=seed).labels
        agreement.append([adjusted_rand_score(classes, labels) for labels in (apart, alone)])
    apart, alone = np.mean(agreement, axis=0)
    assert apart > alone - 0.02


def test_no_center_of_a_summary_stands_for_rows_that_are_enough_for_two():
    rng = np.random.default_rng(0)
    points = np.concatenate([rng.normal(size=(25, 2)), np.array([30, 0]) + rng.normal(size=(3, 2))])
    local = kfed.cluster_device(points, min_cluster_size=5, random_state=0)
    counts = local.counts[~local.withheld]
    assert counts.min() >= 5
    assert counts.sum() == len(points)
    assert counts.max() < 10
    assert local.to_message("site").centers[:, 0].max() > 10  # the three far rows are much of their center


def test_groups_in_many_columns_are_found_beside_a_column_that_is_2024_in_every_row():
    rng = np.random.default_rng(0)
    places, groups = rng.normal(size=(4, 500)), rng.integers(4, size=(8, 100))
    tables = [np.c_[places[own] + rng.normal(size=(100, 500)) / 2, np.full(100, 2024.0)] for own in groups]
    labels = kfed.KFed(4, random_state=0).fit(tables).labels_
    assert adjusted_rand_score(groups.ravel(), labels) == 1


def test_rows_of_any_size_are_summarised():
    """To the bit for powers of two; LAPACK scales larger squares, by numbers that round and may change a seed."""
    points = thyroid_like(0)[0]
    local, large = (kfed.cluster_device(size * points, random_state=0) for size in (1.0, 2.0**200))
    np.testing.assert_array_equal(local.labels, large.labels)
    for size in (2.0**320, 2.0**-320):
        extreme = kfed.cluster_device(size * points, random_state=0)
        assert len(extreme.counts) == len(local.counts)
        assert extreme.cost / size / size == pytest.approx(local.cost, rel=0.05)


def test_a_summary_of_copies_of_one_row_is_a_single_center_or_none():
    local = kfed.cluster_device(np.ones((30, 2)), random_state=0)
    assert len(np.unique(local.labels)) == 1


@pytest.mark.slow
def test_a_small_unbalanced_table_with_units_is_labelled_as_well_as_by_pooled_k_means():
    agreement = []
    for seed in range(5):
        points, classes = thyroid_like(seed)
        alone = centralized([points], 3, n_init=10).labels
        frames = [pd.DataFrame(own * [9, 3, 1, 8, 9], columns=list("abcde")) for own in np.array_split(points, 10)]
        kept = [cluster_file(own, None, f"{i}", random_state=seed) for i, own in enumerate(frames)]
        result = kfed.aggregate([own.to_message() for own in kept], 3)
        apart = np.concatenate([one.labels(result, own.to_numpy()) for one, own in zip(kept, frames, strict=True)])
        agreement.append([adjusted_rand_score(classes, labels) for labels in (apart, alone)])
    apart, alone = np.mean(agreement, axis=0)
    assert apart > alone - 0.02


def test_a_single_row_of_a_far_cluster_keeps_it():
    rng = np.random.default_rng(0)
    points = np.concatenate([rng.normal(size=(80, 2)), [[30.0, 0.0]]])
    assert labels_by_share(points, np.array([[0.0, 0.0], [30.0, 0.0]]))[-1] == 1


@pytest.mark.parametrize("by_size", [False, True])
@pytest.mark.parametrize("far", [1e3, 1e6, 1e12])
def test_a_cell_that_is_far_off_changes_no_label_of_other_rows(by_size, far):
    rng = np.random.default_rng(0)
    centers = np.array([[0.0, 0.0], [10.0, 0.0], [0.0, 10.0]])
    points = np.repeat(centers, 30, axis=0) + rng.normal(size=(90, 2))
    before = labels_by_share(points, centers, by_size=by_size)
    points[0, 0] = far
    assert np.array_equal(labels_by_share(points, centers, by_size=by_size)[1:], before[1:])


@pytest.mark.parametrize("size", [1e-90, 1e90])
def test_labels_by_share_do_not_depend_on_the_unit(size):
    rng = np.random.default_rng(0)
    points, centers = rng.normal(size=(90, 3)), 1.5 * rng.normal(size=(4, 3))
    assert np.array_equal(labels_by_share(size * points, size * centers), labels_by_share(points, centers))


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
