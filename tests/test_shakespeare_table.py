"""The table of Shakespeare's lines: made from the plays of its repository, it is the published file, or none."""

import csv
import gzip
import hashlib
import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from kfed.datasets import locate, shakespeare_table, sources
from kfed.datasets.shakespeare import read_roles
from kfed.datasets.shakespeare_table import COLUMNS, PLAYS, gzipped, main, to_csv

TABLE = "shakespeare_lines.csv.gz"
ROWS = (
    (1, "Henry IV", "", "", "", "ACT I"),
    (2, "Henry IV", 1, "1.1.1", "KING", "So"),
    (3, "macbeth", "1", "1.1.1", "ALL", 'a, "b"'),
)
LINES = [dict(zip(COLUMNS.values(), row, strict=True)) for row in ROWS]


def write_play(folder, name, lines, form="var {name} = {array}"):
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{name}.js").write_text(form.format(name=name, array=json.dumps(lines, indent=2)))


@pytest.fixture
def repository(tmp_path, monkeypatch):
    """A repository of two small plays, whose table is taken for the published one."""
    monkeypatch.setenv("KFED_DATA", str(tmp_path / "data"))
    monkeypatch.setattr(shakespeare_table, "PLAYS", ("Macbeth", "HenryIV"))
    text = to_csv(LINES)
    monkeypatch.setattr(shakespeare_table, "TEXT_SHA256", hashlib.sha256(text).hexdigest())
    (published,) = sources.SOURCES["shakespeare-lines"]
    known = replace(published, sha256=hashlib.sha256(gzipped(text)).hexdigest())
    monkeypatch.setitem(sources.SOURCES, "shakespeare-lines", (known,))
    folder = tmp_path / "Shakespeare"
    write_play(folder, "Macbeth", LINES[2:])
    write_play(folder / "not-needed", "HenryIV", LINES[:2])
    (folder / "frontEnd.js").write_text("$(document).ready(function(){})")
    return folder


def test_the_table_of_the_plays_is_written_where_it_is_looked_for(repository, capsys):
    assert main([str(repository)]) == 0
    path = locate("shakespeare-lines")[TABLE]
    assert capsys.readouterr().out == f"wrote {path}\n"
    assert list(read_roles(path).items()) == [(("Henry IV", "KING"), "So"), (("macbeth", "ALL"), 'a, "b"')]
    assert gzip.decompress(path.read_bytes()).decode().splitlines()[1:] == [
        "1,Henry IV,,,,ACT I",
        "2,Henry IV,1,1.1.1,KING,So",
        '3,macbeth,1,1.1.1,ALL,"a, ""b"""',
    ]


def test_the_folder_of_data_sets_can_be_named(repository, tmp_path):
    assert main([str(repository), "-o", str(tmp_path / "mine")]) == 0
    assert (tmp_path / "mine" / "shakespeare-lines" / TABLE).is_file()
    assert not (tmp_path / "data").exists()


@pytest.mark.parametrize("form", ["{array}", "var {name} = {array};\n", "\ufeffvar {name}={array}\n\n"])
def test_an_array_may_be_assigned_to_a_name_or_not(repository, form):
    write_play(repository, "Macbeth", LINES[2:], form)
    assert main([str(repository)]) == 0


def test_of_two_files_of_a_play_the_one_nearer_to_the_top_counts(repository):
    write_play(repository / "a-copy", "Macbeth", LINES[:1])
    assert main([str(repository)]) == 0


