"""Columns that a user leaves out: the table is read as if they were not there, and refusals say how."""

import datetime
import json
from pathlib import Path

import numpy as np
import pyarrow as arrow
import pytest

import kfed
from consoles import run
from kfed.site import cluster_file, read_columns, read_table

WORDY = "age,dose,note\n" + "".join(f"{30 + i % 9},{i % 7},some words {i % 60}\n" for i in range(120))
PLAIN = "age,dose\n" + "".join(f"{30 + i % 9},{i % 7}\n" for i in range(120))


def test_a_table_without_a_column_is_the_table_that_never_had_it(write):
    wordy, plain = write(WORDY, "wordy.csv"), write(PLAIN, "plain.csv")
    for read in (read_columns, read_table):
        np.testing.assert_array_equal(read(wordy, exclude=["note"]).values, read(plain).values)
    one, other = cluster_file(wordy, 2, "a", exclude=["note"]), cluster_file(plain, 2, "a")
    assert one.to_message() == other.to_message()
    np.testing.assert_array_equal(one.read_rows(wordy).values, other.read_rows(plain).values)


def test_the_refusal_of_text_says_how_to_leave_it_out(write):
    with pytest.raises(kfed.InvalidInputError, match="Leave it out with --exclude note"):
        read_columns(write(WORDY))
    with pytest.raises(kfed.InvalidInputError, match="Leave out text with --exclude note"):
        read_table(write(WORDY))
    with pytest.raises(kfed.InvalidInputError, match="--exclude 'a note'"):
        read_columns(write(WORDY.replace("note", "a note")))


def test_the_refusal_of_a_type_says_how_to_leave_it_out():
    table = arrow.table({"age": [1.0, 2.0], "span": [datetime.timedelta(hours=2), datetime.timedelta(hours=3)]})
    with pytest.raises(kfed.InvalidInputError, match="leave it out with --exclude span"):
        read_columns(table)
    assert read_columns(table, exclude=["span"]).names == ("age",)


@pytest.mark.parametrize(
    ("exclude", "options", "words"),
    [
        (["nose"], {}, "there is no column 'nose'"),
        (["age"], {"columns": ["age", "dose"]}, r"'age' cannot be left out \(--exclude\), since --columns or the"),
        (["age", "dose", "note"], {}, "at least one column to cluster"),
    ],
)
def test_what_cannot_be_left_out_is_said(write, exclude, options, words):
    with pytest.raises(kfed.InvalidInputError, match=words):
        read_columns(write(WORDY), exclude=exclude, **options)


def test_the_commands_of_a_site_leave_out_columns(write, monkeypatch):
    monkeypatch.chdir(write(WORDY, "site.csv").parent)
    run("device", "site.csv", "--exclude", "note")
    assert kfed.DeviceMessage.load("site.kfed").schema.names == ("age", "dose")
    run("summarize", "site.csv", "--exclude", "note,dose")
    assert [one["name"] for one in json.loads(Path("site.summary").read_text())["columns"]] == ["age"]
    assert "--exclude" in run("join", "--help")
