"""Rows that were never on a device: predicted by the nearest mean, in the library, in files and in scikit-learn."""

import io
import json
import pickle
from contextlib import nullcontext
from dataclasses import replace

import joblib
import numpy as np
import pandas as pd
import pytest
from scipy import sparse

import kfed
from consoles import invoked as run
from kfed.estimator import to_sklearn
from kfed.server import Aggregation
from kfed.site import label_rows
from kfed.wire import Column, Details
from kind_tables import TABLES, clusters_of


@pytest.fixture(scope="module")
def table_result():
    """Two clusters of tables with a large and a small unit, a category, and units that only the scale makes equal."""
    schema = kfed.FeatureSchema.of_columns([Column("income"), Column("age"), Column("sex", "category", ("f", "m"))])
    rng = np.random.default_rng(0)
    sent = []
    for device in range(4):
        centers = np.array([[40_000.0, 30.0, 0.9, 0.1], [40_500.0, 60.0, 0.1, 0.9]]) + rng.normal(size=(2, 4)) * 1e-3
        squares = np.array([[100 * 4e6, 100 * 9.0, 9.0, 9.0]] * 2)
        details = Details(observed=np.full((2, 4), 100.0), squares=squares)
        sent.append(
            kfed.DeviceMessage(f"{device}", centers, [100, 100], squares.sum(axis=1), schema=schema, details=details)
        )
    return kfed.aggregate(sent, 2)


def test_predicted_rows_get_the_cluster_of_their_device(world, result):
    local = world.clusterings()[0]
    induced = local.induced_labels(result.identity(world.ids[0]))
    np.testing.assert_array_equal(result.predict(world.points[0]), induced)
    far = result.transform(world.points[0])
    assert far.shape == (len(world.points[0]), 4)
    np.testing.assert_array_equal(far.argmin(axis=1), induced)


def test_dense_sparse_and_blocked_rows_are_the_same(world, result, monkeypatch):
    points = world.points[0]
    expected = result.transform(points)
    np.testing.assert_allclose(result.transform(sparse.csr_array(points)), expected)
    monkeypatch.setattr("kfed.server.view.prediction.BLOCK_ELEMENTS", 64)
    np.testing.assert_array_equal(result.transform(points), expected)


def test_a_row_without_a_filled_cell_is_at_no_distance_and_its_cluster_is_said_to_mean_nothing(table_result):
    rows = np.array([[np.nan] * 4, [40_500.0, 61.0, 0.0, 1.0]])
    assert np.isnan(table_result.transform(rows)).all(axis=1).tolist() == [True, False]
    with pytest.warns(kfed.AggregationWarning, match="1 row without a filled cell is in cluster 0"):
        assert table_result.predict(rows)[0] == 0


def test_bad_rows_are_refused_without_showing_them(result):
    with pytest.raises(kfed.FeatureMismatchError, match="X has 3 features; expected 5"):
        result.predict(np.zeros((2, 3)))
    with pytest.raises(kfed.InvalidInputError, match="X must be finite"):
        result.predict(np.full((1, 5), np.nan))


def test_columns_of_a_frame_are_taken_by_name(table_result):
    frame = pd.DataFrame({"sex": ["m", "f"], "note": ["x", "y"], "age": [58.0, 31.0], "income": [40_000.0, 41_000.0]})
    old, young = table_result.predict(frame)
    assert table_result.cluster_centers[old, 1] == pytest.approx(60, abs=0.1)
    assert table_result.cluster_centers[young, 1] == pytest.approx(30, abs=0.1)
    with pytest.raises(kfed.FeatureMismatchError, match="it has no 'age'"):
        table_result.predict(frame.drop(columns="age"))


def test_distances_are_on_the_scale_of_all_devices(table_result):
    """Ten thousand in income would outweigh any age in the units of the table."""
    row = np.array([[50_000.0, 60.0, 0.0, 1.0]])
    scale = table_result.scale
    expected = np.linalg.norm(scale.apply(row) - scale.apply(table_result.cluster_centers), axis=1)
    np.testing.assert_allclose(table_result.transform(row)[0], expected)


def test_missing_cells_of_a_table_do_not_count(table_result):
    frame = pd.DataFrame({"sex": [None, "m"], "age": [61.0, np.nan], "income": [np.nan, np.nan]})
    assert len(set(table_result.predict(frame))) == 1


