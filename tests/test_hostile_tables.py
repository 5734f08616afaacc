"""Tables as exports leave them: nothing is lost in silence, and every refusal says where and what to do."""

import sys

import numpy as np
import pytest

import kfed
from kfed.site import cluster_file, read_columns

RNG = np.random.default_rng(0)
ROWS = [(f"{age:.1f}", f"{dose:.2f}") for age, dose in zip(RNG.normal(50, 10, 40), RNG.normal(1, 0.2, 40), strict=True)]


def text_of(cell, head="age,dose,x"):
    """A table of forty rows whose third column is made by `cell`."""
    return "\n".join([head, *(f"{age},{dose},{cell(row)}" for row, (age, dose) in enumerate(ROWS))]) + "\n"


def codes(table):
    return [notice.code for notice in table.notices]


def kinds(table):
    return {column.name: column.kind for column in table.schema.columns}


def said(path, **how):
    with pytest.raises(kfed.KFedError) as caught:
        cluster_file(path, 2, "north", **how)
    assert str(path) in str(caught.value)
    return str(caught.value)


@pytest.fixture(params=[True, False], ids=["by pyarrow", "by line"])
def reading(request, monkeypatch):
    """Both ways to read CSV."""
    if not request.param:
        monkeypatch.setitem(sys.modules, "pyarrow", None)


@pytest.mark.parametrize("quotes", [[5], [5, 20], [39]], ids=["one", "two", "in the last line"])
@pytest.mark.usefixtures("reading")
def test_a_quote_that_is_not_closed_is_named_since_the_lines_behind_it_would_be_lost(write, quotes):
    text = text_of(lambda row: '"abc' if row in quotes else "abc")
    assert f"the one in line {quotes[0] + 2} is not" in said(write(text))


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
    assert "column 'x' must hold a date such as 2026-01-31 in every row; not in line 6. Correct" in said(write(text))


@pytest.mark.usefixtures("reading")
def test_times_in_other_zones_are_the_same_moment(write):
    here = read_columns(write(text_of(lambda row: f"2026-01-{row % 27 + 2:02d}T00:30:00+12:00"), name="here.csv"))
    there = read_columns(write(text_of(lambda row: f"2026-01-{row % 27 + 1:02d}T12:30:00+00:00"), name="there.csv"))
    assert kinds(here)["x"] == "date"
    np.testing.assert_allclose(here.values, there.values)


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


def test_a_table_of_empty_cells_is_refused_by_name(write):
    assert "Leave this site out" in said(write("age,dose\n,\nNA,\n"))


def test_names_that_occur_twice_are_refused_with_what_to_do(write):
    assert "Rename one of them" in said(write("age,age \n1,2\n"))


@pytest.mark.parametrize(("n_rows", "is_said"), [(1, True), (12, True), (20, False)])
def test_a_site_that_may_send_nothing_is_told_how_many_rows_it_takes(write, n_rows, is_said):
    rows = "".join(f"{age},{dose}\n" for age, dose in ROWS[:n_rows])
    kept = cluster_file(write("age,dose\n" + rows), None, "north")
    assert (kept.to_message().n_local_clusters == 0) is is_said
    assert ["it takes about 15 rows" in notice.text for notice in kept.notices if notice.code == "nothing sent"] == (
        [True] * is_said
    )


def test_text_among_the_numbers_of_a_data_frame_is_called_text_and_not_shown():
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame({"dose": [*(str(1.5 * i) for i in range(20)), "vogel"], "age": np.arange(21.0)})
    with pytest.raises(kfed.KFedError, match="column 'dose' holds text in row 20") as raised:
        cluster_file(frame, 1, "site")
    assert "vogel" not in str(raised.value)
