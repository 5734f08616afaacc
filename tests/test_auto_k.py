"""`n_clusters="auto"`: k is found when the centers show it, and not guessed when they do not."""

import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.datasets import load_digits
from sklearn.metrics import calinski_harabasz_score

import kfed
from kfed._base import files
from kfed.server import cost_curve, farthest_first, trust
from kfed.server.center_spread import CenterSpread, chance_factor, directional_deviation
from kfed.server.cost_curve import calinski_harabasz
from kfed.wire import MessageBatch
from worlds import few_examples, gatherings, mixture_world, rotation, theorem_world


def with_outliers(world, n_outliers, seed=0, reach=200.0):
    """Put some points of random devices far out, each in a direction of its own."""
    rng = np.random.default_rng(seed)
    points = [own.copy() for own in world.points]
    for _ in range(n_outliers):
        own = points[rng.integers(len(points))]
        direction = rng.normal(size=own.shape[1])
        own[rng.integers(len(own))] = direction * (rng.uniform(0.5, 2) * reach / np.linalg.norm(direction))
    return replace(world, points=points)


def unequal(world, seed=0):
    """Take points away, of each cluster of each device another share, up to four fifths."""
    rng = np.random.default_rng(seed)
    kept = [rng.random(len(t)) < rng.uniform(0.2, 1, world.n_clusters)[t] for t in world.targets]
    parts = zip(world.points, world.targets, kept, strict=True)
    points, targets = zip(*((own[k], t[k]) for own, t, k in parts), strict=True)
    return replace(world, points=list(points), targets=list(targets))


def shared_digits(n_devices, n_local_clusters, n_shards=0, seed=0):
    """Messages about the digits of scikit-learn, spread at random or by `n_shards` sorted runs a device."""
    points, digits = load_digits(return_X_y=True)
    rng = np.random.default_rng(seed)
    order = rng.permutation(len(points))
    if n_shards:
        runs = np.array_split(order[np.argsort(digits[order], kind="stable")], n_shards * n_devices)
        rows = [np.concatenate([runs[i] for i in own]) for own in np.split(rng.permutation(len(runs)), n_devices)]
    else:
        rows = np.array_split(order, n_devices)
    found = kfed.cluster_fleet([points[own] for own in rows], n_local_clusters, random_state=seed)
    return [local.to_message(f"{i}") for i, local in enumerate(found)]


def changed(message, **values):
    """The same message but for some of what it says."""
    names = ("device_id", "centers", "counts", "sums_of_squares", "spectral_deviation", "feature_names")
    return kfed.DeviceMessage(**({name: getattr(message, name) for name in names} | values))


def assert_same_choice(one, other):
    assert one.facts() == other.facts()
    np.testing.assert_array_equal(one.distances, other.distances)
    np.testing.assert_array_equal(one.ratios, other.ratios)


# Right ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("required_ratio", [1.0, 10.0, 100.0])
@pytest.mark.parametrize("seed", range(3))
def test_with_the_separation_of_the_theorem_k_is_found(required_ratio, seed):
    choice = kfed.choose_n_clusters(theorem_world(required_ratio, seed).messages())
    assert choice.n_clusters == 16
    assert choice.is_reliable
    assert choice.agreement
    assert choice.candidates[0][0] == 16


@pytest.mark.parametrize("gap", [10.0, 20.0])
@pytest.mark.parametrize("what", ["as it is", "unequal", "one more local cluster", "1 outlier", "5 outliers"])
def test_k_is_found_through_what_real_devices_do(what, gap):
    for seed in range(3):
        world = mixture_world(gap=gap, points_per_cluster=40, devices_per_group=5, seed=seed)
        if what == "unequal":
            world = unequal(world, seed)
        if "outlier" in what:
            world = with_outliers(world, int(what[0]), seed)
        if "more" in what:
            world = replace(world, n_local_clusters=world.n_local_clusters + 1)
        assert kfed.aggregate(world.messages(seed), "auto").n_clusters == 16


def test_k_is_found_though_outliers_are_sent():
    world = with_outliers(mixture_world(gap=10.0, points_per_cluster=40, devices_per_group=5), 5)
    found = world.clusterings(min_cluster_size=1)
    choice = kfed.choose_n_clusters(local.to_message(name) for local, name in zip(found, world.ids, strict=True))
    assert choice.is_reliable
    assert (choice.n_clusters, choice.n_strays) == (16, 5)
    assert choice.n_mixtures >= 4
    assert "5 of 80 centers, of few points, were set aside" in choice.reason


