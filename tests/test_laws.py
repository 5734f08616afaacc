"""The laws of the whole pipeline: order, threads, company, rotation, scale, weights, precision, sparsity."""

import numpy as np
import pytest
import scipy.sparse
from hypothesis import given
from hypothesis import strategies as st

import kfed
import kfed._base.geometry
import kfed.device.rows.batches
import kfed.device.rows.blocked
from k_worlds import changed
from kfed.theory import DEVIATION_MARGIN, EXACT_FEATURES
from worlds import (
    assert_same_clustering,
    blobs,
    gatherings,
    messages,
    mixture_world,
    rotation,
    same_partition,
    theorem_world,
)

RULES = ["paper", "robust"]
FIELDS = ("labels", "counts", "withheld")


@pytest.fixture
def small_blocks(monkeypatch):
    """Every device of more than 2 kB is large, and is walked in blocks of 1 kB."""
    monkeypatch.setattr(kfed.device.rows.batches, "LARGE_BYTES", 2**11)
    monkeypatch.setattr(kfed.device.rows.blocked, "BLOCK_BYTES", 2**10)


# Order ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("rule", RULES)
@given(data=st.data(), gathering=gatherings())
def test_the_order_of_messages_does_not_matter(rule, data, gathering):
    sent, n_clusters = gathering
    shuffled = data.draw(st.permutations(sent))
    repeated = [*shuffled, data.draw(st.sampled_from(sent))]
    result = kfed.aggregate(sent, n_clusters, rule=rule)
    assert kfed.aggregate(shuffled, n_clusters, rule=rule).to_bytes() == result.to_bytes()
    assert kfed.aggregate(iter(repeated), n_clusters, rule=rule).to_bytes() == result.to_bytes()


@pytest.mark.parametrize("rule", RULES)
def test_the_order_of_devices_does_not_matter_to_the_induced_labels(rule):
    world = mixture_world()
    sent = world.messages()
    one, other = (kfed.aggregate(some, 16, rule=rule) for some in (sent, sent[::-1]))
    for local, name in zip(world.clusterings(), world.ids, strict=True):
        np.testing.assert_array_equal(
            local.induced_labels(one.identity(name)), local.induced_labels(other.identity(name))
        )


def test_messages_that_differ_only_in_precision_or_in_the_sign_of_zero_are_not_the_same():
    single, double = (kfed.DeviceMessage("a", np.zeros((1, 2), dtype), [5]) for dtype in (np.float32, np.float64))
    negative = kfed.DeviceMessage("a", [[0.0, -0.0]], [5])
    for one, other in [(single, double), (double, negative), (single, negative)]:
        assert one != other
        with pytest.raises(kfed.DuplicateDeviceError):
            kfed.aggregate([one, other], 1)


# Threads --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("rule", RULES)
def test_more_threads_do_not_change_an_aggregation(rule, monkeypatch):
    monkeypatch.setattr(kfed._base.geometry, "_BLOCK_ELEMENTS", 64)
    rng = np.random.default_rng(0)
    sent = [
        kfed.DeviceMessage(f"{i}", rng.normal(size=(4, 5)).astype(np.float32), rng.integers(3, 90, 4))
        for i in range(150)
    ]
    results = [kfed.aggregate(sent, 20, rule=rule, n_jobs=n).to_bytes() for n in (1, 2, 3)]
    assert results[0] == results[1] == results[2]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("shape", [(400, 7), (90, 60), (30, 70)])
def test_more_threads_do_not_change_a_large_device(small_blocks, shape, dtype):
    points = blobs(*shape, 5, seed=1, gap=1.5, dtype=dtype)
    weights = np.random.default_rng(2).uniform(0.1, 3, len(points))
    assert kfed.device.rows.batches.is_large(points, 4)
    one, two, three = (
        kfed.cluster_device(points, 4, sample_weight=weights, random_state=0, n_jobs=n) for n in (1, 2, 3)
    )
    assert_same_clustering(one, two)
    assert_same_clustering(one, three)


