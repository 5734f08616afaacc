"""What columns are: kinds that a user names, kinds that differ between sites, and files with more than a table."""

import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pyarrow as arrow
import pytest
import python_calamine
from pyarrow import csv as arrow_csv

import kfed
from kfed.site import TableSummary, agree, cluster_file, label_rows, read_columns, read_schema
from kfed.site import csv_reader as csv_reading
from kfed.wire import Column, FeatureSchema

SECRET = "8675309.25"


def columns_of(path, **options):
    return read_columns(path, **{"min_cluster_size": 1, **options}).schema.columns


def codes_of(table):
    return [notice.code for notice in table.notices]


# Kinds that are named -------------------------------------------------------------------------------------------


def test_the_kind_of_a_column_can_be_named(write):
    path = write("code,on,day,x\n1,1,2026-01-31,1\n2,0,2026-02-01,2\n1,1,,3\n")
    expected = (Column("code", "category", ("1", "2")), Column("on", "flag"), Column("day", "date"), Column("x"))
    assert columns_of(path, kinds={"code": "category", "on": "flag", "day": "date"}) == expected


def test_codes_such_as_3a_are_read_if_they_are_named_a_category(write):
    path = write("x,code\n" + "".join(f"{i},{code}\n" for i, code in enumerate(["1", "2", "3", "3a"] * 3)))
    with pytest.raises(kfed.InvalidInputError, match=r"'code' holds text in line 5.*--kinds code=category"):
        columns_of(path)
    assert columns_of(path, kinds={"code": "category"})[1].levels == ("1", "2", "3", "3a")


@pytest.mark.parametrize(
    ("kind", "said"),
    [
        ("number", "column 'c' holds text in line 2"),
        ("flag", "column 'c' must hold yes or no, true or false, or 1 or 0 in every row; not in line 2"),
        ("date", "column 'c' must hold a date such as 2026-01-31 in every row; not in line 2"),
        ("colour", "the kind of 'c' must be one of"),
    ],
)
def test_a_kind_that_does_not_fit_is_refused_with_the_line(write, kind, said):
    path = write(f"c\nabout {SECRET}\nb\n")
    with pytest.raises(kfed.InvalidInputError, match=said) as caught:
        columns_of(path, kinds={"c": kind})
    assert SECRET not in str(caught.value)


def test_the_kind_of_a_column_that_is_not_there_is_refused(write):
    with pytest.raises(kfed.InvalidInputError, match="there is no column 'y'"):
        columns_of(write("x\n1\n2\n"), kinds={"y": "category"})


def test_an_identifier_whose_kind_is_named_is_kept(write):
    path = write("mrn,x\n" + "".join(f"{7919 * i % 100_003},{i % 7}\n" for i in range(50)))
    assert read_columns(path, kinds={"mrn": "number"}).names == ("mrn", "x")


def test_a_schema_of_kinds_alone_is_enough(tmp_path):
    (tmp_path / "schema.json").write_text('{"columns": [{"name": "c", "kind": "category", "levels": ["1", "2"]}]}')
    schema = read_schema(tmp_path / "schema.json")
    assert (schema.scaling, schema.missing) == ("by message", "observed")


def test_a_level_that_a_schema_does_not_have_is_said(write):
    schema = FeatureSchema.of_columns([Column("c", "category", ("a", "b")), Column("x")])
    table = read_columns(write("c,x\na,1\nb,2\nz,3\nz,4\n"), schema=schema)
    assert [notice.text for notice in table.notices] == [
        "2 cells of 'c' hold a level that is not in the schema, and count as missing"
    ]


# Kinds that differ between sites --------------------------------------------------------------------------------


def site(write, name, cells, **options):
    rows = "".join(f"{i % 7},{cell}\n" for i, cell in enumerate(cells * 10))
    return cluster_file(write("x,smoker\n" + rows, f"{name}.csv"), 1, name, **options)


def test_yes_and_no_at_one_site_are_one_and_zero_at_another(write):
    own = [site(write, "a", ["yes", "no"]), site(write, "b", ["1", "0", "0"]), site(write, "c", ["TRUE", "FALSE"])]
    for order in (own, own[::-1]):
        result = kfed.aggregate([one.to_message() for one in order], 1)
        assert not [notice for notice in result.notices if notice.code == "flag beside numbers"]
        assert result.schema.columns[1].kind == "number"
    rows = label_rows(write("x,smoker\n1,yes\n2,0\n".replace("0", "no"), "new.csv"), result)
    assert rows.labels.tolist() == [0, 0]


def test_yes_and_no_beside_other_numbers_are_named(write):
    own = [site(write, "a", ["yes", "no"]), site(write, "b", ["20", "40"])]
    found = [one for one in kfed.aggregate([one.to_message() for one in own], 1).notices if "flag" in one.code]
    assert [one.text for one in found] == [
        "column 'smoker' of 'b' holds numbers other than 0 and 1, and yes or no on another device: is it the same "
        "column?"
    ]


def test_numbers_beside_words_are_refused_with_what_to_do(write):
    own = [site(write, "a", ["1", "2"]), site(write, "b", ["1", "often", "never"], kinds={"smoker": "category"})]
    with pytest.raises(kfed.FeatureMismatchError, match=r"'smoker' must have the same kind.*--kinds smoker=category"):
        kfed.aggregate([one.to_message() for one in own], 1)


