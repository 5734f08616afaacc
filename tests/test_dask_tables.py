"""Tables as they lie on disk: shops across files, any number of other columns, any plan; labels count to the sizes."""

import os
import signal
import threading
import warnings

import numpy as np
import pytest

import kfed
from kfed import insight, metrics

pytest.importorskip("dask.dataframe", reason="needs kfed[dask]")
pd = pytest.importorskip("pandas")
import dask  # noqa: E402
import dask.dataframe as dd  # noqa: E402
from distributed import Client, LocalCluster  # noqa: E402

from kfed.adapters import PartitionWarning  # noqa: E402
from kfed.adapters.dask import cluster_partitions  # noqa: E402
from killed_workers import kill_when_busy, slowly  # noqa: E402
from one_process import in_one_process  # noqa: E402

MEANS = np.array([[0, 0], [6, 0], [0, 6], [6, 6.0]])
pytestmark = pytest.mark.filterwarnings("ignore::kfed.adapters.PartitionWarning")


def shops(n_others=0, n_shops=40, n_rows=150, seed=0):
    """Shops of 150 rows that know two of four kinds of customers."""
    rng = np.random.default_rng(seed)
    shop = np.repeat([f"s{i:02d}" for i in range(n_shops)], n_rows)
    kind = (np.repeat(np.arange(n_shops), n_rows) + rng.integers(2, size=len(shop))) % 4
    points = MEANS[kind] + rng.normal(size=(len(shop), 2))
    others = {f"other{i}": rng.normal(size=len(shop)) for i in range(n_others)}
    return pd.DataFrame({"shop": shop, "a": points[:, 0], "b": points[:, 1], **others})


def written(table, folder, n_files=16):
    """Files of equally many rows, so that most shops lie in two of them."""
    for i, rows in enumerate(np.array_split(np.arange(len(table)), n_files)):
        table.iloc[rows].to_parquet(folder / f"p{i:02d}.parquet")
    return str(folder)


def clusters_of_stores(table):
    return in_one_process({name: rows[["a", "b"]] for name, rows in table.groupby("shop")}, 2, 4)[0]


def sizes_on_disk(result, folder):
    result.labelled.to_parquet(folder)
    labels = pd.read_parquet(folder)["cluster"]
    assert labels.notna().all()
    return np.bincount(labels.to_numpy(np.int64), minlength=4)


PLANS = {
    "the files": lambda path: path,
    "all columns": lambda path: dd.read_parquet(path),
    "three columns": lambda path: dd.read_parquet(path)[["shop", "a", "b"]],
    "filtered": lambda path: (lambda frame: frame[frame["a"] > -10])(dd.read_parquet(path)),
    "filtered and three columns": lambda path: (lambda frame: frame[frame["a"] > -10][["shop", "a", "b"]])(
        dd.read_parquet(path)
    ),
    "three columns by Arrow": lambda path: dd.read_parquet(path, filesystem="arrow")[["shop", "a", "b"]],
    "computed columns": lambda path: dd.read_parquet(path).assign(c=1.0),
}
SOME = [(0, "the files"), (12, "filtered")]
ALL = [
    *((n_others, plan) for n_others in (0, 4, 12, 40) for plan in ("the files", "filtered")),
    *((12, plan) for plan in PLANS if plan not in ("the files", "filtered")),
]


def assert_all_the_same(n_others, plan, folder, client=None, n_shops=40, n_files=16):
    table = shops(n_others, n_shops)
    (folder / "in").mkdir()
    result = cluster_partitions(PLANS[plan](written(table, folder / "in", n_files)), "shop", ["a", "b"], 2, 4, client)
    expected = clusters_of_stores(table)
    if plan == "three columns by Arrow":  # reads the files in an order of its own, and so seeds are drawn in another
        for shop in expected.messages.device_ids:
            assert sorted(result.identity(shop).cluster_ids) == sorted(expected.identity(shop).cluster_ids)
    else:
        assert result.to_bytes() == expected.to_bytes()
    np.testing.assert_array_equal(sizes_on_disk(result, folder / "out"), result.cluster_sizes)


@pytest.mark.parametrize(("n_others", "plan"), SOME)
def test_shops_across_files_get_the_answer_of_one_process(n_others, plan, tmp_path):
    assert_all_the_same(n_others, plan, tmp_path, n_shops=10, n_files=4)


@pytest.mark.slow
@pytest.mark.parametrize(("n_others", "plan"), ALL)
def test_shops_across_files_get_the_answer_of_one_process_whatever_the_plan(n_others, plan, tmp_path):
    assert_all_the_same(n_others, plan, tmp_path)


