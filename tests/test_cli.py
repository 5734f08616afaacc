"""What the command line promises: the library's answer, files whole or not at all, and errors in one paragraph."""

import csv
import errno
import json
import os
import re
import shutil
import stat
import struct
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as arrow
import pyarrow.parquet
import pytest

import kfed
from consoles import SITES, run, said, write_sites
from kfed._base import files
from kfed.experiments.demo import run_demo
from kfed.site import LocalFile, read_scale, read_table

SECRET = "8675309.25"
"""A value that no output may show."""

MEANS = np.array([[30.0, 150.0], [30.0, 190.0], [70.0, 150.0], [70.0, 190.0]])
SCALE = {"age": {"shift": 50, "scale": 20}, "height": {"shift": 170, "scale": 20}}
COMMANDS = ["demo", "device", "aggregate", "label", "assign", "inspect", "diagnose", "reproduce"]
COMMANDS += ["serve", "join", "leave"]


@pytest.fixture(scope="module")
def stages(tmp_path_factory):
    """Folders as they are with the tables of four sites, after `kfed device` at each, and after three were aggregated.

    Each is made once; a test gets a copy.
    """
    root = tmp_path_factory.mktemp("sites")
    with pytest.MonkeyPatch.context() as patch:
        (root / "folder").mkdir()
        patch.chdir(root / "folder")
        write_sites(".", MEANS, ["person", "age", "height"], 2.0)
        Path("scale.json").write_text(json.dumps(SCALE))
        patch.chdir(shutil.copytree(root / "folder", root / "messages"))
        for site in SITES:
            run("device", f"{site}.csv", "-k", 2, "--id-column", "person", "--scale", "scale.json")
        patch.chdir(shutil.copytree(root / "messages", root / "clusters"))
        run("aggregate", "north.kfed", "south.kfed", "east.kfed", "-k", 4, "-o", "clusters.kfed")
    return root


