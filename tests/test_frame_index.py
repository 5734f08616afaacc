"""Labels of the rows of a pandas data frame come back with its index, from every door."""

import numpy as np
import pytest

import kfed
from kfed.site import cluster_file, label_rows

pd = pytest.importorskip("pandas")
pl = pytest.importorskip("polars")

VALUES = np.random.default_rng(0).normal(size=(60, 2)) + np.repeat([[0.0], [9.0]], 30, axis=0)
FRAME = pd.DataFrame(VALUES, columns=["age", "dose"], index=[f"row {i}" for i in range(60, 0, -1)])


@pytest.mark.parametrize("refined", [False, True])
@pytest.mark.parametrize(
    ("k", "privacy"), [(None, None), (2, None), (2, kfed.Privacy(epsilon=100.0, delta=1e-3, radius=30.0))]
)
def test_labels_of_a_data_frame_have_its_index(k, privacy, refined):
    local = kfed.cluster_device(FRAME, k, random_state=0, device_id="north", privacy=privacy)
    identity = kfed.aggregate([local.to_message("north")], 2).identity("north")
    labels = local.induced_labels(identity, refine=FRAME if refined else None)
    assert labels.index.equals(FRAME.index)
    assert labels.name == "cluster"
    plain = kfed.LocalClustering.from_bytes(local.to_bytes())  # the file knows no index
    assert np.array_equal(plain.induced_labels(identity, refine=VALUES if refined else None), labels)


def test_a_second_message_labels_by_the_index_too():
    local = kfed.cluster_device(FRAME, 6, random_state=0)
    first = kfed.aggregate([local.to_message("north")], 2, rule="robust")
    again = kfed.refine_device(local, first.identity("north"), FRAME)
    second = kfed.aggregate_refined(first, [again.to_message("north")])
    assert again.induced_labels(second.identity("north")).index.equals(FRAME.index)


def test_a_site_gets_the_index_of_its_frame_back():
    kept = cluster_file(FRAME, 2, "north")
    assert kept.labels(kfed.aggregate([kept.to_message()], 2)).index.equals(FRAME.index)


def test_predicted_labels_of_a_data_frame_have_its_index():
    local = kfed.cluster_device(FRAME, 2, random_state=0)
    result = kfed.aggregate([local.to_message("north")], 2)
    for clusters in (result, kfed.ClusterModel.of(result)):
        labels = clusters.predict(FRAME)
        assert labels.index.equals(FRAME.index)
        assert labels.name == "cluster"
        assert np.array_equal(clusters.predict(VALUES), labels)
        assert type(clusters.predict(VALUES)) is type(clusters.predict(pl.from_pandas(FRAME))) is np.ndarray


def test_labels_of_new_rows_have_the_index_of_their_frame():
    kept = cluster_file(FRAME, 2, "north")
    result = kfed.aggregate([kept.to_message()], 2)
    found = label_rows(FRAME, result)
    assert found.labels.index.equals(FRAME.index)
    assert found.row_names == FRAME.index.tolist()
    assert found.labels_csv().splitlines()[1].startswith("row 60,")
    assert found.appended_csv().splitlines()[0] == "age,dose,cluster"
    by_id = label_rows(FRAME.assign(person=range(60)), result, id_column="person")
    assert by_id.row_names[:2] == ("0", "1")
    assert by_id.labels.index.equals(FRAME.index)
    assert type(label_rows(pl.from_pandas(FRAME), result).labels) is np.ndarray


def test_an_estimator_gives_arrays_of_data_frames_as_scikit_learn_does():
    model = kfed.KFed(2, random_state=0).fit(FRAME)
    assert type(model.labels_) is type(model.predict(FRAME)) is np.ndarray
    assert pd.Series(model.labels_, index=FRAME.index).index.equals(FRAME.index)


@pytest.mark.parametrize("points", [VALUES, pl.from_pandas(FRAME)], ids=["array", "polars"])
def test_what_has_no_index_gets_an_array(points):
    local = kfed.cluster_device(points, 2, random_state=0)
    labels = local.induced_labels(kfed.aggregate([local.to_message("north")], 2).identity("north"))
    assert type(labels) is np.ndarray


def test_the_estimator_gives_arrays_as_scikit_learn_does_and_the_functions_a_series():
    frame = pd.DataFrame(np.random.default_rng(0).normal(size=(60, 2)), columns=["x", "y"])
    frame.index = [f"row {i}" for i in range(60)]
    model = kfed.KFed(n_clusters=2, n_local_clusters=2, random_state=0).fit(frame, groups=np.arange(60) % 3)
    again = kfed.KFed(n_clusters=2, n_local_clusters=2, random_state=0)
    fitted = again.fit_predict(frame, groups=np.arange(60) % 3)
    for labels in (model.labels_, model.predict(frame), fitted):
        assert type(labels) is np.ndarray
    found = model.aggregation_.predict(frame)
    assert found.index.equals(frame.index)
    np.testing.assert_array_equal(found, model.predict(frame))


def test_what_is_no_identity_is_refused_by_its_type():
    local = kfed.cluster_device(np.random.default_rng(0).normal(size=(60, 2)), 2, random_state=0)
    with pytest.raises(TypeError, match="identity must be an Identity, the answer to this device; got ndarray"):
        local.induced_labels(np.array([0, 1]))
