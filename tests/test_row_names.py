"""Names and numbers of rows, and of people: columns that tell rows apart and must not be clustered."""

import json

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


# Tables whose numbers are taken as they are -----------------------------------------------------------------------

MRN = np.arange(40) * 7919 % 99_991


def wide(n_columns=300, **more):
    rows = np.random.default_rng(1).normal(size=(40, n_columns)).round(3)
    return pd.DataFrame({**more, **{f"c{i}": rows[:, i] for i in range(n_columns)}})


@pytest.mark.parametrize(("n_columns", "how"), [(300, {}), (3, {"as_is": True})])
def test_columns_that_identify_are_left_out_of_a_table_taken_as_it_is_unless_they_are_named(tmp_path, n_columns, how):
    path, names = tmp_path / "site.csv", [f"n{i}" for i in range(40)]
    wide(n_columns, mrn=MRN, surname=names, count=np.arange(40)[::-1]).to_csv(path, index=False)
    with pytest.warns(kfed.TableWarning, match="'mrn' looks like an identifier"):
        kept = cluster_file(path, 1, "north", **how)
    assert not {"mrn", "surname", "count"} & set(kept.to_message().feature_names)
    assert codes(kept).count("identifier") == 3
    named = cluster_file(path, None, "north", columns=["mrn", "c0", "c1"], as_is=True, warn=False)
    assert named.to_message().feature_names == ("mrn", "c0", "c1")
    assert "identifier" not in codes(named)


def test_numbers_that_may_identify_and_columns_of_one_value_are_said_of_a_table_taken_as_it_is(tmp_path):
    path, code = tmp_path / "site.csv", np.random.default_rng(2).choice(90_000, 40, replace=False) * 1000 + 10_000_000
    wide(2, code=code, unit=5, who=np.arange(40) // 2).to_csv(path, index=False)
    with pytest.warns(kfed.TableWarning):
        kept = cluster_file(path, 1, "north", as_is=True, id_column="who")
    assert {"possible identifier", "constant", "repeated id"} <= set(codes(kept))
    wide(2, unit=5, year=2026).to_csv(path, index=False)
    with pytest.warns(kfed.TableWarning, match="columns 'unit' and 'year' are each the same in every row"):
        cluster_file(path, 1, "north", as_is=True)


def test_an_identifier_that_a_scale_names_or_a_table_without_names_holds_is_kept_and_said(tmp_path):
    path, agreed = tmp_path / "site.csv", tmp_path / "scale.json"
    wide(2, mrn=MRN).to_csv(path, index=False)
    as_it_is = {"shift": 0, "scale": 1}
    agreed.write_text(json.dumps({"mrn": as_it_is, "c0": as_it_is, "c1": as_it_is}))
    with pytest.warns(kfed.TableWarning, match="looks like an identifier, and is kept, since the scale file names it"):
        assert cluster_file(path, 1, "north", scale=agreed).to_message().feature_names == ("mrn", "c0", "c1")
    agreed.write_text(json.dumps({"c0": as_it_is, "c1": as_it_is}))
    with pytest.warns(kfed.TableWarning, match="left out"):
        assert cluster_file(path, 1, "north", scale=agreed).to_message().feature_names == ("c0", "c1")
    wide(2, mrn=np.arange(40)).to_csv(path, index=False, header=False)
    with pytest.warns(kfed.TableWarning, match="is kept, since a table without names"):
        kept = cluster_file(path, 1, "north", header=False, as_is=True)
    assert kept.clustering.n_features == 3
    assert kept.read_rows(path).values.shape == (40, 3)


def test_a_table_taken_as_it_is_needs_a_column_that_identifies_nobody(tmp_path):
    path = tmp_path / "site.csv"
    wide(0, mrn=MRN).to_csv(path, index=False)
    with pytest.raises(kfed.InvalidInputError, match=r"identifier\. If it is none, name it with --columns"):
        cluster_file(path, 1, "north", as_is=True)


def test_a_private_message_has_the_columns_that_look_like_identifiers_and_says_so(tmp_path):
    path = tmp_path / "site.csv"
    rows = np.random.default_rng(1).normal(size=(400, 2))
    pd.DataFrame({"mrn": np.arange(400), "c0": rows[:, 0], "c1": rows[:, 1]}).to_csv(path, index=False)
    privacy = kfed.Privacy(epsilon=1.0, radius=1e5)
    with pytest.warns(kfed.TableWarning, match="must not depend on the rows"):
        kept = cluster_file(path, 1, "north", as_is=True, privacy=privacy)
    assert kept.to_message().feature_names == ("mrn", "c0", "c1")


@pytest.mark.parametrize("code", [np.arange(400), np.arange(400) % 7])
def test_whether_a_private_release_is_refused_for_its_scale_does_not_depend_on_the_rows(tmp_path, code):
    path, agreed = tmp_path / "site.csv", tmp_path / "scale.json"
    pd.DataFrame({"code": code, "c0": np.random.default_rng(1).normal(size=400)}).to_csv(path, index=False)
    agreed.write_text(json.dumps({"c0": {"shift": 0, "scale": 1}}))
    with pytest.raises(kfed.InvalidInputError, match="no entry for 'code'"):
        cluster_file(path, 1, "north", scale=agreed, privacy=kfed.Privacy(epsilon=1.0, radius=4.0))


@pytest.mark.parametrize("bad", [(np.inf, np.inf), (1e308, -1e308)])
def test_a_cell_that_is_no_finite_number_is_named_before_identifiers_are_looked_for(tmp_path, bad):
    path, measured = tmp_path / "site.parquet", np.random.default_rng(1).normal(size=60)
    pd.DataFrame({"a": measured, "b": [*bad, *measured[2:]]}).to_parquet(path)
    with pytest.raises(kfed.InvalidInputError, match=r"column 'b' is NaN or infinite in row 0"):
        cluster_file(path, 1, "north", as_is=True)