def _copy(stages, stage, tmp_path, monkeypatch):
    shutil.copytree(stages / stage, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def folder(stages, tmp_path, monkeypatch):
    """A folder with the tables of four sites, each with two of four groups of people."""
    return _copy(stages, "folder", tmp_path, monkeypatch)


@pytest.fixture
def messages(stages, tmp_path, monkeypatch):
    """The folder after every site ran `kfed device`."""
    return _copy(stages, "messages", tmp_path, monkeypatch)


@pytest.fixture
def clusters(stages, tmp_path, monkeypatch):
    """The folder after three of the four sites were aggregated."""
    return _copy(stages, "clusters", tmp_path, monkeypatch)


def labels_in(text):
    header, *rows = csv.reader(text.splitlines())
    return header, [row[0] for row in rows], np.array([int(row[1]) for row in rows])


def all_files():
    return sorted(str(path) for path in Path().rglob("*"))


def damaged(kind):
    """Bytes that look more or less like a message."""
    sound = Path("north.kfed").read_bytes()
    if kind == "truncated":
        return sound[:-20]
    if kind == "empty":
        return b""
    if kind == "text":
        return b"dear colleague, here are our centers"
    if kind == "version":
        return sound.replace(b"kfed1:", b"kfed9:")
    if kind == "foreign":
        return files.encode({"weights": np.zeros(3)})
    if kind == "not finite":
        return sound[:-64] + struct.pack("<d", float("nan")) * 8
    header = json.dumps({"kfed1:x": {"dtype": "F64", "shape": [10**12, 5], "data_offsets": [0, 40 * 10**12]}})
    return struct.pack("<Q", len(header)) + header.encode()


DAMAGES = ["truncated", "empty", "text", "version", "foreign", "not finite", "huge shape"]


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
    assert (result.rule, result.first_device) == ("robust", "south")


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


# What stays and what leaves -------------------------------------------------------------------------------------


def test_the_file_to_keep_is_private_and_holds_no_row(messages):
    assert stat.S_IMODE(Path("north.local").stat().st_mode) == 0o600
    kept = Path("north.local").read_bytes()
    for value in read_table("north.csv", columns=["age", "height"]).values.ravel():
        assert struct.pack("<d", value) not in kept
        assert repr(float(value)).encode() not in kept


def test_the_message_names_no_row(messages):
    assert b"north-person-0" not in Path("north.kfed").read_bytes()
    assert b"north-person-0" in Path("north.local").read_bytes()


def test_inspect_says_what_leaves_and_what_does_not(clusters):
    text = run("inspect", "north.kfed")
    for words in ("2 centers of 2 numbers", "40 in all, 20 in the smallest", "age, height", "any row", "'north'"):
        assert words in text
    facts = json.loads(run("inspect", "north.kfed", "--centers", "--json"))
    assert facts["bytes"] == Path("north.kfed").stat().st_size
    assert facts["smallest_count"] == 20
    np.testing.assert_array_equal(facts["centers"], kfed.DeviceMessage.load("north.kfed").centers)
    assert "it stays there" in run("inspect", "north.local")
    assert "sees the centers of every device" in run("inspect", "clusters.kfed")
    run("assign", "west.kfed", "--clusters", "clusters.kfed", "-o", "west.identity")
    assert "the answer to device 'west'" in run("inspect", "west.identity", "--centers")


def test_inspect_shows_clusters_in_the_units_of_the_tables(clusters):
    facts = json.loads(run("inspect", "clusters.kfed", "--centers", "--scale", "scale.json", "--json"))
    assert sorted(np.round(facts["centers"], -1).tolist()) == MEANS.tolist()
    assert "add --centers" in run("inspect", "clusters.kfed", "--scale", "scale.json", code=1)
    Path("other.json").write_text('{"age": {"shift": 0, "scale": 1}}')
    err = run("inspect", "clusters.kfed", "--centers", "--scale", "other.json", code=1)
    assert err.startswith("kfed: other.json: ")


def test_inspect_warns_of_a_center_that_is_a_row(folder):
    kfed.DeviceMessage("site", [[1.0, 2.0]], [1]).save("site.kfed")
    assert "its center is that row" in run("inspect", "site.kfed")


def test_names_in_a_message_cannot_drive_the_terminal(folder):
    names = ("\x1b]0;owned\x07", "[bold]b[/bold]")
    kfed.DeviceMessage("[red]x[/red]", [[1.0, 2.0]], [9], feature_names=names).save("site.kfed")
    text = run("inspect", "site.kfed", "--centers")
    assert "\x1b" not in text
    assert "[bold]b[/bold]" in text
    assert "[red]x[/red]" in text


# Bad input ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("table", "words"),
    [
        (f"a,b\n1,{SECRET}\n2,inf\n", "column 'b' is NaN or infinite in line 3"),
        (f"a,b\n1,2\n1,about {SECRET}\n2,3\n", "column 'b' holds text in line 3"),
        (f"a,b\n1,2\n1,2,{SECRET}\n", "line 3 has 3"),
        (f"{SECRET},1\n1,2\n", "--no-header"),
        ("a,b\n", "at least one row"),
        ("", "at least one row"),
        (
            "a,note\n" + "".join(f"{i % 5},x{SECRET}{i % 60}\n" for i in range(200)),
            "column 'note' is text with 60 distinct values; a category has at most 50. Leave it out with --columns",
        ),
    ],
)
def test_a_bad_table_is_refused_without_showing_a_cell_or_writing_a_file(folder, table, words):
    Path("site.csv").write_text(table)
    before = all_files()
    err = run("device", "site.csv", "-k", 2, code=1)
    assert err.startswith("kfed: site.csv: ")
    assert words in err
    assert SECRET not in err
    assert err.count("\n") == 1
    assert all_files() == before


def test_a_missing_file_is_named(folder):
    assert "kfed: nowhere.csv: no such file" in run("device", "nowhere.csv", "-k", 2, code=1)
    assert "kfed: nowhere.kfed: no such file" in run("aggregate", "nowhere.kfed", "-k", 2, code=1)
    assert "kfed: nowhere.local: no such file" in run("label", "nowhere.local", "--clusters", "x", code=1)


