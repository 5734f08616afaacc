"""What the command line promises: the library's answer, files whole or not at all, and errors in one paragraph."""

import csv
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as arrow
import pyarrow.parquet
import pytest

import kfed
from consoles import SITES, run, said
from kfed.experiments import run_demo
from kfed.site import LocalFile, read_scale, read_table
from kfed.wire import Column, Details
from three_sites import (
    clusters,  # noqa: F401
    folder,  # noqa: F401
    labels_in,
    messages,  # noqa: F401
    stages,  # noqa: F401
)

COMMANDS = ["demo", "device", "aggregate", "label", "assign", "inspect", "diagnose", "reproduce"]
COMMANDS += ["serve", "join", "leave"]


# The walk-through -----------------------------------------------------------------------------------------------


def test_three_sites_get_the_answer_of_the_library(clusters):
    tables = {site: read_table(f"{site}.csv", id_column="person").scaled(read_scale("scale.json")) for site in SITES}
    local = {site: kfed.cluster_device(table, 2, random_state=0, device_id=site) for site, table in tables.items()}
    sent = ("north", "south", "east")
    result = kfed.aggregate([local[site].to_message(site) for site in sent], 4)
    assert result == kfed.Aggregation.load("clusters.kfed")
    for site in sent:
        text = run("label", f"{site}.local", "--clusters", "clusters.kfed")
        header, people, labels = labels_in(text)
        assert header == ["person", "cluster"]
        assert people == [f"{site}-person-{i:02}" for i in range(40)]
        np.testing.assert_array_equal(labels, local[site].induced_labels(result.identity(site)))


def test_the_sites_agree_on_who_belongs_together(clusters):
    groups_of_cluster = {}
    for site, groups in SITES.items():
        labels = labels_in(run("label", f"{site}.local", "--clusters", "clusters.kfed"))[2]
        for group, label in zip(np.repeat(groups, 20).tolist(), labels.tolist(), strict=True):
            groups_of_cluster.setdefault(label, set()).add(group)
    assert sorted(map(sorted, groups_of_cluster.values())) == [[0], [1], [2], [3]]


def test_labels_in_a_file_are_those_on_stdout(clusters):
    text = run("label", "north.local", "--clusters", "clusters.kfed")
    run("label", "north.local", "--clusters", "clusters.kfed", "-o", "north-labels.csv")
    assert Path("north-labels.csv").read_text() == text


def test_without_an_id_column_rows_are_numbered_from_zero(folder):
    run("device", "north.csv", "-k", 2, "--columns", "age,height")
    run("aggregate", "north.kfed", "-k", 2)
    header, rows, _ = labels_in(run("label", "north.local", "--clusters", "clusters.kfed"))
    assert header == ["row", "cluster"]
    assert rows == [str(i) for i in range(40)]


def test_a_late_site_is_answered_and_changes_nothing_for_the_others(clusters):
    before = Path("clusters.kfed").read_bytes()
    expected = kfed.Aggregation.load("clusters.kfed").assign(kfed.DeviceMessage.load("west.kfed"))
    facts = json.loads(run("assign", "west.kfed", "--clusters", "clusters.kfed", "-o", "west.identity", "--json"))
    assert facts["late"]
    assert facts["cluster_ids"] == np.asarray(expected).tolist()
    assert kfed.Identity.load("west.identity") == expected
    by_aggregation = run("label", "west.local", "--clusters", "clusters.kfed")
    assert run("label", "west.local", "--clusters", "west.identity") == by_aggregation
    assert Path("clusters.kfed").read_bytes() == before


def test_each_device_gets_an_answer_that_labels_like_the_aggregation(clusters):
    names = ["north.kfed", "south.kfed", "east.kfed"]
    run("aggregate", *names, "-k", 4, "-o", "again.kfed", "--identities", "answers")
    assert sorted(os.listdir("answers")) == ["east.identity", "north.identity", "south.identity"]
    for site in ("north", "south", "east"):
        text = run("label", f"{site}.local", "--clusters", f"answers/{site}.identity")
        assert text == run("label", f"{site}.local", "--clusters", "clusters.kfed")


def test_the_order_of_the_files_does_not_matter(clusters):
    run("aggregate", "east.kfed", "north.kfed", "south.kfed", "-k", 4, "-o", "other.kfed")
    assert Path("other.kfed").read_bytes() == Path("clusters.kfed").read_bytes()


def test_rule_and_first_device_reach_the_library(messages):
    names = ["north.kfed", "south.kfed", "east.kfed"]
    run("aggregate", *names, "-k", 4, "--rule", "robust", "--first-device", "south")
    result = kfed.Aggregation.load("clusters.kfed")
    assert (result.rule, result.settings.first_device) == ("robust", "south")


