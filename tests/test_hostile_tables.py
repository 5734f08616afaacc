"""Tables as exports leave them: nothing is lost in silence, and every refusal says where and what to do."""

import datetime

import numpy as np
import pandas as pd
import pytest

import kfed
from kfed.site import cluster_file, read_columns
from kfed.wire import Column, FeatureSchema
from workbooks import workbook
from worlds import codes

RNG = np.random.default_rng(0)
ROWS = [(f"{age:.1f}", f"{dose:.2f}") for age, dose in zip(RNG.normal(50, 10, 40), RNG.normal(1, 0.2, 40), strict=True)]


def text_of(cell, head="age,dose,x"):
    """A table of forty rows whose third column is made by `cell`."""
    return "\n".join([head, *(f"{age},{dose},{cell(row)}" for row, (age, dose) in enumerate(ROWS))]) + "\n"


def kinds(table):
    return {column.name: column.kind for column in table.schema.columns}


def said(path, **how):
    with pytest.raises(kfed.KFedError) as caught:
        cluster_file(path, 2, "north", **how)
    assert str(path) in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize("quotes", [[5], [5, 20], [39]], ids=["one", "two", "in the last line"])
@pytest.mark.usefixtures("reading")
def test_a_quote_that_is_not_closed_is_named_since_the_lines_behind_it_would_be_lost(write, quotes):
    text = text_of(lambda row: '"abc' if row in quotes else "abc")
    assert f"the one in line {quotes[0] + 2} is not" in said(write(text))


def test_an_open_quote_is_named_also_where_the_lines_behind_it_make_an_uneven_row(write):
    lines = "".join(f"P{i},{20 + i % 9},m,{90 + i % 7}\n" for i in range(60)).replace("m", '"m', 1)
    assert "the one in line 2 is not" in said(write(f"id,age,sex,bp\n{lines}"))


def test_quotes_and_line_breaks_that_belong_to_cells_are_read(write):
    text = text_of(lambda row: ['"a\nb"', '"say ""c"""', 'd" e'][row % 3])
    assert len(read_columns(write(text))) == 40
    assert len(read_columns(write(text.replace("x\n", '"x\n(y)"\n', 1)))) == 40


def test_a_name_over_two_lines_has_a_space(write):
    assert read_columns(write(text_of(str, 'age,dose,"visit\n(number)"'), name="a.csv"), columns=["visit (number)"])


@pytest.mark.parametrize(
    "cell",
    [
        lambda row: f'"{row + 1},{100 + row}.50"',
        lambda row: f"{row + 1}'{100 + row}",
        lambda row: f"1 {100 + row}",
        lambda row: f"{row}%",
        lambda row: f"${row}.50",
        lambda row: f"{row}mg",
        lambda row: f"{row % 12 + 1}/{row % 28 + 1}/2026",
        lambda row: f"{row % 28 + 1:02d}.{row % 12 + 1:02d}.26",
    ],
    ids=["thousands", "apostrophes", "spaces", "percent", "money", "units", "US dates", "short years"],
)
def test_numbers_and_dates_that_cannot_be_read_are_no_identifiers(write, cell):
    assert "If these are numbers, write them plainly, as 1234.5; if they are dates, as 2026-01-31" in said(
        write(text_of(cell))
    )


def test_few_values_with_a_percent_sign_are_a_category_with_a_notice(write):
    table = read_columns(write(text_of(lambda row: f"{row % 4 * 10}%")))
    assert (kinds(table)["x"], codes(table)) == ("category", ["numbers as text"])


@pytest.mark.parametrize("form", ["10{:02d}AB", "123-{:02d}-6789", "a{:02d}", "{:02d}a", "5551{:02d}-77"])
def test_text_that_is_no_number_is_an_identifier(write, form):
    assert codes(read_columns(write(text_of(form.format)))) == ["identifier"]


@pytest.mark.usefixtures("reading")
def test_one_date_that_is_on_no_calendar_is_named_by_its_line(write):
    text = text_of(lambda row: "2026-02-30" if row == 4 else f"2026-01-{row % 28 + 1:02d}")
    assert "column 'x' must hold a date such as 2026-01-31 in every row; line 6 holds something else. Correct" in said(
        write(text)
    )


@pytest.mark.usefixtures("reading")
def test_times_in_other_zones_are_the_same_moment(write):
    here = read_columns(write(text_of(lambda row: f"2026-01-{row % 27 + 2:02d}T00:30:00+12:00"), name="here.csv"))
    there = read_columns(write(text_of(lambda row: f"2026-01-{row % 27 + 1:02d}T12:30:00+00:00"), name="there.csv"))
    assert kinds(here)["x"] == "date"
    np.testing.assert_allclose(here.values, there.values)


