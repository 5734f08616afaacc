"""What reading a table promises: the numbers as they stand, or an error that says where and shows no cell."""

import json
import re
import sys

import numpy as np
import pyarrow as arrow
import pyarrow.parquet
import pytest

import kfed
from kfed.site import read_column, read_columns, read_scale, read_table
from workbooks import workbook

SECRET = "8675309.25"
"""A value that no error may show."""


def error_of(path, **options):
    """The words of the error that reading a table gives; they never show the secret."""
    with pytest.raises(kfed.KFedError) as caught:
        read_table(path, **options)
    assert str(path) in str(caught.value)
    assert SECRET not in str(caught.value)
    assert caught.value.__cause__ is None or SECRET not in str(caught.value.__cause__)
    return str(caught.value)


# Reading --------------------------------------------------------------------------------------------------------


def test_csv_is_read_with_its_names(write):
    table = read_table(write("age,height\n30,1.5\n-4e1,2\n"))
    np.testing.assert_array_equal(table.values, [[30, 1.5], [-40, 2]])
    assert table.values.dtype == np.float64
    assert table.columns == ("age", "height")
    assert table.row_ids is None


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig"])
@pytest.mark.parametrize("newline", ["\n", "\r\n"])
@pytest.mark.parametrize("separator", [",", ";", "\t"])
def test_dialects_of_csv_are_the_same_table(write, encoding, newline, separator):
    text = 'größe,"name"\n1,"a ""b"""\n\n2,"c"\n'.replace(",", separator).replace("\n", newline)
    table = read_table(write(text, encoding=encoding), id_column="name")
    np.testing.assert_array_equal(table.values, [[1], [2]])
    assert table.columns == ("größe",)
    assert table.row_ids == ('a "b"', "c")


def test_a_quoted_cell_may_hold_separators_and_line_breaks(write):
    table = read_table(write('id,x\n"one, two",1\n"three\nfour",2\n'), id_column="id")
    assert table.row_ids == ("one, two", "three\nfour")
    np.testing.assert_array_equal(table.values, [[1], [2]])


def test_columns_are_chosen_by_name_and_come_in_the_order_asked(write):
    table = read_table(write("a,b,c,note\n1,2,3,x\n4,5,6,y\n"), columns=["c", "a"])
    np.testing.assert_array_equal(table.values, [[3, 1], [6, 4]])
    assert table.columns == ("c", "a")


def test_the_id_column_and_the_weight_column_are_not_clustered(write):
    table = read_table(write("who,x,w\n007,2,1\n008,3,5\n"), id_column="who", weight_column="w")
    assert table.columns == ("x",)
    assert table.row_ids == ("007", "008")
    np.testing.assert_array_equal(table.weights, [1, 5])


def test_without_a_header_columns_are_called_by_their_position(write):
    table = read_table(write("1,2,x\n3,4,y\n"), header=False, columns=["1"], id_column="2")
    np.testing.assert_array_equal(table.values, [[2], [4]])
    assert table.columns is None
    assert table.names == ("1",)
    assert table.row_ids == ("x", "y")


def test_names_that_are_numbers_are_read_when_the_caller_insists(write):
    assert read_table(write("2019,2020\n1,2\n"), header=True).columns == ("2019", "2020")


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_npy_keeps_its_precision(tmp_path, dtype):
    values = np.random.default_rng(0).normal(size=(6, 3)).astype(dtype)
    np.save(tmp_path / "site.npy", values)
    table = read_table(tmp_path / "site.npy")
    np.testing.assert_array_equal(table.values, values)
    assert table.values.dtype == dtype
    assert table.columns is None


def test_npy_has_positions_for_names(tmp_path):
    np.save(tmp_path / "site.npy", np.array([[7, 1, 2], [8, 3, 4]]))
    table = read_table(tmp_path / "site.npy", columns=["2"], id_column="0")
    np.testing.assert_array_equal(table.values, [[2], [4]])
    assert table.row_ids == ("7", "8")


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_parquet_is_the_same_table_as_csv(write, tmp_path, dtype):
    columns = {"who": ["p1", "p2"], "x": np.array([1, 2], dtype), "y": np.array([0.5, 4], dtype)}
    arrow.parquet.write_table(arrow.table(columns), tmp_path / "site.parquet")
    one = read_table(tmp_path / "site.parquet", id_column="who")
    other = read_table(write("who,x,y\np1,1,0.5\np2,2,4\n"), id_column="who")
    np.testing.assert_array_equal(one.values, other.values)
    assert one.values.dtype == dtype
    assert (one.columns, one.row_ids) == (other.columns, other.row_ids)