def test_regions_report_to_a_server_above_by_files(messages):
    for region, sites in {"upper": ["north", "south"], "lower": ["east", "west"]}.items():
        names = [f"{site}.kfed" for site in sites]
        said = run("aggregate", *names, "-k", 4, "-o", f"{region}.clusters", "--message", f"{region}.region")
        assert f"{region}.region" in said
        spoken = kfed.DeviceMessage.load(f"{region}.region")
        assert spoken == kfed.Aggregation.load(f"{region}.clusters").to_message(region)
    regions = ["upper.region", "lower.region"]
    facts = json.loads(run("aggregate", *regions, "-k", 4, "--rule", "regions", "-o", "world.kfed", "--json"))
    assert (facts["n_devices"], facts["cluster_sizes"], facts["warnings"]) == (2, [40] * 4, [])
    run("aggregate", *(f"{site}.kfed" for site in SITES), "-k", 4, "-o", "flat.kfed")
    flat, tree = (
        np.concatenate([labels_in(run("label", f"{site}.local", "--clusters", file))[2] for site in SITES])
        for file in ("flat.kfed", "world.kfed")
    )
    assert len(np.unique(np.stack([flat, tree]), axis=1).T) == 4  # the same clusters under other numbers


def test_csv_parquet_and_npy_give_the_same_message(folder):
    table = read_table("north.csv", columns=["age", "height"])
    np.save("plain.npy", table.values)
    arrow.parquet.write_table(arrow.table(dict(zip(table.names, table.values.T, strict=True))), "site.parquet")
    run("device", "north.csv", "-k", 2, "--id", "n", "--columns", "age,height", "-o", "a.kfed")
    run("device", "site.parquet", "-k", 2, "--id", "n", "-o", "b.kfed")
    assert Path("a.kfed").read_bytes() == Path("b.kfed").read_bytes()
    run("device", "plain.npy", "-k", 2, "--id", "n", "-o", "c.kfed")
    run("device", "site.parquet", "-k", 2, "--id", "n", "--as-is", "-o", "d.kfed")
    centers = [kfed.DeviceMessage.load(f"{name}.kfed").centers for name in "cd"]
    np.testing.assert_array_equal(*centers)


def test_options_of_device_reach_the_library(folder):
    rows = np.random.default_rng(0).normal(size=(30, 2))
    weights = np.arange(1.0, 31.0)
    np.savetxt("site.csv", np.column_stack([rows, weights]), delimiter=",", fmt="%.17g")
    options = ["--no-header", "--weight-column", "2", "--seed", 7, "--min-cluster-size", 5, "--float32"]
    assert "--as-is" in run("device", "site.csv", "-k", 3, *options, code=1)
    options.append("--as-is")
    run("device", "site.csv", "-k", 3, *options)
    expected = kfed.cluster_device(
        rows.astype(np.float32), 3, sample_weight=weights, random_state=7, device_id="site", min_cluster_size=5
    )
    assert kfed.DeviceMessage.load("site.kfed") == expected.to_message("site")
    assert kfed.DeviceMessage.load("site.kfed").centers.dtype == np.float32


# For programs and people ----------------------------------------------------------------------------------------


ONE_AFTER_THE_OTHER = """
import json, sys
from kfed.cli import main

for arguments in json.loads(sys.argv[1]):
    sys.argv[1:] = arguments
    try:
        main()
    except SystemExit as left:
        for stream in (sys.stdout, sys.stderr):
            print("exit code", left.code, file=stream, flush=True)
"""


def in_pipes(*commands):
    """Run commands in one program whose output goes to pipes; gives code, stdout and stderr of each."""
    environment = {name: value for name, value in os.environ.items() if name in ("PATH", "PYTHONPATH")}
    done = subprocess.run(
        [sys.executable, "-c", ONE_AFTER_THE_OTHER, json.dumps(commands)],
        capture_output=True,
        text=True,
        env={**environment, "TERM": "xterm-256color"},
        check=True,
    )
    out, err = (re.split(r"exit code (\d+)\n", text) for text in (done.stdout, done.stderr))
    return list(zip(map(int, out[1::2]), out[0:-1:2], err[0:-1:2], strict=True))


def test_pipes_get_no_colours_and_errors_no_traceback(clusters):
    *good, (code, out, err) = in_pipes(
        ["aggregate", "north.kfed", "-k", "2", "-o", "new.kfed"],
        ["inspect", "north.kfed", "--centers"],
        ["label", "north.local", "--clusters", "clusters.kfed"],
        ["inspect", "north.csv"],
    )
    assert len(good) == 3
    for one in good:
        assert (one[0], one[2]) == (0, "")
        assert len(one[1]) > 100
        assert "\x1b" not in one[1]
    assert (code, out) == (1, "")
    assert re.fullmatch(r"kfed: north\.csv: .*\n", err)


