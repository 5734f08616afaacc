"""`rule="robust"`: the paper's answer on clean data, and a better one on data that is not clean."""

import time
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import adjusted_rand_score

import kfed
from kfed.server.k import trust
from kfed.server.rules import robust
from worlds import mixture_world, same_partition


def spoiled(world, n_outliers, seed=0):
    """Put points of random devices far out; their target is -1."""
    rng = np.random.default_rng(seed)
    points, targets = [own.copy() for own in world.points], [own.copy() for own in world.targets]
    for _ in range(n_outliers):
        device = rng.integers(len(points))
        row = rng.integers(len(points[device]))
        direction = rng.normal(size=points[device].shape[1])
        points[device][row] = direction * (rng.uniform(50, 200) / np.linalg.norm(direction))
        targets[device][row] = -1
    return replace(world, points=points, targets=targets)


def agreement(world, rule, *, refine=False, seed=0, **options):
    """Adjusted Rand index of the induced labels, outliers left out."""
    found = world.clusterings(seed, **options)
    sent = [local.to_message(name) for local, name in zip(found, world.ids, strict=True)]
    result = kfed.aggregate(sent, world.n_clusters, rule=rule)
    labels = [
        local.induced_labels(result.identity(name), refine=points if refine else None)
        for local, name, points in zip(found, world.ids, world.points, strict=True)
    ]
    targets = np.concatenate(world.targets)
    return adjusted_rand_score(targets[targets >= 0], np.concatenate(labels)[targets >= 0])


def table_one(seed=0, devices_per_group=5):
    """The first row of the paper's Table 1, ten standard deviations apart."""
    return mixture_world(16, 100, gap=10.0, devices_per_group=devices_per_group, points_per_cluster=60, seed=seed)


def iid_world(seed):
    """Every device has all sixteen clusters, and looks for as many."""
    world = table_one(seed, devices_per_group=3)
    targets = np.concatenate(world.targets)
    order = np.random.default_rng(seed).permutation(len(targets))
    points = np.concatenate(world.points)[order]
    return replace(
        world, points=np.array_split(points, 6), targets=np.array_split(targets[order], 6), n_local_clusters=16
    )


def test_devices_that_send_their_centers_in_one_order_are_sampled_as_well_as_any():
    rng = np.random.default_rng(0)
    places = 10.0 * np.array([[0, 0], [0, 1], [1, 0], [1, 1]])
    sent = [
        kfed.DeviceMessage(f"{i:04}", places + 1e-3 * rng.normal(size=(4, 2)), [10] * 4, [1.0] * 4) for i in range(4096)
    ]
    result = kfed.aggregate(sent, 4, rule="robust")
    gaps = np.linalg.norm(result.cluster_centers[:, None] - places, axis=2)
    assert sorted(gaps.argmin(axis=1)) == [0, 1, 2, 3]
    assert gaps.min(axis=1).max() < 0.01


# Against the paper's rule ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("gap", [10.0, 20.0, 40.0])
def test_on_clean_mixtures_it_gives_the_answer_of_the_paper(gap):
    for seed in range(4):
        sent = mixture_world(gap=gap, points_per_cluster=30, seed=seed).messages(seed)
        paper, robust = (kfed.aggregate(sent, 16, rule=rule) for rule in ("paper", "robust"))
        assert same_partition(paper.center_labels, robust.center_labels)


def test_outliers_that_are_sent_do_not_become_clusters():
    for seed in range(3):
        world = spoiled(table_one(seed), 5, seed)
        paper, robust = (agreement(world, rule, seed=seed, min_cluster_size=1) for rule in ("paper", "robust"))
        assert paper < 0.75
        assert robust > 0.85
        assert agreement(world, "robust", refine=True, seed=seed, min_cluster_size=1) > 0.99


def test_with_as_many_outliers_as_devices_refinement_brings_most_points_home():
    found = [
        agreement(spoiled(table_one(seed), 20, seed), "robust", refine=True, seed=seed, min_cluster_size=1)
        for seed in range(4)
    ]
    assert np.mean(found) > 0.866


def test_a_local_cluster_too_many_does_no_harm():
    for seed in range(3):
        world = replace(table_one(seed), n_local_clusters=5)
        assert agreement(world, "paper", seed=seed) < 0.99
        assert agreement(world, "robust", seed=seed) > 0.99


def test_devices_with_all_the_clusters_are_served_as_well():
    for seed in range(2):
        world = iid_world(seed)
        assert agreement(world, "robust", seed=seed) > 0.95
        assert agreement(world, "robust", refine=True, seed=seed) > 0.99


@pytest.mark.slow
@pytest.mark.parametrize("what", ["clean", "5 outliers", "20 outliers", "one more", "iid", "5 standard deviations"])
def test_it_is_not_below_the_paper_by_more_than_noise(what):
    def world(seed):
        if what == "iid":
            return iid_world(seed)
        if what == "one more":
            return replace(table_one(seed), n_local_clusters=5)
        if "outliers" in what:
            return spoiled(table_one(seed), int(what.split()[0]), seed)
        return mixture_world(16, 100, gap=5.0 if what[0] == "5" else 10.0, points_per_cluster=60, seed=seed)

    for options in ({}, {"min_cluster_size": 1}):
        gains = [
            agreement(world(seed), "robust", seed=seed, **options)
            - agreement(world(seed), "paper", seed=seed, **options)
            for seed in range(6)
        ]
        assert np.mean(gains) > -0.01


# Strays ---------------------------------------------------------------------------------------------------------


def strays(centers, counts, owners=None):
    owners = np.arange(len(centers)) if owners is None else np.array(owners)
    return np.flatnonzero(trust.strays(np.array(centers, float), np.array(counts), owners)).tolist()


