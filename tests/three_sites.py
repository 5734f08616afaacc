"""Three sites with a table each, and what the commands have made of them up to a stage."""

import csv
import json
import shutil
import struct
from pathlib import Path

import numpy as np
import pytest

from consoles import SITES, run, write_sites
from kfed._base import files

SECRET = "8675309.25"
"""A value that no output may show."""


MEANS = np.array([[30.0, 150.0], [30.0, 190.0], [70.0, 150.0], [70.0, 190.0]])


SCALE = {"age": {"shift": 50, "scale": 20}, "height": {"shift": 170, "scale": 20}}


@pytest.fixture(scope="session")
def stages(tmp_path_factory):
    """Folders as they are with the tables of four sites, after `kfed device` at each, and after three were aggregated.

    Each is made once; a test gets a copy.
    """
    root = tmp_path_factory.mktemp("sites")
    with pytest.MonkeyPatch.context() as patch:
        (root / "folder").mkdir()
        patch.chdir(root / "folder")
        write_sites(".", MEANS, ["person", "age", "height"], 2.0)
        Path("scale.json").write_text(json.dumps(SCALE))
        patch.chdir(shutil.copytree(root / "folder", root / "messages"))
        for site in SITES:
            run("device", f"{site}.csv", "-k", 2, "--id-column", "person", "--scale", "scale.json")
        patch.chdir(shutil.copytree(root / "messages", root / "clusters"))
        run("aggregate", "north.kfed", "south.kfed", "east.kfed", "-k", 4, "-o", "clusters.kfed")
    return root


def copied(folder, tmp_path, monkeypatch):
    """A copy of a folder, which is the working directory from now on."""
    shutil.copytree(folder, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def folder(stages, tmp_path, monkeypatch):
    """A folder with the tables of four sites, each with two of four groups of people."""
    return copied(stages / "folder", tmp_path, monkeypatch)


@pytest.fixture
def messages(stages, tmp_path, monkeypatch):
    """The folder after every site ran `kfed device`."""
    return copied(stages / "messages", tmp_path, monkeypatch)


@pytest.fixture
def clusters(stages, tmp_path, monkeypatch):
    """The folder after three of the four sites were aggregated."""
    return copied(stages / "clusters", tmp_path, monkeypatch)


def labels_in(text):
    header, *rows = csv.reader(text.splitlines())
    return header, [row[0] for row in rows], np.array([int(row[1]) for row in rows])


def all_files():
    return sorted(str(path) for path in Path().rglob("*"))


def damaged(kind):
    """Bytes that look more or less like a message."""
    sound = Path("north.kfed").read_bytes()
    if kind == "truncated":
        return sound[:-20]
    if kind == "empty":
        return b""
    if kind == "text":
        return b"dear colleague, here are our centers"
    if kind == "version":
        return sound.replace(b"kfed1:", b"kfed9:")
    if kind == "foreign":
        return files.encode({"weights": np.zeros(3)})
    if kind == "not finite":
        return sound[:-64] + struct.pack("<d", float("nan")) * 8
    header = json.dumps({"kfed1:x": {"dtype": "F64", "shape": [10**12, 5], "data_offsets": [0, 40 * 10**12]}})
    return struct.pack("<Q", len(header)) + header.encode()


DAMAGES = ["truncated", "empty", "text", "version", "foreign", "not finite", "huge shape"]