def test_labels_can_be_cut_short_by_a_pipe(clusters):
    command = f"{sys.executable} -c 'from kfed.cli import main; main()'"
    done = subprocess.run(
        f"{command} label north.local --clusters clusters.kfed | head -1",
        shell=True,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.stdout, done.stderr) == ("person,cluster\n", "")


def test_json_is_all_that_stands_on_stdout(clusters):
    facts = json.loads(run("device", "north.csv", "-k", 2, "--id-column", "person", "--force", "--json"))
    assert (facts["n_rows"], facts["n_centers_sent"], facts["smallest_count_sent"]) == (40, 2, 20)
    facts = json.loads(run("label", "south.local", "--clusters", "clusters.kfed", "--json"))
    assert len(facts["labels"]) == len(facts["rows"]) == facts["n_rows"] == 40
    facts = json.loads(run("label", "south.local", "--clusters", "clusters.kfed", "-o", "l.csv", "--json"))
    assert sum(facts["rows_in_cluster"]) == 40
    assert "labels" not in facts
    for name in ("north.local", "clusters.kfed"):
        assert json.loads(run("inspect", name, "--json"))["bytes"] > 0


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_explains_itself_with_an_example(command):
    text = run(command, "--help")
    assert f"kfed {command}" in text.partition("Options")[2]


def test_the_version_is_that_of_the_package():
    assert run("--version") == f"kfed {kfed.__version__}\n"


@pytest.fixture(scope="module")
def digits():
    """What the demo finds, computed once."""
    return run_demo(0)


def test_the_demo_runs_without_matplotlib_and_says_how_to_get_the_picture(folder, digits, monkeypatch):
    Path("kfed-demo.png").write_text("an earlier picture")
    monkeypatch.setattr("kfed.experiments.run_demo", lambda seed: digits)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    code, out, err = said("demo", "--json")
    assert code == 0
    assert "pip install 'kfed[plots]'" in err
    facts = json.loads(out)
    assert facts["rounds"] == 1
    assert facts["all_messages_bytes"] < facts["raw_data_bytes"]
    assert facts["rule"] == digits.aggregation.rule
    assert facts["picture"] is None


def test_the_demo_prints_what_was_sent_and_draws_its_picture(folder, digits, monkeypatch):
    seeds = []
    monkeypatch.setattr("kfed.experiments.run_demo", lambda seed: seeds.append(seed) or digits)
    Path("mine.png").write_text("precious")
    assert "exists already" in run("demo", "-o", "mine.png", code=1)
    assert Path("mine.png").read_text() == "precious"
    text = run("demo")
    for words in ("rounds", "bytes per device", "k-means cost", "ARI", "NMI", "accuracy", "kfed-demo.png"):
        assert words in text
    assert f"rule that answered │ {digits.aggregation.rule}, the default" in text
    assert Path("kfed-demo.png").read_bytes().startswith(b"\x89PNG")
    assert seeds == [0]


def test_the_library_does_not_import_what_only_the_command_line_needs():
    modules = ["kfed", "kfed.site", "kfed.metrics", "kfed.insight", "kfed.experiments.demo"]
    heavy = ["typer", "rich", "matplotlib", "sklearn", "pyarrow"]
    code = f"import sys, {', '.join(modules)}; print([name for name in {heavy} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


# Refined labels -------------------------------------------------------------------------------------------------


def test_refined_labels_are_those_of_the_library(clusters):
    out = run("label", "north.local", "--clusters", "clusters.kfed", "--refine", "north.csv", "--scale", "scale.json")
    rows = read_table("north.csv", columns=["age", "height"], id_column="person").scaled(read_scale("scale.json"))
    kept, answer = LocalFile.load("north.local"), kfed.Aggregation.load("clusters.kfed").identity("north")
    expected = kept.clustering.induced_labels(answer, refine=rows.values)
    assert [row["cluster"] for row in csv.DictReader(out.splitlines())] == list(map(str, expected))


