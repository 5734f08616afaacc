"""Commands and bad input: what is refused, by name and without showing a cell, and what is odd but legal."""

import errno
import json
from pathlib import Path

import pytest

import kfed
from consoles import SITES, run, said
from kfed._base import files
from three_sites import (
    DAMAGES,
    SECRET,
    all_files,
    clusters,  # noqa: F401
    damaged,
    folder,  # noqa: F401
    labels_in,
    messages,  # noqa: F401
    stages,  # noqa: F401
)

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
            "'note' is text with 60 distinct values; a category has at most 50. Leave it out with --exclude note",
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

    monkeypatch.setattr("kfed.site.clustered.cluster_columns", too_large)
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
    assert "'west' sent columns in their units" in run("aggregate", *sites, "-k", 4, code=1)
    run("device", "west.csv", "-k", 2, "--id-column", "person", "--as-is", "--force")
    with pytest.warns(kfed.AggregationWarning, match="all centers of 'west' are more than 10 times as far"):
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


def test_earlier_outputs_among_the_messages_are_left_out_and_named(clusters):
    """`kfed aggregate *.kfed` works again after it wrote clusters.kfed, and `kfed export` model.kfed."""
    run("export", "clusters.kfed")
    names = sorted(map(str, Path().glob("*.kfed")))
    assert {"clusters.kfed", "model.kfed"} < set(names)
    code, out, err = said("aggregate", *names, "-k", 4, "-o", "new.kfed", "--json")
    assert code == 0
    assert [skipped["file"] for skipped in json.loads(out)["skipped"]] == ["clusters.kfed", "model.kfed"]
    assert "kfed: skipped: clusters.kfed: this is an aggregation, not a message\n" in err
    assert "kfed: skipped: model.kfed: this is a model, not a message\n" in err
    assert run("aggregate", *names, "-k", "2-4")
    assert run("aggregate", *names, "-k", 4, "--force")
    assert Path("new.kfed").read_bytes() == Path("clusters.kfed").read_bytes()
    err = run("aggregate", "model.kfed", "clusters.kfed", "-k", 4, "-o", "other.kfed", code=1)
    assert "model.kfed: this is a model; expected a message" in err
    Path("half.kfed").write_bytes(Path("north.kfed").read_bytes()[:99])
    err = run("aggregate", "half.kfed", "north.kfed", "-o", "other.kfed", code=1)
    assert "not a complete one; expected a message (from `kfed device`)\n" in err


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
    assert "a different message" in err
    err = run("assign", "north.kfed", "--clusters", "clusters.kfed", code=1)
    assert "a different message" in err


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
    for answer in ("clusters.kfed", "answers/tiny.identity"):
        assert len(labels_in(run("label", "tiny.local", "--clusters", answer))[2]) == len(rows)


def test_one_device_and_one_cluster_will_do(messages):
    run("aggregate", "north.kfed", "-k", 1)
    labels = labels_in(run("label", "north.local", "--clusters", "clusters.kfed"))[2]
    assert set(labels.tolist()) == {0}
