"""What commands say where little may be told, where a file is not the one expected, and before a number is chosen."""

import json

import numpy as np
import pandas as pd
import pytest

import kfed
from consoles import invoked as run
from kfed.estimator import to_sklearn
from kfed.wire import Column, Details

SCHEMA = kfed.FeatureSchema.of_columns([Column("age"), Column("dose")])


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Two sites of two groups, one of seven rows, and the schema that all agreed on."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    for name, n_rows in {"north": 60, "south": 60, "small": 7}.items():
        rows = rng.normal(size=(n_rows, 2)) + 9 * (np.arange(n_rows) % 2)[:, None]
        pd.DataFrame(rows.round(3), columns=["age", "dose"]).to_csv(f"{name}.csv", index=False)
    for name in ("north", "south"):
        assert run("summarize", f"{name}.csv").exit_code == 0
        assert run("device", f"{name}.csv").exit_code == 0
    assert run("agree", "north.summary", "south.summary").exit_code == 0
    return tmp_path


def sent(n_left_out):
    """Messages that say, or do not say, how many rows they leave out."""
    centers, counts = np.array([[0.0, 0.0], [9.0, 9.0]]), [20, 20]
    cells = {"observed": np.full((2, 2), 20.0), "squares": np.full((2, 2), 20.0)}
    for position, number in enumerate(n_left_out):
        details = Details(**cells, n_left_out=number)
        yield kfed.DeviceMessage(f"{position}", centers, counts, [40.0] * 2, schema=SCHEMA, details=details)


@pytest.mark.parametrize(
    ("n_left_out", "words"),
    [
        ([30, 12], "are 42 rows"),
        ([30, None], "are at least 30 rows"),
        ([None, None], "messages do not say how many points they hold"),
        ([0, 0], None),
    ],
)
def test_a_certificate_says_how_many_rows_are_not_covered_where_messages_tell_it(n_left_out, words):
    said = [note for note in kfed.aggregate(list(sent(n_left_out)), 2).certificate().notes if "withheld" in note]
    assert len(said) == (words is not None)
    assert all(words in note for note in said)


def test_clusters_without_any_of_the_new_rows_are_counted_as_empty(folder):
    assert run("aggregate", "north.kfed", "south.kfed", "-k", "2").exit_code == 0
    pd.DataFrame({"age": [0.0, 0.1], "dose": [0.0, 0.1]}).to_csv("few.csv", index=False)
    facts = json.loads(run("label", "few.csv", "--clusters", "clusters.kfed", "--json").stdout)
    assert sorted(facts["rows_in_cluster"]) == [0, 2]


def test_a_local_file_has_as_many_centers_as_clusters_with_rows(folder):
    """A summary has room for more centers than it fills."""
    facts = json.loads(run("inspect", "north.local", "--json").stdout)
    n_sent = json.loads(run("inspect", "north.kfed", "--json").stdout)["n_centers"]
    assert facts["n_centers"] == n_sent + facts["n_withheld"] == np.count_nonzero(facts["counts"])
    assert f"{facts['n_centers']} centers of 2 numbers" in run("inspect", "north.local").stdout


def test_a_site_of_few_rows_is_not_told_to_agree_on_a_scale_that_it_has(folder):
    told = run("device", "small.csv", "--schema", "schema.json").stdout
    assert "nothing can be sent" in told
    assert "agreed on" not in told
    assert "a scale that all sites agreed on" in run("device", "small.csv", "--force").stdout


def test_a_summary_and_a_schema_are_described(folder):
    said = run("inspect", "north.summary").stdout
    assert "is a summary of a table, for `kfed agree`" in said
    assert "2 columns: age (number), dose (number)" in said
    assert json.loads(run("inspect", "north.summary", "--json").stdout)["n_told"] == 2
    assert "is a schema that sites agreed on" in run("inspect", "schema.json").stdout
    facts = json.loads(run("inspect", "schema.json", "--json").stdout)
    assert (facts["kind"], len(facts["columns"])) == ("schema", 2)


@pytest.mark.parametrize("text", ["[1, 2]", '{"age": 3}', '{"columns": [3]}', '{"kind": 5, "columns": []}', "{"])
def test_other_json_is_neither_a_summary_nor_a_schema(folder, text):
    (folder / "other.json").write_text(text)
    result = run("inspect", "other.json")
    assert result.exit_code == 1
    assert "this is not a" in result.stderr


def test_a_summary_of_few_rows_says_that_nothing_is_told(folder):
    assert "or one dominates): no count, mean or spread is told" in run("summarize", "small.csv").stdout
    (folder / "part.csv").write_text("a,b\n" + "".join(f"{i * i % 7},{i if i < 6 else ''}\n" for i in range(30)))
    assert "counts, means and spreads of 1, no row; 1 other: name and kind only" in run("summarize", "part.csv").stdout


