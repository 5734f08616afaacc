"""What a site's library promises: a table becomes a message to send and a file to keep, which labels its rows."""

import csv
import errno
import json
import stat

import numpy as np
import pytest

import kfed
from kfed._base import files
from kfed.site import (
    LocalFile,
    check_same_rows,
    cluster_file,
    cluster_table,
    read_scale,
    read_table,
)

SCALE = {"age": {"shift": 50, "scale": 20}, "height": {"shift": 170, "scale": 20}}


@pytest.fixture
def site(tmp_path):
    """A table of twenty people in two groups, with ids and weights, and a scale."""
    rng = np.random.default_rng(0)
    rows = np.concatenate([rng.normal(mean, 2.0, size=(10, 2)) for mean in ([30, 150], [70, 190])]).tolist()
    lines = [f"p{i:02},{age!r},{height!r},{1 + i % 3}" for i, (age, height) in enumerate(rows)]
    (tmp_path / "north.csv").write_text("\n".join(["person,age,height,weight", *lines, ""]))
    (tmp_path / "scale.json").write_text(json.dumps(SCALE))
    return tmp_path


@pytest.fixture
def table(site):
    columns = ["age", "height"]
    return read_table(site / "north.csv", columns=columns, id_column="person", scale=site / "scale.json")


@pytest.fixture
def kept(table):
    return cluster_table(table, 2, "north")


def test_a_table_is_read_on_the_agreed_scale(site, table):
    plain = read_table(site / "north.csv", columns=["age", "height"]).values
    np.testing.assert_allclose(table.values, (plain - [50, 170]) / 20)


def test_an_error_about_the_scale_names_its_file(site):
    with pytest.raises(kfed.InvalidInputError, match=r"scale\.json: .*it has no entry for 'weight'"):
        read_table(site / "north.csv", columns=["age", "height", "weight"], scale=site / "scale.json")


def test_a_table_is_clustered_as_its_values_are(site):
    table = read_table(site / "north.csv", id_column="person", weight_column="weight")
    kept = cluster_table(table, 2, "north", random_state=3, min_cluster_size=4)
    expected = kfed.cluster_device(
        table.values, 2, sample_weight=table.weights, random_state=3, device_id="north", min_cluster_size=4
    )
    np.testing.assert_array_equal(kept.clustering.labels, expected.labels)
    np.testing.assert_array_equal(kept.clustering.counts, expected.counts)
    assert kept.to_message().feature_names == ("age", "height")
    assert (kept.row_ids, kept.id_column) == (table.row_ids, "person")


def test_labels_as_csv_name_each_row_by_its_id(kept):
    labels = kept.labels(kfed.aggregate([kept.to_message()], 2))
    header, *rows = csv.reader(kept.labels_csv(labels).splitlines())
    assert header == ["person", "cluster"]
    assert rows == [[f"p{i:02}", str(label)] for i, label in enumerate(labels.tolist())]


def test_labels_as_csv_count_rows_from_zero_without_ids(kept):
    unnamed = LocalFile("north", kept.clustering)
    labels = unnamed.labels(kfed.aggregate([unnamed.to_message()], 2))
    header, *rows = csv.reader(unnamed.labels_csv(labels).splitlines())
    assert header == ["row", "cluster"]
    assert [row[0] for row in rows] == list(map(str, range(20)))


def test_an_id_with_a_separator_is_quoted(kept):
    named = LocalFile("north", kept.clustering, ['a,"b"', *kept.row_ids[1:]], "who, where")
    rows = list(csv.reader(named.labels_csv(np.zeros(20, int)).splitlines()))
    assert rows[:2] == [["who, where", "cluster"], ['a,"b"', "0"]]


def test_the_rows_are_read_again_as_they_were_clustered(site, table, kept):
    again = kept.read_rows(site / "north.csv", site / "scale.json")
    np.testing.assert_array_equal(again.values, table.values)
    assert again.row_ids == table.row_ids


def test_the_files_to_send_and_to_keep_are_written_together(tmp_path, kept):
    n_bytes = kept.save_with_message(tmp_path / "north.local", tmp_path / "north.kfed")
    assert n_bytes == (tmp_path / "north.kfed").stat().st_size
    assert stat.S_IMODE((tmp_path / "north.local").stat().st_mode) == 0o600
    message = kfed.DeviceMessage.load(tmp_path / "north.kfed")
    assert message == kept.to_message() == LocalFile.load(tmp_path / "north.local").to_message()