def test_more_threads_do_not_change_a_fleet(small_blocks):
    fleet = [blobs(10 + 13 * i, 6, 4, seed=i, gap=2) for i in range(14)]
    assert len({kfed.device.rows.batches.is_large(points, 3) for points in fleet}) == 2
    one, two, three = (kfed.cluster_fleet(fleet, 3, random_state=0, n_jobs=n) for n in (1, 2, 3))
    for first, second, third in zip(one, two, three, strict=True):
        assert_same_clustering(first, second)
        assert_same_clustering(first, third)


@pytest.mark.parametrize("n_clusters", [1, 2, 5])
@pytest.mark.parametrize(("shape", "dtype"), [((500, 6), np.float64), ((500, 6), np.float32), ((80, 90), np.float64)])
def test_a_large_device_walked_in_blocks_gets_the_answer_of_a_small_one(monkeypatch, shape, dtype, n_clusters):
    points = blobs(*shape, 5, seed=3, dtype=dtype)
    weights = np.random.default_rng(4).integers(1, 4, len(points))
    whole = kfed.cluster_device(points, n_clusters, sample_weight=weights, random_state=0)
    monkeypatch.setattr(kfed.device.rows.batches, "LARGE_BYTES", 2**11)
    monkeypatch.setattr(kfed.device.rows.blocked, "BLOCK_BYTES", 2**10)
    blocked = kfed.cluster_device(points, n_clusters, sample_weight=weights, random_state=0)
    for field in FIELDS:
        np.testing.assert_array_equal(getattr(whole, field), getattr(blocked, field))
    tolerance = 1e-4 if dtype == np.float32 else 1e-10
    np.testing.assert_allclose(blocked.centers, whole.centers, rtol=tolerance, atol=tolerance)
    np.testing.assert_allclose(blocked.sums_of_squares, whole.sums_of_squares, rtol=tolerance)
    np.testing.assert_allclose(blocked.spectral_deviation, whole.spectral_deviation, rtol=tolerance)


# Company --------------------------------------------------------------------------------------------------------


@st.composite
def fleets(draw):
    """Devices of unequal sizes, unequal k and mixed precision, some with duplicated points, some with weights."""
    n_features = draw(st.integers(1, 40))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    fleet, n_clusters, weights = [], [], []
    for _ in range(draw(st.integers(2, 7))):
        n_points = draw(st.sampled_from([1, 2, 5, 17, 33, 36, 39, 40, 40, 70]))
        points = rng.normal(size=(n_points, n_features)) * draw(st.sampled_from([1, 1, 1e-3, 1e6]))
        if draw(st.booleans()):
            points = np.round(points)
        fleet.append(points.astype(draw(st.sampled_from([np.float32, np.float64]))))
        n_clusters.append(draw(st.sampled_from([1, 2, 3, 3, 7])))
        weights.append(rng.uniform(0.5, 2, n_points) if draw(st.booleans()) else None)
    return fleet, n_clusters, weights


@given(fleet=fleets(), seed=st.integers(0, 2**40), n_jobs=st.integers(1, 2))
def test_one_device_at_a_time_equals_the_fleet(fleet, seed, n_jobs):
    points, n_clusters, weights = fleet
    ids = [f"device {i}" for i in range(len(points))]
    together = kfed.cluster_fleet(
        points, n_clusters, device_ids=ids, sample_weights=weights, random_state=seed, n_jobs=n_jobs
    )
    for i, found in enumerate(together):
        alone = kfed.cluster_device(
            points[i], n_clusters[i], sample_weight=weights[i], random_state=seed, device_id=ids[i]
        )
        assert_same_clustering(found, alone)


