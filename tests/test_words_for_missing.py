"""Words that say that a cell is missing: the same in columns of every kind, and in every place that reads a table."""

import numpy as np
import pytest

import kfed
from kfed.server.view.frame_cells import words_of
from kfed.site import cluster_file, read_columns
from kfed.wire import Column, FeatureSchema

WORDS = ["", "NA", "n/a", "#N/A", "NaN", "null", ".", "-", "--", "?", "Missing"]
KINDS = {
    "number": ["1.5", "2.5", "3.5"],
    "flag": ["yes", "no", "yes"],
    "date": ["2026-01-31", "2026-02-01", "2026-02-02"],
    "category": ["A", "B", "A"],
}


@pytest.fixture
def write(tmp_path):
    def written(cells, name="site.csv"):
        lines = "".join(f"{i % 3 + 0.5},{cell}\n" for i, cell in enumerate(cells))
        (tmp_path / name).write_text(f"x,c\n{lines}")
        return tmp_path / name

    return written


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("word", WORDS)
def test_a_cell_that_says_nothing_is_missing_in_a_column_of_any_kind(write, kind, word):
    expected = read_columns(write([*KINDS[kind], ""] * 9))
    found = read_columns(write([*KINDS[kind], word] * 9))
    assert found.schema == expected.schema
    assert found.schema.columns[1].kind == kind
    np.testing.assert_array_equal(found.values, expected.values)


def test_a_column_of_such_words_alone_is_empty(write):
    assert read_columns(write(["-", "?", "", "NA"] * 6)).schema.columns[1] == Column("c", "empty")


@pytest.mark.parametrize("word", ["none", "unknown", "<18"])
def test_a_word_that_may_say_something_is_a_level(write, word):
    assert read_columns(write(["A", word] * 15)).schema.columns[1].levels == tuple(sorted(["A", word]))


@pytest.mark.parametrize("signs", [("+", "-"), ("++", "-"), ("+", "--")])
def test_a_minus_beside_a_plus_is_the_result_of_a_test(write, signs):
    assert read_columns(write([*signs, ""] * 12)).schema.columns[1].levels == tuple(sorted(signs))


def test_a_minus_that_a_schema_lists_is_a_level_also_where_all_tests_were_negative(write):
    schema = FeatureSchema.of_columns([Column("x"), Column("c", "category", ("+", "-"))])
    values = read_columns(write(["-", "?"] * 9), schema=schema).values
    np.testing.assert_array_equal(values[:2, 1:], [[0, 1], [np.nan, np.nan]])


@pytest.fixture
def clusters():
    def of(cells):
        pd = pytest.importorskip("pandas")
        frame = pd.DataFrame({"x": np.random.default_rng(0).normal(size=len(cells)), "c": cells})
        kept = cluster_file(frame, 2, "north")
        return kfed.aggregate([kept.to_message()], 2)

    return of


@pytest.mark.parametrize("word", WORDS)
def test_rows_that_are_predicted_are_read_like_those_that_were_clustered(clusters, word):
    pd = pytest.importorskip("pandas")
    result = clusters(["A", "B"] * 30)
    nothing = pd.DataFrame({"x": [0.5, 2.5], "c": [None, None]})
    np.testing.assert_array_equal(result.predict(nothing), result.predict(nothing.assign(c=word)))
    assert words_of(["A", word, None])[0] == ["A"]


def test_rows_with_minus_and_plus_are_predicted_by_them(clusters):
    pd = pytest.importorskip("pandas")
    result = clusters(["+", "-"] * 30)
    assert result.predict(pd.DataFrame({"x": [1.5, 1.5], "c": ["+", "-"]})).nunique() == 2
    assert result.predict(pd.DataFrame({"x": [1.5], "c": ["-"]})).tolist() == [
        result.predict(pd.DataFrame({"x": [1.5, 1.5], "c": ["+", "-"]}))[1]
    ]


@pytest.mark.parametrize("word", ["<18", "none", "Nil"])
def test_a_word_for_which_a_whole_column_is_missing_is_said_and_can_be_kept(write, word, reading):
    path = write([word, word, ""] * 9)
    table = read_columns(path)
    said = {notice.code: notice.text for notice in table.notices}
    assert f"column 'c' is ignored: 18 cells of 27 hold '{word}'" in said["taken as missing"]
    assert "27 of 54 cells count as missing" in said["missing cells"]
    assert "empty" not in said
    kept = read_columns(path, kinds={"c": "category"})
    assert kept.schema.columns[1].levels == (word,)
    assert "taken as missing" not in [notice.code for notice in kept.notices]
    with pytest.warns(kfed.TableWarning, match="use --kinds c=category"):
        cluster_file(path, None, "north")
