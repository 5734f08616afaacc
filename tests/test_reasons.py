"""What is said of a table names the true reason, all that is wrong, and never a cell."""

import gzip

import numpy as np
import pytest

import kfed
from consoles import run
from kfed.errors import FeatureMismatchError, InvalidInputError
from kfed.site import cluster_file, read_columns
from kfed.wire import Column, DeviceMessage, FeatureSchema

NUMBERS = np.random.default_rng(0).normal(size=(120, 2)).round(4)


@pytest.fixture
def write(tmp_path):
    """Write a table of columns; gives its path."""

    def written(**columns):
        lines = [",".join(columns), *(",".join(map(str, row)) for row in zip(*columns.values(), strict=True))]
        path = tmp_path / "site.csv"
        path.write_text("\n".join(lines) + "\n")
        return path

    return written


def notice(kept, code):
    (text,) = [one.text for one in kept.notices if one.code == code]
    return text


@pytest.mark.filterwarnings("ignore::kfed.TableWarning")
def test_ids_are_named_as_the_reason_if_they_are_too_few(write):
    path = write(age=NUMBERS[:, 0], dose=NUMBERS[:, 1], person=["p7"] * 120)
    text = notice(cluster_file(path, None, "north", id_column="person"), "nothing sent")
    assert "needs about 15 different ids in 'person', and there is 1;" in text
    text = notice(cluster_file(path, 2, "north", id_column="person", as_is=True), "nothing sent")
    assert "fewer than 5 different ids in 'person'" in text
    few = write(age=NUMBERS[:9, 0], dose=NUMBERS[:9, 1])
    assert "needs about 15 different rows;" in notice(cluster_file(few, None, "north"), "nothing sent")


def test_rows_with_a_missing_cell_are_called_that_if_they_are_dropped(write):
    path = write(age=["", *NUMBERS[1:, 0]], dose=NUMBERS[:, 1])
    kept = cluster_file(path, None, "north", missing="drop")
    assert "1 row has a missing cell and is not counted (--missing drop)" in notice(kept, "few cells")


def test_a_cell_that_says_that_it_is_missing_is_not_called_text(write):
    path = write(age=[1, 2, "NA", 4], dose=[1, 2, 3, 4])
    with pytest.raises(InvalidInputError, match="column 'age' has a missing value in line 4"):
        cluster_file(path, 1, "north", as_is=True)


def test_a_table_of_identifiers_alone_is_told_so(write):
    path = write(patient=[f"p{i}" for i in range(60)], case_id=range(100, 160))
    with pytest.raises(
        InvalidInputError, match=r"'patient' and 'case_id' look like identifiers.*name them with --columns"
    ):
        read_columns(path)


def test_a_constant_column_adds_nothing_between_rows_of_this_site(write):
    kept = cluster_file(write(age=NUMBERS[:, 0], ward=[7] * 120), None, "north", warn=False)
    assert notice(kept, "constant").endswith("adds nothing to distances between rows of this site")


@pytest.mark.parametrize(
    ("column", "words"),
    [
        ({"name": "b" * 201}, f"begins with '{'b' * 30}'"),
        ({"name": ""}, "the name of a column must have 1 to 200 characters; got 0"),
        ({"name": "ward", "kind": "category", "levels": ("x" * 300,)}, "a level of column 'ward' must have"),
        ({"name": "dose", "unit": ""}, "the unit of column 'dose' must have"),
    ],
)
def test_a_word_that_is_too_long_is_named_by_its_column_and_a_level_is_not_shown(column, words):
    with pytest.raises(InvalidInputError) as caught:
        Column(**column)
    assert words in str(caught.value)
    assert "xx" not in str(caught.value)


def test_all_bad_cells_are_counted_at_once(write):
    ages, doses = [*"12345678", "secret", "other", "more", "last"], [*"1234567890", "secret", "1"]
    with pytest.raises(InvalidInputError) as caught:
        read_columns(write(age=ages, dose=doses, weight=range(12)))
    assert (
        "column 'age' holds text in line 10. In all, 5 cells of 2 columns must be corrected: 'age' (line 10, line 11, "
        "line 12 and 1 more); 'dose' (line 12). Correct or clear these cells"
    ) in str(caught.value)
    with pytest.raises(InvalidInputError, match="In all, 4 cells of 2 columns"):
        cluster_file(write(age=[1, "", 3, ""], dose=["NA", 2, "NA", 3]), 1, "north", as_is=True)
    with pytest.raises(InvalidInputError, match=r"line 3\. Correct or clear that cell"):
        read_columns(write(age=["1", "x", "3"], dose=[1, 2, 3]))


def test_all_columns_on_another_agreed_scale_are_named():
    columns = [Column(name, shift=0.0, scale=1.0) for name in ("age", "dose", "weight")]
    others = [columns[0], Column("dose", shift=0.0, scale=2.0), Column("weight", shift=3.0, scale=1.0)]
    agreed, other = (FeatureSchema.of_columns(own, "agreed") for own in (columns, others))
    with pytest.raises(FeatureMismatchError) as caught:
        agreed.check_same(other, "north", "south")
    assert str(caught.value) == (
        "column 'dose' must have the same scale on all devices; it is 1.0 at north and 2.0 at south: use the same "
        "schema at every site. 'weight' differs, too"
    )


def test_warnings_of_an_estimator_point_at_the_line_that_fits():
    points = np.random.default_rng(0).normal(size=(60, 2))
    with pytest.warns(kfed.AggregationWarning) as caught:
        kfed.KFed(random_state=0).fit(points, groups=np.repeat([0, 1, 2], 20))
    assert {one.filename for one in caught} == {__file__}


def test_a_compressed_table_is_called_like_the_same_table_that_is_not(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with gzip.open("north.csv.gz", "wt") as file:
        file.writelines(["age,dose\n", *(f"{x},{y}\n" for x, y in NUMBERS.tolist())])
    run("device", "north.csv.gz")
    assert DeviceMessage.load("north.kfed").device_id == "north"
    run("summarize", "north.csv.gz")
    assert (tmp_path / "north.summary").exists()
    run("aggregate", "north.kfed", "-k", "2")
    run("label", "north.local", "--clusters", "clusters.kfed", "--refine", "north.csv.gz", "-o", "labels.csv")