def test_one_device_at_a_time_equals_a_fleet_of_sparse_large_and_named_devices(small_blocks):
    pandas = pytest.importorskip("pandas")
    fleet = {
        "dense": blobs(30, 5, 3, seed=0),
        "again": blobs(30, 5, 3, seed=1),
        "large": blobs(300, 5, 3, seed=2),
        "sparse": scipy.sparse.csr_array(np.round(blobs(30, 5, 3, seed=3, gap=1))),
        "named": pandas.DataFrame(blobs(30, 5, 3, seed=4), columns=list("abcde")),
    }
    for (name, points), found in zip(fleet.items(), kfed.cluster_fleet(fleet, 3, random_state=0), strict=True):
        assert_same_clustering(found, kfed.cluster_device(points, 3, random_state=0, device_id=name))
        assert found.feature_names == (tuple("abcde") if name == "named" else None)


def test_devices_that_share_a_seed_but_not_a_name_draw_different_numbers():
    points = np.random.default_rng(0).normal(size=(200, 8))
    costs = {kfed.cluster_device(points, 9, random_state=0, device_id=f"{i}").cost for i in range(8)}
    assert len(costs) > 1


# Rotation and scale ---------------------------------------------------------------------------------------------


@given(
    shape=st.sampled_from([(60, 4), (60, 60), (25, 90), (300, 3)]),
    n_clusters=st.integers(1, 5),
    seed=st.integers(0, 1000),
    factor=st.floats(1e-3, 1e3),
)
def test_rotation_and_scaling_commute_with_clustering_a_device(shape, n_clusters, seed, factor):
    points = blobs(*shape, n_clusters, seed)
    turn = factor * rotation(shape[1], seed + 1)
    before, after = (kfed.cluster_device(some, n_clusters, random_state=seed) for some in (points, points @ turn))
    for field in FIELDS:
        np.testing.assert_array_equal(getattr(after, field), getattr(before, field))
    np.testing.assert_allclose(after.centers, before.centers @ turn, rtol=1e-8, atol=1e-8 * factor)
    np.testing.assert_allclose(after.sums_of_squares, before.sums_of_squares * factor**2, rtol=1e-8)
    np.testing.assert_allclose(after.spectral_deviation, before.spectral_deviation * factor, rtol=1e-8)


@given(
    shape=st.sampled_from([(40, 3), (50, 50), (20, 70)]),
    dtype=st.sampled_from([np.float32, np.float64]),
    seed=st.integers(0, 1000),
    exponent=st.integers(-12, 12),
)
def test_scaling_by_a_power_of_two_commutes_to_the_bit_even_where_nothing_is_separated(shape, dtype, seed, exponent):
    points = np.random.default_rng(seed).normal(size=shape).astype(dtype)
    scaled = np.ldexp(points, exponent)
    before, after = (kfed.cluster_device(some, 4, random_state=seed) for some in (points, scaled))
    for field in FIELDS:
        np.testing.assert_array_equal(getattr(after, field), getattr(before, field))
    np.testing.assert_array_equal(after.centers, np.ldexp(before.centers, exponent))


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("factor", [1.0, 0.037, 412.0])
def test_rotation_and_scaling_commute_with_the_whole_pipeline(rule, factor):
    world = mixture_world(gap=9.0, seed=5)
    turn = factor * rotation(24, seed=6)
    turned = type(world)([p @ turn for p in world.points], world.targets, 16, 4)
    before, after = (kfed.aggregate(some.messages(), 16, rule=rule) for some in (world, turned))
    np.testing.assert_array_equal(after.center_labels, before.center_labels)
    np.testing.assert_allclose(after.cluster_centers, before.cluster_centers @ turn, rtol=1e-8, atol=1e-8 * factor)
    np.testing.assert_allclose(after.grouping.traversal, before.grouping.traversal * factor, rtol=1e-8)
    for one, other, name in zip(world.clusterings(), turned.clusterings(), world.ids, strict=True):
        np.testing.assert_array_equal(
            one.induced_labels(before.identity(name)), other.induced_labels(after.identity(name))
        )