def test_a_message_that_cannot_be_written_leaves_the_local_file_as_it_was(messages, monkeypatch):
    before, write = Path("north.local").read_bytes(), files.write

    def full_disk(path, payload, **options):
        if Path(path).suffix == ".kfed":
            raise OSError(errno.ENOSPC, "no space left", str(path))
        write(path, payload, **options)

    monkeypatch.setattr(files, "write", full_disk)
    options = ["-k", 3, "--id-column", "person", "--scale", "scale.json", "--force"]
    assert "north.kfed: no space left" in run("device", "north.csv", *options, code=1)
    assert Path("north.local").read_bytes() == before


def test_too_little_memory_is_said(folder, monkeypatch):
    def too_large(*_, **__):
        raise MemoryError

    monkeypatch.setattr("kfed.site.cluster.cluster_columns", too_large)
    assert "not enough memory" in run("device", "north.csv", "-k", 2, "--id-column", "person", code=1)
    assert not Path("north.kfed").exists()


def test_an_unsound_scale_is_named(folder):
    Path("bad.json").write_text('{"age": {"shift": 0, "scale": 0}}')
    options = ["-k", 2, "--id-column", "person", "--scale"]
    assert "kfed: bad.json: the scale for 'age'" in run("device", "north.csv", *options, "bad.json", code=1)
    Path("bad.json").write_text('{"age": {"shift": 0, "scale": 1}}')
    err = run("device", "north.csv", *options, "bad.json", code=1)
    assert err.startswith("kfed: bad.json: ")
    assert "no entry for 'height'" in err


def test_a_site_that_forgot_the_scale_is_named(messages):
    sites = [f"{site}.kfed" for site in SITES]
    with pytest.warns(kfed.AggregationWarning) as caught:
        kfed.aggregate([kfed.DeviceMessage.load(path) for path in sites[:3]], 4)
    assert not any("scale" in str(one.message) for one in caught)
    assert "(age, height)" in run("device", "west.csv", "-k", 2, "--id-column", "person", "--force")
    assert "'west' sent the units of its table" in run("aggregate", *sites, "-k", 4, code=1)
    run("device", "west.csv", "-k", 2, "--id-column", "person", "--as-is", "--force")
    with pytest.warns(kfed.AggregationWarning, match="all centers of 'west' lie more than 10 times as far out"):
        kfed.aggregate([kfed.DeviceMessage.load(path) for path in sites], 4)


def test_one_column_too_many_at_one_site_is_an_error_that_names_it(messages):
    text = Path("east.csv").read_text().splitlines()
    lines = [text[0] + ",weight", *(line + ",70" for line in text[1:])]
    Path("east.csv").write_text("\n".join(lines))
    for site in ("north", "east"):
        run("device", f"{site}.csv", "-k", 2, "--id-column", "person", "--force")
    err = run("aggregate", "north.kfed", "east.kfed", "-k", 2, code=1)
    assert "'east'" in err
    assert "'weight'" in err
    assert not Path("clusters.kfed").exists()


def test_feature_names_that_differ_are_an_error(messages):
    Path("east.csv").write_text(Path("east.csv").read_text().replace("height", "size"))
    for site in ("north", "east"):
        run("device", f"{site}.csv", "-k", 2, "--id-column", "person", "--force")
    err = run("aggregate", "north.kfed", "east.kfed", "-k", 2, code=1)
    assert "'height'" in err
    assert "'size'" in err


def test_more_clusters_than_centers_is_an_error(messages):
    assert "n_clusters must be at most" in run("aggregate", "north.kfed", "south.kfed", "-k", 5, code=1)
    assert not Path("clusters.kfed").exists()


