"""Columns of data frames, whatever type the library that made them chose: they are read, or named with what to do."""

import datetime

import numpy as np
import pytest

import kfed
from kfed.site import cluster_file, cluster_table, label_rows, read_columns
from workbooks import workbook

pd = pytest.importorskip("pandas")
pl = pytest.importorskip("polars")
pa = pytest.importorskip("pyarrow")

WARDS = ["A", "B", None] * 20
FRAME = pl.DataFrame({"age": np.arange(60) % 7 + 30.5, "ward": WARDS})
AS_CODES = {
    "Categorical": FRAME.with_columns(pl.col("ward").cast(pl.Categorical)),
    "Enum": FRAME.with_columns(pl.col("ward").cast(pl.Enum(["B", "A", "C"]))),
    "two chunks": pl.concat([FRAME.with_columns(pl.col("ward").cast(pl.Categorical))] * 2, rechunk=False)[:60],
    "pandas": pd.DataFrame({"age": FRAME["age"].to_numpy(), "ward": pd.Categorical(WARDS)}),
}


@pytest.mark.parametrize("how", AS_CODES)
@pytest.mark.parametrize("kinds", [None, {"ward": "category"}])
def test_codes_for_levels_are_the_levels(how, kinds):
    expected = read_columns(FRAME, kinds=kinds)
    found = read_columns(AS_CODES[how], kinds=kinds)
    assert found.schema == expected.schema
    np.testing.assert_array_equal(found.values, expected.values)


def test_codes_in_a_file_of_polars_are_levels(tmp_path):
    AS_CODES["Categorical"].write_ipc(tmp_path / "site.feather")
    assert read_columns(tmp_path / "site.feather").schema == read_columns(FRAME).schema


@pytest.mark.parametrize("stages", [[1, 2, None, 3], ["1", "2", None, "3"], [1.0, 2.0, None, 3.0]])
@pytest.mark.parametrize("how", ["pandas", "arrow"])
def test_codes_for_whole_numbers_are_levels_unless_they_are_named_numbers(stages, how):
    frame = pd.DataFrame({"age": np.arange(40) % 7 + 30.5, "stage": pd.Categorical(stages * 10)})
    table = frame if how == "pandas" else pa.table(frame)
    assert read_columns(table).schema.columns[1].levels == ("1", "2", "3")
    assert read_columns(table, kinds={"stage": "number"}).values[:2, 1].tolist() == [1, 2]


def test_codes_for_yes_and_no_are_flags_as_elsewhere():
    frame = pd.DataFrame({"age": np.arange(40) % 7 + 30.5, "smoker": pd.Categorical(["yes", "no"] * 20)})
    assert read_columns(frame).schema.columns[1].kind == "flag"


def test_codes_for_numbers_with_decimals_are_numbers():
    frame = pd.DataFrame({"age": pd.Categorical([30.5, 31.5, 32.5] * 10)})
    np.testing.assert_array_equal(read_columns(frame).values[:3, 0], [30.5, 31.5, 32.5])


@pytest.mark.parametrize("kinds", [None, {"group": "category"}])
def test_intervals_are_refused_by_the_name_of_their_column(kinds):
    frame = FRAME.to_pandas().assign(group=lambda own: pd.cut(own["age"], 3))
    with pytest.raises(kfed.InvalidInputError, match=r"column 'group' holds intervals, as by pandas\.cut.*text"):
        read_columns(frame, kinds=kinds)
    as_text = read_columns(frame.assign(group=frame["group"].astype(str)))
    assert [column.kind for column in as_text.schema.columns] == ["number", "category", "category"]


@pytest.mark.parametrize("rows", [[(1, 2.0), (3, 4.0)], [{"age": 1.0}], np.zeros((30, 2)), None, FRAME.lazy()])
def test_what_is_no_data_frame_is_refused_with_what_to_do(rows):
    with pytest.raises(kfed.InvalidInputError, match=r"must be a path, or a data frame .* pandas\.DataFrame\(rows"):
        read_columns(rows)


def test_a_lazy_frame_is_refused_without_a_warning_of_its_own():
    with pytest.raises(kfed.InvalidInputError, match="A lazy frame must be collected"):
        cluster_file(FRAME.lazy(), None, "north")