# The target clustering ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("make", [mixture_world, lambda seed: theorem_world(100.0, seed)], ids=["20 sigma", "c=100"])
def test_induced_labels_are_the_target_on_mixtures_with_the_papers_separation(make, seed, dtype, rule):
    world = make(seed=seed)
    world = type(world)([p.astype(dtype) for p in world.points], world.targets, 16, 4)
    result = kfed.aggregate(world.messages(seed), 16, rule=rule)
    induced = [
        local.induced_labels(result.identity(name))
        for local, name in zip(world.clusterings(seed), world.ids, strict=True)
    ]
    assert same_partition(np.concatenate(induced), np.concatenate(world.targets))


def test_every_device_may_come_first_on_separated_data():
    world = mixture_world(seed=9)
    sent = world.messages()
    answers = [kfed.aggregate(sent, 16, first_device=name).center_labels for name in world.ids]
    assert all(same_partition(answer, answers[0]) for answer in answers)


@pytest.mark.parametrize("rule", RULES)
def test_a_late_device_gets_the_target_too_and_changes_nobody(rule):
    world = mixture_world(seed=3)
    local, sent = world.clusterings()[-1], world.messages()
    result = kfed.aggregate(sent[:-1], 16, rule=rule)
    before = result.to_bytes(), [result.identity(name) for name in world.ids[:-1]]
    late = local.induced_labels(result.assign(sent[-1]))
    assert (result.to_bytes(), [result.identity(name) for name in world.ids[:-1]]) == before
    earlier = world.clusterings()[-2].induced_labels(result.identity(world.ids[-2]))  # of the same group
    assert same_partition(np.concatenate([earlier, late]), np.concatenate([world.targets[-2], world.targets[-1]]))


@pytest.mark.parametrize("rule", RULES)
@given(gathering=gatherings(), data=st.data())
def test_a_late_device_changes_nobodys_label(rule, gathering, data):
    sent, n_clusters = gathering
    result = kfed.aggregate(sent, n_clusters, rule=rule)
    before = result.to_bytes()
    late = data.draw(messages(n_features=result.schema.n_features, name_prefix=st.just("feature ")))
    identity = result.assign(late)
    assert result.to_bytes() == before
    assert (late.device_id in result) == (late.device_id in {message.device_id for message in sent})
    distances = ((late.centers[:, None].astype(float) - result.cluster_centers.astype(float)) ** 2).sum(axis=2)
    chosen = distances[np.arange(len(distances)), np.asarray(identity)]
    np.testing.assert_allclose(chosen, distances.min(axis=1, initial=np.inf), rtol=1e-12)


# Answers --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("rule", RULES)
@given(gathering=gatherings(min_devices=2), data=st.data())
def test_an_answer_is_the_identity_if_aggregated_the_nearest_if_late_and_refused_if_changed(rule, gathering, data):
    sent, n_clusters = gathering
    result = kfed.aggregate(sent, n_clusters, rule=rule)
    for message in sent:
        assert result.answer(kfed.DeviceMessage.from_bytes(message.to_bytes())) == result.identity(message.device_id)
    known = data.draw(st.sampled_from(sent))
    late = changed(known, device_id="a device of another name")
    assert result.answer(late) == result.assign(late)
    other = kfed.DeviceMessage(known.device_id, [*known.centers, known.centers.sum(axis=0)], [*known.counts, 1])
    with pytest.raises(kfed.DuplicateDeviceError, match="was aggregated with a different message"):
        result.answer(other)
    assert result.assign(other).device_id == known.device_id  # who knows that it is late may still say so


def test_a_changed_device_that_was_taken_out_first_is_late():
    places = np.array([[0.0, 0.0], [9.0, 0.0], [0.0, 9.0]])
    sent = [kfed.DeviceMessage(name, places + i / 10, [20] * 3) for i, name in enumerate("abc")]
    changed = kfed.DeviceMessage("a", places[:2], [5, 5])
    result = kfed.aggregate(sent, 3)
    with pytest.raises(kfed.DuplicateDeviceError):
        result.answer(changed)
    assert result.without("a").answer(changed) == result.without("a").assign(changed)


