"""Names and numbers of rows, and of people: columns that tell rows apart and must not be clustered."""

import numpy as np
import pandas as pd
import pytest

import kfed
from kfed.site import cluster_file, label_rows, read_columns, read_table
from workbooks import workbook
from worlds import codes

RNG = np.random.default_rng(0)
FRAME = pd.DataFrame({"age": RNG.normal(50, 9, 40).round(1), "dose": RNG.normal(2, 0.5, 40).round(2)})


@pytest.fixture(params=["csv", "tsv", "parquet", "xlsx", "frame"])
def stored(request, tmp_path, write, monkeypatch):
    """Store a data frame in one of the formats that sites have."""

    def stored(frame, **how):
        path = tmp_path / f"site.{request.param}"
        if request.param == "frame":
            return frame
        if request.param == "parquet":
            frame.to_parquet(path)
        elif request.param == "xlsx":
            lines = [line.split(",") for line in frame.to_csv(**how).splitlines()]
            return workbook(write, monkeypatch, {"rows": [lines[0], *([*map(_cell, line)] for line in lines[1:])]})
        else:
            frame.to_csv(path, sep="," if request.param == "csv" else "\t", **how)
        return path

    return stored


def _cell(text):
    """A cell as calamine gives it."""
    return float(text) if text.replace(".", "").isdecimal() else text


# Columns without a name ----------------------------------------------------------------------------------------------


def test_the_index_that_pandas_writes_is_no_column(stored):
    assert read_columns(stored(FRAME.set_index(FRAME.index + 7))).names == ("age", "dose")


@pytest.mark.parametrize("read", [read_columns, read_table])
def test_a_first_column_without_a_name_holds_names_of_rows_and_is_left_out_with_a_notice(write, read):
    lines = [f'"Mazda {i % 7}",{20 + i % 9},{i % 5}' for i in range(12)]  # as write.csv of R
    table = read(write("\n".join(['"","mpg","cyl"', *lines]) + "\n"))
    assert table.names == ("mpg", "cyl")
    assert codes(table) == ["identifier"]
    assert "the first column has no name" in table.notices[0].text
    assert "Mazda" not in table.notices[0].text


def test_what_pandas_makes_of_names_of_rows_is_left_out(stored):
    frame = pd.DataFrame({"Unnamed: 0": [f"r{i % 9}" for i in range(40)], **FRAME})
    table = read_columns(stored(frame, index=False))
    assert table.names == ("age", "dose")
    assert codes(table) == ["identifier"]
    assert read_columns(stored(frame, index=False), columns=["age", "Unnamed: 0"]).names == ("age", "Unnamed: 0")


