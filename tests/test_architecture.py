"""The page on the architecture is true: its picture is that of the contract, and its files exist."""

import re
import runpy
import sys
from pathlib import Path

import pytest

from kfed.cli import app

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
FILE = re.compile(r"`([\w./]+\.(?:py|md|toml))`")


def section(title):
    return PAGE.partition(f"\n## {title}")[2].partition("\n## ")[0]


def test_the_picture_is_drawn_from_the_contract():
    script = runpy.run_path(str(ROOT / "docs" / "images" / "architecture.py"))
    assert script["PICTURE"].read_text(encoding="utf-8") == script["draw"](), "run python docs/images/architecture.py"


def test_every_file_of_the_page_exists():
    missing = {
        name for name in FILE.findall(PAGE) if not any((up / name).is_file() for up in (ROOT / "src/kfed", ROOT))
    }
    assert missing == set()


@pytest.mark.parametrize(("way", "at_most"), [("The way of a row", 18), ("The way of a message", 14)])
def test_the_ways_are_short(way, at_most):
    walk = section(way).partition("\nA table whose numbers")[0]
    assert 8 <= len(set(FILE.findall(walk))) <= at_most


def test_ten_places_for_changes_are_named():
    rows = [line for line in section("Where do I put").splitlines() if line.startswith("| a")]
    assert len(rows) == 1 + 10


def test_a_row_takes_the_way_that_the_page_describes(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rows = "".join(f"{i % 2 * 50 + i % 7},{i % 5},{'ab'[i % 2]}\n" for i in range(60))
    (tmp_path / "site7.csv").write_text(f"age,dose,group\n{rows}")
    walked = set()

    def note_file(frame, event, _):
        if event == "call":
            walked.add(frame.f_code.co_filename)

    sys.setprofile(note_file)
    try:
        for command in (
            "device site7.csv -k 2",
            "aggregate site7.kfed -k 2",
            "label site7.local --clusters clusters.kfed",
        ):
            app(command.split(), standalone_mode=False)
    finally:
        sys.setprofile(None)
    walk = section("The way of a row").partition("\nA table whose numbers")[0]
    assert {name for name in FILE.findall(walk) if str(ROOT / "src/kfed" / name) not in walked} == set()