def test_one_cluster_is_one():
    for n_features in (1, 2, 30):
        rng = np.random.default_rng(n_features)
        fleet = [rng.normal(size=(60, n_features)) for _ in range(30)]
        sent = [local.to_message(f"{i}") for i, local in enumerate(kfed.cluster_fleet(fleet, 1, random_state=0))]
        choice = kfed.choose_n_clusters(sent)
        assert (choice.n_clusters, choice.is_reliable) == (1, True)
        assert kfed.aggregate(sent, "auto").n_clusters == 1


@pytest.mark.parametrize("apart", [5.0, 6.0])
def test_clusters_that_every_device_mixed_up_are_not_called_one(apart):
    rng = np.random.default_rng(0)
    means = apart / 2**0.5 * np.eye(16, 100)
    fleet = [np.repeat(means, 20, axis=0) + rng.normal(size=(320, 100)) for _ in range(20)]
    sent = [local.to_message(f"{i}") for i, local in enumerate(kfed.cluster_fleet(fleet, 1, random_state=0))]
    choice = kfed.choose_n_clusters(sent)
    assert (choice.n_clusters, choice.is_reliable) == (1, False)
    assert "as those of several clusters do" in choice.reason


def iid(means, n_devices, n_points, seed=0):
    """Devices that all draw from the same clusters of unit spread."""
    rng = np.random.default_rng(seed)
    return [means[rng.integers(len(means), size=n_points)] + rng.normal(size=(n_points, 2)) for _ in range(n_devices)]


def sent_by(devices, n_local_clusters, seed=0):
    found = kfed.cluster_fleet(devices, n_local_clusters, random_state=seed)
    return [local.to_message(f"{i}") for i, local in enumerate(found)]


def square_of_places(side, apart):
    return apart * np.array([(i, j) for i in range(side) for j in range(side)], float)


@pytest.mark.slow
def test_25_clusters_on_devices_that_find_their_own_number_are_25():
    choice = kfed.choose_n_clusters(sent_by(iid(square_of_places(5, 20.0), 30, 2000), "auto"))
    assert (choice.n_clusters, choice.is_reliable) == (25, True)


@pytest.mark.parametrize("n_local_clusters", ["auto", 1, 4])
@pytest.mark.parametrize("seed", range(3))
def test_16_clusters_that_few_points_show_are_not_called_another_number(seed, n_local_clusters):
    sent = sent_by(iid(square_of_places(4, 6.0), 30, 60, seed), n_local_clusters, seed)
    assert not kfed.choose_n_clusters(sent).is_reliable


@pytest.mark.parametrize("seed", range(5))
def test_a_round_cloud_of_many_clusters_is_not_called_one(seed):
    choice = kfed.choose_n_clusters(sent_by(iid(square_of_places(5, 20.0), 30, 400, seed), 1, seed))
    assert (choice.n_clusters, choice.is_reliable) == (1, False)
    assert "as those of many clusters in one can" in choice.reason


def test_a_round_cloud_of_few_devices_is_too_little_to_call_it_one():
    choice = kfed.choose_n_clusters(sent_by(iid(np.zeros((1, 2)), 12, 60), 1))
    assert (choice.n_clusters, choice.is_reliable) == (1, False)
    assert "fewer than 20" in choice.reason


def test_near_clusters_that_devices_have_one_without_the_other_are_told_apart():
    rng = np.random.default_rng(0)
    means = square_of_places(3, 3.5)
    held = [(0, 2, 7), (1, 6, 8), (3, 5, 1), (4, 0, 8), (2, 6, 4), (5, 0, 6), (7, 3, 2), (8, 3, 2), (7, 1, 5)] * 3
    devices = [np.concatenate([means[r] + rng.normal(size=(300, 2)) for r in own]) for own in held]
    choice = kfed.choose_n_clusters(sent_by(devices, 3))
    assert (choice.n_clusters, choice.is_reliable) == (9, True)
    assert "Calinski-Harabasz index" in choice.reason


