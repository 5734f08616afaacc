"""scikit-learn's surface and bad input: errors that say what is expected."""

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
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
        ([[np.nan] * 5] * 4, "X must be finite; 4 rows hold NaN or infinite values"),
        ([[np.inf] * 5] * 4, "X must be finite; 4 rows hold NaN or infinite values"),
        (np.ones((4, 6)), "X has 6 features, but KFed is expecting 5"),
        (np.ones((0, 5)), "0 sample"),
        (np.ones(5), "Expected 2D array, got 1D array"),
        ([[1.0] * 5, [1.0] * 4], "inhomogeneous"),
        ([["a"] * 5] * 4, r"X must be numbers; column 0 \(counted from 0\) holds text"),
    ],
)
def test_a_bad_table_is_an_error_that_names_its_device(mixture, table_of_device_2, words):
    with pytest.raises(kfed.InvalidInputError, match=f"device '2'(.|\n)*{words}"):
        federated().fit(with_table(mixture, 2, table_of_device_2))


SECRET = "Mueller-4711"
FRAME = pd.DataFrame({"age": np.arange(8.0), "name": [SECRET] * 8})


@pytest.mark.parametrize(
    ("X", "words"),
    [
        (FRAME, "column 'name' holds text"),
        (FRAME.astype({"name": "category"}), "column 'name' holds text"),
        (FRAME.to_numpy(), r"column 1 \(counted from 0\) holds text"),
        (FRAME.assign(name=pd.Timestamp("2026-01-31")), "column 'name' holds dates"),
        (FRAME["name"].to_numpy(), "X must be numbers"),
        (FRAME.assign(name=4711j), "Complex data not supported"),
    ],
)
@pytest.mark.filterwarnings("ignore:X has feature names, but LocalKMeans was fitted without")
def test_text_and_dates_are_refused_by_the_name_of_their_column_and_no_cell_is_shown(X, words):
    fitted = kfed.LocalKMeans(2).fit(np.arange(16.0).reshape(8, 2))
    for call in (
        lambda: kfed.KFed(2).fit(X, groups=np.repeat([0, 1], 4)),
        lambda: kfed.KFed(2).fit([X, X]),
        lambda: kfed.LocalKMeans(2).fit(X),
        lambda: fitted.predict(X),
    ):
        with pytest.raises(kfed.InvalidInputError, match=words) as caught:
            call()
        assert "4711" not in printed(caught.value)


def printed(error):
    """The errors that Python prints, without the lines of code."""
    behind = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    return str(error) if behind is None else f"{error}\n{printed(behind)}"


WITH_GAP = pd.DataFrame({"age": FRAME["age"].where(FRAME.index != 3), "dose": 1.0})


@pytest.mark.parametrize(
    "X",
    [
        WITH_GAP,
        WITH_GAP.astype({"age": "Int64"}),
        WITH_GAP.astype(object).where(WITH_GAP.notna(), pd.NA),
        WITH_GAP.to_numpy(),
        sparse.csr_array(WITH_GAP.to_numpy()),
        WITH_GAP.to_numpy().tolist(),
    ],
    ids=["NaN", "pandas.NA", "objects", "array", "sparse", "lists"],
)
@pytest.mark.filterwarnings("ignore:X has feature names, but LocalKMeans was fitted without")
def test_missing_cells_are_refused_with_their_place_and_what_takes_them(X):
    fitted = kfed.LocalKMeans(2).fit(np.arange(16.0).reshape(8, 2))
    place = "1 value is NaN" if sparse.issparse(X) else r"1 row holds NaN .*\(first: row 3, column 0\)"
    for call in (
        lambda: kfed.KFed(2).fit(X, groups=np.repeat([0, 1], 4)),
        lambda: kfed.LocalKMeans(2).fit(X),
        lambda: fitted.predict(X),
    ):
        with pytest.raises(kfed.InvalidInputError, match=rf"X must be finite; {place}.*: .*`kfed device`"):
            call()


def test_a_single_feature_is_refused_without_showing_it():
    with pytest.raises(kfed.InvalidInputError, match=r"Expected 2D array.*Reshape your data") as caught:
        kfed.LocalKMeans(2).fit(np.full(8, 4711.0))
    assert "4711" not in printed(caught.value)


def test_the_functions_name_the_column_of_text_too():
    with pytest.raises(kfed.InvalidInputError, match="points must be numbers; column 'name' holds text") as caught:
        kfed.cluster_device(FRAME, 2)
    assert SECRET not in str(caught.value)


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