def test_parquet_without_pyarrow_says_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(kfed.MissingExtraError, match=r"pip install 'kfed\[parquet\]'"):
        read_table(tmp_path / "site.parquet")


def test_a_table_is_taken_like_a_data_frame(write):
    table = read_table(write("age,height\n" + "30,1\n" * 4 + "60,9\n" * 4))
    local = kfed.cluster_device(table, 2, random_state=0)
    assert local.feature_names == ("age", "height")
    np.testing.assert_array_equal(local.labels, kfed.cluster_device(table.values, 2, random_state=0).labels)


# Errors ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("cell", "words"),
    [
        ("", "'b' is empty in line 3"),
        ("  ", "'b' is empty in line 3"),
        (f"about {SECRET}", "'b' holds text in line 3"),
        (f'"{SECRET} mg"', "'b' holds text in line 3"),
        ("1_000", "'b' holds text in line 3"),
        ("nan", "'b' is NaN or infinite in line 3"),
        ("-inf", "'b' is NaN or infinite in line 3"),
        ("1e999", "'b' is NaN or infinite in line 3"),
    ],
)
def test_a_bad_cell_is_named_by_line_and_column_and_not_shown(write, cell, words):
    assert words in error_of(write(f"a,b\n1,{SECRET}\n2,{cell}\n3,4\n"))


def test_decimal_commas_are_read_where_cells_are_not_separated_by_commas(write):
    table = read_table(write("patient;age;bmi\nP1;30;27,5\nP2;40;31\n"), id_column="patient")
    np.testing.assert_array_equal(table.values, [[30, 27.5], [40, 31]])


def test_decimal_commas_between_commas_are_named_with_the_remedy(write):
    words = error_of(write('patient,age,bmi\nP1,30,"27,5"\nP2,40,31\n'), id_column="patient")
    assert "'bmi' has decimal commas; write 0.5 instead of 0,5" in words
    assert "27" not in words.partition(".csv: ")[2]  # the number of a folder may be in the path


def test_columns_of_text_are_named_with_the_remedy(write):
    words = error_of(write("name,a,town\nann,1,rome\nbob,2,oslo\n"))
    assert "'name' and 'town' are text" in words
    assert "--exclude" in words
    assert "--id-column" in words
    assert "rome" not in words


@pytest.mark.parametrize(("line", "cells"), [(f"{SECRET}", 1), (f"1,2,{SECRET}", 3), ("1,5,0,5", 4)])
def test_a_ragged_line_is_named(write, line, cells):
    assert f"every line must have 2 cells; line 3 has {cells}" in error_of(write(f"a,b\n1,2\n{line}\n"))


def test_a_ragged_line_is_found_even_when_the_columns_asked_for_are_there(write):
    assert "line 3 has 4" in error_of(write("a,b,c\n1,2,3\n1,5,2,3\n"), columns=["a"])


def test_numbers_in_the_first_line_are_refused_lest_a_row_be_lost(write):
    for first in (f"{SECRET},2", f"p1,{SECRET}"):
        words = error_of(write(f"{first}\n3,4\n"))
        assert "--no-header" in words
        assert "p1" not in words


def test_a_column_that_is_not_there_is_named_with_those_that_are(write):
    words = error_of(write("a,b\n1,2\n"), columns=["a", "c"])
    assert "there is no column 'c'" in words
    assert "'a' and 'b'" in words


def test_names_must_be_distinct(write):
    assert "'b' occurs twice" in error_of(write("a,b,b\n1,2,3\n"))


def test_a_column_without_a_name_is_not_clustered_by_accident(write):
    path = write("a,,b\n5,0,1\n6,1,2\n")
    assert "column 1 (counted from 0) has no name" in error_of(path)
    np.testing.assert_array_equal(read_table(path, columns=["a"]).values, [[5], [6]])


@pytest.mark.parametrize("options", [{"columns": ["a", "a"]}, {"columns": ["a"], "id_column": "a"}])
def test_a_column_is_used_once(write, options):
    assert "'a' is chosen twice" in error_of(write("a,b\n1,2\n"), **options)


@pytest.mark.parametrize("text", ["", "\n\n", "a,b\n", "a,b\n\n\n"])
def test_a_table_without_rows_is_refused(write, text):
    assert "at least one row" in error_of(write(text))


def test_a_table_with_nothing_to_cluster_is_refused(write):
    assert "at least one column" in error_of(write("who\nann\n"), id_column="who")