KINDS = [Column("dose"), Column("smoker", "flag"), Column("visit", "date")]
WORDS = pd.DataFrame({"dose": ["1.5", "n/a"], "smoker": ["yes", "no"], "visit": ["2026-01-31", "31.01.2026"]})
DAY = 20484.0


def of_kinds(columns):
    schema = kfed.FeatureSchema.of_columns(columns)
    details = None
    if schema.scaling != "agreed":
        details = Details(observed=np.full((2, 3), 50.0), squares=np.full((2, 3), 9.0))
    centers = [[1.0, 0.9, DAY], [9.0, 0.1, DAY + 90]]
    sent = [kfed.DeviceMessage(f"{i}", centers, [50, 50], [27.0] * 2, schema=schema, details=details) for i in range(3)]
    return kfed.aggregate(sent, 2)


@pytest.mark.parametrize(
    "cells",
    [
        {},
        {"smoker": [True, False]},
        {"visit": pd.to_datetime(["2026-01-31"] * 2)},
        {"visit": pd.to_datetime(["2026-01-31"] * 2).tz_localize("UTC")},
        {"dose": pd.array([1.5, pd.NA], dtype="Float64")},
    ],
)
def test_flags_dates_and_missing_cells_of_a_frame_may_be_words(cells):
    result = of_kinds(KINDS)
    numbers = pd.DataFrame({"dose": [1.5, np.nan], "smoker": [1.0, 0.0], "visit": [DAY, DAY]})
    np.testing.assert_array_equal(result.transform(WORDS.assign(**cells)), result.transform(numbers))


def test_flags_and_dates_in_words_are_put_on_the_agreed_scale():
    result = of_kinds([replace(own, shift=shift, scale=2.0) for own, shift in zip(KINDS, (0.0, 0.5, DAY), strict=True)])
    numbers = pd.DataFrame({"dose": [1.5, np.nan], "smoker": [0.25, -0.25], "visit": [0.0, 0.0]})
    np.testing.assert_array_equal(result.transform(WORDS), result.transform(numbers))


@pytest.mark.parametrize(
    ("column", "cell", "words"),
    [
        ("dose", "3 mg secret", "column 'dose' must hold numbers, or nothing; 1 cell holds something else"),
        ("smoker", "secret", "column 'smoker' must hold yes or no, or 1 and 0"),
        ("visit", "secret", "column 'visit' must hold dates such as 2026-01-31.* with `kfed label`"),
    ],
)
def test_a_word_of_another_kind_is_refused_by_the_name_of_its_column(column, cell, words):
    with pytest.raises(kfed.InvalidInputError, match=words) as caught:
        of_kinds(KINDS).predict(WORDS.assign(**{column: [WORDS[column][0], cell]}))
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize("agreed", [True, False], ids=["agreed scale", "common scale"])
@pytest.mark.parametrize("some_missing", [False, True])
@pytest.mark.parametrize(
    ("column", "as_words", "as_numbers"),
    [
        ("smoker", "flags in words", "flags"),
        ("smoker", "flags in words", "flags as numbers"),
        ("seen", "dates in words", "compact dates"),
    ],
)
def test_flags_and_dates_are_the_same_as_words_and_as_numbers(column, as_words, as_numbers, some_missing, agreed):
    words, numbers = pd.DataFrame(TABLES[as_words]), pd.DataFrame(TABLES[as_numbers])
    result = clusters_of(words, agreed=agreed)
    if some_missing:
        words, numbers = (frame.assign(**{column: frame[column].where(frame.index > 5)}) for frame in (words, numbers))
    np.testing.assert_array_equal(result.transform(numbers), result.transform(words))


def test_compact_dates_get_the_labels_of_kfed_label(tmp_path):
    written = pd.DataFrame(TABLES["compact dates"])
    result = clusters_of(written, agreed=False)
    written.to_csv(tmp_path / "rows.csv", index=False)
    labels = label_rows(tmp_path / "rows.csv", result).labels
    np.testing.assert_array_equal(result.predict(pd.read_csv(tmp_path / "rows.csv")), labels)


@pytest.mark.parametrize("number", [20260231, 1767225600000, np.inf])
def test_a_number_that_is_no_day_is_refused_among_dates(number):
    with pytest.raises(kfed.InvalidInputError, match=r"column 'visit' must hold dates .*; 1 cell holds") as caught:
        of_kinds(KINDS).predict(WORDS.assign(visit=[20260131, number]))
    assert "2026" not in str(caught.value).replace("2026-01-31", "")


