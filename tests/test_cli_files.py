"""Commands and their files: what leaves a site and what stays, and files that are whole or not there."""

import gzip
import json
import stat
import struct
from pathlib import Path

import numpy as np
import pytest

import kfed
from consoles import run, said
from kfed._base import files
from kfed.site import LocalFile, read_table
from three_sites import (
    MEANS,
    all_files,
    clusters,  # noqa: F401
    folder,  # noqa: F401
    messages,  # noqa: F401
    stages,  # noqa: F401
)

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


# Files that a command made before --------------------------------------------------------------------------------


def test_labels_of_a_summary_are_the_same_whatever_was_written_beside_its_table(folder):
    """Neither labels under a longer name nor under that of the table are taken for the table."""
    assert run("device", "north.csv", "--id-column", "person")
    run("aggregate", "north.kfed", "-k", 3)
    label = ["label", "north.local", "--clusters", "clusters.kfed"]
    code, by_row, err = said(*label)
    assert (code, err) == (0, "")
    run(*label, "-o", "north.lab.csv")
    run(*label, "-o", "north.tsv")
    Path("north.csv.gz").write_bytes(gzip.compress(Path("north.csv").read_bytes()))
    assert said(*label) == (0, by_row, "")
    Path("north.csv").unlink()
    assert said(*label) == (0, by_row, "")
    Path("north.csv.gz").unlink()
    assert "north.tsv was not used to label each row" in said(*label)[2]


def test_labels_by_group_are_a_warning_that_says_why_and_names_the_option(folder):
    run("device", "north.csv", "--id-column", "person")
    run("aggregate", "north.kfed", "-k", 3)
    label = ["label", "north.local", "--clusters", "clusters.kfed"]
    by_row = run(*label)
    Path("north.csv").rename("moved.csv")
    assert said(*label, "--refine", "moved.csv") == (0, by_row, "")
    err = said(*label)[2]
    assert "warning: no table lies beside the local file of 'north' under the same name" in err
    (warning,) = json.loads(run(*label, "--json"))["warnings"]
    assert warning["code"] == "by group"
    assert "some may get another label than by their own cells" in warning["text"]
    assert "--refine TABLE" in warning["text"]
    Path("north.csv").write_text("a,b\n1,2\n")
    (warning,) = json.loads(run(*label, "-o", "labels.csv", "--json"))["warnings"]
    assert (warning["code"], "was not used to label each row" in warning["text"]) == ("by group", True)


def test_of_a_site_that_sent_no_center_one_label_for_all_rows_is_called_wrong(folder):
    lines = Path("north.csv").read_text().splitlines()
    Path("tiny.csv").write_text("\n".join(lines[:11]) + "\n")
    for name in ("north", "tiny"):
        run("device", f"{name}.csv", "--id-column", "person")
    run("aggregate", "north.kfed", "-k", 3)
    Path("tiny.csv").unlink()
    assert "one label for all of them is likely wrong" in said("label", "tiny.local", "--clusters", "clusters.kfed")[2]


def test_rows_of_known_clusters_are_labelled_without_a_word_of_their_table(folder):
    run("device", "north.csv", "-k", 2, "--id-column", "person")
    run("aggregate", "north.kfed", "-k", 2)
    Path("north.csv").unlink()
    assert json.loads(run("label", "north.local", "--clusters", "clusters.kfed", "--json"))["warnings"] == []
