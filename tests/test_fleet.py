"""Many devices at once: what `cluster_fleet` takes, and what it says of input that does not fit."""

import numpy as np
import pytest

import kfed
import kfed.device.fleet
from worlds import assert_same_clustering, blobs


def test_a_mapping_names_its_devices():
    fleet = {"b": blobs(20, 3, 2, 0), "a": blobs(25, 3, 2, 1)}
    by_name = kfed.cluster_fleet(fleet, 4, random_state=1)
    by_list = kfed.cluster_fleet(list(fleet.values()), 4, device_ids=["b", "a"], random_state=1)
    for one, other in zip(by_name, by_list, strict=True):
        assert_same_clustering(one, other)


def test_answers_come_in_the_order_of_the_devices():
    sizes = [40, 1, 300, 17, 40, 2, 300, 64, 65]
    fleet = [blobs(size, 3, 2, seed) for seed, size in enumerate(sizes)]
    n_clusters = [2, 1, 3, 2, 3, 2, 3, 2, 2]
    found = kfed.cluster_fleet(fleet, n_clusters, random_state=0)
    assert [local.n_points for local in found] == sizes
    assert [local.n_local_clusters for local in found] == n_clusters
    for local, points in zip(found, fleet, strict=True):
        np.testing.assert_allclose(local.centers[local.labels[0]], points[local.labels == local.labels[0]].mean(axis=0))


def test_a_stack_of_devices_is_a_fleet():
    stack = np.stack([blobs(20, 3, 2, seed) for seed in range(4)])
    for one, other in zip(
        kfed.cluster_fleet(stack, 2, random_state=0), kfed.cluster_fleet(list(stack), 2, random_state=0), strict=True
    ):
        assert_same_clustering(one, other)


def test_a_device_does_not_depend_on_the_size_of_the_batches(monkeypatch):
    fleet = [blobs(40, 5, 3, seed, gap=1) for seed in range(9)]
    expected = kfed.cluster_fleet(fleet, 3, random_state=0)
    monkeypatch.setattr(kfed.device.fleet, "BATCH_BYTES", 4000)
    for one, other in zip(kfed.cluster_fleet(fleet, 3, random_state=0), expected, strict=True):
        assert_same_clustering(one, other)


def test_no_devices_are_a_fleet():
    assert kfed.cluster_fleet([], 2) == []


@pytest.mark.filterwarnings("ignore:.*before converging:kfed.errors.KFedWarning")
def test_settings_reach_every_device():
    fleet = [blobs(40, 3, 3, seed) for seed in range(3)]
    for local in kfed.cluster_fleet(fleet, 3, random_state=0, min_cluster_size=100, measure_deviation=False):
        assert local.withheld.all()
        assert local.spectral_deviation is None
    for local in kfed.cluster_fleet([np.random.default_rng(0).normal(size=(99, 3))] * 3, 9, max_iterations=1):
        assert local.n_iterations == 1


def test_a_progress_bar_changes_nothing(capsys):
    fleet = [blobs(20, 3, 2, seed) for seed in range(3)]
    quiet, shown = (kfed.cluster_fleet(fleet, 2, random_state=0, progress=show) for show in (False, True))
    for one, other in zip(quiet, shown, strict=True):
        assert_same_clustering(one, other)
    assert capsys.readouterr().out == ""


def test_one_column_too_many_at_one_device_names_the_device():
    fleet = [np.ones((4, 3)), np.ones((5, 3)), np.ones((4, 4))]
    with pytest.raises(kfed.FeatureMismatchError, match="device 0 has 3, device 2 has 4"):
        kfed.cluster_fleet(fleet, 2)


def test_bad_points_at_one_device_name_the_device():
    fleet = [np.ones((40, 3)), np.ones((40, 3)), np.ones((40, 3))]
    fleet[1][7, 2] = np.nan
    with pytest.raises(kfed.InvalidInputError, match=r"points of device 1 must be finite.*row 7, column 2"):
        kfed.cluster_fleet(fleet, 2)
    with pytest.raises(kfed.InvalidInputError, match="points of device 2 must have at least one row"):
        kfed.cluster_fleet([*fleet[::2], np.ones((0, 3))], 2)


def test_devices_that_are_each_small_enough_are_so_together():
    fleet = [np.full((32, 4), 1.5e17, np.float32) * (1 + np.arange(32)[:, None] % 2) for _ in range(200)]
    for local in kfed.cluster_fleet(fleet, 2, random_state=0):
        assert sorted(local.counts.tolist()) == [16, 16]


@pytest.mark.parametrize(
    "setting",
    [
        {"device_ids": ["a"]},
        {"device_ids": ["a", "b", "c"]},
        {"device_ids": [1, 2]},
        {"sample_weights": [None]},
        {"sample_weights": [[1.0], [1.0]]},
        {"n_local_clusters": [2]},
        {"n_local_clusters": [2, 0]},
        {"n_local_clusters": 0},
        {"n_local_clusters": [2, 2, 2]},
        {"min_cluster_size": 0},
        {"max_iterations": -1},
        {"random_state": 0.5},
    ],
)
def test_settings_that_do_not_fit_get_a_clear_error(setting):
    with pytest.raises(kfed.InvalidInputError):
        kfed.cluster_fleet([np.ones((4, 3))] * 2, **{"n_local_clusters": 2, **setting})