def test_a_level_that_no_device_has_is_missing_in_frames_and_in_files(table_result, tmp_path):
    """It says nothing of a row: the distances are those of its other cells."""
    frame = pd.DataFrame({"sex": ["divers", "m ", "N/A"], "age": [61.0, 61.0, 61.0], "income": [40_100.0] * 3})
    with pytest.warns(kfed.AggregationWarning, match="1 cell of 'sex' holds a level that the others do not have"):
        found = table_result.transform(frame)
    np.testing.assert_array_equal(found, table_result.transform(frame.assign(sex=[None, "m", pd.NA])))
    frame.to_csv(tmp_path / "new.csv", index=False)
    labelled = label_rows(tmp_path / "new.csv", table_result)
    np.testing.assert_allclose(labelled.distances, found.min(axis=1))
    assert [notice.code for notice in labelled.notices if "level" in notice.code] == ["unknown level"]


def test_a_level_that_no_device_has_is_among_the_others_if_there_are_some():
    schema = kfed.FeatureSchema.of_columns([Column("age"), Column("ward", "category", ("Innere", "other"))])
    details = Details(observed=np.full((2, 3), 50.0), squares=np.full((2, 3), 9.0))
    centers = [[30.0, 0.9, 0.1], [30.1, 0.1, 0.9]]
    sent = [kfed.DeviceMessage(f"{i}", centers, [50, 50], [27.0] * 2, schema=schema, details=details) for i in range(3)]
    rows = pd.DataFrame({"age": [30.0, 30.0], "ward": ["Kardio", "other"]})
    first, second = kfed.aggregate(sent, 2).transform(rows)
    np.testing.assert_array_equal(first, second)


def test_a_model_predicts_the_same_without_messages(result, table_result, world):
    for whole, rows in ((result, world.points[1]), (table_result, table_result.cluster_centers)):
        model = kfed.ClusterModel.of(whole)
        again = kfed.ClusterModel.from_bytes(model.to_bytes())
        np.testing.assert_array_equal(again.predict(rows), whole.predict(rows))
        np.testing.assert_array_equal(pickle.loads(pickle.dumps(again)).transform(rows), whole.transform(rows))


def test_scikit_learn_predicts_the_same(result, table_result, world):
    np.testing.assert_array_equal(to_sklearn(result).predict(world.points[2]), result.predict(world.points[2]))
    rows = table_result.cluster_centers + np.array([9_000.0, 1.0, 0.0, 0.0])
    model = to_sklearn(kfed.ClusterModel.of(table_result))
    frame = pd.DataFrame(rows, columns=table_result.schema.names)
    np.testing.assert_array_equal(model.predict(frame), table_result.predict(rows))
    np.testing.assert_allclose(model.transform(frame), table_result.transform(rows))


def test_scikit_learn_takes_single_precision_after_a_conversion_as_the_docstring_says(result, world):
    rows = world.points[2].astype(np.float32)
    np.testing.assert_array_equal(to_sklearn(result).predict(rows.astype(float)), result.predict(rows))


def test_scikit_learn_takes_the_table_that_was_clustered(folder):
    """Categories, flags and dates as they are, and columns that were not clustered; encoded as `kfed label` does."""
    rng, own = np.random.default_rng(0), np.repeat([0, 1], 60)
    frame = pd.DataFrame({"who": [f"p{i}" for i in range(120)], "age": (30 + 30 * own + rng.normal(size=120)).round(1)})
    frame["ward"] = np.where(own, "Innere", "Chirurgie")
    frame["smoker"] = np.where(rng.random(120) < 0.5, "ja", "nein")
    frame["visit"] = [f"2026-{1 + i % 12:02d}-{1 + i % 28:02d}" for i in range(120)]
    frame.to_csv("site.csv", index=False)
    assert run("device", "site.csv").exit_code == 0
    assert run("aggregate", "site.kfed", "-k", "2", "-o", "site.clusters.kfed").exit_code == 0
    assert run("export", "site.clusters.kfed", "-o", "site.joblib").exit_code == 0
    model = joblib.load("site.joblib")
    labelled = json.loads(run("label", "site.csv", "--clusters", "site.clusters.kfed", "--json").stdout)["labels"]
    assert model.predict(frame[frame.columns[::-1]]).tolist() == labelled
    clusters = Aggregation.load("site.clusters.kfed")
    for gap in ({"age": np.nan}, {"ward": "elsewhere"}):
        rows = frame.assign(**gap)
        with pytest.warns(kfed.AggregationWarning) if "ward" in gap else nullcontext():
            expected = clusters.predict(rows)
        assert model.predict(rows).tolist() == expected.tolist()
        assert len(set(expected)) == 2
    with pytest.raises(kfed.InvalidInputError, match=r"takes no missing cells.* label such rows with `kfed label`"):
        model[0].set_params(clusters=None).transform(frame.assign(age=np.nan))


