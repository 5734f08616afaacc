"""Cells that could be something else are not read as numbers or text without a word."""

import datetime

import numpy as np
import pytest

from consoles import run
from kfed._base.dates import day_in, days_in
from kfed.errors import InvalidInputError
from kfed.site import cluster_file, read_columns
from workbooks import workbook

NUMBERS = np.random.default_rng(0).normal(size=40).round(3).tolist()


def table_of(folder, words, name="x"):
    path = folder / "site.csv"
    lines = [f"age,{name}", *(f"{age},{words[i % len(words)]}" for i, age in enumerate(NUMBERS))]
    path.write_text("\n".join(lines) + "\n")
    return path


def codes_of(table):
    return {notice.code: notice.text for notice in table.notices}


def test_codes_with_leading_zeros_are_said_and_may_be_kept_as_levels(tmp_path):
    path = table_of(tmp_path, ["003", "017", "120"], "ward")
    found = read_columns(path)
    assert "use --kinds ward=category at every site" in codes_of(found)["leading zeros"]
    assert found.schema.columns[1].kind == "number"
    kept = read_columns(path, kinds={"ward": "category"})
    assert kept.schema.columns[1].levels == ("003", "017", "120")
    assert "leading zeros" not in codes_of(kept)
    assert "leading zeros" not in codes_of(read_columns(path, kinds={"ward": "number"}))
    assert "leading zeros" not in codes_of(read_columns(table_of(tmp_path, ["0", "0.5", "10"])))


def test_codes_with_leading_zeros_in_a_data_frame_are_said_too():
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"age": NUMBERS, "ward": ["003", "017"] * 20})
    assert "leading zeros" in codes_of(read_columns(frame))


def test_identifiers_that_are_left_out_are_no_codes_to_keep(tmp_path):
    path = table_of(tmp_path, [f"{i:04}" for i in range(40)], "patient_id")
    assert "leading zeros" not in codes_of(read_columns(path))


@pytest.mark.parametrize(
    "words", [["2025-01", "2025-02"], ["5 Jan 2025", "17 Mai 2025"], ["05MAR2025"], ["01/2025"], ["January 5 2025"]]
)
def test_dates_that_are_not_read_are_said(tmp_path, words):
    found = read_columns(table_of(tmp_path, words))
    assert found.schema.columns[1].kind == "category"
    assert "column 'x' is taken as a category, though most" in codes_of(found)["numbers as text"]


@pytest.mark.parametrize("words", [["MAR0012", "MAR0013"], ["Marker 12"], ["may"], ["2025-17", "2025-18"], ["3a"]])
def test_codes_that_are_no_dates_are_not_called_that(tmp_path, words):
    assert "numbers as text" not in codes_of(read_columns(table_of(tmp_path, words)))


@pytest.mark.parametrize(
    ("word", "day"),
    [
        ("1970/01/31", 30.0),
        ("1970/1/31 12:00", 30.5),
        ("31.01.1970 12:00", 30.5),
        ("31.1.1970 6:00:00", 30.25),
        ("1970/31/01", np.nan),
        ("31.02.1970 12:00", np.nan),
        ("31.01.1970 25:00", np.nan),
        ("01/02/1970 12:00", np.nan),
    ],
)
def test_dates_that_can_be_read_in_one_way_are_read(word, day):
    assert day_in(word) == pytest.approx(day, nan_ok=True)


def test_a_time_after_a_date_with_slashes_does_not_hide_the_order():
    assert days_in(["31/01/1970 12:00", "01/02/1970 06:00"]) == [30.5, 31.25]


@pytest.mark.parametrize("words", [["2025/01/31", "2025/02/01"], ["31.01.2025 12:00", "01.02.2025 13:30"]])
def test_a_column_of_them_is_one_of_dates(tmp_path, words):
    assert read_columns(table_of(tmp_path, words)).schema.columns[1].kind == "date"


@pytest.mark.parametrize("word", ["<NA>", "NaT"])
@pytest.mark.parametrize("other", ["1.5", "2025-01-31", "yes"])
def test_what_pandas_writes_for_a_missing_cell_is_missing(tmp_path, word, other):
    found = read_columns(table_of(tmp_path, [other, word]))
    assert np.isnan(found.values[1::2, 1]).all()
    assert not np.isnan(found.values[::2, 1]).any()