@pytest.mark.parametrize("before", [None, b"an earlier file"])
def test_when_one_file_cannot_be_written_the_other_stays_as_it_was(tmp_path, kept, monkeypatch, before):
    local = tmp_path / "north.local"
    if before is not None:
        local.write_bytes(before)
    write = files.write

    def full_disk(path, payload, **options):
        if path.suffix == ".kfed":
            raise OSError(errno.ENOSPC, "no space left", str(path))
        write(path, payload, **options)

    monkeypatch.setattr(files, "write", full_disk)
    with pytest.raises(OSError, match="no space left"):
        kept.save_with_message(local, tmp_path / "north.kfed")
    assert (local.read_bytes() if local.exists() else None) == before
    assert not (tmp_path / "north.kfed").exists()


def test_row_ids_must_be_as_many_as_rows(kept):
    with pytest.raises(kfed.InvalidInputError, match="row_ids must have one name for each of 20 rows; got 2"):
        LocalFile("north", kept.clustering, ["a", "b"])


def test_a_cluster_of_too_few_rows_is_withheld_and_counted():
    rows = np.array([[0.0], [0.3], [0.7], [1.1], [50.0]])
    kept = LocalFile("north", kfed.cluster_device(rows, 2, random_state=0))
    assert (kept.n_withheld, kept.to_message().n_local_clusters) == (1, 1)


@pytest.fixture
def two_tables(tmp_path, monkeypatch):
    """Two tables of one length, with a category, a gap and no weights, of which one was clustered."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    for name in ("own.csv", "other.csv"):
        ages, sexes = rng.normal(50, 9, 40).round(1), rng.choice(["f", "m"], 40)
        lines = [f"{'' if i == 5 else age},{sex}" for i, (age, sex) in enumerate(zip(ages, sexes, strict=True))]
        (tmp_path / name).write_text("\n".join(["age,sex", *lines, ""]))
    kept = cluster_file("own.csv", 3, "own")
    return kept, kfed.aggregate([kept.to_message()], 2)


def test_a_table_is_labelled_row_by_row_only_by_the_rows_that_were_clustered(two_tables):
    kept, clusters = two_tables
    assert len(kept.labels(clusters, kept.read_rows("own.csv").values)) == 40
    for rows in (kept.read_rows("other.csv").values, kept.read_rows("own.csv").values[::-1]):
        with pytest.raises(kfed.InvalidInputError, match="the means of these rows are not its centers"):
            kept.labels(clusters, rows)
    with pytest.raises(kfed.InvalidInputError, match="must be the 40 clustered rows of 'own'; got 39"):
        kept.labels(clusters, kept.read_rows("own.csv").values[1:])


def test_a_table_of_another_length_is_no_way_to_refine_labels(two_tables):
    kept, clusters = two_tables
    with pytest.raises(kfed.InvalidInputError, match=r"of shape \(40, 3\); got shape \(39, 3\)"):
        kept.clustering.induced_labels(clusters.identity("own"), refine=kept.read_rows("own.csv").values[1:])


def test_rows_with_weights_are_recognised_too(tmp_path):
    rng = np.random.default_rng(0)
    rows, weights = rng.normal(size=(30, 2)).round(3), rng.integers(1, 5, 30)
    lines = [f"{a},{b},{w}" for (a, b), w in zip(rows.tolist(), weights.tolist(), strict=True)]
    (tmp_path / "own.csv").write_text("\n".join(["a,b,w", *lines, ""]))
    for how in ({"as_is": True}, {}):
        kept = cluster_file(tmp_path / "own.csv", 2, "own", weight_column="w", **how)
        table = kept.read_rows(tmp_path / "own.csv")
        check_same_rows(kept.clustering, table.values, table.weights, "own")
        with pytest.raises(kfed.InvalidInputError, match="not its centers"):
            check_same_rows(kept.clustering, table.values[::-1], table.weights, "own")


@pytest.mark.parametrize("as_is", [True, False])
def test_a_table_without_names_is_read_again_without_names(tmp_path, as_is):
    rng = np.random.default_rng(0)
    (tmp_path / "own.csv").write_text("\n".join(f"{a},{b}" for a, b in rng.normal(size=(30, 2)).round(3).tolist()))
    cluster_file(tmp_path / "own.csv", 2, "own", header=False, as_is=as_is).save(tmp_path / "own.local")
    kept = LocalFile.load(tmp_path / "own.local")
    assert kept.header is False
    assert len(kept.read_rows(tmp_path / "own.csv").values) == 30


def test_a_schema_that_is_given_as_a_scale_is_named(tmp_path):
    path = tmp_path / "schema.json"
    path.write_text('{"computed_from": "rows", "columns": [{"name": "age", "kind": "number"}]}')
    with pytest.raises(kfed.InvalidInputError, match=r"this is a schema.*pass it with --schema instead"):
        read_scale(path)