def test_clusters_in_pairs_are_counted_each_if_devices_have_one_of_a_pair():
    rng = np.random.default_rng(0)
    means = np.array([[0.0, 0.0], [3.5, 0.0], [30.0, 0.0], [33.5, 0.0], [0.0, 30.0], [3.5, 30.0]])
    held = [(0, 2), (1, 4), (3, 5), (0, 4), (1, 2), (3, 4), (0, 5), (1, 5), (0, 3), (1, 3), (2, 4), (2, 5)] * 2
    devices = [np.concatenate([means[r] + rng.normal(size=(200, 2)) for r in own]) for own in held]
    choice = kfed.choose_n_clusters(sent_by(devices, 2))
    assert (choice.n_clusters, choice.is_reliable) == (6, True)


def test_devices_that_mixed_clusters_up_do_not_make_all_clusters_seem_wide():
    rng = np.random.default_rng(0)
    means = np.array([[0.0, 0.0], [1.0, 0.0], [0.5, 0.8], [9.0, 0.0], [9.5, 0.5]])  # large, large, large, small, small
    devices = [np.repeat(means, [50, 50, 50, 5, 5], axis=0) + 0.03 * rng.normal(size=(160, 2)) for _ in range(40)]
    assert not kfed.choose_n_clusters(sent_by(devices, 3)).is_reliable


def test_parts_of_a_square_that_every_device_cuts_alike_are_not_clusters():
    rng = np.random.default_rng(0)
    sent = sent_by([rng.uniform(size=(2000, 2)) for _ in range(20)], 4)
    choice = kfed.choose_n_clusters(sent)
    assert (choice.n_clusters, choice.is_reliable) == (4, False)
    assert "parts of one cluster" in choice.reason


def test_local_clusters_that_lie_apart_are_not_called_one_cluster():
    rng = np.random.default_rng(0)
    near = np.array([[0.0, 0.0], [1.0, 0.0], [0.5, 0.35]])  # three large clusters, and two small ones far away
    far = np.array([[9.0, 0.0], [9.5, 0.5]])
    devices = [
        np.concatenate([np.repeat(near, 50, axis=0), np.repeat(far, 5, axis=0)]) + 0.03 * rng.normal(size=(160, 2))
        for _ in range(40)
    ]
    choice = kfed.choose_n_clusters(sent_by(devices, 3))
    assert not choice.is_reliable
    assert "two local clusters in one cluster, though these lie apart" in choice.reason


def test_a_single_center_is_one_cluster():
    choice = kfed.choose_n_clusters([kfed.DeviceMessage("a", [[1.0, 2.0]], [9], [3.0])])
    assert (choice.n_clusters, choice.is_reliable, len(choice.distances), choice.candidates) == (1, True, 0, [])


def test_clusters_without_any_spread_are_counted():
    places = np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0]])
    sent = [kfed.DeviceMessage(f"{i}", places, [5] * 3, [0.0] * 3) for i in range(4)]
    assert kfed.choose_n_clusters(sent).n_clusters == 3
    same = [kfed.DeviceMessage(f"{i}", places[:1], [5]) for i in range(4)]
    assert kfed.aggregate(same, "auto").n_clusters == 1


def test_a_cluster_wider_than_the_others_counts_too():
    rng = np.random.default_rng(0)
    places = 20 * rotation(30, 0)[:6]
    widths = np.array([1.0, 1.0, 1.0, 1.0, 1.0, 2.5])
    fleet = [
        np.concatenate([places[r] + widths[r] * rng.normal(size=(40, 30)) for r in own])
        for own in ([0, 1, 2], [3, 4, 5]) * 4
    ]
    sent = [local.to_message(f"{i}") for i, local in enumerate(kfed.cluster_fleet(fleet, 3, random_state=0))]
    choice = kfed.choose_n_clusters(sent)
    assert (choice.n_clusters, choice.is_reliable, choice.n_mixtures) == (6, True, 0)


def test_a_small_cluster_that_several_devices_found_counts_too():
    world = mixture_world(gap=20.0, points_per_cluster=60, devices_per_group=5)
    kept = [(t != 7) | (np.cumsum(t == 7) <= 4) for t in world.targets]
    world = replace(world, points=[own[k] for own, k in zip(world.points, kept, strict=True)])
    choice = kfed.choose_n_clusters(world.messages())
    assert (choice.n_clusters, choice.n_strays) == (16, 0)


