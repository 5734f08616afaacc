"""Signs that come after the first 64 KB of a CSV file are read alike by Arrow and line by line."""

import sys

import numpy as np
import pytest

import kfed
from kfed.site import read_columns
from kfed.site.formats import csv as csv_format

pytest.importorskip("pyarrow")

EARLY = ["{}", "{}", "{},000", "{}.000", ""]
LATE = ["{}", "{},000", "{}.000", "{},25", "{}.25", "{}.125"]


@pytest.fixture(params=["at once", "in blocks"], autouse=True)
def size(request, monkeypatch):
    """Both ways in which Arrow reads a file."""
    if request.param == "in blocks":
        monkeypatch.setattr(csv_format, "LARGE", 1)


@pytest.fixture
def read_twice(tmp_path, monkeypatch):
    """Read a table with pyarrow and without."""

    def both(text):
        path = tmp_path / "late.csv"
        path.write_text(text)
        by_arrow = read(path)
        with monkeypatch.context() as without:
            without.setitem(sys.modules, "pyarrow", None)
            return by_arrow, read(path)

    return both


def read(path):
    try:
        table = read_columns(path, min_cluster_size=1)
    except kfed.InvalidInputError as error:
        return str(error)
    return table.names, np.nan_to_num(table.values, nan=-1).tolist(), [notice.text for notice in table.notices]


def late_table(seed):
    """A table whose first lines do not show how its numbers are written."""
    rng = np.random.default_rng(seed)
    columns = []
    for _ in range(3):
        early, late, largest = rng.choice(EARLY), rng.choice(LATE, 2), rng.choice([90, 900])
        columns.append([early.format(10 + i * 7 % largest) for i in range(9_000)])
        columns[-1] += [late[i % 2].format(10 + i * 7 % largest) for i in range(200)]
    return "a;b;c\n" + "".join(";".join(row) + "\n" for row in zip(*columns, strict=True))


@pytest.mark.parametrize("seed", [46, 81, 98, 125, 144, 185])
def test_numbers_and_notices_are_the_same(read_twice, seed):
    by_arrow, by_line = read_twice(late_table(seed))
    assert by_arrow == by_line


def test_points_far_below_make_the_commas_of_the_first_lines_thousands(read_twice):
    rows = [f"{10 + i * 7 % 60},000;{i % 7}{'.25' if i > 9_000 else ''}" for i in range(9_200)]
    by_arrow, by_line = read_twice("amount;dose\n" + "\n".join(rows) + "\n")
    assert by_arrow == by_line
    assert by_arrow[1][0] == [10_000, 0]
    assert "commas in column 'amount' are taken to separate thousands" in by_arrow[2][0]


@pytest.mark.parametrize("separator", [";", ","])
@pytest.mark.parametrize("dose", ["0.5", "2"])
def test_a_whole_number_with_a_point_far_below_is_in_doubt(read_twice, separator, dose):
    rows = [f"{10 + i * 7 % 600}{separator}{dose}{i % 7}" for i in range(12_000)]
    by_arrow, by_line = read_twice(f"cost{separator}dose\n" + "\n".join([*rows, f"85.000{separator}{dose}"]) + "\n")
    assert by_arrow == by_line
    assert "points in column 'cost' are taken" in by_arrow[2][0]
