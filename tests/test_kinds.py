"""What columns are: kinds that a user names, kinds that differ between sites, and files with more than a table."""

import json
import shlex
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as arrow
import pytest
from pyarrow import csv as arrow_csv

import kfed
from consoles import invoked, run
from kfed.cli._options import column_kinds
from kfed.site import TableSummary, agree, cluster_file, label_rows, read_columns, read_schema
from kfed.site.formats import csv as csv_reading
from kfed.wire import Column, FeatureSchema
from workbooks import workbook
from worlds import codes

SECRET = "8675309.25"


def columns_of(path, **options):
    return read_columns(path, **{"min_cluster_size": 1, **options}).schema.columns


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
        ("flag", "column 'c' must hold yes or no, true or false, or 1 or 0 in every row; line 2 holds something else"),
        ("date", "column 'c' must hold a date such as 2026-01-31 in every row; line 2 holds something else"),
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
        "2 cells of 'c' hold a level that the others do not have, and count as missing"
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


def test_a_cell_among_yes_and_no_that_says_neither_is_missing_and_named_by_its_line(write):
    cells = ["yes", "no"] * 99 + [f"former {SECRET}"] + ["no"]
    rows = "".join(f"{i % 7},{cell}\n" for i, cell in enumerate(cells))
    odd = cluster_file(write("x,smoker\n" + rows), 1, "odd", warn=False)
    (notice,) = (one for one in odd.notices if one.code == "neither yes nor no")
    assert "'smoker' is taken as yes or no, though 1 cell (line 200) says something else" in notice.text
    assert SECRET not in notice.text
    table = read_columns(write("x,smoker\n" + rows))
    assert np.flatnonzero(np.isnan(table.values[:, 1])).tolist() == [198]
    result = kfed.aggregate([odd.to_message(), site(write, "b", ["yes", "no"]).to_message()], 1)
    assert result.schema.columns[1].kind == "flag"
    assert columns_of(write("x,smoker\n" + rows), kinds={"smoker": "category"})[1].kind == "category"


@pytest.mark.parametrize("cells", [["no"] * 197 + ["mild", "severe"], ["N"] * 97 + ["H"] * 2, ["yes", "no", "former"]])
def test_words_are_a_category_where_yes_and_no_are_not_nearly_all_or_not_both_there(write, cells):
    rows = "".join(f"{i % 7},{cell}\n" for i, cell in enumerate(cells))
    assert columns_of(write("x,smoker\n" + rows))[1].kind == "category"


@pytest.mark.parametrize(("word", "kind"), [("n", "flag"), ("Y", "flag"), ("no", "flag"), ("F", "category")])
def test_a_site_where_all_cells_say_no_has_a_flag_but_f_is_no_false(write, word, kind):
    table = read_columns(write("x,sex\n" + "".join(f"{i % 7},{word}\n" for i in range(60))))
    assert table.schema.columns[1].kind == kind
    assert codes(table) == ["constant"]


def test_summaries_of_yes_and_no_agree_with_those_of_one_and_zero(write):
    words = {"a": ("yes", "no"), "b": ("1", "0")}
    texts = {name: "x,on\n" + "".join(f"{i // 4},{own[i % 2]}\n" for i in range(40)) for name, own in words.items()}
    tables = {name: read_columns(write(text, f"{name}.csv")) for name, text in texts.items()}
    schema = agree({name: TableSummary.of(table, 5) for name, table in tables.items()})
    assert schema.columns[1] == Column("on", shift=0.5, scale=0.5)


def test_a_site_that_names_no_level_takes_part_in_agreeing(write):
    large = write("ward,age\n" + "".join(f"{'AB'[i % 2]},{30 + i % 9}\n" for i in range(60)), "large.csv")
    small = write("ward,age\n" + "".join(f"{'AB'[i % 2]},{30 + i % 9}\n" for i in range(4)), "small.csv")
    schema = agree({path.stem: TableSummary.of(read_columns(path), 5) for path in (small, large)})
    assert schema.columns[0].levels == ("A", "B")


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
    assert codes(table) == ["title", "missing cells"]
    assert table.notices[0].text == "2 lines above the names of the columns are skipped, as a title"


ROWS = [["age", "dose"], [30.0, 1.5], [40.0, 2.5]]


def test_a_cover_page_is_not_taken_for_the_table_and_sheets_that_are_not_read_are_named(write, monkeypatch):
    path = workbook(write, monkeypatch, {"Info": [["info"], ["Export"]], "2024": ROWS, "2025": ROWS, "Empty": []})
    (notice,) = (table := read_columns(path, min_cluster_size=1)).notices
    assert table.names == ("age", "dose")
    assert notice.code == "sheets"
    assert notice.text.startswith(
        "sheet '2024' is read, and 'Info' and '2025' are not; to use another, name it with --sheet"
    )