# Removal --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("rule", RULES)
@given(gathering=gatherings(min_devices=2), data=st.data())
def test_removal_equals_never_having_joined(rule, gathering, data):
    sent, n_clusters = gathering
    gone = data.draw(st.sampled_from(sent))
    others = [message for message in sent if message is not gone]
    n_left = sum(message.n_local_clusters for message in others)
    first = data.draw(st.none() | st.sampled_from([m.device_id for m in sent if m.n_local_clusters]))
    result = kfed.aggregate(sent, n_clusters, rule=rule, first_device=first)
    if n_left < n_clusters:
        with pytest.raises(kfed.TooFewCentersError):
            result.without(gone.device_id)
        return
    never = kfed.aggregate(others, n_clusters, rule=rule, first_device=None if first == gone.device_id else first)
    assert result.without(gone.device_id).to_bytes() == never.to_bytes()
    assert kfed.Aggregation.from_bytes(result.to_bytes()).without(gone.device_id) == never


SPECIAL = {
    "the only double": (np.float64, [3, 4], None),
    "the only named": (np.float32, [3, 4], ["a", "b"]),
    "the only weighted": (np.float32, [3.25, 4.5], None),
    "the only weighted double": (np.float64, [3.25, 4.5], None),
}


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("special", SPECIAL)
@pytest.mark.parametrize("others_weighted", [False, True])
def test_removal_leaves_no_trace_of_a_device_that_was(special, others_weighted, rule):
    dtype, counts, names = SPECIAL[special]
    rng = np.random.default_rng(0)
    others = [
        kfed.DeviceMessage(f"{i}", rng.normal(size=(3, 2)).astype(np.float32), [5.5 if others_weighted else 5, 6, 7])
        for i in range(4)
    ]
    odd = kfed.DeviceMessage("2b", rng.normal(size=(2, 2)).astype(dtype), counts, feature_names=names)
    never = kfed.aggregate(others, 3, rule=rule)
    for first in (None, "2b"):
        result = kfed.aggregate([*others, odd], 3, rule=rule, first_device=first)
        assert result.without("2b").to_bytes() == never.to_bytes()
        assert result.messages.message("2b") == odd
        assert [result.messages.message(message.device_id) for message in others] == others


# Weights --------------------------------------------------------------------------------------------------------


@given(seed=st.integers(0, 1000), n_clusters=st.integers(1, 4), separated=st.booleans(), n_features=st.integers(1, 6))
def test_a_weight_of_n_equals_n_copies(seed, n_clusters, separated, n_features):
    points = blobs(40, n_features, n_clusters, seed, gap=30.0 if separated else 1.0)
    weights = np.random.default_rng(seed + 1).integers(0, 5, len(points))
    weights[0] = 1
    weighted = kfed.cluster_device(points, n_clusters, sample_weight=weights, random_state=seed)
    copied = kfed.cluster_device(np.repeat(points, weights, axis=0), n_clusters, random_state=seed)
    np.testing.assert_array_equal(np.repeat(weighted.labels, weights), copied.labels)
    np.testing.assert_array_equal(weighted.counts, copied.counts)
    np.testing.assert_allclose(weighted.centers, copied.centers, rtol=1e-8, atol=1e-8)
    np.testing.assert_allclose(weighted.cost, copied.cost, rtol=1e-8)


@pytest.mark.parametrize("shape", [(60, 50), (30, 80), (200, 4)])
def test_a_weight_of_n_equals_n_copies_whatever_way_the_projection_takes(shape):
    points = blobs(*shape, 3, seed=8, gap=8.0)
    weights = np.random.default_rng(9).integers(1, 4, len(points))
    weighted = kfed.cluster_device(points, 3, sample_weight=weights, random_state=0)
    copied = kfed.cluster_device(np.repeat(points, weights, axis=0), 3, random_state=0)
    assert same_partition(np.repeat(weighted.labels, weights), copied.labels)
    np.testing.assert_allclose(np.sort(weighted.counts), np.sort(copied.counts))
    np.testing.assert_allclose(weighted.cost, copied.cost, rtol=1e-8)
    tolerance = (
        1e-8 if shape[1] <= EXACT_FEATURES else DEVIATION_MARGIN
    )  # copies are more points, and may take another way to the norm
    np.testing.assert_allclose(weighted.spectral_deviation, copied.spectral_deviation, rtol=tolerance)