def test_the_same_message_twice_counts_once(messages):
    Path("copy.kfed").write_bytes(Path("north.kfed").read_bytes())
    facts = json.loads(run("aggregate", "north.kfed", "copy.kfed", "south.kfed", "-k", 3, "--json"))
    assert facts["n_devices"] == 2
    assert facts["repeated"] == ["copy.kfed"]


@pytest.mark.parametrize("options", [[], ["--skip-bad"]])
def test_two_different_messages_of_one_device_are_an_error_that_names_both_files(messages, options):
    run("device", "south.csv", "-k", 2, "--id", "north", "--id-column", "person", "-o", "other.kfed")
    err = run("aggregate", "north.kfed", "other.kfed", "-k", 2, *options, code=1)
    assert "north.kfed and other.kfed are two different messages from device 'north'" in err


@pytest.mark.parametrize("kind", DAMAGES)
def test_a_damaged_file_is_named_and_the_others_can_be_used_without_it(messages, kind):
    Path("bad.kfed").write_bytes(damaged(kind))
    names = ["north.kfed", "bad.kfed", "south.kfed", "-k", 3]
    err = run("aggregate", *names, code=1)
    assert err.startswith("kfed: bad.kfed: ")
    assert not Path("clusters.kfed").exists()
    facts = json.loads(run("aggregate", *names, "--skip-bad", "--json"))
    assert [skipped["file"] for skipped in facts["skipped"]] == ["bad.kfed"]
    run("aggregate", "north.kfed", "south.kfed", "-k", 3, "-o", "sound.kfed")
    assert Path("sound.kfed").read_bytes() == Path("clusters.kfed").read_bytes()


def test_every_skipped_file_is_reported_on_stderr(messages):
    Path("bad.kfed").write_bytes(b"x")
    code, _, err = said("aggregate", "north.kfed", "bad.kfed", "gone.kfed", "-k", "2", "--skip-bad")
    assert code == 0
    assert "kfed: skipped: bad.kfed: " in err
    assert "kfed: skipped: gone.kfed: no such file" in err


def test_nothing_but_bad_files_is_an_error(messages):
    Path("bad.kfed").write_bytes(b"x")
    assert "at least one message" in run("aggregate", "bad.kfed", "-k", 2, "--skip-bad", code=1)


def test_an_earlier_output_among_the_messages_is_told_apart(clusters):
    err = run("aggregate", *sorted(map(str, Path().glob("*.kfed"))), "-k", 4, "-o", "new.kfed", code=1)
    assert "clusters.kfed: this is an aggregation; expected a message" in err


def test_files_of_the_wrong_kind_are_told_apart(clusters):
    err = run("label", "north.kfed", "--clusters", "clusters.kfed", code=1)
    assert "north.kfed: this is a message; expected a local file" in err
    err = run("label", "north.local", "--clusters", "south.kfed", code=1)
    assert "south.kfed: this is a message; expected an aggregation" in err
    err = run("aggregate", "north.local", "-k", 2, "-o", "new.kfed", code=1)
    assert "north.local: this is a local file; expected a message" in err
    assert "not a kfed file" in run("inspect", "north.csv", code=1)


def test_a_local_file_that_does_not_belong_to_the_message_sent_is_refused(clusters):
    run("device", "north.csv", "-k", 3, "--id-column", "person", "--scale", "scale.json", "--force")
    err = run("label", "north.local", "--clusters", "clusters.kfed", code=1)
    assert err.startswith("kfed: north.local: ")
    assert "another message" in err
    err = run("assign", "north.kfed", "--clusters", "clusters.kfed", code=1)
    assert "another message" in err


def test_the_answer_to_another_device_is_refused(clusters):
    run("assign", "west.kfed", "--clusters", "clusters.kfed", "-o", "west.identity")
    err = run("label", "north.local", "--clusters", "west.identity", code=1)
    assert "expected the identity of 'north'; got that of 'west'" in err