def broken(folder, name, content):
    (folder / f"{name}.js").write_bytes(content)


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda folder: (folder / "Macbeth.js").unlink(), "has no Macbeth.js; name the copy"),
        (lambda folder: broken(folder, "Macbeth", b"var Macbeth = [{"), "Macbeth.js is not a JSON array"),
        (lambda folder: broken(folder, "Macbeth", b"\xff"), "Macbeth.js is not a JSON array"),
        (lambda folder: broken(folder, "Macbeth", b""), "Macbeth.js is not a JSON array"),
        (lambda folder: broken(folder, "Macbeth", b"[] var Rest = 1"), "Macbeth.js must be one JSON array of objects"),
        (lambda folder: broken(folder, "Macbeth", b"{}"), "Macbeth.js must be one JSON array of objects"),
        (lambda folder: write_play(folder, "Macbeth", [1]), "with line_id, play_name, speech_number"),
        (lambda folder: write_play(folder, "Macbeth", [{"line_id": 3}]), "with line_id, play_name, speech_number"),
        (lambda folder: write_play(folder, "Macbeth", [LINES[2] | {"line_id": "3"}]), "with line_id, play_name"),
        (lambda folder: write_play(folder, "Macbeth", [LINES[2] | {"line_id": 6}]), "line_id 3 to 5 are missing"),
        (lambda folder: write_play(folder, "Macbeth", [LINES[2] | {"line_id": 2}]), "line_id 2 is there twice"),
        (
            lambda folder: write_play(folder, "Macbeth", [LINES[2] | {"line_id": 0}]),
            "line_id 0 is there twice, or below",
        ),
        (lambda folder: write_play(folder, "Macbeth", [LINES[2] | {"text_entry": "b"}]), "is not the published one"),
    ],
)
def test_plays_that_are_not_those_of_the_repository_give_an_error_and_no_file(repository, capsys, spoil, message):
    spoil(repository)
    assert main([str(repository)]) == 1
    said = capsys.readouterr()
    assert said.err.startswith("error: ")
    assert message in said.err
    assert said.out == ""
    assert not Path(os.environ["KFED_DATA"]).exists()


def test_without_the_folder_there_is_an_error(repository, capsys):
    assert main([str(repository / "nowhere")]) == 1
    assert "nowhere: no such folder; name the copy of the repository" in capsys.readouterr().err


def test_a_folder_that_cannot_be_written_to_is_an_error(repository, capsys):
    Path(os.environ["KFED_DATA"]).write_text("a file")
    assert main([str(repository)]) == 1
    assert capsys.readouterr().err.startswith(f"error: {os.environ['KFED_DATA']}")


def test_another_way_of_packing_is_told_apart_from_another_text(repository, capsys, monkeypatch):
    monkeypatch.setattr(shakespeare_table, "gzipped", lambda text: gzip.compress(text, 1))
    assert main([str(repository)]) == 1
    assert "the text is the published one, but the zlib of this Python" in capsys.readouterr().err
    assert not Path(os.environ["KFED_DATA"]).exists()


def test_a_table_that_is_there_stays_where_no_new_one_can_be_made(repository):
    assert main([str(repository)]) == 0
    before = locate("shakespeare-lines")[TABLE].read_bytes()
    broken(repository, "Macbeth", b"[")
    assert main([str(repository)]) == 1
    assert locate("shakespeare-lines")[TABLE].read_bytes() == before


@pytest.mark.slow
def test_it_is_a_command_with_help_that_names_the_commit():
    command = [sys.executable, "-m", "kfed.datasets.shakespeare_table"]
    asked = subprocess.run([*command, "--help"], capture_output=True, text=True, check=False)
    assert asked.returncode == 0
    assert shakespeare_table.COMMIT in asked.stdout
    assert subprocess.run(command, capture_output=True, text=True, check=False).returncode == 2


@pytest.mark.slow
@pytest.mark.skipif(not sources.at_hand("shakespeare-lines"), reason="the table of Shakespeare's lines is not at hand")
def test_the_published_table_is_made_again_from_its_plays_byte_for_byte(tmp_path):
    published = locate("shakespeare-lines")[TABLE].read_bytes()
    plays = {}
    for row in csv.DictReader(gzip.decompress(published).decode().splitlines()):
        line = {name: row[column] for column, name in COLUMNS.items()}
        number = line["speech_number"]
        line |= {"line_id": int(line["line_id"]), "speech_number": int(number) if number else "", "type": "line"}
        plays.setdefault(line["play_name"], []).append(line)
    for name, lines in zip(PLAYS, plays.values(), strict=True):
        write_play(tmp_path / "Shakespeare", name, lines)
    path = shakespeare_table.write_table(tmp_path / "Shakespeare", tmp_path / "data")
    assert path.read_bytes() == published