@pytest.fixture
def folder(tmp_path, monkeypatch, result, table_result):
    monkeypatch.chdir(tmp_path)
    result.save("clusters.kfed")
    table_result.save("tables.kfed")
    (tmp_path / "new.csv").write_text('who,age,sex,income\na,59,m,40000\nb,,f,41000\n"c,d",33,f,39000\n')
    return tmp_path


def test_new_rows_of_a_table_are_labelled_by_name(folder, table_result):
    old = int(table_result.predict(pd.DataFrame({"age": [60.0], "sex": ["m"], "income": [40_000.0]}))[0])
    shown = run("label", "new.csv", "--clusters", "tables.kfed", "--id-column", "who").stdout
    assert shown == f'who,cluster\na,{old}\nb,{1 - old}\n"c,d",{1 - old}\n'


def test_append_keeps_every_cell_and_adds_cluster_and_distances(folder):
    out = run("label", "new.csv", "--clusters", "tables.kfed", "--append", "--distances", "-o", "out.csv")
    assert out.exit_code == 0
    frame = pd.read_csv("out.csv")
    assert frame.columns.tolist() == ["who", "age", "sex", "income", "cluster", "distance", "next_distance"]
    assert frame["who"].tolist() == ["a", "b", "c,d"]
    assert (frame["distance"] < frame["next_distance"]).all()


@pytest.mark.parametrize("n_whole", [0, 8_000], ids=["at the top", "far below"])
def test_append_writes_the_separator_and_the_decimal_sign_of_the_table(folder, n_whole):
    lines = ["who;age;sex;income", *n_whole * ["w;60;m;40000"], "a;59,5;m;40000,5", '"b;c";33,25;f;39000,25']
    (folder / "new.csv").write_text("\n".join(lines) + "\n")
    shown = run("label", "new.csv", "--clusters", "tables.kfed", "--append", "--distances").stdout.splitlines()
    assert shown[0] == "who;age;sex;income;cluster;distance;next_distance"
    assert [line[: len(as_read)] for line, as_read in zip(shown, lines, strict=True)] == lines
    frame = pd.read_csv(io.StringIO("\n".join(shown)), sep=";", decimal=",")
    assert (frame["distance"] < frame["next_distance"]).all()


@pytest.mark.parametrize("name", ["out.parquet", "out.XLSX", "out.csv.gz"])
def test_labels_are_not_written_as_csv_under_the_name_of_another_format(folder, name):
    refused = run("label", "new.csv", "--clusters", "tables.kfed", "--append", "-o", name)
    assert refused.exit_code == 2
    assert "must be the name of a CSV file" in " ".join(refused.stderr.split())
    assert not (folder / name).exists()


def test_a_column_of_that_name_is_not_shadowed(folder):
    (folder / "new.csv").write_text("age,sex,income,cluster\n59,m,40000,7\n")
    refused = run("label", "new.csv", "--clusters", "tables.kfed", "--append")
    assert refused.exit_code == 1
    assert "has a column 'cluster' already" in refused.stderr


def test_export_writes_a_model_for_label_and_for_scikit_learn(folder, world, result):
    np.savetxt("plain.csv", world.points[0], delimiter=",", header="a,b,c,d,e", comments="")
    assert run("export", "clusters.kfed").exit_code == 0
    assert "a model of 4 clusters" in run("inspect", "model.kfed").stdout
    by_model = json.loads(run("label", "plain.csv", "--clusters", "model.kfed", "--json").stdout)["labels"]
    assert by_model == result.predict(world.points[0]).tolist()
    facts = json.loads(run("export", "clusters.kfed", "-o", "model.joblib", "--json").stdout)
    assert facts["n_clusters"] == 4
    assert joblib.load("model.joblib").predict(world.points[0]).tolist() == by_model
    assert run("export", "clusters.kfed", "-o", "model.txt").exit_code == 1


def test_options_for_new_rows_are_refused_with_a_local_file(folder):
    (folder / "x.local").write_bytes(b"")
    refused = run("label", "x.local", "--clusters", "clusters.kfed", "--append")
    assert refused.exit_code == 1
    assert "for a table of new rows" in refused.stderr
