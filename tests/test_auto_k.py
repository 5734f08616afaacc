"""`n_clusters="auto"`: k is found when the centers show it, and not guessed when they do not."""

from dataclasses import replace

import numpy as np
import pytest

import kfed
from k_worlds import assert_same_choice, changed, sent_by, shared_digits, square_of_places, unequal, with_outliers
from kfed._base import files
from worlds import mixture_world, rotation, theorem_world

# Right ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("required_ratio", [1.0, 10.0, 100.0])
@pytest.mark.parametrize("seed", range(3))
def test_with_the_separation_of_the_theorem_k_is_found(required_ratio, seed):
    choice = kfed.choose_n_clusters(theorem_world(required_ratio, seed).messages())
    assert choice.n_clusters == 16
    assert choice.is_reliable
    assert choice.agreement
    assert choice.candidates[0][0] == 16


@pytest.mark.parametrize("gap", [10.0, pytest.param(20.0, marks=pytest.mark.slow)])
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


@pytest.mark.parametrize(
    ("n_outliers", "said"), [(5, "5 of 80 centers, of few points, were"), (1, "1 of 80 centers, of few points, was")]
)
def test_k_is_found_though_outliers_are_sent(n_outliers, said):
    world = with_outliers(mixture_world(gap=10.0, points_per_cluster=40, devices_per_group=5), n_outliers)
    found = world.clusterings(min_cluster_size=1)
    choice = kfed.choose_n_clusters(local.to_message(name) for local, name in zip(found, world.ids, strict=True))
    assert choice.is_reliable
    assert (choice.n_clusters, choice.n_strays) == (16, n_outliers)
    assert choice.n_mixtures >= n_outliers - 1
    assert f"{said} set aside" in choice.reason


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
    assert "which suggests several clusters" in choice.reason


def iid(means, n_devices, n_points, seed=0):
    """Devices that all draw from the same clusters of unit spread."""
    rng = np.random.default_rng(seed)
    return [means[rng.integers(len(means), size=n_points)] + rng.normal(size=(n_points, 2)) for _ in range(n_devices)]


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
    assert "times as much as in one Gaussian cluster" in choice.reason


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
    assert "two well-separated local clusters were put into one cluster" in choice.reason


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
    assert str(choice).startswith("16 clusters: gaps between farthest-first picks fall by a factor of")
    unsure = kfed.choose_n_clusters(shared_digits(10, 4))
    assert str(unsure).startswith("no number of clusters stands out (3 at best): ")
