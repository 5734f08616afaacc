"""The page on the architecture is true: its picture is that of the contract, and its files exist."""

import re
import runpy
from pathlib import Path

import pytest

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


@pytest.mark.parametrize(("way", "at_most"), [("The way of a row", 20), ("The way of a message", 14)])
def test_the_ways_are_short(way, at_most):
    assert 8 <= len(set(FILE.findall(section(way)))) <= at_most


def test_ten_places_for_changes_are_named():
    rows = [line for line in section("Where do I put").splitlines() if line.startswith("| a")]
    assert len(rows) == 1 + 10
