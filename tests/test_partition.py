"""Ways to spread rows over devices: functions of a seed, every row at most once, no device empty."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import kfed
from kfed.datasets import Partition, partition

seeds = st.integers(0, 2**40)


@st.composite
def class_worlds(draw):
    """Classes of rows, and numbers of devices and of classes on each that they allow."""
    n_classes = draw(st.integers(1, 8))
    classes = np.repeat(
        np.arange(n_classes), draw(st.lists(st.integers(40, 80), min_size=n_classes, max_size=n_classes))
    )
    per_device = draw(st.integers(1, n_classes))
    fewest = -(-n_classes // per_device)
    return np.random.default_rng(0).permutation(classes), draw(st.integers(fewest, fewest + 20)), per_device


def assert_sound(split, n_points):
    """Every row at most once, and none unknown; no device empty."""
    used = np.concatenate(split.rows)
    assert len(np.unique(used)) == len(used)
    assert used.min() >= 0
    assert used.max() < n_points
    assert split.sizes.min() >= 1
    assert len(set(split.device_ids)) == split.n_devices
    np.testing.assert_array_equal(np.union1d(used, split.unused), np.arange(n_points))


def same(one, other):
    return one.device_ids == other.device_ids and all(map(np.array_equal, one.rows, other.rows))


@given(st.integers(1, 300), st.data(), seeds)
def test_iid_spreads_every_row_evenly(n_points, data, seed):
    n_devices = data.draw(st.integers(1, n_points))
    split = partition.iid(n_points, n_devices, seed)
    assert_sound(split, n_points)
    assert len(split.unused) == 0
    assert np.ptp(split.sizes) <= 1
    assert same(split, partition.iid(n_points, n_devices, seed))


@given(st.integers(1, 300), st.data(), seeds, st.floats(0.3, 5))
def test_power_law_spreads_every_row_and_no_device_is_empty(n_points, data, seed, exponent):
    n_devices = data.draw(st.integers(1, n_points))
    split = partition.power_law(n_points, n_devices, seed, exponent=exponent)
    assert_sound(split, n_points)
    assert len(split.unused) == 0
    assert same(split, partition.power_law(n_points, n_devices, seed, exponent=exponent))


def test_sizes_of_a_power_law_fall_as_a_power_of_the_rank():
    sizes = np.sort(partition.power_law(100_000, 100, exponent=1.5).sizes)[::-1]
    slope = np.polyfit(np.log(np.arange(1, 101)), np.log(sizes), 1)[0]
    assert slope == pytest.approx(-1 / 1.5, abs=0.02)


@given(class_worlds(), seeds)
def test_structured_gives_each_device_at_most_k_prime_classes_and_all_classes_as_many_devices(world, seed):
    classes, n_devices, per_device = world
    split = partition.structured(classes, n_devices, per_device, seed)
    assert_sound(split, len(classes))
    assert len(split.unused) == 0
    held = [set(classes[own]) for own in split.rows]
    assert all(len(own) == per_device for own in held)
    holders = [sum(name in own for own in held) for name in np.unique(classes)]
    assert max(holders) - min(holders) <= 1
    assert same(split, partition.structured(classes, n_devices, per_device, seed))


@given(class_worlds(), seeds)
def test_two_classes_gives_each_device_its_number_of_classes_and_uses_every_row(world, seed):
    classes, n_devices, per_device = world
    split = partition.two_classes(classes, n_devices, seed, classes_per_device=per_device)
    assert_sound(split, len(classes))
    assert len(split.unused) == 0
    assert all(len(set(classes[own])) == per_device for own in split.rows)
    assert same(split, partition.two_classes(classes, n_devices, seed, classes_per_device=per_device))


def test_five_hundred_devices_of_two_classes_have_sizes_far_apart():
    split = partition.two_classes(np.repeat(np.arange(10), 6000), n_devices=500)
    assert split.sizes.max() > 20 * np.median(split.sizes)
    assert split.sizes.min() >= 2


@given(st.lists(st.sampled_from("abcdef"), min_size=1, max_size=60), st.integers(1, 4))
def test_natural_makes_a_device_of_each_owner_with_enough_rows(owners, min_points):
    owners = np.array(owners)
    able = sorted(name for name in set(owners) if np.count_nonzero(owners == name) >= min_points)
    if not able:
        with pytest.raises(kfed.InvalidInputError, match="every device must have rows"):
            partition.natural(owners, min_points=min_points)
        return
    split = partition.natural(owners, min_points=min_points)
    assert_sound(split, len(owners))
    assert list(split.device_ids) == able
    assert all(set(owners[own]) == {name} for name, own in zip(split.device_ids, split.rows, strict=True))
    assert set(owners[split.unused]).isdisjoint(able)


def test_natural_can_take_some_owners_at_random():
    owners = np.arange(100) // 2
    one, other = (partition.natural(owners, seed, n_devices=10) for seed in (0, 1))
    assert one.n_devices == 10
    assert one.device_ids != other.device_ids
    assert same(one, partition.natural(owners, 0, n_devices=10))


@given(class_worlds(), seeds)
def test_gather_undoes_the_split(world, seed):
    classes, n_devices, per_device = world
    split = partition.structured(classes, n_devices, per_device, seed)
    np.testing.assert_array_equal(split.gather(split.of(classes)), classes)


@given(class_worlds(), seeds, st.sampled_from([1e-3, 0.1, 1.0, 100.0]))
def test_dirichlet_uses_every_row_once_and_no_device_is_empty(world, seed, alpha):
    classes, n_devices, _ = world
    split = partition.dirichlet(classes, n_devices, alpha, seed)
    assert_sound(split, len(classes))
    assert (split.n_devices, len(split.unused)) == (n_devices, 0)
    assert same(split, partition.dirichlet(classes, n_devices, alpha, seed))


def class_shares(split, classes):
    """Share of the rows of each class on each device, (n_devices, n_classes)."""
    held = np.array([np.bincount(classes[own], minlength=classes.max() + 1) for own in split.rows])
    return held / held.sum(axis=0)


@pytest.mark.parametrize("alpha", [0.3, 2.0, 20.0])
def test_shares_of_a_class_have_the_moments_of_a_dirichlet_distribution(alpha):
    """Mean 1/Z, and variance (1/Z)(1 - 1/Z) / (Z alpha + 1)."""
    classes = np.repeat(np.arange(300), 400)
    shares = class_shares(partition.dirichlet(classes, 5, alpha), classes)
    assert shares.mean() == pytest.approx(0.2)
    assert shares.var() == pytest.approx(0.2 * 0.8 / (5 * alpha + 1), rel=0.12)


@given(st.integers(1, 300), st.data(), seeds, st.sampled_from([1e-3, 0.5, 100.0]))
def test_quantity_skew_spreads_every_row_and_no_device_is_empty(n_points, data, seed, alpha):
    n_devices = data.draw(st.integers(1, n_points))
    split = partition.quantity_skew(n_points, n_devices, alpha, seed)
    assert_sound(split, n_points)
    assert len(split.unused) == 0


def test_a_small_concentration_makes_sizes_unequal():
    spread = [np.ptp(partition.quantity_skew(10_000, 20, alpha).sizes) for alpha in (0.1, 1.0, 1000.0)]
    assert spread[0] > 2 * spread[1] > 8 * spread[2]


@given(st.integers(0, 1000), st.floats(0, 1))
def test_feature_shift_gives_every_device_as_many_rows(seed, strength):
    points = np.random.default_rng(seed).normal(size=(90, 3))
    split = partition.feature_shift(points, 7, strength, seed)
    assert_sound(split, 90)
    assert np.ptp(split.sizes) <= 1


def test_the_stronger_the_feature_shift_the_more_devices_differ():
    points = np.random.default_rng(0).normal(size=(2000, 4))
    spreads = [
        np.std([own.mean(axis=0) for own in partition.feature_shift(points, 10, strength).of(points)], axis=0).sum()
        for strength in (0.0, 0.3, 0.6, 1.0)
    ]
    assert spreads == sorted(spreads)
    assert spreads[-1] > 5 * spreads[0]


def test_other_seeds_give_other_splits():
    classes = np.repeat(np.arange(4), 30)
    for make in (
        lambda seed: partition.iid(120, 6, seed),
        lambda seed: partition.power_law(120, 6, seed),
        lambda seed: partition.structured(classes, 6, 2, seed),
        lambda seed: partition.two_classes(classes, 6, seed),
    ):
        assert not same(make(0), make(1))


CLASSES = np.repeat(np.arange(4), 5)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: partition.structured(CLASSES, 10, 5), r"max_local_clusters \(k'\) must be at most 4, .*; got 5"),
        (lambda: partition.two_classes(CLASSES, 10, classes_per_device=5), "must be at most 4, the number of clusters"),
        (lambda: partition.structured(CLASSES, 1, 2), "would leave clusters on no device; use at least 2 devices"),
        (lambda: partition.structured(CLASSES, 20, 4), "a cluster of 5 rows cannot be on 20 devices"),
        (lambda: partition.iid(5, 6), "n_devices must be at most 5, the number of rows; got 6"),
        (lambda: partition.power_law(5, 6), "n_devices must be at most 5"),
        (lambda: partition.natural(CLASSES, n_devices=5), "n_devices must be at most 4"),
        (lambda: partition.dirichlet(CLASSES, 4, 0.0), "alpha must be a finite number greater than zero; got 0"),
        (lambda: partition.dirichlet(CLASSES, 21, 1.0), "n_devices must be at most 20"),
        (lambda: partition.quantity_skew(5, 2, -1.0), "alpha must be"),
        (lambda: partition.feature_shift(np.eye(4), 2, 1.5), "strength must be from 0 to 1; got 1.5"),
        (lambda: partition.iid(5, 0), "n_devices must be a whole number of at least 1"),
        (lambda: partition.iid(5, 2).of(np.zeros((6, 2))), "points must have 5 rows; got 6"),
        (lambda: partition.natural(CLASSES[:-1], min_points=5).gather([]), "must be on a device; 4 are on none"),
        (lambda: Partition(2, (np.array([0]),), ("a",)).gather([]), "must be on a device; 1 is on none"),
        (lambda: Partition(3, (np.array([0, 1]), np.array([1])), ("a", "b")), "on at most one device"),
        (lambda: Partition(2, (np.array([0, 2]),), ("a",)), "every row must be one of 2"),
        (lambda: Partition(2, (np.array([0]), np.array([], int)), ("a", "b")), "'b' has none"),
    ],
)
def test_what_cannot_be_split_is_an_error_that_says_why(make, message):
    with pytest.raises(kfed.InvalidInputError, match=message):
        make()
