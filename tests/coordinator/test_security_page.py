"""The page about security names tests that exist."""

import re
from pathlib import Path

HERE = Path(__file__).parent
PAGE = HERE.parents[1] / "docs" / "security.md"


def rows():
    lines = [line for line in PAGE.read_text().splitlines() if line.startswith("|")]
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    return [row for row in cells if row[0] not in ("attack", "---")]


def test_every_attack_has_an_outcome_and_tests_that_exist():
    sources = "\n".join(path.read_text() for path in HERE.parent.rglob("test_*.py"))
    known = set(re.findall(r"^ *(?:async )?def (test_\w+)\(", sources, re.M))
    assert len(rows()) > 20
    for row in rows():
        assert len(row) == 3, row
        named = re.findall(r"`(test_\w+)`", row[2])
        assert named, row
        assert set(named) <= known, set(named) - known