def test_a_blank_line_is_an_empty_cell_where_there_is_one_column(write):
    assert "'a' is empty in line 3" in error_of(write("a\n1\n\n2\n"))
    assert len(read_table(write("a\n1\n2\n\n"))) == 2


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "latin-1", "utf-16"])
def test_a_table_is_the_same_in_every_encoding(write, encoding):
    table = read_table(write("id,größe\nann,1\nbjörn,2\n", encoding=encoding), id_column="id")
    assert (table.names, table.row_ids) == (("größe",), ("ann", "björn"))
    np.testing.assert_array_equal(table.values, [[1], [2]])


def test_bytes_that_are_no_text_are_refused(write):
    assert "must be text" in error_of(write("\0\xff\0\xfe", encoding="latin-1"))


def test_an_unknown_kind_of_file_is_refused(write):
    assert "must end in .csv" in error_of(write("a\n1\n", "site.ods"))


@pytest.mark.parametrize("array", [np.zeros(3), np.zeros((2, 2, 2)), np.array([["a"]]), np.empty((0, 3))])
def test_npy_must_hold_rows_of_numbers(tmp_path, array):
    np.save(tmp_path / "site.npy", array)
    error_of(tmp_path / "site.npy")


def test_a_damaged_npy_file_is_refused(write, tmp_path):
    error_of(write("this is no array", "site.npy"))
    error_of(write("", "empty.npy"))
    np.savez(tmp_path / "several.npz", one=np.eye(3))
    error_of((tmp_path / "several.npz").rename(tmp_path / "several.npy"))
    np.save(tmp_path / "cut.npy", np.zeros((100, 3)))
    (tmp_path / "cut.npy").write_bytes((tmp_path / "cut.npy").read_bytes()[:-50])
    error_of(tmp_path / "cut.npy")


def test_npy_is_not_unpickled(tmp_path):
    np.save(tmp_path / "site.npy", np.array([[{}]], dtype=object), allow_pickle=True)
    error_of(tmp_path / "site.npy")


def test_npy_names_row_and_column_of_what_is_not_finite(tmp_path):
    np.save(tmp_path / "site.npy", [[1.0, float(SECRET)], [2.0, np.nan]])
    assert "column '1' is NaN or infinite in row 1" in error_of(tmp_path / "site.npy")


def test_a_damaged_parquet_file_is_named(tmp_path):
    path = tmp_path / "site.parquet"
    arrow.parquet.write_table(arrow.table({"a": np.arange(2000.0)}), path)
    sound = path.read_bytes()
    for damaged in (sound[:50], sound[:4] + b"\xff" * 60 + sound[64:], sound[:-20] + b"\xff" * 12 + sound[-8:]):
        path.write_bytes(damaged)
        assert f"{path}: this is not a Parquet file" in error_of(path)
    with pytest.raises(FileNotFoundError, match="No such file"):
        read_table(tmp_path / "nowhere.parquet")


def test_parquet_names_what_is_wrong(write, tmp_path):
    path = tmp_path / "site.parquet"
    arrow.parquet.write_table(arrow.table({"a": [1.0, None, None], "b": [1.0, 2.0, 3.0]}), path)
    assert "column 'a' is empty in row 1 (counted from 0)" in error_of(path)
    arrow.parquet.write_table(arrow.table({"a": [1.0, np.inf], "b": [1.0, 2.0]}), path)
    assert "column 'a' is NaN or infinite in row 1" in error_of(path)
    arrow.parquet.write_table(arrow.table({"a": ["y", "x"], "b": [1.0, 2.0]}), path)
    assert "'a' is text, and only numbers are taken here" in error_of(path)
    assert "not a Parquet file" in error_of(write("a\n1\n", "text.parquet"))


# Scale ----------------------------------------------------------------------------------------------------------


@pytest.fixture
def table(write):
    return read_table(write("age,height\n62,170\n50,188\n"))


def scale_file(tmp_path, content):
    path = tmp_path / "scale.json"
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    return path


GOOD = {"height": {"shift": 170, "scale": 9}, "age": {"shift": 50, "scale": 12.0}}


def test_every_value_is_shifted_and_scaled_by_the_numbers_of_its_column(table, tmp_path):
    scaled = table.scaled(read_scale(scale_file(tmp_path, GOOD)))
    np.testing.assert_array_equal(scaled.values, [[1, 0], [0, 2]])
    np.testing.assert_array_equal(table.values, [[62, 170], [50, 188]])
    assert scaled.columns == table.columns


