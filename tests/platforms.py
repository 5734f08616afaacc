"""What the tests of platforms share: the labels of the README's commands, and a row that must not leave its site."""

import base64
import contextlib
import csv
import re
import shutil
import struct
from pathlib import Path

from test_readme import ROOT, commands_of_the_walkthrough, run_in

HOSPITALS = ROOT / "examples" / "hospitals"
CANARY = {
    "patient": "CANARY-1",
    "age": "71.90625",
    "bmi": "33.28125",
    "systolic": "171.40625",
    "glucose": "201.71875",
    "ward": "aviary",
    "smoker": "yes",
    "admitted": "1999-03-04",
}
"""A patient like no other; its cells are exact in binary, so that they are found as numbers, too."""

UNLIKE = {name: cell for name, cell in CANARY.items() if name != "smoker"}


def labels_of_the_readme(folder: Path) -> Path:
    """Run the README's commands for a consortium, as far as they make labels; return where these are."""
    here = folder / "hospitals"
    shutil.copytree(HOSPITALS, here, ignore=shutil.ignore_patterns("*.kfed", "*.local", "*-labels.csv"))
    for command in commands_of_the_walkthrough("For a consortium, without a server"):
        if command[1] in ("device", "aggregate", "assign", "label"):
            run_in(here, command)
    return here


def table_with_a_canary(path: Path, hospital: str = "north") -> Path:
    """Write the table of a hospital with one more patient, who is the canary."""
    with (HOSPITALS / f"{hospital}.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows([*rows[:40], CANARY, *rows[40:]])
    return path


def traces_of_the_canary(said: object) -> set[str]:
    """The cells of the canary that are in what was said: as text, as numbers, or within base64."""
    payload = b"\0".join(_all_bytes(said))
    return {name for name, cell in UNLIKE.items() if any(form in payload for form in _forms(cell))}


def files_under(folder: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def _forms(cell: str) -> list[bytes]:
    forms = [cell.encode()]
    with contextlib.suppress(ValueError):
        forms += [struct.pack("<d", float(cell)), struct.pack("<f", float(cell))]
    if cell.count("-") == 2:
        forms += [struct.pack("<d", 10_654.0)]  # days since 1970
    return forms


def _all_bytes(said: object) -> list[bytes]:
    if isinstance(said, dict):
        return [part for pair in said.items() for one in pair for part in _all_bytes(one)]
    if isinstance(said, list | tuple | set):
        return [part for one in said for part in _all_bytes(one)]
    if isinstance(said, bytes):
        return [said]
    text = str(said)
    return [text.encode(), *_decoded(text)]


def _decoded(text: str) -> list[bytes]:
    """What runs of base64 in a text say."""
    parts = []
    for run in re.findall(r"[A-Za-z0-9+/]{40,}={0,2}", text):
        with contextlib.suppress(ValueError):
            parts.append(base64.b64decode(run, validate=True))
    return parts