@pytest.mark.parametrize("form", ["{:02}:{:02}:00", "{}:{:02}"])
@pytest.mark.parametrize("n_times", [3, 40])
@pytest.mark.usefixtures("reading")
def test_times_of_day_are_named_as_such_with_what_to_do(write, form, n_times):
    path = write(text_of(lambda row: form.format(row % n_times % 24, row % n_times)))
    words = said(path)
    assert "column 'x' holds times of day, which cannot be clustered" in words
    assert "(--kinds x=category), or leave the column out with --exclude x" in words
    assert kinds(read_columns(path, exclude=["x"])) == {"age": "number", "dose": "number"}
    if n_times == 3:
        assert kinds(read_columns(path, kinds={"x": "category"}))["x"] == "category"


def test_times_of_day_in_a_data_frame_and_in_excel_are_named_as_such(write, monkeypatch):
    times = [datetime.time(row % 3, 30) for row in range(40)]
    path = workbook(write, monkeypatch, {"rows": [["age", "x"], *([float(row % 9), times[row]] for row in range(40))]})
    for table in (path, pd.DataFrame({"age": np.arange(40) % 9, "x": times})):
        with pytest.raises(kfed.InvalidInputError, match="column 'x' holds times of day"):
            read_columns(table)
        assert kinds(read_columns(table, kinds={"x": "category"}))["x"] == "category"


def test_yes_and_no_in_several_ways_are_said_and_can_be_a_flag(write):
    path = write(text_of(lambda row: ["TRUE", "FALSE", "ja", "nein"][row % 4]))
    assert codes(read_columns(path)) == ["spelling"]
    assert set(read_columns(path, kinds={"x": "flag"}).values[:, 2]) == {0, 1}


def test_levels_that_differ_in_capitals_alone_are_said(write):
    assert codes(read_columns(write(text_of(lambda row: ["Male", "male", "female"][row % 3])))) == ["spelling"]


@pytest.mark.parametrize(("nines", "n_said"), [("-999", 6), ("9999", 6), ("99", 6), ("9.9", 0), ("12", 0)])
def test_nines_far_from_all_others_are_said(write, nines, n_said):
    table = read_columns(write(text_of(lambda row: nines if row % 7 == 0 else f"{row % 10}.5")))
    assert [notice.text[:7] for notice in table.notices] == ["6 cells"] * (n_said > 0)


def test_ages_up_to_99_are_ages(write):
    assert codes(read_columns(write(text_of(lambda row: 99 if row == 3 else 40 + row)))) == []


@pytest.mark.usefixtures("reading")
def test_the_minus_of_typesetters_is_a_minus(write):
    assert read_columns(write(text_of(lambda row: f"\u2212{row}.5"))).values[2, 2] == -2.5


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be"])
@pytest.mark.usefixtures("reading")
def test_utf_16_without_a_mark_is_read(write, encoding):
    path = write(text_of(lambda row: row + 0.5), encoding=encoding)
    np.testing.assert_array_equal(read_columns(path).values[:, 2], np.arange(40) + 0.5)


@pytest.mark.parametrize("blank", ["", "  ", "\t", "\t\t"])
@pytest.mark.usefixtures("reading")
def test_a_blank_line_below_a_title_does_not_make_a_row_of_the_names(write, blank):
    table = read_columns(write(f"Export\n{blank}\nsex\tward\n" + "m\ta\nf\tb\n" * 5, name="a.tsv"))
    assert table.names == ("sex", "ward")
    assert len(table) == 10
    assert [column.levels for column in table.schema.columns] == [("f", "m"), ("a", "b")]


@pytest.mark.parametrize("how", [{}, {"as_is": True}])
@pytest.mark.parametrize("head", ["age dose", "age dose sex"])
def test_a_file_separated_by_blanks_is_told_which_separators_there_are(write, how, head):
    rows = "".join(f"{age} {dose}{' male' * head.count('sex')}\n" for age, dose in ROWS)
    words = said(write(f"{head}\n{rows}", "site.txt"), **how)
    assert "Only one column was found: cells must be separated by a comma, semicolon, tab or bar" in words


def test_a_table_of_several_columns_is_not_said_to_have_one(write):
    assert "Only one column" not in said(write("a,b\nx,y\n"), as_is=True)


