"""What the measures of quality promise."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.cluster import KMeans

import kfed
from kfed.metrics import cost_ratio, kmeans_cost, matched_accuracy, measures, silhouette
from kfed.simulate import Communication

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


def test_the_ratio_of_costs_is_one_for_the_same_clustering_under_other_names():
    points = np.random.default_rng(0).normal(size=(60, 3))
    labels = np.arange(60) % 4
    assert cost_ratio(points, labels, 3 - labels) == pytest.approx(1.0)
    assert cost_ratio(points, np.zeros(60), labels) > 1


@pytest.mark.parametrize(("labels", "ratio"), [([0, 1], 1.0), ([0, 0], np.inf)])
def test_a_reference_without_any_cost_is_only_reached_by_another_one(labels, ratio):
    assert cost_ratio([[0.0], [1.0]], labels, reference=[0, 1]) == ratio


def test_the_silhouette_is_that_of_scikit_learn_and_of_a_sample_if_rows_are_many():
    from sklearn.metrics import silhouette_score

    points = np.concatenate([np.random.default_rng(i).normal(size=(400, 2)) + 6 * i for i in range(3)])
    labels = np.repeat([0, 1, 2], 400)
    assert silhouette(points, labels) == pytest.approx(silhouette_score(points, labels))
    assert silhouette(points, labels, n_sampled=300) == pytest.approx(silhouette_score(points, labels), abs=0.05)
    assert silhouette(points, np.zeros(1200)) == 0


def test_measures_are_as_many_as_what_is_given_allows():
    points, labels = np.random.default_rng(0).normal(size=(40, 2)), np.arange(40) % 2
    sent = Communication(rounds=3, bytes_down=10, bytes_up=32, messages=4)
    assert measures(points, labels).keys() == {"cost", "silhouette"}
    found = measures(points, labels, classes=labels, reference=labels, sent=sent)
    assert found["ari"] == found["nmi"] == found["ami"] == found["accuracy"] == found["cost_ratio"] == 1.0
    assert (found["bytes"], found["rounds"]) == (42, 3)
