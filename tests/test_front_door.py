"""What a newcomer meets first: help, completion, versions that agree, a reference of every public name."""

from __future__ import annotations

import importlib
import inspect
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import kfed
from consoles import run
from kfed.cli import PANELS, app

ROOT = Path(__file__).parent.parent
REFERENCE = (ROOT / "docs" / "reference-api.md").read_text(encoding="utf-8")
ROOMS = ("kfed", "kfed.federated", "kfed.datasets", "kfed.baselines", "kfed.adapters", "kfed.simulate", "kfed.results")


def test_help_names_every_command_under_those_who_use_it():
    said = run("--help")
    places = [said.index(panel) for panel in PANELS]
    assert places == sorted(places)
    for panel, commands in PANELS.items():
        part = said[said.index(panel) :].split("╰")[0]
        for command in commands:
            assert re.search(rf"│ {command} ", part), (panel, command)


def test_the_first_example_of_the_help_needs_no_number():
    example = run("--help").split("A consortium in three commands")[1]
    assert "kfed device site7.csv" in example
    assert " -k " not in example


COMPLETION = {
    "COMP_WORDS": "kfed agg",
    "COMP_CWORD": "1",
    "_TYPER_COMPLETE_ARGS": "kfed agg",
    "_TYPER_COMPLETE_FISH_ACTION": "get-args",
}


def test_bash_completes_commands():
    answer = subprocess.run(
        [sys.executable, "-c", "from kfed.cli import app; app(prog_name='kfed')"],
        env={**COMPLETION, "_KFED_COMPLETE": "complete_bash", "PYTHONPATH": str(ROOT / "src"), "PATH": ""},
        capture_output=True,
        text=True,
        check=False,
    )
    assert "aggregate" in answer.stdout, answer.stderr


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_other_shells_complete_commands(shell, monkeypatch, capsys):
    for name, value in {**COMPLETION, "_KFED_COMPLETE": f"complete_{shell}"}.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(SystemExit):
        app(prog_name="kfed")
    assert "aggregate" in capsys.readouterr().out


def test_every_place_states_the_same_version():
    citation = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    changes = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    assert f"\nversion: {kfed.__version__}\n" in citation
    newest = re.search(r"^## \[(\d[^\]]*)\]", changes, flags=re.MULTILINE)
    assert newest is not None
    assert newest[1] == kfed.__version__


def public_names(room):
    """The functions and classes of a room that are not errors or warnings, which `automodule` lists."""
    module = importlib.import_module(room)
    for name in getattr(module, "__all__", None) or [own for own in vars(module) if not own.startswith("_")]:
        value = getattr(module, name)
        is_own = inspect.isfunction(value) or (inspect.isclass(value) and not issubclass(value, Exception))
        if is_own and (hasattr(module, "__all__") or value.__module__ == room):
            yield name, value


@pytest.mark.parametrize("room", ROOMS)
def test_the_reference_has_every_public_name(room):
    listed = re.findall(r"^   (kfed[\w.]*)\.(\w+)$", REFERENCE, flags=re.MULTILINE)
    found = [getattr(importlib.import_module(where), name) for where, name in listed]
    assert [name for name, value in public_names(room) if not any(value is one for one in found)] == []


@pytest.mark.parametrize("room", [*ROOMS, "kfed.metrics"])
def test_every_public_function_and_class_has_an_example(room):
    without = [name for name, value in public_names(room) if ">>>" not in (inspect.getdoc(value) or "")]
    assert without == []


def test_flower_is_tested_at_both_ends_of_the_range_that_pyproject_allows():
    (allowed,) = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"][
        "optional-dependencies"
    ]["flower"]
    lowest, above = re.fullmatch(r"flwr>=(\S+),<(\S+)", allowed).groups()
    (tried,) = re.findall(r"^FLOWER_VERSIONS := (.+)$", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
    first, last = tried.split()
    assert first.startswith(f"{lowest}.")
    assert int(last.split(".")[1]) + 1 == int(above.split(".")[1])


def test_the_lowest_versions_are_those_that_pyproject_allows():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    allowed = [
        *project["dependencies"],
        *(need for extra in project["optional-dependencies"].values() for need in extra),
    ]
    floors = {
        re.split(r"[\[>]", need)[0]: need.split(">=")[1].split(",")[0].split(";")[0] for need in allowed if ">=" in need
    }
    lines = (ROOT / "constraints-lowest.txt").read_text(encoding="utf-8").splitlines()
    for name, version in (line.split("==") for line in lines if not line.startswith("#")):
        assert version.startswith(floors[name]), name