# Unsure ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("n_shards", [0, 1, 2])
@pytest.mark.parametrize("n_local_clusters", [2, 4, 10])
def test_digits_have_no_reliable_k(n_shards, n_local_clusters):
    sent = shared_digits(15, n_local_clusters, n_shards)
    choice = kfed.choose_n_clusters(sent)
    assert not choice.is_reliable
    with pytest.raises(kfed.NoReliableKError, match=r"times\).*give n_clusters as a number") as caught:
        choice.reliable_n_clusters()
    assert choice.reason in str(caught.value)
    for k, ratio in choice.candidates:
        assert f"{k} ({ratio:.2f} times)" in str(caught.value)


def test_where_no_k_is_reliable_the_best_of_those_compared_is_taken_and_it_is_said():
    sent = shared_digits(15, 4, 2)
    with pytest.warns(kfed.AggregationWarning, match="no number of clusters stands out"):
        result = kfed.aggregate(sent)
    assert result.k_comparison is not None
    assert result.n_clusters == result.k_choice.n_clusters == result.k_comparison.best
    assert not result.k_choice.is_reliable
    assert "is the best of 2 to" in result.k_choice.reason
    assert kfed.Aggregation.from_bytes(result.to_bytes()).k_choice.reason == result.k_choice.reason


@pytest.mark.parametrize("shape", ["long", "round", "uniform"])
@pytest.mark.parametrize("n_local_clusters", [2, 3, 5])
def test_parts_of_one_cluster_are_not_called_clusters(shape, n_local_clusters):
    rng = np.random.default_rng(n_local_clusters)
    for _ in range(3):
        if shape == "uniform":
            fleet = [rng.uniform(size=(200, 2)) for _ in range(20)]
        else:
            widths = np.r_[6.0 if shape == "long" else 1.0, np.ones(9)]
            fleet = [widths * rng.normal(size=(200, 10)) for _ in range(20)]
        found = kfed.cluster_fleet(fleet, n_local_clusters, random_state=0)
        choice = kfed.choose_n_clusters(local.to_message(f"{i}") for i, local in enumerate(found))
        assert not choice.is_reliable


def test_two_centers_far_apart_are_too_few():
    sent = [kfed.DeviceMessage("a", [[0.0], [9.0]], [50, 50], [50.0, 50.0])]
    choice = kfed.choose_n_clusters(sent)
    assert not choice.is_reliable
    assert "2 centers are too few" in choice.reason
    assert not kfed.aggregate(sent, "auto").k_choice.is_reliable


def test_a_lone_center_of_several_clusters_in_one_makes_the_choice_unsure():
    world = mixture_world(gap=20.0, points_per_cluster=40, devices_per_group=5)
    sent = world.messages()
    wide = sent[0]
    squares = np.array(wide.sums_of_squares)
    squares[0] *= 30  # much wider than any mixture of clusters 20 apart, and alone where it lies
    centers = np.array(wide.centers)
    centers[0] += 15 * rotation(24, 0)[20]
    sent[0] = changed(wide, centers=centers, sums_of_squares=squares)
    choice = kfed.choose_n_clusters(sent)
    assert not choice.is_reliable
    assert "rest on one device" in choice.reason


# Messages that say little ---------------------------------------------------------------------------------------


def without_squares(messages):
    return [changed(message, sums_of_squares=None, spectral_deviation=None) for message in messages]


def test_without_sums_of_squares_a_clear_drop_is_relied_upon_and_it_is_said_what_lacks():
    choice = kfed.choose_n_clusters(without_squares(mixture_world(gap=40.0).messages()))
    assert (choice.n_clusters, choice.is_reliable, choice.agreement) == (16, True, None)
    assert "lack sums of squares" in choice.reason


def test_without_sums_of_squares_a_drop_that_is_not_clear_is_not():
    sent = mixture_world(gap=10.0).messages()
    assert kfed.choose_n_clusters(sent).is_reliable
    choice = kfed.choose_n_clusters(without_squares(sent))
    assert not choice.is_reliable
    assert "lack sums of squares" in choice.reason


def test_some_messages_without_sums_of_squares_do_not_matter():
    sent = mixture_world().messages()
    some = [*without_squares(sent[:3]), *sent[3:]]
    choice = kfed.choose_n_clusters(some)
    assert (choice.n_clusters, choice.is_reliable, choice.agreement) == (16, True, True)


def test_without_spectral_deviations_k_is_found_from_the_sums_of_squares():
    sent = [changed(message, spectral_deviation=None) for message in mixture_world().messages()]
    assert kfed.aggregate(sent, "auto").n_clusters == 16