def test_names_of_rows_can_be_the_id_column(write):
    path = write(FRAME.set_index(FRAME.index // 2).to_csv())
    table = read_columns(path, id_column="")
    assert len(set(table.row_ids)) == 20
    assert codes(table) == ["repeated id"]


def test_new_rows_with_names_of_rows_are_labelled_and_keep_them(write):
    path = write(FRAME.to_csv())
    clusters = kfed.aggregate([cluster_file(path, 2, "a").to_message()], 2)
    assert label_rows(path, clusters).appended_csv().splitlines()[0] == ",age,dose,cluster"


def test_an_empty_column_without_a_name_is_no_column_wherever_it_is(stored):
    frame = FRAME.assign(**{"Unnamed: 1": np.nan, "Unnamed: 3": np.nan})[["age", "Unnamed: 1", "dose", "Unnamed: 3"]]
    table = read_columns(stored(frame, index=False, header=["age", "", "dose", ""]))
    assert table.names == ("age", "dose")
    assert codes(table) == []
    np.testing.assert_array_equal(table.values, FRAME)


@pytest.mark.parametrize("late", [10, 30_000])
def test_a_cell_in_a_column_that_seemed_empty_is_named_by_its_line(write, late):
    text = "a,,b\n" + "1,,2\n3,,4\n" * late + "5,6,7\n"
    with pytest.raises(kfed.InvalidInputError, match=r"no name|line 60002 has one in a column that has none"):
        read_columns(write(text))


def test_several_columns_without_a_name_are_refused(write):
    with pytest.raises(kfed.InvalidInputError, match="2 of 3 columns have none"):
        read_columns(write(",,a\n1,2,3\n4,5,6\n"))


# Columns that number the rows ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["index", "n", "x"])
@pytest.mark.parametrize("step", [1, -1])
def test_consecutive_numbers_are_left_out_wherever_they_start(name, step):
    frame = FRAME.assign(**{name: 87 + step * np.arange(40)})
    table = read_columns(frame)
    assert table.names == ("age", "dose")
    assert codes(table) == ["identifier"]
    assert read_columns(frame, kinds={name: "number"}).names == ("age", "dose", name)
    assert f"--kinds {name}=number keeps it" in table.notices[0].text


@pytest.mark.parametrize("name", ["index", "rownames", "row", "Row.names", "rownr", "case", "obs", "record_no"])
def test_a_row_number_by_name_is_left_out_also_after_a_split_among_sites(name):
    numbers = np.sort(RNG.choice(1000, 40, replace=False))
    table = read_columns(FRAME.assign(**{name: numbers}))
    assert table.names == ("age", "dose")
    assert codes(table) == ["identifier"]


@pytest.mark.parametrize("direction", [1, -1])
def test_numbers_that_only_grow_or_fall_are_kept_and_said(direction):
    numbers = direction * np.cumsum(RNG.integers(1, 5, 40))
    table = read_columns(FRAME.assign(weeks=numbers))
    assert table.names == ("age", "dose", "weeks")
    assert codes(table) == ["row number"]
    assert "leave it out with --exclude weeks" in table.notices[0].text
    assert codes(read_columns(FRAME.assign(weeks=numbers), columns=["age", "weeks"])) == []


def test_numbers_that_are_no_row_numbers_are_kept_without_a_word():
    rng = np.random.default_rng(1)
    frame = FRAME.assign(beats=rng.integers(50, 99, 40), body_mass_index=rng.permutation(40), half=np.arange(40) / 2)
    table = read_columns(frame)
    assert table.names == tuple(frame.columns)
    assert codes(table) == []


def test_a_row_number_that_one_of_three_sites_left_out_is_not_to_be_added():
    frames = [FRAME.assign(index=np.arange(40)), FRAME.assign(index=RNG.integers(0, 9, 40))]
    messages = [cluster_file(frames[site > 0], 2, f"site {site}").to_message() for site in range(3)]
    with pytest.raises(kfed.FeatureMismatchError, match="looks like an identifier: leave it out everywhere"):
        kfed.aggregate(messages, 2)


# Columns that tell people apart --------------------------------------------------------------------------------------

PEOPLE = np.repeat(np.arange(30) * 17 % 1000 + 1000, 4)
VISITS = pd.DataFrame({"age": RNG.normal(50, 9, 120), "dose": RNG.normal(2, 0.5, 120)})


@pytest.mark.parametrize("name", ["patient_id", "id", "MRN", "patient", "PatientID", "subject no", "pat_nr"])
@pytest.mark.parametrize("form", ["{}", "P{}"])
def test_an_identifier_of_people_with_several_rows_is_left_out_and_the_option_is_named(name, form, write):
    path = write(VISITS.assign(**{name: list(map(form.format, PEOPLE))}).to_csv(index=False))
    table = read_columns(path)
    assert table.names == ("age", "dose")
    assert codes(table) == ["identifier"]
    assert "name it with --id-column" in table.notices[0].text
    assert len(set(read_columns(path, id_column=name).row_ids)) == 30


def test_a_group_with_the_name_of_an_identifier_is_kept():
    table = read_columns(VISITS.assign(hospital_id=np.arange(120) % 4, visit_no=np.arange(120) % 25))
    assert table.names == ("age", "dose", "hospital_id", "visit_no")
