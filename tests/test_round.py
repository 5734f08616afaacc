"""A simulated round is the library's own steps, one after the other, and counts what crosses the network."""

import numpy as np
import pytest

import kfed
from kfed import baselines, federated
from kfed.simulate import Communication, Round
from worlds import mixture_world, same_partition


@pytest.fixture(scope="module")
def world():
    return mixture_world()


@pytest.fixture(scope="module")
def devices(world):
    return dict(zip(world.ids, world.points, strict=True))


def test_a_round_over_real_bytes_is_the_same_round(world, devices):
    done = Round.run(devices, world.n_clusters, world.n_local_clusters, random_state=0)
    up = [message.to_bytes() for message in done.messages]
    result = kfed.aggregate(map(kfed.DeviceMessage.from_bytes, up), world.n_clusters)
    down = [result.identity(name).to_bytes() for name in world.ids]
    labels = [
        local.induced_labels(kfed.Identity.from_bytes(answer))
        for local, answer in zip(done.local.values(), down, strict=True)
    ]
    assert result == done.aggregation
    np.testing.assert_array_equal(np.concatenate(labels), done.labels)
    assert done.sent == Communication(1, sum(map(len, down)), sum(map(len, up)), 2 * len(devices))


def test_a_round_finds_the_clusters_of_a_separated_mixture(world, devices):
    done = Round.run(devices, world.n_clusters, world.n_local_clusters, random_state=0)
    assert same_partition(np.concatenate(world.targets), done.labels)
    np.testing.assert_array_equal(np.concatenate(done.device_labels()), done.labels)
    for name, own in done.clusters.items():
        np.testing.assert_array_equal(own[done.local[name].labels], done.device_labels()[world.ids.index(name)])


def test_the_same_devices_can_be_aggregated_again_by_another_rule(world, devices):
    paper = Round.run(devices, world.n_clusters, world.n_local_clusters, random_state=0)
    robust = Round.of(paper.local, world.n_clusters, rule="robust")
    assert robust.messages == paper.messages
    assert (paper.aggregation.rule, robust.aggregation.rule) == ("paper", "robust")
    assert robust.aggregation == kfed.aggregate(paper.messages, world.n_clusters, rule="robust")


def test_options_of_devices_and_of_the_server_reach_them(world, devices):
    names = [f"x{i}" for i in range(world.points[0].shape[1])]
    done = Round.run(
        devices,
        world.n_clusters,
        [world.n_local_clusters] * len(devices),
        rule="robust",
        random_state=1,
        measure_deviation=True,
        feature_names=names,
    )
    expected = world.clusterings(seed=1, measure_deviation=True)
    for local, own in zip(done.local.values(), expected, strict=True):
        np.testing.assert_array_equal(local.centers, own.centers)
        assert local.spectral_deviation == own.spectral_deviation
    assert done.aggregation.schema.names == tuple(names)
    assert done.aggregation.rule == "robust"


def test_refined_labels_need_the_points_of_every_device(world, devices):
    done = Round.run(devices, world.n_clusters, world.n_local_clusters, random_state=0)
    refined = done.device_labels(refine=devices.values())
    assert same_partition(np.concatenate(world.targets), np.concatenate(refined))
    with pytest.raises(ValueError, match="zip"):
        done.device_labels(refine=world.points[1:])


def test_baselines_and_applications_count_in_the_same_units(world):
    done = baselines.one_round(world.points, world.n_clusters, world.n_local_clusters, world.ids, seed=0)
    assert isinstance(done, baselines.OneRound)
    assert federated.Communication is type(done.sent) is Communication


def test_a_name_given_to_two_devices_is_refused(world):
    with pytest.raises(kfed.DuplicateDeviceError, match="distinct"):
        baselines.one_round(world.points, 16, 4, ["same"] * len(world.points), seed=0)