def test_there_must_be_a_center():
    nothing = kfed.DeviceMessage("a", np.empty((0, 2)), [])
    for function in (kfed.choose_n_clusters, lambda sent: kfed.aggregate(sent, "auto")):
        with pytest.raises(kfed.TooFewCentersError, match="sent none"):
            function([nothing])


@pytest.mark.parametrize("value", ["automatic", "", "16", 2.5, 0, True])
def test_another_word_or_number_is_refused(value):
    with pytest.raises(kfed.InvalidInputError, match="n_clusters must be a whole number"):
        kfed.aggregate(mixture_world().messages(), value)


# Laws -----------------------------------------------------------------------------------------------------------


@given(data=st.data(), gathering=gatherings())
def test_any_messages_get_a_choice_that_does_not_depend_on_their_order(data, gathering):
    sent, _ = gathering
    choice = kfed.choose_n_clusters(sent)
    assert 1 <= choice.n_clusters <= max(1, sum(message.n_local_clusters for message in sent))
    assert np.isfinite(choice.distances).all()
    assert np.isfinite(choice.ratios).all()
    assert len(choice.ratios) == max(0, len(choice.distances) - 1)
    assert (np.diff(choice.distances) <= 0).all()
    assert_same_choice(choice, kfed.choose_n_clusters(data.draw(st.permutations(sent))))


@given(seed=st.integers(0, 10**6), exponent=st.integers(-20, 20), gap=st.sampled_from([5.0, 10.0, 20.0]))
@few_examples
def test_rotating_or_scaling_the_centers_does_not_change_the_choice(seed, exponent, gap):
    sent = mixture_world(gap=gap, seed=seed).messages(seed)
    scale, turn = 2.0**exponent, rotation(24, seed)
    turned = [
        changed(
            message,
            centers=scale * message.centers @ turn,
            sums_of_squares=scale**2 * message.sums_of_squares,
            spectral_deviation=scale * message.spectral_deviation,
        )
        for message in sent
    ]
    one, other = kfed.choose_n_clusters(sent), kfed.choose_n_clusters(turned)
    assert one.facts() == other.facts()
    np.testing.assert_allclose(scale * one.distances, other.distances, rtol=1e-9)


def test_more_threads_do_not_change_the_choice():
    sent = with_outliers(mixture_world(points_per_cluster=30), 4).messages()
    assert_same_choice(kfed.choose_n_clusters(sent, n_jobs=1), kfed.choose_n_clusters(sent, n_jobs=4))


def test_blocks_do_not_change_the_choice(monkeypatch):
    sent = with_outliers(mixture_world(points_per_cluster=30), 4).messages()
    whole = kfed.choose_n_clusters(sent)
    monkeypatch.setattr(trust, "BLOCK_ELEMENTS", 64)
    assert_same_choice(whole, kfed.choose_n_clusters(sent))


# On the aggregation ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("rule", ["paper", "robust"])
def test_auto_is_the_aggregation_with_that_k_but_for_saying_how_it_was_found(rule):
    sent = mixture_world().messages()
    found, given_k = (kfed.aggregate(sent, k, rule=rule) for k in ("auto", 16))
    assert given_k.k_choice is None
    assert found.k_choice.n_clusters == found.n_clusters == 16
    np.testing.assert_array_equal(found.center_labels, given_k.center_labels)
    np.testing.assert_array_equal(found.cluster_centers, given_k.cluster_centers)
    assert found != given_k


def test_how_k_was_found_is_saved_and_loaded(tmp_path):
    result = kfed.aggregate(mixture_world().messages(), "auto")
    result.save(tmp_path / "clusters.kfed")
    loaded = kfed.Aggregation.load(tmp_path / "clusters.kfed")
    assert loaded == result
    assert_same_choice(loaded.k_choice, result.k_choice)
    assert not loaded.k_choice.distances.flags.writeable
    assert kfed.Aggregation.from_bytes(kfed.aggregate(mixture_world().messages(), 16).to_bytes()).k_choice is None


