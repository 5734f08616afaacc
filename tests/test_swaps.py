"""The pooled rule leaves local optima of Lloyd, in few or many features, and believes wide centers where that pays."""

import numpy as np
import pytest
from sklearn.cluster import KMeans
from sklearn.datasets import load_breast_cancer
from sklearn.preprocessing import scale

import kfed
from kfed.metrics import kmeans_cost
from kfed.server import robust, swaps
from kfed.simulate import Round

LINE = np.array([[0.0], [1.0], [20.0], [21.0], [40.0], [41.0]]) - 20.5
SUMMARY = kfed.wire.Details(is_summary=True)
STUCK = np.array([[0.0], [1.0], [30.5]]) - 20.5  # two means for the pair at 0, one for the other two pairs


def test_a_mean_goes_from_a_cluster_that_has_two_to_one_that_needs_another():
    weights = np.ones(len(LINE))
    kept, cost = robust.weighted_lloyd(LINE, weights, STUCK, None)
    assert cost == pytest.approx(401.0)  # Lloyd ends where it began
    means = swaps.swapped(LINE, weights, kept, None)
    assert np.sort(means, axis=0) == pytest.approx(np.array([[-20.0], [0.0], [20.0]]))


def test_points_that_all_have_a_mean_of_their_own_are_left_alone():
    points = np.array([[-1.0], [-1.0], [1.0], [1.0]])
    assert np.array_equal(swaps.swapped(points, np.ones(4), points[[0, 2]], None), points[[0, 2]])
    assert swaps.swapped(points, np.ones(4), points[:1], None) == pytest.approx(np.zeros((1, 1)))


def summaries_of_a_grid(n_features, seed, n_devices=40):
    """Centers around the points of a grid in some plane, and a little out of the plane."""
    rng = np.random.default_rng(seed)
    plane = np.linalg.qr(rng.normal(size=(n_features, 2)))[0].T
    places = 4.0 * np.array([(i, j) for i in range(6) for j in range(6)], float)
    sent = []
    for i in range(n_devices):
        centers = (places + 0.5 * rng.normal(size=places.shape)) @ plane + 0.02 * rng.normal(size=(36, n_features))
        sent.append(kfed.DeviceMessage(f"{i}", centers, rng.integers(20, 60, size=36), details=SUMMARY))
    return places @ plane, sent


@pytest.mark.parametrize("n_features", [2, 300])
@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in (1, 2))])
def test_every_group_of_a_grid_is_found_in_a_plane_and_in_many_features(n_features, seed):
    places, sent = summaries_of_a_grid(n_features, seed)
    found = kfed.aggregate(sent, len(places)).cluster_centers
    assert np.linalg.norm(places[:, None] - found, axis=2).min(axis=1).max() < 0.5


@pytest.mark.parametrize("n_points", [50, 600])
def test_components_keep_what_distances_are_made_of(n_points):
    rng = np.random.default_rng(0)
    plane = rng.normal(size=(n_points, 3)) @ rng.normal(size=(3, 200)) + 7.0
    weights = rng.uniform(1, 2, n_points)
    few = swaps.Components.of(plane, weights, 10).of_points(plane)
    assert few.shape == (n_points, 10)
    assert np.linalg.norm(few[:9] - few[1:10], axis=1) == pytest.approx(np.linalg.norm(plane[:9] - plane[1:10], axis=1))
    assert np.average(few, axis=0, weights=weights) == pytest.approx(np.zeros(10), abs=1e-9)


@pytest.mark.parametrize("by_group", [False, True])
def test_wide_centers_are_believed_where_clusters_are_as_wide(by_group):
    data = load_breast_cancer()
    points = scale(data.data)
    order = np.argsort(data.target, kind="stable") if by_group else np.random.default_rng(0).permutation(len(points))
    devices = {f"{i}": points[rows] for i, rows in enumerate(np.array_split(order, 9))}
    best = KMeans(2, n_init=10, random_state=0).fit(points).inertia_
    ours = Round.run(devices, 2, random_state=0)
    assert kmeans_cost(points, ours.aggregation.cluster_centers) <= 1.005 * best  # 1.012 and more if they weigh less
