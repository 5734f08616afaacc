"""Aggregations warn where local clusters are mixtures of global ones, and only there."""

import numpy as np
import pytest

import kfed
from worlds import mixture_world

MEANS = 10 * np.array([(i, j) for i in range(4) for j in range(4)], float)


def aggregated(devices, n_local_clusters, **options):
    found = kfed.cluster_fleet(devices, n_local_clusters, random_state=0)
    sent = [local.to_message(f"{i}") for i, local in enumerate(found)]
    return kfed.aggregate(sent, 16, **options)


def said(result):
    return [notice.text for notice in result.notices if notice.code == "mixtures"]


def devices_of(held, rng):
    return [np.concatenate([MEANS[r] + rng.normal(size=(40, 2)) for r in own]) for own in held]


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("rule", ["paper", "robust", "pooled"])
def test_devices_that_are_alike_with_too_few_local_clusters_are_told_of(rule):
    devices = devices_of([range(16)] * 12, np.random.default_rng(0))
    (warning,) = said(aggregated(devices, 4, rule=rule))
    assert warning.endswith("local clusters, or leave out their number, so that they send summaries")


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("rule", ["paper", "pooled"])
def test_summaries_of_few_rows_are_not_told_to_look_for_more_local_clusters(rule):
    rng = np.random.default_rng(0)
    devices = [MEANS[rng.integers(0, 16, 10)] + rng.normal(size=(10, 2)) for _ in range(30)]
    (warning,) = said(aggregated(devices, None, rule=rule))
    assert warning.endswith("devices have too few rows to tell so many clusters apart: ask for fewer clusters")


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_enough_local_clusters_are_not():
    rng = np.random.default_rng(0)
    assert not said(aggregated(devices_of([range(16)] * 12, rng), 16))
    few = [range(4 * (i % 4), 4 * (i % 4) + 4) for i in range(12)]
    assert not said(aggregated(devices_of(few, rng), 4))


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("gap", [5.0, 10.0, 20.0])
def test_clusters_in_many_dimensions_are_not(gap):
    assert not said(kfed.aggregate(mixture_world(16, 100, gap=gap, points_per_cluster=100).messages(), 16))


def test_messages_without_sums_of_squares_cannot_tell():
    sent = [kfed.DeviceMessage(name, [[0.0], [1.0]], [5, 5]) for name in "ab"]
    assert not said(kfed.aggregate(sent, 1))


@pytest.mark.parametrize("rule", ["paper", "robust", "pooled"])
@pytest.mark.parametrize("squares", [None, [4.0, 4.0, 4.0]])
def test_clusters_that_no_center_is_left_for_are_called_empty(rule, squares):
    sent = [kfed.DeviceMessage(f"{i}", [[0.0], [1.0], [0.0]], [20, 20, 20], squares) for i in range(2)]
    with pytest.warns(kfed.AggregationWarning, match="2 of 4 clusters are empty, since there are fewer distinct"):
        notices = kfed.aggregate(sent, 4, rule=rule).notices
    assert "mixtures" not in {notice.code for notice in notices}
