"""A mixture on devices, as a list of tables and as one table with groups."""

import numpy as np
import pytest

from kfed import KFed, LocalKMeans

N_CLUSTERS = 6


def model():
    return KFed(2, random_state=0)


def models(n_clusters=4, **settings):
    return [LocalKMeans(n_clusters, random_state=0, **settings), KFed(n_clusters, random_state=0, **settings)]


@pytest.fixture(scope="module")
def mixture():
    """Seven tables of unequal sizes, each with two of six clusters, and the cluster of every row."""
    rng = np.random.default_rng(0)
    means = 20 * rng.normal(size=(N_CLUSTERS, 5))
    tables, target = [], []
    for device in range(7):
        own = rng.permutation(np.repeat([device % N_CLUSTERS, (device + 1) % N_CLUSTERS], 20 + 3 * device))
        tables.append(means[own] + rng.normal(size=(len(own), 5)))
        target.append(own)
    return tables, np.concatenate(target)


@pytest.fixture(scope="module")
def table(mixture):
    return np.concatenate(mixture[0])


@pytest.fixture(scope="module")
def groups(mixture):
    return np.repeat(np.arange(7), [len(own) for own in mixture[0]])


def federated(**settings):
    return KFed(**{"n_clusters": N_CLUSTERS, "n_local_clusters": 2, "random_state": 0, **settings})


def assert_same_model(model, other, tolerance=0.0):
    np.testing.assert_array_equal(model.labels_, other.labels_)
    np.testing.assert_allclose(model.cluster_centers_, other.cluster_centers_, rtol=0, atol=tolerance)