def dated(*days):
    return pl.DataFrame({"x": np.arange(5.0 * len(days)) % 7, "seen": [*days] * 5})


def test_a_day_above_12_shows_that_the_day_comes_first_in_the_whole_column():
    expected = read_columns(dated("2024-12-28", "2024-02-01"))
    for schema in (None, expected.schema):
        found = read_columns(dated("28/12/2024", "01/02/2024"), schema=schema)
        assert found.schema == expected.schema
        np.testing.assert_array_equal(found.values, expected.values)


@pytest.mark.parametrize("days", [("11/12/2024", "01/02/2024"), ("28/12/2024", "01/28/2024"), ("12/28/2024",)])
def test_dates_whose_order_nothing_shows_are_not_guessed(days):
    schema = read_columns(dated("2024-12-28", "2024-02-01")).schema
    assert read_columns(dated(*days)).schema.columns[1].kind == "category"
    with pytest.raises(kfed.InvalidInputError, match="'seen' must hold a date such as 2026-01-31"):
        read_columns(dated(*days), schema=schema)


def test_text_with_decimal_commas_is_numbers_in_parquet_and_frames(tmp_path):
    frame = pl.DataFrame({"dose": ["0,5", "1,25", None, "-", "12"] * 6})
    frame.write_parquet(tmp_path / "site.parquet")
    for source in (frame, tmp_path / "site.parquet"):
        for kinds in (None, {"dose": "number"}):
            np.testing.assert_array_equal(
                read_columns(source, kinds=kinds).values[:5, 0], [0.5, 1.25, np.nan, np.nan, 12]
            )


def test_text_with_decimal_commas_and_points_is_not_guessed():
    assert read_columns(pl.DataFrame({"dose": ["0,5", "0,7", "0.5"] * 8})).schema.columns[0].kind == "category"


def test_text_with_decimal_commas_is_numbers_in_excel(write, monkeypatch):
    path = workbook(write, monkeypatch, {"rows": [["dose", "age"], *([["0,5", 30.0], ["1,25", 41.0]] * 9)]})
    np.testing.assert_array_equal(read_columns(path).values[:2, 0], [0.5, 1.25])


REFUSED = {
    "two columns of one name": (pd.DataFrame(np.ones((9, 2)), columns=["age", "age"]), "distinct; 'age' occurs"),
    "sparse": (pd.DataFrame({"age": [1.0], "s": pd.arrays.SparseArray([0.0])}), "'s' is of a type .* Sparse"),
    "a column of pandas": (pd.Series([1.0]), r"got a single column \(Series\): use .to_frame"),
    "a column of Polars": (pl.Series([1.0]), r"got a single column \(Series\): use .to_frame"),
    "Int128": (pl.DataFrame({"age": [1.0], "n": [1]}, schema_overrides={"n": pl.Int128}), "'n' is of a type .* Int128"),
    "lists among numbers": (pd.DataFrame({"x": [[867], 2.5, "a"]}), "'x' must hold cells of one type"),
}


@pytest.mark.parametrize("what", REFUSED)
def test_columns_that_cannot_be_read_are_named(what):
    frame, said = REFUSED[what]
    with pytest.raises(kfed.InvalidInputError, match=said) as caught:
        read_columns(frame)
    assert "867" not in str(caught.value)
    assert caught.value.__context__ is None  # the words of pyarrow show cells


def test_a_column_of_objects_is_read_as_in_excel(write, monkeypatch):
    mixed = [1, 2.5, "n/a", None, "7"] * 8
    frame = pd.DataFrame({"age": np.arange(40) % 7 + 30.5, "x": mixed}, index=pd.Index(np.arange(40) * 2))
    rows = [["age", "x"], *([age, "" if x is None else x] for age, x in zip(frame["age"], mixed, strict=True))]
    expected = read_columns(workbook(write, monkeypatch, {"rows": rows}))
    found = read_columns(frame)
    assert found.schema == expected.schema
    np.testing.assert_array_equal(found.values, expected.values)


def test_rows_of_a_data_frame_are_labelled():
    frame = FRAME.to_pandas().assign(age=lambda own: own["age"] + 50 * (np.arange(60) % 2))
    clusters = kfed.aggregate([cluster_file(frame, 2, name).to_message() for name in "ab"], 2)
    rows = label_rows(frame, clusters)
    np.testing.assert_array_equal(rows.labels, cluster_file(frame, 2, "a").labels(clusters))
    assert rows.appended_csv().splitlines()[0] == "age,ward,cluster"
    with pytest.raises(kfed.InvalidInputError, match=r"the data frame: .*it lacks 'ward'"):
        label_rows(frame[["age"]], clusters)