def test_columns_without_names_are_scaled_by_position(tmp_path):
    np.save(tmp_path / "site.npy", [[1.0, 10.0], [2.0, 20.0]])
    table = read_table(tmp_path / "site.npy", columns=["1"])
    np.testing.assert_array_equal(table.scaled({"1": (10.0, 5.0)}).values, [[0], [2]])


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"age": None}, "no entry for 'age'"),
        ({"weight": {"shift": 0, "scale": 1}}, "no column for 'weight'"),
    ],
)
def test_the_scale_must_speak_of_the_same_columns(table, change, words):
    scale = {name: (entry["shift"], entry["scale"]) for name, entry in (GOOD | change).items() if entry}
    with pytest.raises(kfed.InvalidInputError, match=words):
        table.scaled(scale)


@pytest.mark.parametrize(
    "content",
    [
        "{",
        "[]",
        '{"age": 3}',
        '{"age": {"shift": 1}}',
        '{"age": {"shift": 1, "scale": 1, "unit": "years"}}',
        '{"age": {"shift": "1", "scale": 1}}',
        '{"age": {"shift": true, "scale": 1}}',
        '{"age": {"shift": NaN, "scale": 1}}',
        '{"age": {"shift": 1, "scale": Infinity}}',
        '{"age": {"shift": 1, "scale": 0}}',
        '{"age": {"shift": 1, "scale": -2}}',
    ],
)
def test_a_scale_file_that_is_not_sound_is_refused_by_name(tmp_path, content):
    path = scale_file(tmp_path, content)
    with pytest.raises(kfed.InvalidInputError, match=r"scale\.json: "):
        read_scale(path)


def test_a_scale_that_makes_a_value_infinite_is_refused(table):
    with pytest.raises(kfed.InvalidInputError, match="'age' is NaN or infinite in row 0"):
        table.scaled({"age": (0.0, 5e-324), "height": (0.0, 1.0)})


# One column as text ---------------------------------------------------------------------------------------------


def test_a_column_reads_the_same_from_csv_and_parquet(tmp_path):
    (tmp_path / "a.csv").write_text("who,where\nann, here\nbob,there\n")
    pyarrow.parquet.write_table(
        arrow.table({"who": ["ann", "bob"], "where": ["here", "there"]}), tmp_path / "a.parquet"
    )
    for name in ("a.csv", "a.parquet"):
        assert read_column(tmp_path / name) == ("here", "there")
        assert read_column(tmp_path / name, "who") == ("ann", "bob")


def test_a_column_of_an_array_is_whole_numbers_as_text(tmp_path):
    np.save(tmp_path / "a.npy", np.array([[0.5, 3], [1.5, 4]]))
    assert read_column(tmp_path / "a.npy") == ("3", "4")


@pytest.mark.parametrize(
    ("text", "column", "said"),
    [
        ("who,where\nann,\n", None, "column 'where' must be filled in every row; it is empty in row 0"),
        ("who,where\nann,here\n", "when", "there is no column 'when'; the columns are 'who' and 'where'"),
        ("who,where\nann,here\nbob\n", None, "every line must have 2 cells; line 3 has 1"),
    ],
)
def test_a_column_that_is_not_whole_is_refused(text, column, said, tmp_path):
    (tmp_path / "a.csv").write_text(text)
    with pytest.raises(kfed.InvalidInputError, match=re.escape(said)):
        read_column(tmp_path / "a.csv", column)


@pytest.mark.parametrize("as_is", [True, False])
def test_bad_weights_are_named_by_their_column_and_line(write, as_is):
    read = read_table if as_is else read_columns
    for cell, said in (("-867", "line 4 holds none"), ("", "line 4"), ("0", "all are 0: leave this site out")):
        rows = f"a,w\n1,{'0' if cell == '0' else 2}\n" + f"3,0\n5,{cell}\n"
        with pytest.raises(kfed.InvalidInputError, match=f"site.csv: .*'w' .*{said}") as caught:
            read(write(rows), weight_column="w")
        assert "867" not in str(caught.value)
    with pytest.raises(kfed.InvalidInputError, match="'w' "):
        read(write("a,w\n1,much\n2,little\n"), weight_column="w")


@pytest.mark.parametrize("start", [(0, 0), (4, 2)])
def test_a_fault_in_excel_is_named_by_its_line_in_the_sheet(write, monkeypatch, start):
    rows = [["Export", ""], ["a", "b"], *([float(i), 1.0] for i in range(9)), ["", ""], [f"about {SECRET}", 1.0]]
    path = workbook(write, monkeypatch, {"2026": rows}, start)
    said = f"'a' holds text in line {start[0] + 13} of sheet '2026'"
    with pytest.raises(kfed.InvalidInputError, match=said) as caught:
        read_columns(path)
    assert SECRET not in str(caught.value)