def test_summaries_of_yes_and_no_agree_with_those_of_one_and_zero(write):
    texts = {"a": "x,on\n" + "1,yes\n2,no\n" * 20, "b": "x,on\n" + "1,1\n2,0\n" * 20}
    tables = {name: read_columns(write(text, f"{name}.csv")) for name, text in texts.items()}
    schema = agree({name: TableSummary.of(table, 5) for name, table in tables.items()})
    assert schema.columns[1] == Column("on", shift=0.5, scale=0.5)


# More than a table in a file ------------------------------------------------------------------------------------


@pytest.mark.parametrize("newline", ["\n", "\r\n"])
@pytest.mark.parametrize("header_ends", [True, False])
def test_lines_may_end_with_a_separator(write, header_ends, newline):
    text = f"a;b{';' if header_ends else ''}\n1;2;\n3;4;\n".replace("\n", newline)
    table = read_columns(write(text), min_cluster_size=1)
    assert table.names == ("a", "b")
    np.testing.assert_array_equal(table.values, [[1, 2], [3, 4]])


def test_a_cell_beyond_the_names_is_named_by_its_line(write):
    rows = "1;2;\n" * 20_000
    with pytest.raises(kfed.InvalidInputError, match="every line must have 2 cells; line 20002 has 3"):
        read_columns(write(f"a;b;\n{rows}1;2;{SECRET}\n"))


TITLED = 'Export of 31.01.2026{more}\n"Ward 7, all patients"{more}\n\nage;dose\n30;1,5\n40;2,5\n50;\n'


@pytest.mark.parametrize("more", ["", ";"])
def test_a_title_above_the_names_is_skipped_and_said(write, more):
    table = read_columns(write(TITLED.format(more=more)), min_cluster_size=1)
    assert table.names == ("age", "dose")
    np.testing.assert_array_equal(table.values, [[30, 1.5], [40, 2.5], [50, np.nan]])
    assert codes_of(table) == ["title", "missing cells"]
    assert table.notices[0].text == "2 lines above the names of the columns are skipped, as a title"


def test_a_title_in_excel_is_skipped_and_said(write, monkeypatch):
    rows = [["Export", ""], ["", ""], ["age", "dose"], [30.0, 1.5], [40.0, 2.5]]
    sheet = SimpleNamespace(to_python=lambda skip_empty_area: rows)
    book = SimpleNamespace(from_path=lambda _: SimpleNamespace(get_sheet_by_index=lambda _: sheet))
    monkeypatch.setattr(python_calamine, "CalamineWorkbook", book)
    table = read_columns(write("", "site.xlsx"), min_cluster_size=1)
    assert table.names == ("age", "dose")
    np.testing.assert_array_equal(table.values, [[30, 1.5], [40, 2.5]])
    assert codes_of(table) == ["title"]


@pytest.mark.parametrize("odd", ["3 mg", "1,5"])
def test_numbers_that_cannot_be_read_are_not_taken_for_a_category_in_silence(write, odd):
    path = write("x,dose\n" + f'1,"{odd}"\n2,4\n3,"{odd}"\n' * 10)
    table = read_columns(path)
    assert codes_of(table) == ["numbers as text"]
    assert "(first in line 2)" in table.notices[0].text


@pytest.mark.parametrize(
    "text", ["x,y\n" + "1,2\n" * 40 + "0.5,3\n", "x,y\n" + ",2\n" * 40 + "7,3\n", "x,y\n1,2\n" * 1]
)
def test_a_large_file_is_the_same_table_as_a_small_one(write, monkeypatch, text):
    path = write(text)
    small = read_columns(path, min_cluster_size=1)
    monkeypatch.setattr(csv_reading, "LARGE", 0)
    large = read_columns(path, min_cluster_size=1)
    np.testing.assert_array_equal(small.values, large.values)
    assert small.schema == large.schema


def test_text_far_down_in_a_large_file_is_found(write, monkeypatch):
    monkeypatch.setattr(csv_reading, "LARGE", 0)
    rows = ["1.000000000000000000000000000000,2"] * 40_000 + [f"oops{SECRET},1"]
    with pytest.raises(kfed.InvalidInputError, match="column 'a' holds text in line 40002"):
        read_columns(write("\n".join(["a,b", *rows])))


MEMORY = """
import sys, pandas, pyarrow.csv
from kfed.site import cluster_file
def high(): return next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith("VmHWM"))
cluster_file(sys.argv[1], 6, "small")
before = high()
cluster_file(sys.argv[2], 6, "large")
print((high() - before) * 1024)
"""


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="memory is read from /proc")
def test_a_large_csv_takes_less_than_three_times_its_size(tmp_path):
    rng = np.random.default_rng(0)
    values = (rng.normal(size=(300_000, 30)) + 5 * rng.integers(4, size=(300_000, 1))).round(4)
    for name, rows in (("small", values[:1000]), ("large", values)):
        table = arrow.table({f"c{i}": own for i, own in enumerate(rows.T)})
        arrow_csv.write_csv(table, tmp_path / f"{name}.csv")
    paths = [str(tmp_path / f"{name}.csv") for name in ("small", "large")]
    done = subprocess.run([sys.executable, "-c", MEMORY, *paths], capture_output=True, text=True, check=True)
    assert int(done.stdout) < 3 * values.nbytes