def test_days_are_appended_without_a_time_unless_one_has_one():
    start = datetime.datetime(2024, 3, 2)
    for step, first in ((datetime.timedelta(days=1), "2024-03-02"), (datetime.timedelta(hours=5), "2024-03-02 00:00")):
        frame = FRAME.select("age", seen=pl.Series([start + i % 20 * step for i in range(60)]))
        clusters = kfed.aggregate([cluster_file(frame, 2, "a").to_message()], 2)
        cell = label_rows(frame, clusters).appended_csv().splitlines()[1].split(",")[1]
        assert (cell == first, cell.startswith(first)) == (step.days == 1, True)


class Once:
    """Rows that are given a single time, as a database does."""

    def __init__(self, frame):
        self._streams = [frame.to_arrow().__arrow_c_stream__()]

    def __arrow_c_stream__(self, requested_schema=None):
        return self._streams.pop()


class Interchanged:
    """What has nothing but the dataframe interchange protocol."""

    def __init__(self, frame):
        self._frame = frame

    def __dataframe__(self, **how):
        return self._frame.to_arrow().__dataframe__(**how)


STREAMS = {"reader": lambda frame: frame.to_arrow().to_reader(), "once": Once, "interchanged": Interchanged}


@pytest.mark.parametrize("how", STREAMS)
def test_rows_that_can_be_read_only_once_are_clustered_and_labelled(how):
    frame = FRAME.select("age", dose=pl.Series(np.random.default_rng(0).normal(size=60).round(3)))
    kept, expected = (cluster_file(rows, None, "north") for rows in (STREAMS[how](frame), frame))
    assert kept.to_message().to_bytes() == expected.to_message().to_bytes()
    clusters = kfed.aggregate([kept.to_message()], 2)
    rows = label_rows(STREAMS[how](frame), clusters)
    assert rows.appended_csv() == label_rows(frame, clusters).appended_csv()
    assert read_columns(STREAMS[how](frame)).schema == read_columns(frame).schema


def test_what_the_interchange_protocol_cannot_give_is_refused_with_what_to_do():
    frame = pl.DataFrame({"x": [{"a": 1}] * 30})
    with pytest.raises(kfed.InvalidInputError, match="pyarrow cannot read a Interchanged; convert it"):
        cluster_file(Interchanged(frame), None, "north")


def test_what_is_shown_of_a_table_and_its_files_holds_no_id_and_no_row():
    ages = np.arange(40) % 13 + np.arange(40) // 20 * 50.0
    rows = pd.DataFrame({"patient": [f"mrn{i:05d}" for i in range(40)], "age": ages})
    kept = cluster_file(rows, 2, "north", id_column="patient", warn=False)
    clusters = kfed.aggregate([kept.to_message()], 2)
    labelled = label_rows(rows, clusters, id_column="patient")
    table = read_columns(rows, id_column="patient")
    assert list(map(repr, (kept, labelled, table))) == [
        "<LocalFile of 'north': 40 rows, 1 feature>",
        "<LabelledRows of the data frame: 40 rows, 2 clusters>",
        "<Table: 40 rows, 1 feature>",
    ]


def test_a_data_frame_that_is_no_table_is_told_what_reads_it():
    with pytest.raises(kfed.InvalidInputError, match=r"got DataFrame: use cluster_file, .* or read_columns first"):
        cluster_table(pd.DataFrame({"a": [1.0, 2.0]}), None, "north")


@pytest.mark.parametrize("option", ["exclude", "columns"])
@pytest.mark.parametrize("how", [{}, {"as_is": True}])
def test_names_of_columns_in_one_word_are_refused(option, how):
    rows = pd.DataFrame({"PLZ": [1.0, 2.0], "age": [3.0, 4.0]})
    with pytest.raises(kfed.InvalidInputError, match=rf"^{option} must be a list of names; got 'PLZ': pass \['PLZ'\]$"):
        cluster_file(rows, None, "north", **{option: "PLZ"}, **how)
