"""The page on the architecture is true, as are its picture and its files; tests use rooms by their doors."""

import ast
import runpy

import pytest

from architecture_page import FILE, HELPERS, HOUSE, MESSAGE, MESSAGE_HELPERS, MORE, PAGE, ROOT, ROW, followed, section
from kfed.cli import app

ROOMS = [path.parent.relative_to(ROOT / "src").as_posix() for path in ROOT.glob("src/kfed/*/**/__init__.py")]


def test_the_picture_is_drawn_from_the_contract():
    script = runpy.run_path(str(ROOT / "docs" / "images" / "architecture.py"))
    assert script["PICTURE"].read_text(encoding="utf-8") == script["draw"](), "run python docs/images/architecture.py"


def test_every_file_of_the_page_exists():
    missing = {name for name in FILE.findall(PAGE) if not any((up / name).is_file() for up in (HOUSE, ROOT))}
    assert missing == set()


def test_the_ways_are_as_short_as_the_page_says():
    assert (len(ROW), len(MORE), len(MESSAGE)) == (18, 7, 14)
    assert "Eighteen files" in PAGE
    assert "Seven files more" in PAGE
    assert "Fourteen files" in PAGE


def test_no_file_decides_and_is_a_helper():
    assert set() == (ROW | MORE) & HELPERS
    assert set() == MESSAGE & MESSAGE_HELPERS


def test_eleven_places_for_changes_are_named():
    rows = [line for line in section("Where do I put").splitlines() if line.startswith("| ")]
    assert len(rows) == 1 + 11


def walked(monkeypatch, folder, number):
    """The files of kfed in which a function is called, from tables to labels of rows; one table has empty cells."""
    monkeypatch.chdir(folder)
    rows = [f"{i % 2 * 50 + i % 7},{i % 5},{'ab'[i % 2]}\n" for i in range(60)]
    (folder / "site7.csv").write_text(f"age,dose,group\n{''.join(rows)}")
    turned = "".join(_turned(row, is_without_dose=not i % 9) for i, row in enumerate(rows))
    (folder / "site8.csv").write_text(f"group,age,dose\n{turned}")
    with followed() as found:
        for command in (
            f"device site7.csv {number}",
            f"device site8.csv {number}",
            f"aggregate site7.kfed site8.kfed {number}",
            "label site7.local --clusters clusters.kfed",
            "label site8.local --clusters clusters.kfed",
        ):
            app(command.split(), standalone_mode=False)
    return found


def _turned(row, is_without_dose):
    age, dose, group = row.strip().split(",")
    return f"{group},{age},{'' if is_without_dose else dose}\n"


@pytest.mark.parametrize(("number", "way"), [("-k 2", ROW), ("", ROW | MORE | HELPERS)])
def test_a_row_takes_the_way_that_the_page_describes_and_no_other_and_without_a_number_meets_every_helper(
    tmp_path, monkeypatch, number, way
):
    found = walked(monkeypatch, tmp_path, number)
    assert way - found == set()
    rooms = ("site/", "device/", "server/", "wire/", "theory/", "coordinator/", "cli/", "_base/")
    assert {name for name in found if name.startswith(rooms) and name not in way | HELPERS} == set()


def imports_from(path):
    """Pairs of a module and a name that a file imports from it."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    nodes = [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) and node.module]
    return {(node.module, alias.name) for node in nodes for alias in node.names}


def exported_by(room):
    """The names that the `__init__` of a room imports from its files."""
    return {name for module, name in imports_from(ROOT / "src" / room / "__init__.py") if module.startswith("kfed.")}


def test_tests_import_from_inside_a_room_only_what_the_room_does_not_export():
    exported = {room: exported_by(room) for room in ROOMS}
    found = {
        (path.relative_to(ROOT).as_posix(), module, name)
        for path in (ROOT / "tests").rglob("*.py")
        for module, name in imports_from(path)
        for room in ROOMS
        if module.replace(".", "/").startswith(f"{room}/") and name in exported[room]
    }
    assert found == set()
