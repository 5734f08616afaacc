"""Chunks of a table in any engine: the same answer from pandas, polars and Arrow, however the table is cut."""

import json
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import kfed
from kfed.adapters import PartitionWarning, cluster_frame, collect_messages, label_frame
from one_process import in_one_process

pd = pytest.importorskip("pandas")
pl = pytest.importorskip("polars")
pa = pytest.importorskip("pyarrow")

MEANS = np.array([[0.0, 0.0], [9.0, 0.0], [0.0, 9.0]])
HOW = {"device_column": "shop", "columns": ["x", "y"], "n_local_clusters": 2}
IN_KIND = {
    "pandas": lambda table: table,
    "polars": pl.from_pandas,
    "Arrow": lambda table: pa.Table.from_pandas(table, preserve_index=False),
}


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(0)
    shop = rng.permutation(np.repeat(np.arange(8), 40))
    kind = (shop + rng.integers(2, size=320)) % 3
    points = MEANS[kind] + rng.normal(size=(320, 2))
    return pd.DataFrame({"shop": shop, "x": points[:, 0], "y": points[:, 1], "kind": kind})


def clusters_of_shops(table):
    return in_one_process({str(name): rows[["x", "y"]] for name, rows in table.groupby("shop")}, 2, 3)[0]


def chunks_of(table, n_chunks, kind):
    return [IN_KIND[kind](table[table["shop"] % n_chunks == i]) for i in range(n_chunks)]


@pytest.mark.parametrize("kind", IN_KIND)
@pytest.mark.parametrize("n_chunks", [1, 3, 8])
def test_chunks_give_the_answer_and_the_labels_of_one_process(table, kind, n_chunks):
    chunks = chunks_of(table, n_chunks, kind)
    found = [cluster_frame(chunk, **HOW) for chunk in chunks]
    assert all(type(one) is type(chunk) for one, chunk in zip(found, chunks, strict=True))
    result = kfed.aggregate(collect_messages(found), 3)
    assert result.to_bytes() == clusters_of_shops(table).to_bytes()
    for chunk in chunks:
        labelled = label_frame(chunk, result, **HOW)
        assert type(labelled) is type(chunk)
        rows = labelled if kind == "pandas" else labelled.to_pandas()
        assert list(rows.columns) == ["shop", "x", "y", "kind", "cluster"]
        assert rows.groupby("kind")["cluster"].nunique().eq(1).all()


def test_a_chunk_may_be_labelled_in_other_chunks_than_it_was_clustered_in(table):
    result = kfed.aggregate(collect_messages(cluster_frame(chunk, **HOW) for chunk in chunks_of(table, 3, "polars")), 3)
    whole = label_frame(table, result, **HOW)
    assert sorted(whole["cluster"].value_counts()) == sorted(result.cluster_sizes)


def test_a_device_in_two_chunks_is_an_error_that_names_it(table):
    halves = [table[:160], table[160:]]
    with pytest.raises(kfed.DuplicateDeviceError, match=r"device '\d' has rows in several chunks; group the table"):
        collect_messages(cluster_frame(half, **HOW) for half in halves)


def test_rows_that_are_not_those_that_were_clustered_get_no_label(table):
    result = kfed.aggregate(collect_messages(cluster_frame(table, **HOW)), 3)
    with pytest.raises(kfed.DuplicateDeviceError):
        label_frame(table[:-3], result, **HOW)


def test_a_device_that_came_late_is_labelled_all_the_same(table):
    result = kfed.aggregate(collect_messages(cluster_frame(table[table["shop"] != 5], **HOW)), 3)
    late = label_frame(table[table["shop"] == 5], result, **HOW)
    assert late["cluster"].notna().all()
    assert len(late.groupby(["kind", "cluster"])) == late["kind"].nunique()


@pytest.mark.parametrize("kind", IN_KIND)
def test_a_device_that_cannot_be_used_is_in_the_table_with_the_reason(table, kind):
    bad = table.astype({"shop": "Int64"})
    bad.loc[bad["shop"] == 2, "x"] = np.inf
    bad.loc[bad.index[:2], "shop"] = pd.NA
    found = cluster_frame(IN_KIND[kind](bad), **HOW)
    rows = (found if kind == "pandas" else found.to_pandas()).set_index("device_id")
    left_out = rows[rows["reason"].notna()]
    assert set(left_out.index) == {"2", "(no device)"}
    assert left_out["message"].isna().all()
    assert rows["n_rows"].sum() == 320
    with pytest.warns(PartitionWarning, match="devices left out: 2") as said:
        collected = collect_messages(found)
    assert [(isinstance(own.message, kfed.KFedWarning), own.message.code) for own in said] == [
        (True, "devices left out")
    ]
    assert "2" not in collected
    labels = label_frame(IN_KIND[kind](bad), kfed.aggregate(collected, 3), **HOW)["cluster"]
    assert sum(label is None or label is pd.NA for label in (labels if kind != "Arrow" else labels.to_pylist())) == (
        left_out["n_rows"].sum()
    )


