"""`KFed`, `aggregate` and devices say that one column decides alone, however the rows are split."""

import json
import warnings

import numpy as np
import pandas
import pytest
from sklearn.datasets import load_breast_cancer, load_digits, load_iris, load_wine, make_moons
from sklearn.preprocessing import StandardScaler

import kfed
from consoles import said as command
from kfed._base.heavy_column import some_rows


def said(X, *, seed=0, n_clusters=3, n_devices=5):
    """Warnings with the code of a dominant column."""
    groups = np.random.default_rng(seed).integers(n_devices, size=len(X)) if n_devices else None
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        kfed.KFed(n_clusters=n_clusters, random_state=0).fit(X, groups=groups)
    return [str(one.message) for one in caught if "dominant column" in getattr(one.message, "code", "")]


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in (1, 2))])
def test_wine_as_it_is_warns_in_every_split_of_arrays_and_frames(seed):
    frame = load_wine(as_frame=True).data
    (of_array,), (of_frame,) = said(frame.to_numpy(), seed=seed), said(frame, seed=seed)
    assert of_array.startswith("column 12 (counted from 0) makes up 99.9 % of all squared distances")
    assert "column 'proline' makes up" in of_frame


def test_rows_of_no_device_are_looked_at_too():
    frame = load_wine(as_frame=True).data
    assert "column 'proline' makes up" in said(frame, n_devices=0)[0]
    assert said(StandardScaler().fit_transform(frame), n_devices=0) == []


@pytest.mark.parametrize("load", [load_breast_cancer, load_digits])
def test_images_and_tables_of_one_large_column_among_others_do_not_warn(load):
    assert said(load().data[::3]) == []


def test_standardised_rows_do_not_warn():
    assert said(StandardScaler().fit_transform(load_wine().data)) == []


def test_clusters_that_lie_apart_in_one_column_do_not_warn():
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(300, 2)) + np.outer(np.repeat([0, 50, 100], 100), [1, 0])
    assert said(rows) == []
    assert len(said(rows * [1, 1e-3])) == 1


def said_by_aggregate(X, n_clusters=3, n_devices=6):
    """Notices of a dominant column, where devices sent arrays."""
    own = [kfed.cluster_device(X[i::n_devices], 3, random_state=0).to_message(f"{i}") for i in range(n_devices)]
    return [found.text for found in kfed.aggregate(own, n_clusters).notices if found.code == "dominant column"]


@pytest.mark.parametrize("n_devices", [3, 6, 12])
def test_aggregate_says_it_of_wine_from_the_centers_of_plain_arrays(n_devices):
    (text,) = said_by_aggregate(load_wine().data, n_devices=n_devices)
    assert text.startswith("column 12 (counted from 0) makes up 99.9 % of all squared distances")


def test_two_devices_are_enough_for_aggregate_to_say_it():
    rows = np.random.default_rng(0).normal(size=(200, 4)) * [1e5, 1, 1, 1]
    sent = [kfed.cluster_device(rows[i::2], random_state=0).to_message(f"{i}") for i in range(2)]
    assert "dominant column" in [found.code for found in kfed.aggregate(sent, 2).notices]


@pytest.mark.parametrize("n_devices", [2, 6])
@pytest.mark.parametrize("load", [load_breast_cancer, load_digits, load_iris])
def test_aggregate_says_nothing_of_usual_data(load, n_devices):
    assert said_by_aggregate(load().data, n_devices=n_devices) == []
    assert said_by_aggregate(StandardScaler().fit_transform(load_wine().data), n_devices=n_devices) == []


def test_aggregate_says_nothing_of_clusters_that_lie_apart_in_one_column():
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(600, 4)) + np.outer(np.tile([0, 50, 100], 200), [1, 0, 0, 0])
    assert said_by_aggregate(rows, n_devices=5) == []
    assert len(said_by_aggregate(rows * [1, 1e-3, 1e-3, 1e-3], n_devices=5)) == 1


def test_aggregate_says_nothing_of_points_of_a_plane():
    rows, _ = make_moons(600, noise=0.05, random_state=0)
    assert said_by_aggregate(rows) == said_by_aggregate(rows * [1, 1e-3]) == []


def test_aggregate_says_it_whatever_the_counts_are_and_never_of_one_center_for_each_cluster():
    sent = [kfed.DeviceMessage(f"{i}", [[i * 1e4, i, 1.0]], [2**53]) for i in range(9)]
    assert [found.code for found in kfed.aggregate(sent, 3).notices].count("dominant column") == 1
    assert "dominant column" not in [found.code for found in kfed.aggregate(sent, 9).notices]


