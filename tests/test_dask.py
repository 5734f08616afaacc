"""k-FED on a real Dask cluster of two processes: the answer of one process, whatever happens on the way."""

import os
import threading
import time
import warnings

import numpy as np
import pytest

import kfed

pytest.importorskip("dask.dataframe", reason="needs kfed[dask]")
pd = pytest.importorskip("pandas")
import dask.dataframe as dd  # noqa: E402
from distributed import Client, LocalCluster  # noqa: E402

from kfed.adapters import PartitionWarning, cluster_frame  # noqa: E402
from kfed.adapters.dask import cluster_partitions  # noqa: E402
from killed_workers import kill_when_busy, slowly  # noqa: E402
from one_process import in_one_process  # noqa: E402

COLUMNS = [f"x{i}" for i in range(6)]
N_CLUSTERS, N_LOCAL = 9, 3


@pytest.fixture(scope="module")
def table():
    """Forty devices of 20 to 160 rows that know three of nine clusters, device by device."""
    rng = np.random.default_rng(0)
    means = 30 * rng.normal(size=(N_CLUSTERS, len(COLUMNS)))
    parts = []
    for i in range(40):
        kind = rng.choice(N_CLUSTERS, N_LOCAL, replace=False)[rng.integers(N_LOCAL, size=20 + 140 * (i % 4) // 3)]
        part = pd.DataFrame(means[kind] + rng.normal(size=(len(kind), len(COLUMNS))), columns=COLUMNS)
        parts.append(part.assign(sensor=f"sensor-{i:02}", kind=kind))
    return pd.concat(parts, ignore_index=True)


def frame_of(table, n_parts):
    """Partitions of whole devices."""
    codes = pd.factorize(table["sensor"].bfill())[0]
    return dd.concat([dd.from_pandas(table[codes * n_parts // 40 == i], npartitions=1) for i in range(n_parts)])


def expected_of(table, **options):
    """The clusters of sensors in one process, and the labels of the rows of the table."""
    sensors = table.groupby("sensor")
    result, labels = in_one_process({name: rows[COLUMNS] for name, rows in sensors}, N_LOCAL, N_CLUSTERS, **options)
    return result, sensors["kind"].transform(lambda kinds: labels[kinds.name])


def clustered(frame, client, **options):
    return cluster_partitions(frame, "sensor", COLUMNS, N_LOCAL, N_CLUSTERS, client, **options)


@pytest.mark.filterwarnings("ignore::kfed.AggregationWarning")
def test_private_devices_send_noisy_centers_and_their_rows_get_labels(dask_client, table):
    rows = table.assign(sensor=table["kind"].map("s{}".format))  # a device for each cluster
    rows[COLUMNS] /= 100
    privacy = kfed.Privacy(epsilon=4.0, radius=3.0)
    frame = dd.from_pandas(rows.sort_values("sensor"), npartitions=1)
    result = cluster_partitions(frame, "sensor", COLUMNS, 1, N_CLUSTERS, dask_client, rule="robust", privacy=privacy)
    message = result.messages.message("s0")
    assert message.details.promise == privacy.promise
    labels = result.labelled.compute()
    assert labels.groupby("kind")["cluster"].nunique().eq(1).all()
    assert labels["cluster"].nunique() == N_CLUSTERS


@pytest.mark.parametrize(("n_parts", "rule"), [(1, "paper"), (3, "paper"), (3, "robust")])
def test_a_cluster_gives_the_aggregation_and_the_labels_of_one_process(dask_client, table, n_parts, rule):
    assert_as_in_one_process(table, n_parts, rule, dask_client)


@pytest.mark.slow
@pytest.mark.parametrize("rule", ["paper", "robust"])
def test_a_cluster_of_processes_gives_them_too(dask_processes, table, rule):
    assert_as_in_one_process(table, 5, rule, dask_processes)


def assert_as_in_one_process(table, n_parts, rule, client):
    result = clustered(frame_of(table, n_parts), client, rule=rule)
    expected, labels = expected_of(table, rule=rule)
    assert isinstance(result, kfed.Aggregation)
    assert result.to_bytes() == expected.to_bytes()
    rows = result.labelled.compute()
    assert list(rows.columns) == [*table.columns, "cluster"]
    np.testing.assert_array_equal(rows["cluster"].to_numpy(np.int64), labels)
    assert result.skipped == ()


def test_parquet_files_give_the_answer_of_the_frame_they_were_written_from(dask_client, table, tmp_path):
    frame_of(table, 4).to_parquet(tmp_path / "rows")
    expected, labels = expected_of(table)
    for path in (tmp_path / "rows", f"file://{tmp_path}/rows"):
        result = clustered(path, dask_client)
        assert result.to_bytes() == expected.to_bytes()
    np.testing.assert_array_equal(result.labelled["cluster"].compute().to_numpy(np.int64), labels)


def test_without_a_cluster_the_threads_of_this_process_do_the_work(table):
    assert clustered(frame_of(table, 3), None).to_bytes() == expected_of(table)[0].to_bytes()


@pytest.mark.slow
@pytest.mark.parametrize("mixed", [False, True])
def test_devices_that_span_partitions_are_brought_together_and_it_is_said(dask_client, table, mixed):
    rows = table.sample(frac=1, random_state=1).reset_index(drop=True) if mixed else table
    frame = dd.from_pandas(rows, npartitions=4)
    with pytest.warns(PartitionWarning, match="devices (has|have) rows in several partitions") as said:
        result = clustered(frame, dask_client)
    n_spanning = int(str(said[0].message).split()[0])
    assert n_spanning == 40 if mixed else 1 <= n_spanning <= 3
    assert (" has rows" in str(said[0].message)) == (n_spanning == 1)
    expected, labels = expected_of(rows)
    assert result.to_bytes() == expected.to_bytes()
    found = result.labelled["cluster"].compute().sort_index()
    np.testing.assert_array_equal(found.to_numpy(np.int64), labels)


def test_partitions_of_whole_devices_are_not_moved(dask_client, table):
    with warnings.catch_warnings():
        warnings.simplefilter("error", PartitionWarning)
        clustered(frame_of(table, 5), dask_client)


def test_by_way_of_regions_separated_rows_get_the_same_clusters(dask_client, table):
    frame = frame_of(table, 5)
    rows = clustered(frame, dask_client, fan_in=6).labelled.compute()
    pairs = rows.groupby(["kind", "cluster"]).size()
    assert len(pairs) == N_CLUSTERS == rows["cluster"].nunique()


@pytest.mark.parametrize("fan_in", [None, 12])
def test_every_cluster_rests_on_as_many_devices_as_are_asked_for(table, fan_in):
    stray = table[table["sensor"] == table["sensor"].iloc[0]].assign(sensor="zz", **dict.fromkeys(COLUMNS, 900.0))
    stray[COLUMNS[0]] += np.arange(len(stray)) / 100
    frame = dd.from_pandas(pd.concat([table, stray]).set_index("sensor", drop=False), npartitions=3, sort=True)
    alone, together = (clustered(frame, None, rule="robust", fan_in=fan_in, min_devices=least) for least in (1, 2))
    assert fan_in or np.abs(alone.cluster_centers).max() > 800
    assert np.abs(together.cluster_centers).max() < 800


@pytest.mark.slow
def test_a_worker_that_is_killed_in_mid_run_changes_nothing(dask_processes, table, tmp_path):
    expected, labels = expected_of(table)
    frame = frame_of(table, 10).map_partitions(slowly, str(tmp_path), meta=table.iloc[:0])
    pid = next(iter(dask_processes.run(os.getpid).values()))
    killer = threading.Thread(target=kill_when_busy, args=(pid, tmp_path))
    killer.start()
    result = clustered(frame, dask_processes)
    killer.join()
    assert not (tmp_path / "too late").exists()
    assert pid not in dask_processes.run(os.getpid).values()
    np.testing.assert_array_equal(result.labelled["cluster"].compute().to_numpy(np.int64), labels)
    assert result.to_bytes() == expected.to_bytes()


@pytest.mark.slow
def test_a_cluster_that_goes_away_is_an_error_that_says_how_far_it_came(table, tmp_path):
    cluster = LocalCluster(n_workers=1, threads_per_worker=1, processes=True, dashboard_address=":0")
    client = Client(cluster)
    closer = threading.Thread(target=close_when_busy, args=(client, cluster, tmp_path))
    closer.start()
    try:
        frame = frame_of(table, 10).map_partitions(slowly, str(tmp_path), meta=table.iloc[:0])
        with pytest.raises(kfed.EngineError, match=r"lost the Dask cluster .* after \d+ of 10 partitions"):
            clustered(frame, client)
    finally:
        closer.join()


def close_when_busy(client, cluster, folder):
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline and not any(folder.iterdir()):
        time.sleep(0.01)
    client.close()
    cluster.close()


def test_a_bad_device_is_named_and_the_rest_goes_on(dask_client, table):
    bad = table.copy()
    bad.loc[bad.index[bad["sensor"] == "sensor-03"][:2], "x1"] = -np.inf
    bad.loc[bad.index[bad["sensor"] == "sensor-05"][0], "x0"] = np.inf
    bad.loc[bad.index[bad["sensor"] == "sensor-07"][:4], "sensor"] = None
    with pytest.warns(PartitionWarning, match="'sensor-03'.*finite.*'sensor-05'"):
        result = clustered(frame_of(bad, 4), dask_client)
    assert {one.device_id: one.n_rows for one in result.skipped} == {
        "sensor-03": (table["sensor"] == "sensor-03").sum(),
        "sensor-05": (table["sensor"] == "sensor-05").sum(),
        "(no device)": 4,
    }
    good = bad[bad["sensor"].notna() & ~bad["sensor"].isin(["sensor-03", "sensor-05"])]
    assert result.to_bytes() == expected_of(good)[0].to_bytes()
    rows = result.labelled.compute()
    assert len(rows) == len(bad)
    assert set(rows.index[rows["cluster"].notna()]) == set(good.index)


def test_no_value_of_a_row_is_in_the_report_of_a_bad_device(table):
    bad = table.assign(x2=table["x2"].where(table.index != 3, np.inf))
    with pytest.warns(PartitionWarning) as said:
        result = clustered(frame_of(bad, 2), None)
    told = str(said[0].message) + str(result.skipped)
    assert all(f"{value:.3f}" not in told for value in table.loc[3, COLUMNS])


def test_rows_of_devices_may_be_mixed_within_a_partition(table):
    mixed = table.sample(frac=1, random_state=2).reset_index(drop=True)
    result = clustered(dd.from_pandas(mixed, npartitions=1), None)
    expected, labels = expected_of(mixed)
    assert result.to_bytes() == expected.to_bytes()
    np.testing.assert_array_equal(result.labelled["cluster"].compute().to_numpy(np.int64), labels)


def test_a_device_that_is_a_number_here_and_text_there_is_one_device(table):
    numbers = table["sensor"].str[-2:].astype(int).astype(object)
    texts = numbers.where(table.index % 2 == 0, numbers.astype(str))
    result = clustered(dd.from_pandas(table.assign(sensor=texts), npartitions=1), None)
    assert result.messages.n_devices == 40
    assert result.cluster_sizes.sum() == len(table)


def test_a_table_without_a_usable_row_is_an_error(table):
    with pytest.warns(PartitionWarning, match="no device"), pytest.raises(kfed.InvalidInputError, match="at least one"):
        clustered(frame_of(table, 1).assign(sensor=None), None)


def test_partitions_without_rows_are_passed_over(dask_client, table):
    frame = dd.concat([dd.from_pandas(table, npartitions=1), frame_of(table, 3).query("x0 > 1e9")])
    assert clustered(frame, dask_client).to_bytes() == expected_of(table)[0].to_bytes()


def test_only_messages_leave_a_partition(table):
    sent = cluster_frame(table, "sensor", COLUMNS, N_LOCAL)["message"]
    for payload in sent:
        message = kfed.DeviceMessage.from_bytes(payload)
        assert message.counts.min() >= 3
    everything = b"".join(sent)
    assert not any(row.tobytes() in everything for row in table[COLUMNS].to_numpy())


@pytest.mark.parametrize(
    ("changes", "match"),
    [
        ({"device_column": "nobody"}, "column not found: 'nobody'"),
        ({"columns": ["x0", "y0"]}, "column not found: 'y0'"),
        ({"columns": []}, "at least one"),
        ({"columns": "x0"}, "must be a list"),
        ({"columns": ["x0", "x0"]}, "distinct"),
        ({"columns": ["x0", "sensor"]}, "device column"),
        ({"columns": ["x0", "note"], "as_is": True}, "must be numbers; 'note'"),
        ({"missing": "guess"}, "missing must be one of"),
        ({"privacy": kfed.Privacy(epsilon=1.0, radius=1.0), "as_is": False}, "privacy is for numbers as they are"),
        ({"label_column": "kind"}, "label_column"),
        ({"n_local_clusters": 0}, "n_local_clusters"),
        ({"frame_or_path": 3}, "Dask frame, a path or a URL"),
    ],
)
def test_bad_input_is_refused_before_any_work(table, changes, match):
    arguments = {
        "frame_or_path": frame_of(table.assign(note="a"), 2),
        "device_column": "sensor",
        "columns": COLUMNS,
        "n_local_clusters": 2,
        "n_clusters": 2,
    }
    with pytest.raises(kfed.InvalidInputError, match=match):
        cluster_partitions(**(arguments | changes))
