"""Tree aggregation: what a region says is exact, separated clusters are found as by the flat one, memory is bounded."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import kfed
from worlds import few_examples, gatherings, messages, mixture_world, same_partition

RULES = ["paper", "robust"]


def moments(sent):
    """Count, sum, and second moment about the origin of all points that the messages speak for."""
    total, sums, squares = 0.0, 0.0, 0.0
    for message in sent:
        centers = message.centers.astype(float)
        total += message.n_points
        sums = sums + message.counts @ centers
        squares += message.sums_of_squares.sum() + message.counts @ (centers**2).sum(axis=1)
    return total, sums, squares


@st.composite
def told_messages(draw):
    """Messages with sums of squares, in double precision, and a legal k."""
    n_features = draw(st.integers(1, 3))
    sent = []
    for i in range(draw(st.integers(1, 9))):
        n_centers = draw(st.integers(1, 4))
        row = st.lists(st.integers(-3, 3).map(float), min_size=n_features, max_size=n_features)
        centers = draw(st.lists(row, min_size=n_centers, max_size=n_centers))
        counts = draw(st.lists(st.integers(1, 60), min_size=n_centers, max_size=n_centers))
        squares = draw(st.lists(st.floats(0, 100), min_size=n_centers, max_size=n_centers))
        sent.append(kfed.DeviceMessage(f"device {i}", np.array(centers), counts, squares))
    return sent, draw(st.integers(1, sum(m.n_local_clusters for m in sent)))


@pytest.mark.parametrize("rule", RULES)
@given(told=told_messages())
def test_an_aggregation_speaks_for_exactly_the_points_of_its_devices(rule, told):
    sent, n_clusters = told
    spoken = kfed.aggregate(sent, n_clusters, rule=rule).to_message("region")
    for ours, theirs in zip(moments([spoken]), moments(sent), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-9, atol=1e-7)


@given(told=told_messages(), fan_in=st.integers(2, 4))
def test_no_point_is_lost_or_counted_twice_on_the_way_up(told, fan_in):
    sent, _ = told
    result = kfed.aggregate_tree(sent, 1, fan_in=fan_in)
    assert result.messages.n_devices <= fan_in
    for ours, theirs in zip(moments([result.to_message("root")]), moments(sent), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-9, atol=1e-7)


def test_the_message_of_an_aggregation_says_the_mean_count_and_spread_of_the_points_themselves():
    world = mixture_world()
    result = kfed.aggregate(world.messages(), world.n_clusters)
    labels = np.concatenate(
        [
            local.induced_labels(result.identity(name))
            for local, name in zip(world.clusterings(), world.ids, strict=True)
        ]
    )
    points = np.concatenate(world.points)
    spoken = result.to_message("region")
    for cluster in range(world.n_clusters):
        own = points[labels == cluster]
        assert spoken.counts[cluster] == len(own)
        np.testing.assert_allclose(spoken.centers[cluster], own.mean(axis=0))
        np.testing.assert_allclose(spoken.sums_of_squares[cluster], ((own - own.mean(axis=0)) ** 2).sum())
    assert spoken.spectral_deviation is None  # it could only be bounded


def test_a_region_whose_device_says_nothing_of_its_spread_says_nothing_of_it_either():
    told = kfed.DeviceMessage("a", [[0.0]], [5], [1.0])
    silent = kfed.DeviceMessage("b", [[1.0]], [5])
    assert kfed.aggregate([told, silent], 1).to_message("region").sums_of_squares is None


@pytest.mark.parametrize("rule", RULES)
@given(gathering=gatherings())
def test_a_tree_of_one_region_is_the_flat_aggregation(rule, gathering):
    sent, n_clusters = gathering
    tree = kfed.aggregate_tree(iter(sent), n_clusters, fan_in=max(2, len(sent)), rule=rule)
    assert tree == kfed.aggregate(sent, n_clusters, rule=rule)


@pytest.mark.parametrize("rule", RULES)
@given(seed=st.integers(0, 1000), fan_in=st.integers(2, 13), data=st.data())
@few_examples
def test_on_separated_data_a_tree_gives_the_flat_partition_in_any_order(rule, seed, fan_in, data):
    world = mixture_world(n_clusters=9, n_features=12, gap=25.0, devices_per_group=4, seed=seed)
    sent = world.messages()
    flat = kfed.aggregate(sent, world.n_clusters, rule=rule)
    tree = kfed.aggregate_tree(data.draw(st.permutations(sent)), world.n_clusters, fan_in=fan_in, rule=rule)
    flat_ids = np.concatenate([np.asarray(flat.identity(message.device_id)) for message in sent])
    tree_ids = np.concatenate([np.asarray(tree.assign(message)) for message in sent])
    assert same_partition(flat_ids, tree_ids)
    order = [int(flat_ids[tree_ids == cluster][0]) for cluster in range(world.n_clusters)]
    np.testing.assert_array_equal(tree.cluster_sizes, flat.cluster_sizes[order])
    np.testing.assert_allclose(tree.cluster_centers, flat.cluster_centers[order], rtol=0, atol=1e-9)  # of equal counts


@given(seed=st.integers(0, 1000), fan_in=st.integers(2, 5))
@few_examples
def test_answers_relayed_through_all_regions_are_those_of_the_nearest_center_on_separated_data(seed, fan_in):
    world = mixture_world(n_clusters=9, n_features=12, gap=25.0, devices_per_group=4, seed=seed)
    sent = world.messages()
    regions = {}
    root = kfed.aggregate_tree(sent, world.n_clusters, fan_in=fan_in, keep=regions.__setitem__)
    for message in sent:
        assert answered(message.device_id, root, regions) == root.assign(message)


def answered(device_id, root, regions):
    """The answer from the root down to one device or region."""
    if device_id in root:
        return root.identity(device_id)
    name, region = next((name, region) for name, region in regions.items() if device_id in region)
    return region.relay(device_id, answered(name, root, regions))


@given(gathering=gatherings(min_devices=2), fan_in=st.integers(2, 3))
def test_a_relayed_answer_names_one_cluster_for_each_center_that_was_sent(gathering, fan_in):
    sent, n_clusters = gathering
    regions = {}
    try:
        root = kfed.aggregate_tree(sent, n_clusters, fan_in=fan_in, keep=regions.__setitem__)
    except kfed.TooFewCentersError:
        repeats = any(n_distinct([message]) < message.n_local_clusters for message in sent)
        assert n_distinct(sent) < n_clusters or repeats
        return
    for message in sent:
        if message.n_local_clusters:
            assert len(answered(message.device_id, root, regions)) == message.n_local_clusters


def n_distinct(sent):
    return len(np.unique(np.concatenate([message.centers.astype(float) for message in sent]) + 0.0, axis=0))


def test_a_region_that_starts_from_centers_that_coincide_speaks_of_one_cluster():
    sent = [kfed.DeviceMessage("a", [[0.0], [0.0]], [9, 9]), kfed.DeviceMessage("b", [[1.0]], [9])]
    assert kfed.aggregate(sent, 2).cluster_sizes.tolist() == [27, 0]  # step 2: M is what the first device sent
    empty = kfed.DeviceMessage("c", np.empty((0, 1)), [])
    with pytest.raises(kfed.TooFewCentersError):
        kfed.aggregate_tree([*sent, empty], 2, fan_in=2)


def test_the_answer_to_another_message_is_not_relayed():
    region = kfed.aggregate([kfed.DeviceMessage("a", [[0.0], [9.0]], [5, 5])], 2)
    other = kfed.Identity("region", [0], [[1.0]])
    with pytest.raises(kfed.InvalidInputError, match="the answer to another message"):
        region.relay("a", other)


def test_regions_that_report_to_a_server_above_are_aggregated_by_their_own_rule_and_removed_as_if_never_there():
    world = mixture_world(n_clusters=9, n_features=12, gap=25.0)
    sent = world.messages()
    regions = [kfed.aggregate(sent[i : i + 3], 9).to_message(f"region {i}") for i in range(0, 9, 3)]  # 3 clusters each
    result = kfed.aggregate(regions, 9, rule="regions")
    flat = kfed.aggregate(sent, 9)
    found, expected = (np.concatenate([np.asarray(r.assign(m)) for m in sent]) for r in (result, flat))
    assert same_partition(found, expected)
    assert result.without("region 0") == kfed.aggregate(regions[1:], 9, rule="regions")
    assert kfed.Aggregation.from_bytes(result.to_bytes()) == result


def test_regions_that_all_have_all_clusters_are_not_called_too_alike():
    places = 9.0 * np.eye(4)
    regions = [kfed.DeviceMessage(f"region {i}", places + i / 10, [50] * 4) for i in range(3)]
    assert kfed.aggregate(regions, 4, rule="regions").notices == ()
    assert "too alike" in kfed.aggregate(regions, 4).notices[0].text


def test_a_tree_holds_no_more_messages_than_fan_in_at_each_level():
    alive = most = 0

    class Counted(kfed.DeviceMessage):
        def __del__(self):
            nonlocal alive
            alive -= 1

    def stream():
        nonlocal alive, most
        for i in range(2_000):
            alive += 1
            most = max(most, alive)
            yield Counted(f"{i}", np.eye(3)[[i % 3]] + i / 1e6, [5])

    assert kfed.aggregate_tree(stream(), 3, fan_in=20).cluster_sizes.sum() == 10_000
    assert most <= 20 + 3  # the region that is filled, and those in hand


@given(message=messages(st.just("late"), n_features=2))
@few_examples
def test_a_device_with_other_features_is_named_however_late_it_comes(message):
    sent = [kfed.DeviceMessage(f"{i}", [[float(i)] * 3], [5]) for i in range(7)]
    with pytest.raises(kfed.FeatureMismatchError, match="'late' has 2"):
        kfed.aggregate_tree([*sent, message], 2, fan_in=2)


def test_regions_whose_devices_sent_nothing_are_passed_over():
    empty = [kfed.DeviceMessage(f"empty {i}", np.empty((0, 2)), []) for i in range(9)]
    full = kfed.DeviceMessage("full", [[0.0, 1.0], [5.0, 5.0]], [5, 5])
    assert kfed.aggregate_tree([*empty, full], 2, fan_in=2).cluster_sizes.tolist() == [5, 5]
    with pytest.raises(kfed.TooFewCentersError):
        kfed.aggregate_tree(empty, 2, fan_in=2)


@pytest.mark.parametrize(("options", "match"), [({"fan_in": 1}, "fan_in"), ({"rule": "other"}, "rule")])
def test_settings_that_make_no_tree_are_refused(options, match):
    with pytest.raises(kfed.InvalidInputError, match=match):
        kfed.aggregate_tree([kfed.DeviceMessage("a", [[0.0]], [5])], 1, **options)


def test_what_is_no_message_is_refused():
    with pytest.raises(kfed.InvalidInputError, match="got a str"):
        kfed.aggregate_tree(["hello"], 1)


def with_a_liar(n_devices=60, n_clusters=3):
    """Devices with two of three clusters each, and one that makes up a cluster of its own with absurd counts."""
    rng = np.random.default_rng(0)
    places = np.array([[0.0, 0.0], [20.0, 0.0], [0.0, 20.0]])
    sent = [
        kfed.DeviceMessage(f"{i:03}", places[[i % 3, (i + 1) % 3]] + rng.normal(size=(2, 2)) / 9, [30, 30], [9.0, 9.0])
        for i in range(n_devices)
    ]
    return places, [*sent, kfed.DeviceMessage("liar", [[900.0, 900.0]], [2**53], [0.0])]


def test_with_min_devices_no_device_makes_a_cluster_of_a_tree_alone():
    places, sent = with_a_liar()
    together, alone = (kfed.aggregate_tree(sent, 3, fan_in=10, rule="robust", min_devices=n) for n in (2, 1))
    gaps = np.linalg.norm(together.cluster_centers[:, None] - places, axis=2)
    assert gaps.min(axis=0).max() < 1
    assert np.abs(alone.cluster_centers).max() > 800
    with pytest.raises(kfed.InvalidInputError, match="min_devices needs rule='robust'"):
        kfed.aggregate_tree(sent, 3, fan_in=10, min_devices=2)


def test_the_last_few_devices_are_no_region_of_their_own():
    places, sent = with_a_liar(30)
    lonely = [kfed.DeviceMessage(name, [[at, at]], [9], [1.0]) for name, at in {"x": 500.0, "y": -500.0}.items()]
    regions = {}
    result = kfed.aggregate_tree(
        [*sent[:30], *lonely], 3, fan_in=10, rule="robust", min_devices=2, keep=regions.__setitem__
    )
    assert [region.messages.n_devices for region in regions.values()] == [10, 10, 12]
    assert np.linalg.norm(result.cluster_centers[:, None] - places, axis=2).min(axis=0).max() < 1


def test_a_region_has_as_many_clusters_as_rest_on_enough_devices():
    at = [[0.0], [0.1], [9.0], [9.1], [20.0], [30.0]]
    sent = [kfed.DeviceMessage(f"{i}", [place], [9], [1.0]) for i, place in enumerate(at)]
    rest = [kfed.DeviceMessage(f"late {i}", [place], [9], [1.0]) for i, place in enumerate(3 * at[:4])]
    regions = {}
    result = kfed.aggregate_tree([*sent, *rest], 4, fan_in=6, rule="robust", min_devices=2, keep=regions.__setitem__)
    assert all(region.devices_in_cluster.min() >= 2 for region in regions.values())
    assert regions["region 0.0"].n_clusters < 4
    assert result.n_clusters == 4


def test_what_was_set_aside_is_not_passed_on():
    _, sent = with_a_liar()
    result = kfed.aggregate(sent, 3, rule="robust", min_devices=2)
    assert len(result.grouping.set_aside) == 1
    spoken = result.to_message("region")
    assert spoken.n_points == 60 * 60
    assert np.abs(spoken.centers).max() < 30


def test_min_devices_of_a_tree_must_be_a_number():
    with pytest.raises(kfed.InvalidInputError, match="min_devices must be a whole number of at least 1; got 0"):
        kfed.aggregate_tree([], 3, min_devices=0)