@pytest.mark.parametrize(
    "damage",
    [
        {"n_clusters": 15},
        {"n_clusters": "16"},
        {"is_reliable": 3},
        {"reason": None},
        {"extra": 1},
    ],
)
def test_a_damaged_choice_is_not_sound(damage):
    tensors, facts = files.decode(kfed.aggregate(mixture_world().messages(), "auto").to_bytes())
    for wrong in ({**facts["k_choice"], **damage}, "sixteen", []):
        with pytest.raises(kfed.MessageError, match="not valid"):
            kfed.Aggregation.from_bytes(files.encode(tensors, {**facts, "k_choice": wrong}))
    missing = {name: tensor for name, tensor in tensors.items() if name != "k_choice_ratios"}
    with pytest.raises(kfed.MessageError, match="not valid"):
        kfed.Aggregation.from_bytes(files.encode(missing, facts))


def test_a_file_from_before_choices_were_kept_still_loads():
    result = kfed.aggregate(mixture_world().messages(), 16)
    tensors, facts = files.decode(result.to_bytes())
    del facts["k_choice"]
    assert kfed.Aggregation.from_bytes(files.encode(tensors, facts)) == result


def test_without_a_device_k_is_found_as_if_it_had_never_joined():
    sent = mixture_world().messages()
    far = kfed.DeviceMessage("far", [[500.0] * 24, [-500.0] * 24], [30, 30], [700.0, 700.0], 7.0)
    twin = changed(far, device_id="twin", centers=far.centers + 0.1)
    result = kfed.aggregate([*sent, far, twin], "auto")
    assert result.n_clusters == 18
    smaller = result.without("far").without("twin")
    assert smaller.n_clusters == 16
    assert smaller == kfed.aggregate(sent, "auto")


def test_without_a_device_there_may_be_no_reliable_k_any_more():
    centers = np.array([[0.0, 0.0], [50.0, 0.0]])
    sent = [kfed.DeviceMessage(f"{i}", centers + i / 100, [50, 50], [100.0, 100.0], 10.0) for i in range(2)]
    result = kfed.aggregate(sent, "auto")
    assert result.n_clusters == 2
    assert result.k_choice.is_reliable
    smaller = result.without("0")
    assert not smaller.k_choice.is_reliable
    assert "too few" in smaller.k_choice.reason


def test_a_choice_reads_well():
    choice = kfed.choose_n_clusters(mixture_world().messages())
    assert str(choice).startswith("16 clusters: farthest-first distances drop")
    unsure = kfed.choose_n_clusters(shared_digits(10, 4))
    assert str(unsure).startswith("no reliable number of clusters: ")


# Steps ----------------------------------------------------------------------------------------------------------


def gathering(centers, variances, counts=None):
    """A device for each center, of 100 points unless it is said."""
    counts = [100] * len(centers) if counts is None else counts
    sent = [
        kfed.DeviceMessage(f"{i:02}", [center], [count], [variance * (count - 1)])
        for i, (center, variance, count) in enumerate(zip(centers, variances, counts, strict=True))
    ]
    return MessageBatch.of(sent)


def mixtures_of(*arguments):
    found = gathering(*arguments)
    traversal = farthest_first(found.centers, len(found.centers), [int(found.counts.argmax())])
    return trust.mixtures(found.centers, CenterSpread.of(found), traversal).tolist()


def test_a_center_between_two_others_whose_spread_says_so_is_a_mixture():
    # a quarter of the points at the right, the rest at the left: variance 3/16 of the squared distance, 100
    assert mixtures_of([[0.0, 0.0], [10.0, 0.0], [2.5, 0.0]], [1.0, 1.0, 1.0 + 18.75]) == [False, False, True]
    assert mixtures_of([[0.0, 0.0], [10.0, 0.0], [2.5, 0.0]], [1.0, 1.0, 1.0]) == [False, False, False]


def test_a_mixture_of_three_is_one_also_where_two_of_them_are_mixed_elsewhere():
    corners = 10 * np.eye(3)
    centers = [*corners, corners[:2].mean(axis=0), corners.mean(axis=0)]
    between_two, between_three = 50.0, 200 / 3
    assert mixtures_of(centers, [1, 1, 1, 1 + between_two, 1 + between_three]) == [False] * 3 + [True] * 2


def test_a_wide_cluster_apart_from_the_others_is_no_mixture():
    assert mixtures_of([[0.0, 0.0], [10.0, 0.0], [5.0, 9.0]], [1.0, 1.0, 60.0]) == [False] * 3
    assert mixtures_of([[0.0], [10.0], [20.0]], [1.0, 6.0, 1.0]) == [False] * 3


