"""`kfed agree`: one schema from the summaries of all sites, whatever their files are called."""

import json
import shutil

import numpy as np
import pytest

from consoles import run


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Two sites, in folders of their own, whose files have the same name and whose levels differ in case."""
    monkeypatch.chdir(tmp_path)
    for site, mean, levels in (("n", 0, "mf"), ("s", 100, "MF")):
        ages = np.random.default_rng(mean).normal(mean, 1, 40).round(3).tolist()
        lines = ["age,sex", *(f"{age},{levels[i % 2]}" for i, age in enumerate(ages))]
        (tmp_path / site).mkdir()
        (tmp_path / site / "p.csv").write_text("\n".join(lines) + "\n")
        run("summarize", f"{site}/p.csv", "-o", f"{site}/p.summary")
    return tmp_path


def test_files_of_the_same_name_are_all_used(folder):
    said = run("agree", "n/p.summary", "s/p.summary")
    assert "2 sites" in said
    age = json.loads((folder / "schema.json").read_text())["columns"][0]
    assert age["shift"] == pytest.approx(50, abs=1)


def test_what_becomes_of_missing_cells_can_be_agreed_on(folder):
    run("agree", "n/p.summary", "s/p.summary", "--missing", "drop")
    assert json.loads((folder / "schema.json").read_text())["missing"] == "drop"
    run("device", "n/p.csv", "--schema", "schema.json", "--missing", "drop")


def test_a_summary_that_is_given_twice_is_refused(folder):
    shutil.copy("n/p.summary", "q.summary")
    assert "given twice" in run("agree", "n/p.summary", "n/../n/p.summary", code=1)
    assert not (folder / "schema.json").exists()
    run("agree", "n/p.summary", "q.summary")


def test_levels_that_differ_only_in_case_are_said_as_by_aggregate(folder):
    facts = json.loads(run("agree", "n/p.summary", "s/p.summary", "--json"))
    (text,) = [one["text"] for one in facts["warnings"] if one["code"] == "spelling"]
    assert "levels of column 'sex' differ only in case or spaces" in text
    assert "'M' at 's/p'" in text