def test_a_fused_plan_is_one_of_those(tmp_path):
    frame = PLANS["filtered and three columns"](written(shops(12), tmp_path))
    assert len(frame.to_delayed()) < frame.npartitions == 16
    assert len(frame["shop"].to_delayed()) < 16


@pytest.mark.slow
def test_a_cluster_of_workers_brings_the_rows_together_as_one_process_does(dask_processes, tmp_path):
    assert_all_the_same(12, "filtered and three columns", tmp_path, dask_processes)


@pytest.mark.slow
def test_a_shop_with_a_third_of_all_rows_is_one_device(dask_processes, tmp_path):
    table = shops()
    table.loc[table["shop"].isin([f"s{i:02d}" for i in range(0, 40, 3)]), "shop"] = "large"
    result = cluster_partitions(written(table, tmp_path), "shop", ["a", "b"], 4, 4, dask_processes)
    assert result.messages.message("large").counts.sum() == 2100
    assert result.cluster_sizes.sum() == 6000


@pytest.mark.slow
@pytest.mark.parametrize("step", ["clustering", "labelling"])
def test_a_worker_that_is_killed_changes_no_byte(dask_processes, step, tmp_path):
    """Shops are moved between workers, too: what the lost one held is moved again."""
    table = shops()
    frame = dd.read_parquet(written(table, tmp_path)).map_partitions(slowly, str(tmp_path), meta=table.iloc[:0])
    expected = clusters_of_stores(table)
    pid = next(iter(dask_processes.run(os.getpid).values()))
    if step == "labelling":
        result = cluster_partitions(frame, "shop", ["a", "b"], 2, 4, dask_processes)
        (tmp_path / str(pid)).unlink(missing_ok=True)
    killer = threading.Thread(target=kill_when_busy, args=(pid, tmp_path))
    killer.start()
    if step == "clustering":
        result = cluster_partitions(frame, "shop", ["a", "b"], 2, 4, dask_processes)
    labels = result.labelled.compute().sort_values(["shop", "a"])["cluster"]
    killer.join()
    assert not (tmp_path / "too late").exists()
    assert pid not in dask_processes.run(os.getpid).values()
    assert result.to_bytes() == expected.to_bytes()
    unharmed = cluster_partitions(frame, "shop", ["a", "b"], 2, 4).labelled.compute().sort_values(["shop", "a"])
    assert labels.to_numpy(np.int64).tobytes() == unharmed["cluster"].to_numpy(np.int64).tobytes()


@pytest.mark.slow
def test_a_device_too_large_for_a_worker_is_an_error_that_names_it(tmp_path):
    rows = shops(n_others=20, n_rows=1000)
    path = written(rows.assign(shop=rows["shop"].where(rows["shop"] > "s15", "huge")), tmp_path)
    never = dict.fromkeys(("target", "spill", "pause", "terminate"), False)  # this process has more than that anyway
    with (
        dask.config.set({f"distributed.worker.memory.{what}": at for what, at in never.items()}),
        LocalCluster(n_workers=1, processes=False, memory_limit="15MB", dashboard_address=":0") as small,
        Client(small) as client,
        pytest.raises(kfed.EngineError, match=r"device 'huge' has 16,000 rows .* may use 15 MB: give workers more"),
    ):
        cluster_partitions(path, "shop", ["a", "b"], 2, 4, client)


@pytest.mark.slow
def test_a_partition_that_ends_every_worker_is_an_error_and_not_an_endless_restart(tmp_path):
    frame = dd.read_parquet(written(shops(), tmp_path)).map_partitions(deadly, meta=shops().iloc[:0])
    with (
        LocalCluster(n_workers=1, threads_per_worker=1, processes=True, dashboard_address=":0") as cluster,
        Client(cluster) as client,
        pytest.raises(kfed.EngineError, match="finding devices: a partition ended every worker that took it"),
    ):
        cluster_partitions(frame, "shop", ["a", "b"], 2, 4, client)


def deadly(frame):
    """Die as a process does that takes more memory than it may."""
    os.kill(os.getpid(), signal.SIGKILL)
    return frame


KINDS = {
    "text": lambda stage: stage.astype("string[python]"),
    "object": lambda stage: stage.astype(object),
    "categorical": lambda stage: stage.astype("category"),
    "Arrow": lambda stage: stage.astype("string[pyarrow]"),
}


