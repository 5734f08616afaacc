"""Cells that may be mistakes, dates or names are said with their column, and never shown."""

import numpy as np
import pandas as pd
import pytest

from kfed.site import read_columns
from worlds import codes

N_ROWS = 400


def frame(numbers):
    rng = np.random.default_rng(1)
    return pd.DataFrame({"age": rng.normal(50, 9, len(numbers)), "x": numbers})


def glucose():
    rng = np.random.default_rng(0)
    return np.concatenate([rng.normal(mean, 8, size=N_ROWS // 4) for mean in (80, 120, 160, 200)]).round(1)


@pytest.mark.parametrize("mistake", [10_000.5, 1e20, -31_234.5])
def test_a_mistyped_cell_is_named_by_its_column_and_line_and_not_shown(tmp_path, mistake):
    numbers = glucose()
    numbers[16] = mistake
    frame(numbers).to_csv(tmp_path / "site.csv", index=False)
    (notice,) = read_columns(tmp_path / "site.csv").notices
    assert notice.code == "far cell"
    assert "1 cell of column 'x' (line 18) is extremely far from all others" in notice.text
    assert str(mistake) not in notice.text


SKEWED = {
    "lognormal": lambda rng: rng.lognormal(sigma=1.5, size=N_ROWS),
    "exponential": lambda rng: rng.exponential(size=N_ROWS),
    "mostly zeros": lambda rng: rng.negative_binomial(0.1, 0.01, size=N_ROWS),
    "zeros and counts": lambda rng: rng.lognormal(2, 1.5, size=N_ROWS).round() * (rng.random(N_ROWS) < 0.6),
    "one value but in one row": lambda rng: np.where(np.arange(N_ROWS) == 7, 1e9, 5),
    "groups": lambda rng: glucose(),
}


@pytest.mark.parametrize("of", SKEWED.values(), ids=SKEWED.keys())
def test_sound_columns_have_no_far_cell_however_skewed(of):
    for seed in range(20):
        assert "far cell" not in codes(read_columns(frame(of(np.random.default_rng(seed)))))


def test_dates_that_are_read_as_numbers_are_said():
    days = pd.Timestamp("2020-01-01") + pd.to_timedelta(np.random.default_rng(0).integers(0, 900, N_ROWS), "D")
    numbers = frame(days.strftime("%Y%m%d").astype(int))
    (notice,) = read_columns(numbers).notices
    assert (notice.code, notice.text[-18:]) == ("dates as numbers", "use --kinds x=date")
    for kind in ("date", "number"):
        assert codes(read_columns(numbers, kinds={"x": kind})) == []
    on_no_calendar = 20_200_000 + np.random.default_rng(1).integers(0, 2000, N_ROWS)
    assert codes(read_columns(frame(on_no_calendar))) == []


def test_a_file_of_words_without_a_line_of_names_is_noticed(write):
    rows = "".join(f"{'AB'[i % 2]},{'red' if i % 3 else 'blue'},{'yes' if i % 5 else 'no'}\n" for i in range(60))
    (notice,) = (one for one in read_columns(write(rows)).notices if one.code == "no header?")
    assert "3 columns have their own name among their cells" in notice.text
    assert "use --no-header" in notice.text
    for header in (True, False):
        assert "no header?" not in codes(read_columns(write(rows), header=header))
    assert "no header?" not in codes(read_columns(write("ward,A,smoker\n" + rows)))


@pytest.mark.parametrize("stand_in", ["9999-12-31", "1900-01-01", "0001-01-01"])
def test_a_date_that_stands_for_a_missing_one_is_named(tmp_path, stand_in):
    days = [f"2024-{1 + row % 9:02}-{10 + row % 17}" for row in range(60)]
    frame([stand_in if row % 5 == 0 else day for row, day in enumerate(days)]).to_csv(tmp_path / "site.csv")
    found = [notice for notice in read_columns(tmp_path / "site.csv").notices if notice.code == "nines"]
    assert [notice.text.split(",")[0] for notice in found] == [
        "12 cells of column 'x' look like the date of a missing value (such as 9999-12-31)"
    ]


def test_ends_of_years_near_other_dates_are_dates(tmp_path):
    days = [f"202{row % 4}-{1 + row % 9:02}-{10 + row % 17}" for row in range(60)]
    frame([*days, "2019-12-31", "2024-12-31", "2020-01-01"]).to_csv(tmp_path / "site.csv")
    assert "nines" not in codes(read_columns(tmp_path / "site.csv"))