def test_rows_whose_device_is_not_a_number_have_none():
    chunk = pa.table({"shop": [1.0, float("nan"), None] * 20, "x": np.arange(60.0), "y": np.arange(60.0) % 7})
    rows = cluster_frame(chunk, **HOW).to_pandas().set_index("device_id")
    assert rows["n_rows"].to_dict() == {"(no device)": 40, "1": 20}


def test_a_chunk_without_rows_gives_no_messages(table):
    assert len(cluster_frame(table[:0], **HOW)) == 0
    assert cluster_frame(pl.from_pandas(table[:0]), **HOW).schema["message"] == pl.Binary


def test_single_precision_stays_single_in_every_kind(table):
    single = table.astype({"x": np.float32, "y": np.float32})
    for kind in IN_KIND.values():
        sent = collect_messages(cluster_frame(kind(single), **HOW))
        assert sent.centers.dtype == np.float32


def test_columns_of_any_kind_are_taken_by_their_type_and_not_by_what_a_chunk_happens_to_hold(table):
    """In one chunk, all cells of the text column look like numbers."""
    texts = table.assign(code=np.where(table["shop"] < 4, "1", np.where(table["kind"] == 0, "a", "b")))
    how = HOW | {"columns": ["x", "code"], "as_is": False}
    sent = collect_messages(cluster_frame(chunk, **how) for chunk in chunks_of(texts, 8, "polars"))
    assert sent.schema.names == ("x", "code=1", "code=a", "code=b")


@pytest.mark.parametrize(
    ("frame", "changes", "match"),
    [
        (lambda t: t.to_numpy(), {}, "frame must be a pandas, polars or Arrow table; got a ndarray"),
        (lambda t: pl.from_pandas(t).lazy(), {}, r"got a LazyFrame: call collect\(\) first"),
        (lambda t: t.assign(x="a"), {}, "columns must be numbers; 'x' holds .*: use as_is=False"),
        (lambda t: t.assign(x=[3.0, "secret"] * 160), {}, "column 'x' must hold values of one type"),
        (pl.from_pandas, {"columns": ["z"]}, "column not found: 'z'; the columns are shop, x, y"),
        (pl.from_pandas, {"device_column": "z"}, "column not found: 'z'"),
    ],
)
def test_what_is_no_chunk_is_refused(table, frame, changes, match):
    with pytest.raises(kfed.InvalidInputError, match=match) as error:
        cluster_frame(frame(table), **HOW | changes)
    assert "secret" not in str(error.value)


def test_a_label_column_that_is_there_is_refused(table):
    with pytest.raises(kfed.InvalidInputError, match="label_column must be a new name"):
        label_frame(table, clusters_of_shops(table), label_column="kind", **HOW)


# The guide ----------------------------------------------------------------------------------------------------------

ENGINES = {
    "pyspark": ("Spark", "labelled.toPandas()"),
    "ray": ("Ray", "labelled.to_pandas()"),
    "duckdb": ("DuckDB", "pd.concat([pd.read_parquet(f'{path}.{part}.labels') for part in range(4)])"),
}


def lines_of(guide, heading):
    """The code under a heading of the guide, without the marks of an example."""
    section = guide.partition(heading)[2].partition("\n## ")[0]
    return re.sub(r"^(>>>|\.\.\.) ", "", "".join(re.findall(r"```python\n(.*?)```", section, re.S)), flags=re.M)


@pytest.mark.slow
@pytest.mark.parametrize("module", ENGINES)
def test_the_lines_of_the_guide_run_on_their_engine(module, tmp_path):
    pytest.importorskip(module, reason=f"{module} is not installed; kfed does not need it")
    heading, labels = ENGINES[module]
    guide = (Path(__file__).parents[1] / "docs" / "guide-engines.md").read_text()
    counts = f"import json; print(json.dumps([result.cluster_sizes.tolist(), {labels}['cluster'].tolist()]))"
    script = tmp_path / "script.py"
    script.write_text("\n".join([lines_of(guide, "# Any engine"), lines_of(guide, f"## {heading}\n"), counts]))
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    sizes, found = json.loads(done.stdout.splitlines()[-1])
    assert sum(sizes) == 1200
    assert np.bincount(found).tolist() == sizes