def mixed(kind="text"):
    """Two kinds of customers, told apart by a category, a nullable number and a flag, with cells missing."""
    rng = np.random.default_rng(1)
    group = rng.integers(2, size=600)
    missing = rng.random((3, 600)) < 0.05
    stage = pd.Series(np.where(group == 0, "early", "late")).where(~missing[0], None)
    visits = pd.Series(rng.poisson(np.where(group == 0, 3, 30))).astype("Int64").where(~missing[1], pd.NA)
    return pd.DataFrame(
        {
            "clinic": np.repeat(np.arange(6), 100),
            "stage": KINDS[kind](stage),
            "visits": visits,
            "paid": pd.Series(group == 0).astype("boolean[pyarrow]").where(~missing[2], pd.NA),
            "since": pd.Timestamp("2020-01-01") + pd.to_timedelta(500 * group + rng.integers(60, size=600), "D"),
            "group": group,
        }
    )


@pytest.mark.parametrize(
    "kind", ["Arrow", *(pytest.param(kind, marks=pytest.mark.slow) for kind in KINDS if kind != "Arrow")]
)
def test_any_kind_of_column_and_missing_cells_are_those_of_a_table(kind):
    table = mixed(kind)
    frame = dd.from_pandas(table, npartitions=3)
    result = cluster_partitions(frame, "clinic", ["stage", "visits", "paid", "since"], 2, 2)
    assert result.skipped == ()
    assert result.schema.names == ("stage=early", "stage=late", "visits", "paid", "since")
    rows = result.labelled.compute()
    assert len(rows.groupby(["group", "cluster"])) == 2
    assert result.profile().spreads is not None


def test_numbers_with_missing_cells_are_clustered_by_the_cells_that_are_there():
    table = shops(n_shops=6)
    holes = table.copy()
    rng = np.random.default_rng(3)
    holes.loc[rng.random(900) < 0.05, "a"] = np.nan
    holes.loc[holes["shop"] == "s03", "a"] = table["a"]
    result = cluster_partitions(dd.from_pandas(holes, npartitions=2), "shop", ["a", "b"], 2, 4)
    whole = cluster_partitions(dd.from_pandas(table, npartitions=2), "shop", ["a", "b"], 2, 4)
    assert result.skipped == ()
    assert result.messages.message("s03") == whole.messages.message("s03")
    known = holes["a"].notna()
    labels, others = (of.labelled.compute().sort_index()["cluster"][known].to_numpy(int) for of in (result, whole))
    assert metrics.matched_accuracy(others, labels) > 0.97


def test_devices_that_are_left_out_are_named_with_the_reason():
    table = shops(n_shops=4)
    table.loc[table["shop"] == "s01", "b"] = np.nan
    table.loc[table["shop"] == "s02", "a"] = np.inf
    table["shop"] = table["shop"].astype(object)
    table.loc[5, "shop"] = None
    with pytest.warns(PartitionWarning, match="devices left out: 3"):
        result = cluster_partitions(dd.from_pandas(table, npartitions=1), "shop", ["a", "b"], 2, 2)
    reasons = {one.device_id: one.reason for one in result.skipped}
    assert reasons.keys() == {"s01", "s02", "(no device)"}
    assert "column 'b' has too few filled cells" in reasons["s01"]
    assert "points of device 's02' must be finite" in reasons["s02"]
    assert "null in 1 row" in reasons["(no device)"]


def test_a_category_with_too_many_levels_leaves_its_device_out():
    table = mixed()
    table.loc[table["clinic"] == 3, "stage"] = [f"remark {i}" for i in range(100)]
    with pytest.warns(PartitionWarning, match="'3': column 'stage' is text with 100 distinct values"):
        result = cluster_partitions(dd.from_pandas(table, npartitions=2), "clinic", ["stage", "visits"], 2, 2)
    assert result.messages.n_devices == 5


def test_a_device_is_the_same_as_a_whole_number_and_as_a_fraction():
    table = shops(n_shops=6)
    table["shop"] = table["shop"].str[1:].astype(int)
    parts = [table.iloc[:400], table.iloc[400:].astype({"shop": float})]
    frame = dd.from_map(lambda part: part, parts, meta=parts[1].iloc[:0], enforce_metadata=False)
    result = cluster_partitions(frame, "shop", ["a", "b"], 2, 4)
    assert result.messages.device_ids == tuple("012345")
    assert result.messages.message("2").counts.sum() == 150


def test_a_run_ends_with_a_report_that_names_what_is_unlike_all_others():
    table = shops(n_shops=12)
    table.loc[table["shop"] == "s07", ["a", "b"]] += 3
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        result = cluster_partitions(dd.from_pandas(table, npartitions=3), "shop", ["a", "b"], 2, 4)
    first, second, *_ = result.unlike_others()
    assert first.device_id == "s07"
    assert first.times_usual > 3 * second.times_usual
    page = insight.to_html(result.report("Shops")).decode()
    assert "Devices unlike all others" in page
    assert "s07" in page