def test_among_levels_nat_is_a_word_and_na_in_brackets_is_missing(tmp_path):
    found = read_columns(table_of(tmp_path, ["NAT", "PCR", "<NA>", "rapid"]))
    assert found.schema.columns[1].levels == ("NAT", "PCR", "rapid")
    assert np.isnan(found.values[2::4, 1:]).all()


def test_nan_in_an_array_is_missing_by_column_and_refused_as_it_is(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    values = np.random.default_rng(0).normal(size=(60, 3))
    values[3, 1] = np.nan
    np.save("site.npy", values)
    assert "1 of 180 cells counts as missing" in run("device", "site.npy", "--by-column")
    with pytest.raises(InvalidInputError, match="'1' is NaN or infinite in row 3"):
        cluster_file("site.npy", 2, "site")
    values[3, 1] = np.inf
    np.save("site.npy", values)
    with pytest.raises(InvalidInputError, match="'1' is NaN or infinite in row 3"):
        cluster_file("site.npy", 2, "site", as_is=False)


def test_a_first_line_with_a_date_above_dates_is_a_row(write):
    rows = "".join(f"{'MF'[row % 2]},2026-02-{row}\n" for row in range(10, 25))
    path = write("F,2026-01-31\n" + rows)
    with pytest.raises(InvalidInputError, match=r"it holds dates. Use --no-header"):
        read_columns(path)
    assert read_columns(path, header=True).names == ("F", "2026-01-31")
    assert len(read_columns(path, header=False).values) == 16


def test_dates_above_numbers_are_names(write):
    assert read_columns(write("2026-01-31,2026-02-28\n1.5,2.5\n2.5,4.5\n")).names == ("2026-01-31", "2026-02-28")


@pytest.mark.parametrize("first", [[45.0, "M"], [datetime.date(2026, 1, 31), "F"]])
def test_a_first_row_of_excel_is_not_taken_for_names(write, monkeypatch, first):
    path = workbook(write, monkeypatch, {"A": [first, *([[first[0], "M"]] * 9)]})
    with pytest.raises(InvalidInputError, match=r"line 1 of sheet 'A' must hold the names .* Add a line"):
        read_columns(path)
    assert len(read_columns(path, header=True).values) == 9


def test_an_excel_file_must_have_names(write, monkeypatch):
    path = workbook(write, monkeypatch, {"A": [["age", "x"], *([[30.0, 1.0]] * 9)]})
    with pytest.raises(InvalidInputError, match="must hold the names"):
        read_columns(path, header=False)


def test_a_year_as_a_name_in_excel_is_written_as_in_csv(write, monkeypatch):
    path = workbook(write, monkeypatch, {"A": [["age", 2019.0], *([[30.0, 1.0]] * 9)]})
    assert read_columns(path, header=True).names == ("age", "2019")


def test_a_weight_that_is_text_is_named_as_a_weight(write):
    path = write("age,w\n" + "31,1\n42,2\n" * 5 + "53,heavy\n")
    with pytest.raises(InvalidInputError, match=r"column 'w' must hold a weight .* line 12 holds none. Correct or"):
        read_columns(path, weight_column="w")


def test_a_file_that_is_not_compressed_as_its_name_says_is_said_to_be(write):
    with pytest.raises(InvalidInputError, match="not compressed as its name says"):
        read_columns(write("age,x\n1,2\n", "site.csv.gz"))


@pytest.mark.usefixtures("reading")
@pytest.mark.parametrize(
    ("words", "kind"),
    [
        (["true", "1", "0"], "flag"),
        (["1"] * 9 + ["0"] * 9 + ["False"], "flag"),
        (["0x1A", "0x2B", "12"], "category"),
        (["12"] * 30 + ["0X1b"], None),
        (["inf", "inf", "1.5"], None),
        (["1", "-Infinity"], None),
        (["1e400"] * 3 + ["2"], None),
    ],
)
def test_cells_are_read_alike_by_every_reader(tmp_path, words, kind):
    path = table_of(tmp_path, words)
    if kind is None:
        with pytest.raises(InvalidInputError, match=r"column 'x' (holds text|is NaN or infinite|is too large) in line"):
            read_columns(path)
        return
    found = read_columns(path)
    assert found.schema.columns[1].kind == kind
    if kind == "flag":
        expected = [float(word.lower() in ("true", "1")) for word in words]
        assert found.values[: len(words), 1].tolist() == expected
