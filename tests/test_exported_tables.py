"""What `to_sklearn` makes of tables: it predicts what `kfed label` does, whatever the columns hold."""

import numpy as np
import pandas as pd
import pytest

import kfed
from kfed.estimator import to_sklearn
from kfed.site import label_rows
from kind_tables import AGE, FLAG, TABLES, clusters_of


@pytest.mark.parametrize("agreed", [True, False], ids=["agreed scale", "common scale"])
@pytest.mark.parametrize("table", TABLES)
def test_a_table_gets_the_labels_of_kfed_label(table, agreed, tmp_path):
    frame = pd.DataFrame(TABLES[table])
    found = clusters_of(frame, agreed=agreed)
    frame.to_csv(tmp_path / "rows.csv", index=False)
    labels = label_rows(tmp_path / "rows.csv", found).labels
    assert len(set(labels)) == 4
    np.testing.assert_array_equal(to_sklearn(found).predict(frame), labels)


def test_an_array_and_a_frame_of_levels_hold_features():
    frame = pd.DataFrame({"age": AGE, "sex": np.where(FLAG, "f", "m")})
    model = to_sklearn(clusters_of(frame, agreed=True))
    features = pd.DataFrame({"sex=m": 1.0 - FLAG, "sex=f": 1.0 * FLAG, "age": (AGE - 40) / 12})
    labels = model.predict(frame)
    np.testing.assert_array_equal(model.predict(features), labels)
    np.testing.assert_array_equal(model.predict(features[["age", "sex=f", "sex=m"]].to_numpy()), labels)


@pytest.mark.parametrize("agreed", [True, False], ids=["agreed scale", "common scale"])
@pytest.mark.filterwarnings("ignore::kfed.AggregationWarning")
def test_unknown_levels_and_missing_cells_get_the_labels_of_kfed_label(agreed, tmp_path):
    frame = pd.DataFrame({"age": AGE, "sex": np.where(FLAG, "f", "m")})
    found = clusters_of(frame, agreed=agreed)
    some = frame.copy()
    some.loc[::3, "sex"] = "never heard of"
    some.loc[1::5, "sex"] = None
    some.loc[2::5, "age"] = np.nan
    some = some.dropna(how="all")
    some.to_csv(tmp_path / "rows.csv", index=False)
    expected = label_rows(tmp_path / "rows.csv", found).labels
    for model in (to_sklearn(found), to_sklearn(kfed.ClusterModel.of(found))):
        np.testing.assert_array_equal(model.predict(some), expected)
    if not agreed:
        np.testing.assert_array_equal(found.predict(some), expected)


def test_words_among_features_are_refused_without_showing_them():
    model = to_sklearn(clusters_of(pd.DataFrame(TABLES["flags"]), agreed=False))
    with pytest.raises(kfed.InvalidInputError, match="X must be numbers") as caught:
        model.predict(np.array([["31.5", "secret"]], object))
    assert "secret" not in str(caught.value)
