"""What the measures of quality promise."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.cluster import KMeans

import kfed
from kfed.metrics import kmeans_cost, matched_accuracy

POINTS = np.array([[0.0, 0.0], [1.0, 0.0], [9.0, 0.0], [9.0, 2.0]])
CENTERS = np.array([[0.0, 0.0], [9.0, 1.0]])


def test_the_cost_is_the_sum_of_squared_distances_to_the_nearest_center():
    assert kmeans_cost(POINTS, CENTERS) == 1 + 1 + 1


def test_given_labels_decide_the_center():
    assert kmeans_cost(POINTS, CENTERS, [1, 0, 1, 1]) == 82 + 1 + 1 + 1


def test_the_cost_is_the_inertia_of_scikit_learn():
    points = np.random.default_rng(0).normal(size=(200, 5))
    model = KMeans(4, n_init=1, random_state=0).fit(points)
    assert kmeans_cost(points, model.cluster_centers_) == pytest.approx(model.inertia_)
    assert kmeans_cost(points.astype(np.float32), model.cluster_centers_) == pytest.approx(model.inertia_, rel=1e-5)


@pytest.mark.parametrize("labels", [[0, 1], [0, 1, 2, 0], [0, -1, 0, 0], [0.0, 1.0, 0.0, 0.0]])
def test_labels_that_do_not_fit_are_refused(labels):
    with pytest.raises(kfed.InvalidInputError, match="labels must be"):
        kmeans_cost(POINTS, CENTERS, labels)


def test_centers_with_other_features_are_refused():
    with pytest.raises(kfed.InvalidInputError, match="centers must have the 2 features"):
        kmeans_cost(POINTS, np.zeros((2, 3)))


@given(st.lists(st.integers(0, 5), min_size=1, max_size=40), st.permutations(range(6)))
def test_the_names_of_clusters_do_not_matter_to_accuracy(labels, names):
    assert matched_accuracy(labels, [names[label] for label in labels]) == 1.0


def test_a_cluster_is_matched_with_one_class_only():
    assert matched_accuracy(["a", "a", "b", "b"], [0, 0, 0, 0]) == 0.5
    assert matched_accuracy([0, 0, 0, 0], [1, 1, 2, 3]) == 0.5


def test_labels_of_different_points_are_refused():
    with pytest.raises(kfed.InvalidInputError, match="one label for each"):
        matched_accuracy([0, 1], [0, 1, 1])