# Precision and sparsity -----------------------------------------------------------------------------------------


@given(
    seed=st.integers(0, 1000),
    n_clusters=st.integers(1, 5),
    shape=st.sampled_from([(50, 5), (60, 60), (20, 60)]),
    offset=st.sampled_from([0.0, 1000.0]),
)
def test_float32_and_float64_agree(seed, n_clusters, shape, offset):
    double = (blobs(*shape, n_clusters, seed, gap=20.0) + offset).astype(np.float32).astype(np.float64)
    one, other = (kfed.cluster_device(some, n_clusters, random_state=0) for some in (double.astype(np.float32), double))
    assert one.centers.dtype == np.float32 or offset  # far from the origin, float32 would round them
    assert other.centers.dtype == np.float64
    assert same_partition(one.labels, other.labels)
    np.testing.assert_allclose(one.cost, other.cost, rtol=1e-3)
    order, other_order = (np.argsort(found.centers[:, 0]) for found in (one, other))
    np.testing.assert_allclose(one.centers[order], other.centers[other_order], rtol=1e-4, atol=1e-3)


@pytest.mark.parametrize("rule", RULES)
def test_float32_and_float64_agree_on_the_whole_pipeline(rule):
    world = mixture_world(gap=12.0, seed=2)
    single = type(world)([p.astype(np.float32) for p in world.points], world.targets, 16, 4)
    one, other = (kfed.aggregate(some.messages(), 16, rule=rule) for some in (single, world))
    assert same_partition(one.center_labels, other.center_labels)
    mixed = kfed.aggregate(single.messages()[::2] + world.messages()[1::2], 16, rule=rule)
    assert same_partition(mixed.center_labels, other.center_labels)


@given(
    seed=st.integers(0, 1000),
    n_clusters=st.integers(1, 4),
    shape=st.sampled_from([(40, 6), (50, 100), (1, 3), (2, 70), (12, 80)]),
    dtype=st.sampled_from([np.float32, np.float64]),
)
def test_dense_equals_sparse(seed, n_clusters, shape, dtype):
    rng = np.random.default_rng(seed)
    dense = (np.round(blobs(*shape, n_clusters, seed, gap=5.0)) * (rng.random(shape) < 0.4)).astype(dtype)
    dense[:, 0] += 40 * rng.integers(n_clusters, size=shape[0])
    found = kfed.cluster_device(dense, n_clusters, random_state=seed)
    for kind in (scipy.sparse.csr_matrix, scipy.sparse.csc_array, scipy.sparse.coo_array):
        sparse = kfed.cluster_device(kind(dense), n_clusters, random_state=seed)
        assert same_partition(sparse.labels, found.labels)
        tolerance = 1e-3 if dtype == np.float32 else 1e-8
        np.testing.assert_allclose(sparse.cost, found.cost, rtol=tolerance, atol=tolerance)
        np.testing.assert_allclose(np.sort(sparse.counts), np.sort(found.counts))
        margin = tolerance if shape[1] <= EXACT_FEATURES else DEVIATION_MARGIN  # they take different ways to the norm
        assert (sparse.spectral_deviation is None) == (found.spectral_deviation is None)  # if too few rows are sent
        deviations = [0 if one.spectral_deviation is None else one.spectral_deviation for one in (sparse, found)]
        np.testing.assert_allclose(*deviations, rtol=margin, atol=tolerance)
        assert np.count_nonzero(sparse.withheld) == np.count_nonzero(found.withheld)