@pytest.mark.parametrize(
    "arguments",
    [
        ["device"],
        ["device", "north.csv", "-k", "0"],
        ["device", "north.csv", "-k", "two"],
        ["aggregate", "-k", "2"],
        ["aggregate", "north.kfed", "-k", "2", "--rule", "best"],
        ["label", "north.local"],
        ["nonsense"],
    ],
)
def test_wrong_usage_exits_with_two(folder, arguments):
    run(*arguments, code=2)


# Files are whole or not there -----------------------------------------------------------------------------------


@pytest.mark.parametrize("existing", ["north.kfed", "north.local"])
def test_device_overwrites_neither_of_its_files_without_force(folder, existing):
    Path(existing).write_text("precious")
    before = all_files()
    err = run("device", "north.csv", "-k", 2, "--id-column", "person", code=1)
    assert f"{existing} exists already" in err
    assert Path(existing).read_text() == "precious"
    assert all_files() == before
    run("device", "north.csv", "-k", 2, "--id-column", "person", "--force")
    assert kfed.DeviceMessage.load("north.kfed").device_id == "north"
    assert LocalFile.load("north.local").device_id == "north"


@pytest.mark.parametrize(
    "arguments",
    [
        ["aggregate", "north.kfed", "south.kfed", "-k", "2", "-o", "there"],
        ["aggregate", "north.kfed", "south.kfed", "-k", "2", "-o", "new.kfed", "--plot", "there.png"],
        ["aggregate", "north.kfed", "south.kfed", "-k", "2", "-o", "new.kfed", "--message", "there"],
        ["aggregate", "north.kfed", "south.kfed", "-k", "2", "-o", "new.kfed", "--identities", "answers"],
        ["label", "north.local", "--clusters", "clusters.kfed", "-o", "there"],
        ["assign", "west.kfed", "--clusters", "clusters.kfed", "-o", "there"],
    ],
)
def test_nothing_is_overwritten_without_force(clusters, arguments):
    Path("answers").mkdir()
    precious = [Path("there"), Path("there.png"), Path("answers/south.identity")]
    for path in precious:
        path.write_text("precious")
    before = all_files()
    assert "exists already" in run(*arguments, code=1)
    assert {path.read_text() for path in precious} == {"precious"}
    assert all_files() == before
    run(*arguments, "--force")
    assert sum(path.read_bytes() != b"precious" for path in precious) == 1


@pytest.mark.parametrize(
    "arguments",
    [
        ["device", "north.csv", "-k", "2", "--id-column", "person", "-o", "north.csv"],
        ["aggregate", "north.kfed", "south.kfed", "-k", "2", "-o", "south.kfed"],
        ["aggregate", "north.kfed", "south.kfed", "-k", "2", "-o", "new.kfed", "--message", "south.kfed"],
        ["label", "north.local", "--clusters", "clusters.kfed", "-o", "north.local"],
        ["assign", "west.kfed", "--clusters", "clusters.kfed", "-o", "clusters.kfed"],
    ],
)
def test_an_input_is_never_overwritten_even_with_force(clusters, arguments):
    before = {path: Path(path).read_bytes() for path in all_files()}
    assert "is an input of this command" in run(*arguments, "--force", code=1)
    assert {path: Path(path).read_bytes() for path in all_files()} == before


def test_a_folder_that_is_not_there_is_an_error_before_the_work(messages):
    for arguments in (
        ["device", "north.csv", "-k", 2, "-o", "nowhere/north.kfed"],
        ["aggregate", "north.kfed", "-k", 2, "-o", "nowhere/clusters.kfed"],
        ["aggregate", "north.kfed", "-k", 2, "--identities", "no/where"],
    ):
        assert "its folder must exist" in run(*arguments, code=1)
    assert not Path("clusters.kfed").exists()


def test_two_outputs_with_one_name_are_refused(messages):
    err = run("aggregate", "north.kfed", "-k", 2, "-o", "a.png", "--plot", "a.png", code=1)
    assert "a name of its own" in err


