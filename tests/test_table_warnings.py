"""What is to be looked at in a table is a warning in Python, with a code, and printed once by the command line."""

import json
import warnings

import numpy as np
import pandas as pd
import pytest

import kfed
from consoles import run
from kfed import cli
from kfed.site import cluster_file, cluster_table, label_rows, read_columns
from worlds import codes

N_ROWS = 120


def frame():
    """Forty patients with three visits each, a constant column, and an identifier."""
    rng = np.random.default_rng(0)
    numbers = {"age": rng.normal(50, 9, N_ROWS), "bmi": rng.normal(25, 3, N_ROWS)}
    patients = np.repeat([f"p{i}" for i in range(40)], 3)
    return pd.DataFrame({"patient": patients, "mrn": np.arange(N_ROWS) * 7919 % 99_991, **numbers, "unit": 5.0})


def warned(call, *arguments, **options):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        call(*arguments, **options)
    assert all(type(one.message) is kfed.TableWarning for one in caught)
    assert {one.filename for one in caught} <= {__file__}
    return [one.message.code for one in caught]


def test_clustering_a_table_warns_of_each_notice_once():
    rows = frame()
    expected = ["identifier", "constant", "repeated id"]
    assert warned(cluster_file, rows, None, "n", id_column="patient") == expected
    table = read_columns(rows, id_column="patient")
    assert warned(cluster_table, table, None, "n") == expected
    assert warned(cluster_table, table, None, "n", warn=False) == []
    assert issubclass(kfed.TableWarning, kfed.KFedWarning)


def test_what_is_no_mistake_is_a_notice_and_no_warning():
    rows = frame()[["age", "bmi"]]
    rows.loc[3, "age"] = np.nan
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert [notice.code for notice in cluster_file(rows, None, "n").notices] == ["missing cells"]


def test_what_a_device_warns_of_itself_is_not_repeated():
    rows = pd.DataFrame(np.random.default_rng(0).normal(size=(200, 3)) * [1e5, 1, 1], columns=list("abc"))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        cluster_file(rows, 2, "n", as_is=True)
    assert [one.message.code for one in caught] == ["dominant column"]


def islands():
    """Two large groups, and 40 rows in ten groups of four, which are too small to be sent."""
    rng = np.random.default_rng(0)
    places = [*np.repeat([[0, 0], [90, 0]], 40, axis=0), *np.repeat(rng.uniform(200, 900, size=(10, 2)), 4, axis=0)]
    return pd.DataFrame(np.array(places) + rng.normal(size=(120, 2)), columns=["age", "bmi"])


@pytest.mark.parametrize("as_is", [False, True])
@pytest.mark.parametrize("number", [12, "auto"])
def test_rows_that_are_withheld_are_said_once_everywhere(tmp_path, monkeypatch, capsys, number, as_is):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        kept = cluster_file(islands(), number, "n", as_is=as_is)
    assert [one.message.code for one in caught].count("rows left out") == 1
    assert codes(kept).count("rows left out") == 1
    monkeypatch.chdir(tmp_path)
    islands().to_csv("site.csv", index=False)
    command = ["device", "site.csv", "-k", number, *(["--as-is"] if as_is else [])]
    out = " ".join(run(*command).split())
    assert out.count("rows of this device are in clusters that may not be sent") == 1
    assert "withheld, as too small" not in out
    assert "rows left out" in [one["code"] for one in json.loads(run(*command, "--json", "--force"))["warnings"]]


def test_a_number_of_clusters_that_is_too_large_is_the_reason_why_nothing_is_sent():
    rows = frame()[["age", "bmi"]][:60]
    told = {one.code: one.text for one in cluster_file(rows, 61, "n", warn=False).notices}
    assert told["many clusters"].startswith("60 rows are too few for 61 clusters")
    assert "ask for fewer clusters" in told["nothing sent"]
    assert "can still be labelled from the other sites' clusters, if" in told["nothing sent"]
    few = {one.code: one.text for one in cluster_file(rows[:7], 1, "n", warn=False).notices}
    assert "this needs about 15 different rows" in few["nothing sent"]


def test_labelling_new_rows_warns(tmp_path):
    rows = frame()[["age", "bmi"]]
    clusters = kfed.aggregate([cluster_file(rows, 2, name).to_message() for name in "ab"], 2)
    rows.assign(bmi=rows.bmi * 1000).to_csv(tmp_path / "new.csv", index=False)
    assert warned(label_rows, tmp_path / "new.csv", clusters) == ["other unit"]


def test_the_command_line_prints_a_notice_once(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    frame().to_csv("site.csv", index=False)
    monkeypatch.setattr("sys.argv", ["kfed", "device", "site.csv", "--id-column", "patient"])
    with warnings.catch_warnings():
        warnings.simplefilter("default")
        with pytest.raises(SystemExit):
            cli.main()
    said = " ".join(str(capsys.readouterr()).replace("\\n", " ").split())
    assert said.count("column 'unit' is the same in every row") == 1
    assert "TableWarning" not in said
