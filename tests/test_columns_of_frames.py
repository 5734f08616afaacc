"""Columns of data frames, whatever type the library that made them chose: they are read, or named with what to do."""

import numpy as np
import pytest

import kfed
from kfed.site import read_columns

pd = pytest.importorskip("pandas")
pl = pytest.importorskip("polars")
pa = pytest.importorskip("pyarrow")

WARDS = ["A", "B", None] * 20
FRAME = pl.DataFrame({"age": np.arange(60) % 7 + 30.5, "ward": WARDS})
AS_CODES = {
    "Categorical": FRAME.with_columns(pl.col("ward").cast(pl.Categorical)),
    "Enum": FRAME.with_columns(pl.col("ward").cast(pl.Enum(["B", "A", "C"]))),
    "two chunks": pl.concat([FRAME.with_columns(pl.col("ward").cast(pl.Categorical))] * 2, rechunk=False)[:60],
    "pandas": pd.DataFrame({"age": FRAME["age"].to_numpy(), "ward": pd.Categorical(WARDS)}),
}


@pytest.mark.parametrize("how", AS_CODES)
@pytest.mark.parametrize("kinds", [None, {"ward": "category"}])
def test_codes_for_levels_are_the_levels(how, kinds):
    expected = read_columns(FRAME, kinds=kinds)
    found = read_columns(AS_CODES[how], kinds=kinds)
    assert found.schema == expected.schema
    np.testing.assert_array_equal(found.values, expected.values)


def test_codes_in_a_file_of_polars_are_levels(tmp_path):
    AS_CODES["Categorical"].write_ipc(tmp_path / "site.feather")
    assert read_columns(tmp_path / "site.feather").schema == read_columns(FRAME).schema


def test_codes_for_numbers_are_numbers():
    frame = pd.DataFrame({"age": pd.Categorical([30.5, 31.5, 32.5] * 10)})
    np.testing.assert_array_equal(read_columns(frame).values[:3, 0], [30.5, 31.5, 32.5])


@pytest.mark.parametrize("kinds", [None, {"group": "category"}])
def test_intervals_are_refused_by_the_name_of_their_column(kinds):
    frame = FRAME.to_pandas().assign(group=lambda own: pd.cut(own["age"], 3))
    with pytest.raises(kfed.InvalidInputError, match=r"column 'group' holds intervals, as by pandas\.cut.*text"):
        read_columns(frame, kinds=kinds)
    as_text = read_columns(frame.assign(group=frame["group"].astype(str)))
    assert [column.kind for column in as_text.schema.columns] == ["number", "category", "category"]


@pytest.mark.parametrize("rows", [[(1, 2.0), (3, 4.0)], [{"age": 1.0}], np.zeros((30, 2)), None, FRAME.lazy()])
def test_what_is_no_data_frame_is_refused_with_what_to_do(rows):
    with pytest.raises(kfed.InvalidInputError, match=r"must be a path, or a data frame .* pandas\.DataFrame\(rows"):
        read_columns(rows)