def test_when_the_message_cannot_be_written_no_file_is_left(folder, monkeypatch):
    write = files.write

    def full_disk(path, payload, **options):
        if str(path).endswith(".kfed"):
            raise OSError(28, "No space left on device", str(path))
        write(path, payload, **options)

    monkeypatch.setattr(files, "write", full_disk)
    before = all_files()
    err = run("device", "north.csv", "-k", 2, "--id-column", "person", code=1)
    assert "no space left on device" in err
    assert all_files() == before


def test_the_name_of_a_device_cannot_leave_the_folder_of_the_answers(folder):
    names = ["../../evil", "a/b", "..", "ü" * 200]
    for position, name in enumerate(names):
        kfed.DeviceMessage(name, [[float(position), 0.0]], [5]).save(f"{position}.kfed")
    run("aggregate", *[f"{i}.kfed" for i in range(4)], "-k", 2, "--identities", "answers")
    found = [kfed.Identity.load(path).device_id for path in Path("answers").iterdir()]
    assert sorted(found) == sorted(names)
    assert not list(folder.parent.glob("*.identity"))


# Degenerate but legal -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("rows", [["1,2"], ["1,2"] * 5, ["1,2", "3,4"], ["1,1"] * 3 + ["9,9"] * 3])
def test_a_small_or_flat_site_is_served_too(messages, rows):
    Path("tiny.csv").write_text("\n".join(["age,height", *rows]))
    run("device", "tiny.csv", "-k", 4, "--as-is")
    run("inspect", "tiny.kfed", "--centers")
    run("inspect", "tiny.local", "--centers")
    run("aggregate", "tiny.kfed", "north.kfed", "-k", 2, "--identities", "answers", "--plot", "p.png")
    labels = labels_in(run("label", "tiny.local", "--clusters", "clusters.kfed"))[2]
    assert len(labels) == len(rows)


@pytest.mark.parametrize("rows", [["1,2"], ["1,2"] * 5, ["1,2", "3,4"], ["1,1"] * 3 + ["9,9"] * 3, ["1,", ",2"] * 4])
def test_a_small_or_flat_table_is_served_too(folder, rows):
    Path("tiny.csv").write_text("\n".join(["age,height", *rows]))
    for site in ("tiny", "north"):
        run("device", f"{site}.csv", "-k", 4, "--columns", "age,height")
    run("inspect", "tiny.kfed", "--centers")
    run("inspect", "tiny.local", "--centers")
    run("aggregate", "tiny.kfed", "north.kfed", "-k", 2, "--identities", "answers", "--plot", "p.png")
    for clusters in ("clusters.kfed", "answers/tiny.identity"):
        assert len(labels_in(run("label", "tiny.local", "--clusters", clusters))[2]) == len(rows)


def test_one_device_and_one_cluster_will_do(messages):
    run("aggregate", "north.kfed", "-k", 1)
    labels = labels_in(run("label", "north.local", "--clusters", "clusters.kfed"))[2]
    assert set(labels.tolist()) == {0}


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
    monkeypatch.setattr("kfed.experiments.demo.run_demo", lambda seed: digits)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    code, out, err = said("demo", "--json")
    assert code == 0
    assert "pip install 'kfed[plots]'" in err
    facts = json.loads(out)
    assert facts["rounds"] == 1
    assert facts["all_messages_bytes"] < facts["raw_data_bytes"]
    assert facts["picture"] is None


def test_the_demo_prints_what_was_sent_and_draws_its_picture(folder, digits, monkeypatch):
    seeds = []
    monkeypatch.setattr("kfed.experiments.demo.run_demo", lambda seed: seeds.append(seed) or digits)
    Path("mine.png").write_text("precious")
    assert "exists already" in run("demo", "-o", "mine.png", code=1)
    assert Path("mine.png").read_text() == "precious"
    text = run("demo")
    for words in ("rounds", "bytes per device", "k-means cost", "ARI", "NMI", "accuracy", "kfed-demo.png"):
        assert words in text
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
        (["--refine", "south.csv", "--scale", "scale.json"], "must be those of 'north' that were clustered"),
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
