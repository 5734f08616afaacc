"""Rows that were never on a device: predicted by the nearest mean, in the library, in files and in scikit-learn."""

import json
import pickle

import joblib
import numpy as np
import pandas as pd
import pytest
from scipy import sparse

import kfed
from consoles import invoked as run
from kfed.estimator import to_sklearn
from kfed.wire import Column, Details


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
    monkeypatch.setattr("kfed.server.prediction.BLOCK_ELEMENTS", 64)
    np.testing.assert_array_equal(result.transform(points), expected)


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