def test_a_sheet_is_read_by_its_name_and_one_that_is_not_there_is_refused_with_those_that_are(write, monkeypatch):
    other = [["age", "weight"], [30.0, 60.0], [40.0, 70.0]]
    path = workbook(write, monkeypatch, {"2024": ROWS, "2025": other, "Empty": []})
    assert (table := read_columns(path, sheet="2025", min_cluster_size=1)).names == ("age", "weight")
    assert table.notices == ()
    with pytest.raises(kfed.InvalidInputError, match="there is no sheet '2026'; this file has '2024', '2025' and 'Emp"):
        read_columns(path, sheet="2026")
    with pytest.raises(kfed.InvalidInputError, match="this file has none in sheet 'Empty'"):
        read_columns(path, sheet="Empty")
    with pytest.raises(kfed.InvalidInputError, match=r"only an Excel file \(.xlsx\) has sheets; leave out --sheet"):
        read_columns(write("a,b\n1,2\n"), sheet="2025")


def test_every_command_of_a_site_reads_the_sheet_that_was_named(write, monkeypatch):
    """A summary labels rows one by one from the same sheet, without being told again."""
    rng = np.random.default_rng(0)
    rows = [["age", "dose"], *([30.0 + 30 * (i % 2) + rng.normal(), 1.0 + i % 2] for i in range(60))]
    path = workbook(write, monkeypatch, {"Old": ROWS, "New": rows})
    monkeypatch.chdir(path.parent)
    named = ["site.xlsx", "--sheet", "New"]
    for command in (["device", *named], ["aggregate", "site.kfed", "-k", "2"], ["summarize", *named]):
        assert invoked(*command).exit_code == 0, command
    labelled = invoked("label", "site.local", "--clusters", "clusters.kfed", "--json")
    again = invoked("label", *named, "--clusters", "clusters.kfed", "--append", "-o", "labelled.csv")
    assert again.exit_code == 0
    lines = (path.parent / "labelled.csv").read_text().splitlines()[1:]
    assert "was not used" not in labelled.stderr
    assert [int(line.split(",")[-1]) for line in lines] == json.loads(labelled.stdout)["labels"]
    refused = invoked("label", "site.local", "--clusters", "clusters.kfed", "--sheet", "New")
    assert "--sheet are for a table of new rows" in refused.stderr


def test_sheets_without_cells_are_not_spoken_of(write, monkeypatch):
    assert read_columns(workbook(write, monkeypatch, {"A": [], "B": ROWS}), min_cluster_size=1).notices == ()
    with pytest.raises(kfed.InvalidInputError, match="this file has none in any sheet"):
        read_columns(workbook(write, monkeypatch, {"A": [], "B": []}))


def test_a_cover_page_alone_is_refused_by_the_name_of_its_file(write, monkeypatch):
    with pytest.raises(kfed.InvalidInputError, match=r"site.xlsx: .* If this is a title page, use the file"):
        read_columns(workbook(write, monkeypatch, {"Info": [["info"], ["Export"]]}))


def test_a_title_in_excel_is_skipped_and_said(write, monkeypatch):
    rows = [["Export", ""], ["", ""], ["age", "dose"], [30.0, 1.5], [40.0, 2.5]]
    table = read_columns(workbook(write, monkeypatch, {"Sheet1": rows}), min_cluster_size=1)
    assert table.names == ("age", "dose")
    np.testing.assert_array_equal(table.values, [[30, 1.5], [40, 2.5]])
    assert codes(table) == ["title"]


@pytest.mark.parametrize("odd", ["3 mg", "1,5"])
def test_numbers_that_cannot_be_read_are_not_taken_for_a_category_in_silence(write, odd):
    path = write("x,dose\n" + f'1,"{odd}"\n2,4\n3,"{odd}"\n' * 10)
    table = read_columns(path)
    assert codes(table) == ["numbers as text"]
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


@pytest.mark.parametrize("other", ["sex=F", "sex"])
def test_a_column_that_is_called_like_a_level_of_another_is_named_with_what_to_do(write, other):
    head = {"sex=F": "sex=F,sex", "sex": "sex,sex=F"}[other]
    cells = (("1.5", "F"), ("2.5", "M")) if other == "sex=F" else (("F", "1.5"), ("M", "2.5"))
    path = write(f"{head}\n" + "".join(",".join(pair) + "\n" for pair in cells * 9))
    with pytest.raises(kfed.InvalidInputError, match=r"both have one called 'sex=F'.*--exclude"):
        read_columns(path)
    assert read_columns(path, exclude=["sex=F"]).schema.n_features == 2


def test_a_table_without_a_line_of_names_is_summarised_as_it_is_clustered(write, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write("".join(f"{i % 17}.5,{i % 5}\n" for i in range(40)))
    assert "--no-header" in run("summarize", "site.csv", code=1)
    run("summarize", "site.csv", "--no-header")
    assert [one.column.name for one in TableSummary.load("site.summary").columns] == ["0", "1"]


@pytest.mark.parametrize("name", ["Alter (Jahre)", "a,b", 'what\'s "it"', "k=1", "Größe"])
def test_a_kind_that_is_advised_can_be_typed_as_it_is_written(name, write):
    heading = name.replace(chr(34), 2 * chr(34))
    path = write(f'"{heading}",age\n' + "".join(f"00{i % 7},{i * i % 31}\n" for i in range(30)))
    (notice,) = [one for one in read_columns(path).notices if one.code == "leading zeros"]
    _, option, *rest = shlex.split(notice.text[notice.text.index("use --kinds") :])
    assert (option, column_kinds(rest[0])) == ("--kinds", {name: "category"})
