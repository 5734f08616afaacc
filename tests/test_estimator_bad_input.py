"""scikit-learn's surface and bad input: errors that say what is expected."""

import numpy as np
import pandas as pd
import pytest
from sklearn.exceptions import NotFittedError

import kfed
from estimator_tables import (
    federated,
    groups,  # noqa: F401
    mixture,  # noqa: F401
    table,  # noqa: F401
)


# Bad input --------------------
def with_table(mixture, position, table):
    return [table if device == position else own for device, own in enumerate(mixture[0])]


@pytest.mark.parametrize(
    ("table_of_device_2", "words"),
    [
        ([[np.nan] * 5] * 4, "Input X contains NaN"),
        ([[np.inf] * 5] * 4, "infinity"),
        (np.ones((4, 6)), "X has 6 features, but KFed is expecting 5"),
        (np.ones((0, 5)), "0 sample"),
        (np.ones(5), "Expected 2D array, got 1D array"),
        ([[1.0] * 5, [1.0] * 4], "inhomogeneous"),
        ([["a"] * 5] * 4, "could not convert string to float"),
    ],
)
def test_a_bad_table_is_an_error_that_names_its_device(mixture, table_of_device_2, words):
    with pytest.raises(kfed.InvalidInputError, match=f"device '2'(.|\n)*{words}"):
        federated().fit(with_table(mixture, 2, table_of_device_2))


@pytest.mark.parametrize(
    ("settings", "fit", "words"),
    [
        ({}, {"groups": [0, 1]}, r"groups must have shape \(406,\), one label for each row; got \(2,\)"),
        ({}, {"groups": np.zeros((406, 1))}, r"groups must have shape \(406,\), one label for each row"),
        ({}, {"groups": [None] * 406}, "groups must not have missing values"),
        ({}, {"groups": [np.nan] * 406}, "groups must not have missing values"),
        ({}, {"groups": pd.array([pd.NA] * 406, dtype="Int64")}, "groups must not have missing values"),
        ({}, {"groups": [""] * 406}, "device id must be a string of 1 to"),
        (
            {},
            {"groups": [0] * 406},
            "n_clusters must be at most the number of device centers; got 6",
        ),
        (
            {"n_local_clusters": [1, 2]},
            {},
            "n_local_clusters must have one entry for each of 7 devices; got 2",
        ),
        (
            {"n_local_clusters": {0: 1}},
            {},
            "n_local_clusters must have an entry for each device; got none for '1'",
        ),
        ({"n_local_clusters": [0] * 7}, {}, "n_local_clusters must be a whole number of at least 1"),
        (
            {"n_clusters": 15},
            {},
            "n_clusters must be at most the number of device centers; got 15",
        ),
        ({}, {"sample_weight": np.ones(3)}, r"sample_weight must have shape \(406,\), one weight for each row"),
        ({}, {"sample_weight": [np.ones(58)] * 7}, "one weight for each of 40 rows of '0'"),
        ({}, {"sample_weight": [np.ones(40)]}, "sample_weight must have one entry for each of 7 devices"),
        ({}, {"sample_weight": -np.ones(406)}, "sample_weight must be finite and not negative"),
        (
            {},
            {"sample_weight": np.arange(406) > 90},
            "rows of '0', not all zero",
        ),
    ],
)
def test_a_bad_argument_is_an_error_that_says_what_it_must_be(table, groups, settings, fit, words):
    with pytest.raises(ValueError, match=words):
        federated(**settings).fit(table, **{"groups": groups, **fit})


@pytest.mark.parametrize(
    ("X", "words"),
    [
        ([], "empty list"),
        (np.ones((3, 5)), "n_samples=3 should be >= n_clusters=6"),
        (np.ones((2, 8, 5)), "dim 3"),
        ([[1.0, 2.0], [3.0]], "inhomogeneous"),
        (np.ones(5), "Expected 2D array"),
    ],
)
def test_what_is_no_table_and_no_list_of_tables_is_an_error(X, words):
    with pytest.raises(ValueError, match=words):
        federated().fit(X)


def test_a_list_of_tables_with_groups_is_an_error(mixture, groups):
    with pytest.raises(kfed.InvalidInputError, match="groups must be None if X is a list"):
        federated().fit(mixture[0], groups=groups)


@pytest.mark.parametrize(
    "setting",
    [
        {"n_clusters": 0},
        {"n_clusters": 2.5},
        {"n_local_clusters": 0},
        {"n_local_clusters": "many"},
        {"rule": "best"},
        {"min_cluster_size": 0},
        {"max_iter": 0},
        {"n_jobs": 0},
        {"random_state": "seed"},
        {"progress": "yes"},
    ],
)
def test_a_bad_parameter_is_an_error_that_names_it(table, setting):
    (name,) = setting
    with pytest.raises(ValueError, match=f"The '{name}' parameter of KFed must be"):
        federated(**setting).fit(table)


def test_nothing_is_answered_before_fit(mixture):
    for X in mixture[0][0], mixture[0]:
        for method in ("predict", "transform", "score"):
            with pytest.raises(NotFittedError):
                getattr(federated(), method)(X)


def test_new_rows_must_have_the_features_that_were_fitted(mixture):
    model = federated().fit(mixture[0])
    with pytest.raises(ValueError, match="X has 3 features, but KFed is expecting 5"):
        model.predict(np.ones((2, 3)))
    with pytest.raises(ValueError, match="device '1' is invalid: X has 3 features"):
        model.predict([np.ones((2, 5)), np.ones((2, 3))])