def test_a_count_that_vanishes_beside_others_does_not_stop_an_aggregation():
    rng = np.random.default_rng(0)
    sent = [
        kfed.DeviceMessage(f"{i}", np.c_[rng.normal(0, 1000, 4), rng.normal(0, 1, (4, 2))], [2**50] * 4)
        for i in range(6)
    ]
    sent.append(kfed.DeviceMessage("tiny", [[1e6, 0.0, 0.0]], [5e-324]))
    with pytest.warns(kfed.AggregationWarning):
        found = kfed.aggregate(sent, 3, rule="paper")
    assert "dominant column" in [notice.code for notice in found.notices]


def test_a_list_of_tables_warns_and_says_it_once():
    rows = load_wine(as_frame=True).data
    with pytest.warns(kfed.AggregationWarning, match="proline") as caught:
        kfed.KFed(n_clusters=3, random_state=0).fit([pandas.DataFrame(rows[start::4]) for start in range(4)])
    assert len([one for one in caught if "proline" in str(one.message)]) == 1


def said_by_device(X, n_local_clusters=2):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        kfed.cluster_device(X, n_local_clusters, random_state=0)
    return [str(one.message) for one in caught if one.message.code == "dominant column"]


@pytest.mark.parametrize("n_local_clusters", [2, None])
def test_a_device_says_it_of_its_rows(n_local_clusters):
    rows = np.random.default_rng(0).normal(size=(200, 5))
    assert said_by_device(rows, n_local_clusters) == []
    (text,) = said_by_device(rows * [1e5, 1, 1, 1, 1], n_local_clusters)
    assert text.startswith("column 0 (counted from 0) makes up 100 % of all squared distances")
    (text,) = said_by_device(pandas.DataFrame(rows * [1e5, 1, 1, 1, 1], columns=list("abcde")), n_local_clusters)
    assert text.startswith("column 'a' makes up 100 % of all squared distances")


@pytest.mark.parametrize("load", [load_breast_cancer, load_digits, load_iris])
def test_a_device_says_nothing_of_usual_data(load):
    assert said_by_device(load().data, 3) == said_by_device(load().data, None) == []


def wide_rows(n_columns, factor=1e4):
    """Rows of two groups, the first column of which has other units than all others."""
    rows = np.random.default_rng(0).normal(size=(200, n_columns))
    rows[:, 0] *= factor
    return pandas.DataFrame(rows, columns=[f"x{i}" for i in range(n_columns)])


@pytest.mark.parametrize("n_local_clusters", [3, None])
def test_a_device_says_it_of_wide_rows_too(n_local_clusters):
    (text,) = said_by_device(wide_rows(300), n_local_clusters)
    assert text.startswith("column 'x0' makes up 100 % of all squared distances")
    assert said_by_device(wide_rows(300, factor=1), n_local_clusters) == []


def test_of_wide_rows_fewer_are_looked_at():
    assert len(some_rows(9_000, 100)) == 9_000
    assert len(some_rows(9_000, 1_000)) <= 1_000
    assert len(some_rows(9_000, 10**6)) > 50


def test_a_wide_table_is_said_to_be_taken_as_it_is_unless_somebody_asked_for_it(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    wide_rows(257).to_csv("wide.csv", index=False)
    for more in ([], ["-k", 3]):
        facts = json.loads(command("device", "wide.csv", "--json", "--force", *more)[1])
        assert [notice["code"] for notice in facts["warnings"]] == ["as it is", "dominant column"]
        assert (
            "the table has 257 columns to cluster by, more than 256, so numbers are taken as they are"
            in facts["warnings"][0]["text"]
        )
    for more in (["--as-is"], ["--by-column"]):
        facts = json.loads(command("device", "wide.csv", "--json", "--force", *more)[1])
        assert "as it is" not in [notice["code"] for notice in facts["warnings"]]


def test_a_device_says_nothing_where_other_columns_are_constant():
    rows = np.random.default_rng(0).normal(size=(200, 3))
    assert said_by_device(rows * [1, 0, 0] + 0.1) == []


def test_the_command_line_says_it_once_and_names_the_column(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rows = np.random.default_rng(0).normal(size=(200, 3)) * [1e5, 1, 1]
    pandas.DataFrame(rows, columns=list("abc")).to_csv("heavy.csv", index=False)
    _, out, err = command("device", "heavy.csv", "--as-is", "-k", 2)
    assert (out + err).count("column 'a' makes up 100 % of all squared distances") == 1
    assert "makes up" not in str(command("device", "heavy.csv", "-k", 2, "--force"))