def test_chance_puts_centers_of_one_cluster_no_farther_apart_than_is_allowed_for():
    rng = np.random.default_rng(0)
    for n_features in (1, 3, 50):
        centers = rng.normal(size=(200, n_features))
        squares = ((centers[:, None] - centers) ** 2).sum(axis=2)
        assert squares.max() < 2 * n_features * chance_factor(200, n_features)


def test_the_directional_deviation_sees_the_widest_direction():
    rng = np.random.default_rng(0)
    widths = np.r_[5.0, np.ones(29)]
    fleet = [widths * rng.normal(size=(300, 30)) for _ in range(5)]
    found = kfed.cluster_fleet(fleet, 1, random_state=0)
    gathered = MessageBatch.of(local.to_message(f"{i}") for i, local in enumerate(found))
    variance = float(np.median(CenterSpread.of(gathered).variances))
    assert variance == pytest.approx(25 + 29, rel=0.1)
    assert directional_deviation(gathered, variance, np.ones(5, bool)) == pytest.approx(5, rel=0.15)
    assert directional_deviation(gathered, variance, np.zeros(5, bool)) == pytest.approx(np.sqrt(54 / 30), rel=0.1)


def test_no_more_candidates_are_looked_at_than_the_bound(monkeypatch):
    monkeypatch.setattr("kfed.server.auto_k.MAX_CANDIDATES", 8)
    choice = kfed.choose_n_clusters(mixture_world().messages())
    assert len(choice.distances) == 8
    assert not choice.is_reliable


