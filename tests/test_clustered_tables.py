"""Tables of any units, with missing cells: clustered without a scale, and nothing is sent of too few cells."""

import numpy as np
import pandas
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import adjusted_rand_score

import kfed
from clinics import SCHEMA, SECRET, clinics
from kfed.device import cluster_columns, own_scale
from kfed.site import (
    cluster_file,
    cluster_table,
    read_columns,
)
from kfed.wire import Column, FeatureSchema

# Clusters -------------------------------------------------------------------------------------------------------


def whole_round(sites):
    """Labels of all rows after one round, beside their groups."""
    local = [cluster_columns(rows, SCHEMA, 2, random_state=0, device_id=f"{i}") for i, (rows, _) in enumerate(sites)]
    result = kfed.aggregate([own.to_message(f"{i}") for i, own in enumerate(local)], 4)
    labels = [own.induced_labels(result.identity(f"{i}")) for i, own in enumerate(local)]
    return np.concatenate(labels), np.concatenate([groups for _, groups in sites])


@pytest.mark.parametrize("seed", range(4))
def test_columns_of_any_unit_are_clustered_without_a_scale(seed):
    labels, groups = whole_round(clinics(seed))
    assert adjusted_rand_score(labels, groups) > 0.97


def test_a_few_far_cells_do_not_stretch_the_scale_of_a_site():
    rows = clinics()[0][0]
    clean = own_scale(rows, SCHEMA).scale
    rows[:2, 0] = 1e9
    assert own_scale(rows, SCHEMA).scale[0] < 1.5 * clean[0]


def test_the_unit_of_a_column_does_not_matter():
    sites = clinics()
    in_grams = [(rows * [1, 1, 1024, 1], groups) for rows, groups in sites]
    np.testing.assert_array_equal(whole_round(sites)[0], whole_round(in_grams)[0])


@pytest.mark.parametrize("seed", range(4))
def test_a_fifth_of_the_cells_may_be_missing(seed):
    labels, groups = whole_round(clinics(seed, missing=0.2))
    assert adjusted_rand_score(labels, groups) > 0.9


def test_a_row_with_few_cells_is_labelled_and_not_counted():
    rows = clinics()[0][0].copy()
    rows[0, 1:] = np.nan
    found = cluster_columns(rows, SCHEMA, 2, random_state=0)
    assert len(found.labels) == len(rows)
    assert found.counts.sum() == len(rows) - 1
    assert found.columns.n_left_out is None  # one row is too few to be told


@pytest.mark.parametrize(("missing", "counted"), [("observed", 79), ("drop", 39), ("mean", 80)])
def test_missing_cells_are_treated_as_asked(missing, counted, tmp_path):
    rows = clinics()[0][0].copy()
    rows[:40, 0] = np.nan
    rows[40, :3] = np.nan
    pandas.DataFrame(rows, columns=list("abcd")).to_csv(tmp_path / "x.csv", index=False)
    found = cluster_table(read_columns(tmp_path / "x.csv", missing=missing), 2, "a").clustering
    assert (found.counts.sum(), len(found.labels)) == (counted, 80)


def test_a_kept_table_labels_its_rows_after_it_was_saved(tmp_path):
    rows, groups = clinics(missing=0.1)[0]
    pandas.DataFrame(rows, columns=list("abcd")).to_csv(tmp_path / "x.csv", index=False)
    kept = cluster_file(tmp_path / "x.csv", 2, "x")
    kept.save(tmp_path / "x.local")
    again = type(kept).load(tmp_path / "x.local")
    clusters = kfed.aggregate([again.to_message()], 2)
    np.testing.assert_array_equal(again.labels(clusters), kept.labels(clusters))
    refined = again.labels(clusters, again.read_rows(tmp_path / "x.csv").values)
    assert adjusted_rand_score(refined, groups) > 0.95


# The floor, cell by cell ----------------------------------------------------------------------------------------