def test_a_tiny_center_alone_is_a_stray():
    assert strays([[0.0], [1.0], [50.0]], [40, 60, 3]) == [2]
    assert strays([[0.0], [1.0], [50.0]], [40, 60, 5]) == []
    assert strays([[0.0], [1.0], [50.0]], [4, 6, 1]) == [2]


def test_a_tiny_cluster_that_three_devices_found_is_kept():
    centers = [[0.0], [1.0], [2.0], [1.5], [50.0], [51.0], [52.0]]
    counts = [40, 60, 50, 50, 3, 3, 3]
    assert strays(centers, counts) == []
    assert strays(centers, counts, [0, 1, 2, 3, 4, 4, 4]) == [4, 5, 6]
    assert strays(centers[:6], counts[:6]) == [4, 5]
    assert strays([*centers[:6], [300.0]], counts) == [4, 5, 6]


def test_where_all_are_tiny_none_is_a_stray():
    assert strays([[0.0], [9.0]], [1, 1]) == []


def test_a_stray_is_labelled_like_every_other_center():
    clean = mixture_world(points_per_cluster=30).messages()
    stray = kfed.DeviceMessage("stray", clean[0].centers[:1] + 40.0, [2])
    result = kfed.aggregate([*clean, stray], 16, rule="robust")
    without = kfed.aggregate(clean, 16, rule="robust")
    np.testing.assert_array_equal(result.cluster_centers, without.cluster_centers)
    np.testing.assert_array_equal(np.asarray(result.identity("stray")), np.asarray(without.assign(stray)))


def test_strays_are_not_left_out_if_too_few_centers_would_remain():
    sent = [kfed.DeviceMessage("a", [[0.0], [9.0], [50.0]], [100, 90, 3])]
    assert kfed.aggregate(sent, 3, rule="robust").n_clusters == 3
    assert sorted(kfed.aggregate(sent, 2, rule="robust").cluster_centers.ravel()) == [0.0, 9.0]


# Seeds ----------------------------------------------------------------------------------------------------------


def textbook_medoids(points, weights, n_clusters):
    squares = ((points[:, None] - points) ** 2).sum(axis=2)
    chosen = [int((weights @ squares).argmin())]
    while len(chosen) < n_clusters:
        costs = [weights @ squares[:, [*chosen, row]].min(axis=1) for row in range(len(points))]
        chosen.append(int(np.argmin(costs)))
    return points[chosen]


@given(seed=st.integers(0, 10**6), n_points=st.integers(3, 40), n_clusters=st.integers(1, 8))
def test_medoids_are_those_of_the_textbook(seed, n_points, n_clusters):
    rng = np.random.default_rng(seed)
    points, weights = rng.normal(size=(n_points, 3)), rng.uniform(1, 9, n_points)
    n_clusters = min(n_clusters, n_points)
    found = robust._medoids(points, weights, n_clusters)
    np.testing.assert_array_equal(found, textbook_medoids(points, weights, n_clusters))


def test_medoids_of_points_that_coincide_come_to_an_end():
    assert robust._medoids(np.ones((6, 2)), np.ones(6), 4).tolist() == [[1.0, 1.0]] * 4


def test_of_many_centers_a_sample_chooses_the_seeds(monkeypatch):
    sent = mixture_world(gap=30.0, devices_per_group=10).messages()
    whole = kfed.aggregate(sent, 16, rule="robust")
    monkeypatch.setattr("kfed.server.rules.robust.MAX_EXAMINED", 64)
    sampled = kfed.aggregate(sent, 16, rule="robust")
    assert same_partition(whole.center_labels, sampled.center_labels)


def test_lloyd_lowers_the_cost_and_ends_where_every_center_is_the_weighted_mean():
    rng = np.random.default_rng(0)
    points, weights = rng.normal(size=(200, 3)), rng.uniform(1, 5, 200)
    before = ((points[:, None] - points[:5]) ** 2).sum(axis=2).min(axis=1) @ weights
    centers, cost = robust.weighted_lloyd(points, weights, points[:5], n_jobs=1)
    assert cost < before
    labels = ((points[:, None] - centers) ** 2).sum(axis=2).argmin(axis=1)
    means = [np.average(points[labels == r], axis=0, weights=weights[labels == r]) for r in range(5)]
    np.testing.assert_allclose(centers, means)


@pytest.mark.slow
def test_a_hundred_thousand_centers_take_seconds():
    rng = np.random.default_rng(0)
    places = 10 * rng.normal(size=(32, 50))
    centers = (places[rng.integers(32, size=100_000)] + rng.normal(size=(100_000, 50))).astype(np.float32)
    counts = np.where(rng.random(100_000) < 0.05, 3, 100)
    parts = zip(np.split(centers, 25_000), np.split(counts, 25_000), strict=True)
    sent = [kfed.DeviceMessage(f"{i}", own, n) for i, (own, n) in enumerate(parts)]
    started = time.perf_counter()
    assert kfed.aggregate(sent, 32, rule="robust").n_clusters == 32
    assert time.perf_counter() - started < 60


def test_strays_are_kept_in_files_so_that_devices_of_a_cluster_are_counted_alike():
    sent = [kfed.DeviceMessage(f"{i}", [[0.0 + i / 100], [9.0 + i / 100]], [40, 60]) for i in range(6)]
    sent.append(kfed.DeviceMessage("odd", [[0.3], [30.0]], [40, 1]))
    result = kfed.aggregate(sent, 2, rule="robust")
    assert result.grouping.strays.tolist() == [13]
    again = kfed.Aggregation.from_bytes(result.to_bytes())
    assert again.grouping.strays.tolist() == [13]
    assert again.devices_in_cluster.tolist() == result.devices_in_cluster.tolist()