def test_a_site_that_looked_for_one_cluster_too_few_is_mended_by_its_rows(clusters):
    run("device", "west.csv", "-k", 1, "--id-column", "person", "--scale", "scale.json", "-o", "one.kfed")
    options = ["--clusters", "clusters.kfed", "--json"]
    plain = json.loads(run("label", "one.local", *options))
    refined = json.loads(run("label", "one.local", *options, "--refine", "west.csv", "--scale", "scale.json"))
    assert sorted(plain["rows_in_cluster"]) == [0, 0, 0, 40]
    assert sorted(refined["rows_in_cluster"]) == [0, 0, 20, 20]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--refine", "north.csv"], "on the same scale; the means of these rows are not its centers"),
        (["--refine", "south.csv", "--scale", "scale.json"], "must be the clustered rows of 'north'"),
        (["--refine", "nothing.csv"], "nothing.csv"),
    ],
)
def test_other_rows_or_another_scale_are_refused(arguments, said, clusters):
    assert said in run("label", "north.local", "--clusters", "clusters.kfed", *arguments, code=1)


def test_a_site_can_find_how_many_clusters_it_has(folder):
    facts = json.loads(
        run("device", "west.csv", "-k", "auto", "--id-column", "person", "--scale", "scale.json", "--json")
    )
    assert facts["n_centers_sent"] == 2


def test_sites_agree_on_a_schema_by_commands(folder):
    for site in SITES:
        said = run("summarize", f"{site}.csv", "--id-column", "person")
        assert f"{site}.summary" in said
    facts = json.loads(run("agree", *(f"{site}.summary" for site in SITES), "--json"))
    assert facts["n_features"] == 2
    for site in SITES:
        run("device", f"{site}.csv", "-k", 2, "--id-column", "person", "--schema", "schema.json")
        assert kfed.DeviceMessage.load(f"{site}.kfed").schema.fingerprint == facts["fingerprint"]
    assert "schema.json" in run("agree", "north.summary", "-o", "schema.json", code=1)  # it is there
    assert "is not a summary" in run("agree", "north.csv", "-o", "other.json", code=1)


def test_a_site_in_another_unit_is_named_where_sites_agree_on_a_scale(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    for site, unit in [("d", 1), ("e", 1), ("f", 18)]:
        rows = zip(rng.normal(100, 15, 60) / unit, rng.normal(50, 9, 60), strict=True)
        Path(f"{site}.csv").write_text("glucose,age\n" + "".join(f"{one:.2f},{two:.1f}\n" for one, two in rows))
        run("summarize", f"{site}.csv")
    told = json.loads(run("agree", "d.summary", "e.summary", "f.summary", "--json"))["warnings"]
    assert [one["code"] for one in told] == ["other unit"]
    assert "column 'glucose' of 'f' lies far from" in told[0]["text"]
    words = run("agree", "d.summary", "e.summary", "f.summary", "-o", "b.json")
    assert "column 'glucose' of 'f' lies far" in words
    assert json.loads(run("agree", "d.summary", "e.summary", "-o", "c.json", "--json"))["warnings"] == []


def test_the_devices_of_a_cluster_are_counted_as_the_library_counts_them(tmp_path):
    rng = np.random.default_rng(0)
    messages = [kfed.DeviceMessage(f"{i}", rng.normal([[0.0], [50.0]], 0.1), [9, 9]) for i in range(30)]
    messages[0] = kfed.DeviceMessage("0", [[0.0], [900.0]], [9, 9])  # alone at 900
    paths = [tmp_path / f"{message.device_id}.kfed" for message in messages]
    for message, path in zip(messages, paths, strict=True):
        message.save(path)
    output = tmp_path / "clusters.kfed"
    facts = json.loads(run("aggregate", *paths, "-k", 2, "--rule", "robust", "-o", output, "--json"))
    found = kfed.Aggregation.load(output)
    assert len(found.grouping.set_aside) == 1
    assert facts["devices_in_cluster"] == found.devices_in_cluster.tolist()
    assert sorted(facts["devices_in_cluster"]) == [29, 30]


def test_the_table_of_clusters_counts_devices_with_a_center_there(tmp_path):
    schema = kfed.FeatureSchema.of_columns([Column("age"), Column("dose")])
    for name in "abc":
        cells = np.array([[9.0, 9.0], [9.0, 0.0]])  # the dose of the second cluster is not known anywhere
        about = {"schema": schema, "details": Details(cells, cells)}
        kfed.DeviceMessage(name, [[0.0, 1.0], [50.0, 0.0]], [9, 9], [18.0, 9.0], **about).save(
            tmp_path / f"{name}.kfed"
        )
    paths, output = sorted(tmp_path.glob("*.kfed")), tmp_path / "clusters.kfed"
    facts = json.loads(run("aggregate", *paths, "-k", 2, "-o", output, "--json"))
    assert sorted(facts["devices_in_cluster"]) == [0, 3]
    assert facts["devices_with_center"] == [3, 3]
    table = [line for line in run("aggregate", *paths, "-k", 2, "-o", output, "--force").splitlines() if "│" in line]
    assert [line.split("│")[4].strip() for line in table] == ["3", "3"]