@given(seed=st.integers(0, 1000), floor=st.integers(2, 6))
def test_nothing_is_said_of_fewer_cells_than_the_floor(seed, floor):
    rng = np.random.default_rng(seed)
    rows = rng.normal(size=(40, 3))
    rows[rng.random(rows.shape) < 0.7] = np.nan
    schema = FeatureSchema.of_columns([Column("a"), Column("b"), Column("c")])
    message = cluster_columns(rows, schema, 4, random_state=seed, min_cluster_size=floor).to_message("a")
    said = message.details.observed
    assert ((said == 0) | (said >= floor)).all()
    assert not message.centers[said == 0].any()
    assert not message.details.squares[said == 0].any()
    assert (message.counts >= floor).all()


def test_the_only_filled_cell_of_a_column_cannot_be_read_from_the_message():
    rows = clinics()[0][0].copy()
    rows[:, 3] = np.nan
    rows[7, 3] = float(SECRET)
    message = cluster_columns(rows, SCHEMA, 2, random_state=0).to_message("a")
    assert not np.isclose(message.centers, float(SECRET)).any()
    assert not message.details.observed[:, 3].any()


def test_the_mean_of_a_column_does_not_pass_for_filled_cells(write):
    rows = "".join(f"{i % 7},{SECRET if i == 3 else ''}\n" for i in range(40))
    message = cluster_file(write("x,rare\n" + rows), 2, "a", missing="mean").to_message()
    assert not np.isclose(message.centers, float(SECRET)).any()


def test_one_heavy_row_is_not_many_cells():
    rows = clinics()[0][0].copy()
    rows[:, 3] = np.nan
    rows[7, 3] = float(SECRET)
    message = cluster_columns(rows, SCHEMA, 2, random_state=0, sample_weight=np.full(80, 20.0)).to_message("a")
    assert not message.details.observed[:, 3].any()


def test_cells_of_one_person_are_not_many_cells():
    rows, ids = clinics()[0][0].copy(), np.arange(80)
    rows[:, 3] = np.nan
    rows[:16, 3], ids[:16] = float(SECRET), 0
    message = cluster_columns(rows, SCHEMA, 2, random_state=0, ids=ids, min_cluster_size=5).to_message("a")
    assert not message.details.observed[:, 3].any()


def test_a_center_that_is_a_row_is_withheld_also_if_a_cell_is_missing_elsewhere():
    near = np.array(
        [[10.0, 20.0], *([10.0 + dx, 20.0 + dy] for dx, dy in ((1, 2), (-1, -2), (2, -1), (-2, 1), (3, 3), (-3, -3)))]
    )
    far = 500 + np.random.default_rng(0).normal(size=(30, 2))
    schema = FeatureSchema.of_columns([Column("a"), Column("b")])
    for has_gap in (False, True):
        rows = np.concatenate([near, far])
        rows[20, 0] = np.nan if has_gap else rows[20, 0]
        message = cluster_columns(rows, schema, 2, random_state=0, min_cluster_size=5).to_message("a")
        assert message.n_local_clusters == 1


def test_a_cell_that_makes_up_its_column_cannot_be_read_from_the_average():
    rows = clinics()[0][0].copy()
    rows[:, 3] = 0
    rows[7, 3] = float(SECRET)
    message = cluster_columns(rows, SCHEMA, 2, random_state=0).to_message("a")
    assert not np.isclose(message.centers[:, 3] * message.counts, float(SECRET)).any()


def test_a_site_of_few_rows_sends_no_empty_center(write):
    rows = "".join(f"{10 * (i % 2) + i / 10},{5 * (i % 2) - i / 20}\n" for i in range(14))
    kept = cluster_file(write("x,y\n" + rows), 2, "small")
    assert kept.to_message().n_local_clusters == 0
    other = cluster_file(write("x,y\n" + 5 * rows, "large.csv"), 2, "large")
    labels = kept.labels(kfed.aggregate([kept.to_message(), other.to_message()], 2))
    assert adjusted_rand_score(labels, np.arange(14) % 2) == 1


def test_moments_of_few_rows_do_not_leave_a_site(write):
    path = write("x,y\n" + "".join(f"{i},{i * i % 7}\n" for i in range(14)))
    with pytest.raises(kfed.InvalidInputError, match="drop moments"):
        cluster_file(path, 1, "a", moments=True)