def test_the_index_of_calinski_and_harabasz_is_that_of_all_points():
    rng = np.random.default_rng(0)
    groups = [rng.normal(size=(int(n), 3)) + 8 * place for n, place in zip([9, 30, 12, 20], np.eye(4, 3), strict=True)]
    halves = [half for group in groups for half in (group[: len(group) // 2], group[len(group) // 2 :])]
    centers = np.array([half.mean(axis=0) for half in halves])
    squares = np.array([((half - half.mean(axis=0)) ** 2).sum() for half in halves])
    index = calinski_harabasz(centers, np.array([len(half) for half in halves]), squares)
    labels = np.repeat(np.arange(4), [len(group) for group in groups])
    assert index.argmax() + 2 == 4
    assert index[2] == pytest.approx(calinski_harabasz_score(np.concatenate(groups), labels))


def test_of_many_centers_a_sample_gives_the_same_maximum(monkeypatch):
    batch = MessageBatch.of(mixture_world(devices_per_group=40).messages())
    columns = (batch.centers, batch.counts, batch.sums_of_squares)
    whole = calinski_harabasz(*columns)
    monkeypatch.setattr(cost_curve, "MAX_CENTERS", 100)
    assert calinski_harabasz(*columns).argmax() == whole.argmax() == 14


# Statistics -----------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("gap", [10.0, 20.0])
def test_k_is_found_in_99_of_100_worlds_and_never_wrong(gap):
    n_right = n_wrong = n_worlds = 0
    for seed in range(25):
        world = mixture_world(16, 100, gap=gap, points_per_cluster=100, devices_per_group=5, seed=seed)
        more = replace(world, n_local_clusters=5)
        for shown in (unequal(world, seed), more, with_outliers(world, 1, seed), with_outliers(world, 5, seed)):
            choice = kfed.choose_n_clusters(shown.messages(seed))
            n_worlds += 1
            n_right += choice.is_reliable and choice.n_clusters == 16
            n_wrong += choice.is_reliable and choice.n_clusters != 16
    assert n_wrong == 0
    assert n_right >= 0.99 * n_worlds


@pytest.mark.slow
def test_at_five_standard_deviations_k_is_mostly_found_and_hardly_ever_wrong():
    choices = [
        kfed.choose_n_clusters(shown.messages(seed))
        for seed in range(15)
        for world in [mixture_world(16, 100, gap=5.0, points_per_cluster=100, devices_per_group=5, seed=seed)]
        for shown in (world, with_outliers(world, 1, seed), with_outliers(world, 5, seed))
    ]
    n_right = sum(choice.is_reliable and choice.n_clusters == 16 for choice in choices)
    n_wrong = sum(choice.is_reliable and choice.n_clusters != 16 for choice in choices)
    assert n_right >= 0.6 * len(choices)
    assert n_wrong <= 0.02 * len(choices)


# Clusters that nobody here made ---------------------------------------------------------------------------------

BENCHMARK_SETS = {"s2": 15, "s3": 15, "a1": 20, "r15": 15, "d31": 31, "unbalance": 8}


def benchmark_set(name):
    """Points and classes of a public set, see the README beside them."""
    folder = Path(os.environ.get("KFED_DATA", "data")) / "benchmark-sets"
    if not (folder / f"{name}.data.gz").exists():
        pytest.skip(f"needs {name}.data.gz under {folder}, which is not part of the repository; set KFED_DATA")
    points, classes = (np.loadtxt(folder / f"{name}.{part}.gz") for part in ("data", "labels0"))
    return points / points.std(), classes.astype(int)


def blobs(name):
    """A generated set, as its name says: clusters, and standard deviations between their places."""
    n_clusters, apart = map(int, name.split(" blobs "))
    rng = np.random.default_rng(n_clusters)
    side = int(np.ceil(np.sqrt(n_clusters)))
    places = square_of_places(side, apart)[rng.permutation(side**2)[:n_clusters]]
    classes = rng.permutation(np.repeat(np.arange(n_clusters), 100))
    return places[classes] + rng.normal(size=(len(classes), 2)), classes


def spread_out(classes, way, seed):
    """Rows of each device, one for every 60 points, 4 to 40: alike, by about sqrt(k) classes, or half and half."""
    rng = np.random.default_rng(seed)
    rows, n_devices = rng.permutation(len(classes)), int(np.clip(len(classes) // 60, 4, 40))
    if way == "alike":
        return np.array_split(rows, n_devices)
    if way == "by classes":
        return by_classes(classes, rows, n_devices, rng)
    first, rest = np.split(rows, [len(rows) // 2])
    return [*np.array_split(first, n_devices // 2), *by_classes(classes, rest, n_devices - n_devices // 2, rng)]


def by_classes(classes, rows, n_devices, rng):
    names = np.unique(classes)
    per_device = int(np.ceil(np.sqrt(len(names))))
    deck = np.concatenate([rng.permutation(names) for _ in range(n_devices)])
    devices = [[] for _ in range(n_devices)]
    for name in names:
        places = np.unique(np.flatnonzero(deck[: n_devices * per_device] == name) // per_device)
        holders = places if len(places) else rng.integers(n_devices, size=1)
        for part, holder in zip(np.array_split(rows[classes[rows] == name], len(holders)), holders, strict=True):
            devices[holder].append(part)
    return [np.concatenate(own) for own in devices if own]


def tally(make, names, n_seeds, n_local_clusters):
    """Runs in which the right number, and in which another, was called reliable, and all runs."""
    n_right = n_wrong = n_runs = 0
    for name in names:
        points, classes = make(name)
        n_clusters = len(np.unique(classes))
        n_local = "auto" if n_local_clusters == "auto" else int(np.ceil(np.sqrt(n_clusters)))
        for way in ("alike", "by classes", "half and half"):
            for seed in range(n_seeds):
                devices = [points[rows] for rows in spread_out(classes, way, seed)]
                choice = kfed.choose_n_clusters(sent_by(devices, n_local, seed))
                n_right += choice.is_reliable and choice.n_clusters == n_clusters
                n_wrong += choice.is_reliable and choice.n_clusters != n_clusters
                n_runs += 1
    return n_right, n_wrong, n_runs


@pytest.mark.slow
@pytest.mark.parametrize(("n_local_clusters", "least"), [("auto", 24), ("sqrt(k)", 40)])
def test_on_public_sets_no_wrong_number_is_called_reliable(n_local_clusters, least):
    n_right, n_wrong, n_runs = tally(benchmark_set, BENCHMARK_SETS, 8, n_local_clusters)
    assert n_runs == 144
    assert n_wrong == 0
    assert n_right >= least


@pytest.mark.slow
@pytest.mark.parametrize("n_local_clusters", ["auto", "sqrt(k)"])
def test_on_generated_sets_no_wrong_number_is_called_reliable(n_local_clusters):
    names = [f"{k} blobs {apart}" for k in (9, 16, 25) for apart in (5, 8, 20)]
    n_right, n_wrong, n_runs = tally(blobs, names, 5, n_local_clusters)
    assert n_runs == 135
    assert n_wrong == 0
    assert n_right >= n_runs / 4