def test_a_dominant_column_is_mended_by_an_option_that_every_table_takes(folder):
    pd.read_csv("north.csv").eval("income = 10_000 * dose").to_csv("pay.csv", index=False)
    assert "`kfed device --by-column`" in run("device", "pay.csv", "--as-is").stdout
    assert "makes up" not in run("device", "pay.csv", "--by-column", "--force").stdout


def test_before_a_number_is_chosen_the_data_is_warned_of_and_the_next_command_can_be_typed(folder):
    for name, ward in {"north": "Innere", "south": "INNERE"}.items():
        wards = np.where(np.arange(60) % 2, ward, "Chirurgie")
        pd.read_csv(f"{name}.csv").assign(ward=wards).to_csv(f"{name}.csv", index=False)
        assert run("device", f"{name}.csv", "--force").exit_code == 0
    by_number = run("aggregate", "north.kfed", "south.kfed", "-k", "2").stderr
    compared = run("aggregate", "north.kfed", "south.kfed", "-k", "2-4").stderr
    warning = next(line for line in by_number.splitlines() if "levels of column 'ward' differ" in line)
    assert warning in compared.splitlines()
    assert "run this again with -k " in compared
    assert "choose --rule" not in compared


def test_a_file_that_is_not_the_one_expected_is_named_once_with_what_is_expected(folder):
    (folder / "model.joblib").write_bytes(b"\x80\x04")
    for command in (
        ["inspect", "north.csv"],
        ["label", "north.local", "--clusters", "north.csv"],
        ["label", "north.csv", "--clusters", "model.joblib"],
        ["diagnose", "north.kfed"],
    ):
        said = run(*command).stderr
        assert "expected a" in said
        assert "sender" not in said
        assert said.count(command[-1]) == 1


def test_two_files_of_a_scale_are_compared_only_with_schema_as_the_help_says(folder):
    shown = " ".join(run("device", "--help").stdout.replace("│", " ").split())
    assert "Sites must use the same file; only --schema checks that" in shown
    rows = "age,bmi\n" + "".join(f"{40 + i % 30},{20 + i % 7}\n" for i in range(60))
    said = {}
    for option in ("--scale", "--schema"):
        for name, shift in {"one": 50, "two": 40}.items():
            (folder / f"{name}.csv").write_text(rows)
            scale = {"age": {"shift": shift, "scale": 10}, "bmi": {"shift": 25, "scale": 4}}
            (folder / "scale.json").write_text(json.dumps(scale))
            assert run("device", f"{name}.csv", "-k", "2", option, "scale.json", "--force").exit_code == 0
        said[option] = run("aggregate", "one.kfed", "two.kfed", "-k", "2", "--force").stderr
    assert "shift" not in said["--scale"]
    assert "column 'age' must have the same shift" in said["--schema"]


def test_two_scales_are_refused_with_what_to_do(folder):
    assert run("device", "south.csv", "--schema", "schema.json", "--force").exit_code == 0
    said = run("aggregate", "north.kfed", "south.kfed").stderr
    assert "all devices must use one scale; " in said
    assert "sends its own" in said
    assert "uses an agreed scale" in said
    assert "use the agreed schema on all devices or on none" in said


def test_a_frame_that_mixes_types_is_refused_by_the_name_of_the_column_and_no_cell_is_shown():
    frame = pd.DataFrame({"age": [31.0, "about Mueller"], "dose": [1.0, 2.0], "note": ["x", "y"]})
    schema = kfed.FeatureSchema.of_columns([Column("age"), Column("dose"), Column("ward", "category", ("A", "B"))])
    cells = Details(observed=np.full((2, 4), 9.0), squares=np.zeros((2, 4)))
    message = kfed.DeviceMessage("a", np.eye(4)[2:], [9, 9], [0.0, 0.0], schema=schema, details=cells)
    model = to_sklearn(kfed.aggregate([message], 2))
    with pytest.raises(kfed.InvalidInputError, match="column 'age' holds text in row 1") as caught:
        model.predict(frame.assign(ward="A"))
    assert "Mueller" not in str(caught.value)
    assert caught.value.__context__ is None


def test_a_constant_column_is_said_to_add_nothing_since_it_is_sent(folder):
    table = pd.read_csv("north.csv").assign(unit=3.0)
    table.to_csv("constant.csv", index=False)
    assert "'unit' is the same in every row here and adds nothing to distances" in run("device", "constant.csv").stdout
    assert "unit" in run("inspect", "constant.kfed").stdout
