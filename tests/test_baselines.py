"""Baselines: they cluster as they should, and count what they communicate in the units of k-FED."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse

import kfed
from kfed import baselines, metrics
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
    with pytest.raises(kfed.InvalidInputError, match="labels must be one for each of 3 points"):
        metrics.partition_cost(np.eye(3), [0, 1])