def test_a_column_of_one_value_is_said_to_be_the_same_in_every_row_only_if_it_is_filled(write):
    (notice,) = (one for one in read_columns(write(text_of(lambda _: 7))).notices if one.code == "constant")
    assert "column 'x' is the same in every row here" in notice.text
    few = read_columns(write(text_of(lambda row: "died" if row % 6 == 0 else "")))
    (notice,) = (one for one in few.notices if one.code == "constant")
    assert "column 'x' has one value here in the cells that are filled" in notice.text


@pytest.mark.parametrize(
    "kind", [Column("x", shift=0.0, scale=1.0), Column("x", "category", ("7", "8"), None, 0.0, 1.0)]
)
def test_a_column_of_one_value_is_said_also_with_a_schema(write, kind):
    agreed = [Column("age", shift=50.0, scale=10.0), Column("dose", shift=1.0, scale=0.2), kind]
    path, schema = write(text_of(lambda _: 7)), FeatureSchema.of_columns(agreed, "agreed")
    for how in ({}, {"schema": schema}):
        told = [notice.text for notice in cluster_file(path, 2, "north", **how).notices if notice.code == "constant"]
        assert told == [
            "column 'x' is the same in every row here and adds nothing to distances between rows of this site"
        ]


@pytest.mark.parametrize("text", [",,,\n,,,\n", "  ;  \n ; \n", " \n\n", ""])
@pytest.mark.parametrize("header", [None, False])
def test_a_file_of_separators_alone_is_empty(write, text, header):
    assert "a table must have at least one row; this file is empty" in said(write(text), header=header)


@pytest.mark.parametrize("text", ["a,b", "a,b\n", "a;b"])
def test_a_line_of_names_without_any_row_is_refused_with_or_without_its_end(write, text):
    assert "a table must have at least one row; this one has none" in said(write(text))


def test_a_table_of_empty_cells_is_refused_by_name(write):
    assert "Leave this site out" in said(write("age,dose\n,\nNA,\n"))


@pytest.mark.parametrize(
    ("n_rows", "n_ids", "words"),
    [
        (600, None, "a category has at most 50. Leave it out"),
        (60, None, "a category of so few rows has at most 30. Leave it out"),
        (600, 6, "a category of so few ids has at most 30. Leave it out"),
    ],
)
def test_text_of_too_many_values_says_how_many_may_be_and_what_to_do(write, n_rows, n_ids, words):
    rows = "".join(f"p{row % (n_ids or 1)},{row % 7},v{row % 60}\n" for row in range(n_rows))
    path = write("who,age,ward\n" + rows)
    how = {"columns": ["age", "ward"], "id_column": None if n_ids is None else "who"}
    assert f"'ward' is text with 60 distinct values; {words}" in said(path, **how)
    columns = [Column("age"), Column("ward", "category", tuple(sorted({f"v{value}" for value in range(60)})))]
    assert "list them in a schema (--schema)" in said(path, **how)
    assert read_columns(path, schema=FeatureSchema.of_columns(columns)).schema.n_features == 61


def test_names_that_occur_twice_are_refused_with_what_to_do(write):
    assert "Rename one of them" in said(write("age,age \n1,2\n"))


@pytest.mark.parametrize(("n_rows", "is_said"), [(1, True), (12, True), (20, False)])
def test_a_site_that_may_send_nothing_is_told_how_many_rows_it_takes(write, n_rows, is_said):
    rows = "".join(f"{age},{dose}\n" for age, dose in ROWS[:n_rows])
    kept = cluster_file(write("age,dose\n" + rows), None, "north")
    assert (kept.to_message().n_local_clusters == 0) is is_said
    assert ["about 15 different rows" in notice.text for notice in kept.notices if notice.code == "nothing sent"] == (
        [True] * is_said
    )


def test_text_among_the_numbers_of_a_data_frame_is_called_text_and_not_shown():
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame({"dose": [*(str(1.5 * i) for i in range(20)), "vogel"], "age": np.arange(21.0)})
    with pytest.raises(kfed.KFedError, match="column 'dose' holds text in row 20") as raised:
        cluster_file(frame, 1, "site")
    assert "vogel" not in str(raised.value)


@pytest.mark.usefixtures("reading")
def test_a_title_of_several_cells_is_named_as_lines_above_the_names_of_columns(write):
    table = text_of(lambda row: f"{row},{row % 7}", "age,dose,x,y").replace(",", ";")
    words = said(write("Export;;;\nerstellt am;01.02.2026;;\n" + table))
    assert "2 of 4 columns have none. Name every column, and remove lines above the names" in words
