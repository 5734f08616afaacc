"""What a message about a table tells of few rows: attacks on levels, flags and spreads, each on what really leaves."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kfed.device import LocalClustering, cluster_columns
from kfed.site import Table, cluster_table, read_columns
from kfed.site.owners import owners_of
from kfed.wire import Column, FeatureSchema

FLOOR = 5
COLUMNS = [Column("x"), Column("ill", "flag"), Column("ward", "category", ("a", "b", "c")), Column("coded")]
SCHEMA = FeatureSchema.of_columns(COLUMNS)
AGREED = FeatureSchema.of_columns(
    [Column(own.name, own.kind, own.levels, shift=0.25, scale=0.5) for own in COLUMNS], "agreed"
)


def rows(ill=(), ward=(), coded=()):
    """Two groups of thirty rows; these rows of the first group are ill, in ward c, and coded 1."""
    groups = np.repeat([0, 1], 30)
    x = 100.0 * groups + np.random.default_rng(0).normal(size=60)
    flags, codes, wards = np.zeros(60), np.zeros(60), np.arange(60) % 2
    flags[40:55], codes[40:55], wards[40:50] = 1, 1, 2
    flags[list(ill)], codes[list(coded)], wards[list(ward)] = 1, 1, 2
    return np.column_stack([x, flags, np.eye(3)[wards], codes])


def message(values, schema=SCHEMA, **options):
    return cluster_columns(values, schema, 2, random_state=0, min_cluster_size=FLOOR, **options).to_message("a")


@pytest.mark.parametrize("schema", [SCHEMA, AGREED], ids=["by message", "agreed"])
@pytest.mark.parametrize("about", [{"ill": [3]}, {"ill": [3, 7, 9, 11]}, {"coded": [5]}, {"coded": [5, 6, 8]}])
def test_a_flag_of_fewer_rows_than_the_floor_cannot_be_told_from_one_of_none(about, schema):
    assert message(rows(**about), schema).to_bytes() == message(rows(), schema).to_bytes()


def test_a_level_of_fewer_rows_than_the_floor_cannot_be_told_from_the_most_common_one():
    values = rows(ward=[2, 4])  # two rows of ward a, which leaves b the most common
    told = rows()
    told[[2, 4], 2:5] = [0, 1, 0]
    assert message(values).to_bytes() == message(told).to_bytes()


def test_rare_levels_that_are_enough_together_count_as_other_or_as_missing():
    levels = ("a", "b", "c", "d")
    wards = np.array([0] * 20 + [1] * 4 + [2] * 3 + [3] * 3)
    x = np.random.default_rng(0).normal(size=(30, 1))
    for last, shares, observed in (("other", [2 / 3, 0, 0, 1 / 3], 30), ("d", [1, 0, 0, 0], 20)):
        schema = FeatureSchema.of_columns([Column("x"), Column("ward", "category", (*levels[:3], last))])
        values = np.column_stack([x, np.eye(4)[wards]])
        sent = cluster_columns(values, schema, 1, random_state=0, min_cluster_size=FLOOR).to_message("a")
        np.testing.assert_allclose(sent.centers[0, 1:], shares)
        np.testing.assert_array_equal(sent.details.observed[0, 1:], observed)


def test_a_level_of_one_person_is_one_of_few_rows():
    ids = np.arange(60)
    ids[:8] = 0
    assert message(rows(ill=range(8)), ids=ids).to_bytes() == message(rows(), ids=ids).to_bytes()


@given(seed=st.integers(0, 500), floor=st.integers(2, 6))
def test_every_share_of_a_level_rests_on_as_many_rows_as_the_floor_asks_for(seed, floor):
    rng = np.random.default_rng(seed)
    wards = rng.choice(3, 40, p=[0.8, 0.15, 0.05])
    values = np.column_stack([rng.normal(size=40), rng.random(40) < 0.1, np.eye(3)[wards], rng.random(40) < 0.9])
    values = np.where(rng.random((40, 1)) < 0.1, np.nan, values) if seed % 2 else values
    sent = cluster_columns(values, SCHEMA, 3, random_state=seed, min_cluster_size=floor).to_message("a")
    held = (sent.centers * sent.details.observed)[:, 1:]
    assert ((held < 1e-9) | (held > floor - 1e-9)).all()
    unheld = sent.details.observed[:, [1, 5]] - held[:, [0, 4]]
    assert ((unheld < 1e-9) | (unheld > floor - 1e-9)).all()


def test_labels_are_of_the_rows_as_they_are_and_the_message_is_the_same_after_saving(tmp_path):
    values = rows(ill=[3], ward=[4])
    local = cluster_columns(values, SCHEMA, 2, random_state=0, min_cluster_size=FLOOR)
    local.save(tmp_path / "a.local")
    again = LocalClustering.load(tmp_path / "a.local")
    assert again.to_message("a") == local.to_message("a")
    own = local.labels == local.labels[0]
    np.testing.assert_allclose(local.centers[local.labels[0]], values[own].mean(axis=0))


def test_a_spread_over_a_whole_column_serves_where_few_of_its_cells_are_in_groups_that_are_sent():
    rng = np.random.default_rng(1)
    values = np.concatenate([rng.normal(size=(12, 2)), [[50, 50]] * 3 + rng.normal(size=(3, 2))])
    schema = FeatureSchema.of_columns([Column("x"), Column("y")])
    local = cluster_columns(values, schema, 2, random_state=0, min_cluster_size=FLOOR)
    sent = local.to_message("a")
    assert sent.counts.tolist() == [12]
    total = local.sums_of_squares.sum()
    np.testing.assert_allclose(sent.details.squares.sum(), total * 11 / 13)  # by degrees of freedom


def test_rows_with_missing_cells_do_not_hide_that_an_average_is_one_persons_row():
    person, steps = np.array([3.0, 1.0, 4.0, 1.5]), np.random.default_rng(0).integers(1, 64, size=(6, 4)) / 64
    alike = np.tile([*person[:2], np.nan, np.nan], (FLOOR - 1, 1))  # as the person, as far as they are filled
    values = np.vstack([person, person + steps, person - steps, alike])
    schema = FeatureSchema.of_columns([Column(name) for name in "abcd"])
    sent = cluster_columns(values, schema, 1, random_state=0, min_cluster_size=FLOOR).to_message("a")
    assert not len(sent.centers)
    common = np.vstack([values, np.tile(person, (FLOOR - 1, 1))])
    sent = cluster_columns(common, schema, 1, random_state=0, min_cluster_size=FLOOR).to_message("a")
    np.testing.assert_allclose(sent.centers, [person])


def test_a_center_of_which_less_than_half_may_be_told_is_not_sent():
    schema = FeatureSchema.of_columns([Column(name) for name in "abcd"])
    rng = np.random.default_rng(2)
    values = np.full((42, 4), np.nan)
    values[:, 0] = rng.normal(size=42)
    for column in (1, 2, 3):  # fourteen cells each: too few for a spread
        values[14 * (column - 1) : 14 * column, column] = rng.normal(size=14)
    assert cluster_columns(values, schema, 1, min_cluster_size=FLOOR).to_message("a").n_local_clusters == 0
    values[14:16, 1] = rng.normal(size=2)
    sent = cluster_columns(values, schema, 1, min_cluster_size=FLOOR).to_message("a")
    assert sent.details.observed.tolist() == [[42.0, 16.0, 0.0, 0.0]]


def with_ids(n_named, n_empty, *, copies=0, noise=0.0):
    """A table of two columns, of which some rows have no id, and some are copies of one row without an id."""
    rng = np.random.default_rng(0)
    values = rng.normal(size=(n_named + n_empty, 2)) * [9, 3] + [50, 25]
    copied = np.tile([400.0, 90.0], (copies, 1)) * (1 + noise * rng.uniform(-1, 1, size=(copies, 2)))
    ids = tuple(f"p{i}" for i in range(n_named)) + ("",) * (n_empty + copies)
    return Table(np.concatenate([values, copied]), ("age", "bmi"), row_ids=ids, id_column="id")


def test_a_row_without_an_id_is_a_person_of_its_own():
    kept = cluster_table(with_ids(99, 101), 2, "north")
    assert kept.to_message().counts.sum() == 200
    frame = pd.DataFrame({"id": ["p1", "p1"] + [None] * 38, "x": np.arange(40.0) % 7, "y": np.arange(40.0) % 11})
    table = read_columns(frame, id_column="id")
    told = {notice.code: notice.text for notice in table.notices}
    assert told["repeated id"].startswith("2 rows have an id")
    assert told["no id"].startswith("38 rows have no id: each counts as a person of its own")


@pytest.mark.parametrize("noise", [0.0, 1e-6])
@pytest.mark.parametrize("is_missing", [False, True])
def test_copies_of_one_row_without_an_id_are_one_person(noise, is_missing):
    table = with_ids(40, 40, copies=12, noise=noise)
    if is_missing:
        table.values[80, 1] = np.nan
    schema = FeatureSchema.of_columns([Column("age"), Column("bmi")])
    for own in (replace(table, schema=schema), table)[: 1 if is_missing else 2]:
        message = cluster_table(own, 2, "north", warn=False).to_message()
        assert message.counts.tolist() == [80]


def test_a_copy_without_an_id_is_of_the_person_whose_row_it_copies():
    table = with_ids(60, 0, copies=12)
    named = (*table.row_ids[:60], "p60", *table.row_ids[61:])
    owners = owners_of(replace(table, row_ids=named))
    assert len(set(owners[60:].tolist())) == 1
    assert len(set(owners.tolist())) == 61


@pytest.mark.parametrize("rounding", [0.0, 1e-7])
@pytest.mark.parametrize("is_missing", [False, True])
def test_what_copies_of_one_row_have_is_told_of_nobody(rounding, is_missing):
    rng = np.random.default_rng(0)
    values = np.column_stack([rows(), rng.normal(size=(60, 2))])
    schema = FeatureSchema.of_columns([*SCHEMA.columns, Column("age"), Column("bmi")])
    copies = np.repeat(values[[3]], 6, axis=0)
    copies[:, -1] *= 1 + rounding * np.arange(6)
    if is_missing:
        copies[0, -1] = np.nan
    others = copies.copy()
    flag = schema.names.index("ill")
    copies[:, flag] = 1
    ill, well = (message(np.concatenate([values, own]), schema) for own in (copies, others))
    assert ill.to_bytes() == well.to_bytes()


def test_a_flag_that_different_rows_have_is_told_also_where_copies_can_be_told():
    values = np.column_stack([rows(ill=range(6)), np.random.default_rng(0).normal(size=(60, 2))])
    schema = FeatureSchema.of_columns([*SCHEMA.columns, Column("age"), Column("bmi")])
    assert (message(values, schema).centers[:, schema.names.index("ill")] > 0.1).all()


def test_a_level_of_copies_of_one_row_is_not_named():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {"age": rng.normal(50, 9, 70), "dose": rng.normal(2, 1, 70), "dx": ["A", "B"] * 30 + ["Z"] * 10}
    )
    frame.loc[60:, ["age", "dose"]] = [41.5, 2.25]
    assert read_columns(frame).schema.columns[2].levels == ("A", "B", "other")
    assert "Z" in read_columns(frame.assign(who=np.arange(70)), id_column="who").schema.columns[2].levels
