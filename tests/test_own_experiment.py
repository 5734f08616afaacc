"""The guide for researchers is true: its example runs as an experiment, with claims, store, picture and report."""

import json
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

import kfed
from kfed.cli import app
from kfed.experiments import get, load_experiment

EXAMPLE = Path(__file__).parents[1] / "examples" / "own-experiment" / "my_experiment.py"


@pytest.fixture(autouse=True)
def _imports_as_before(monkeypatch):
    monkeypatch.setattr(sys, "path", list(sys.path))
    known = set(sys.modules)
    yield
    for name in set(sys.modules) & {"my_experiment", "mine"} - known:
        del sys.modules[name]


def reproduce(*arguments):
    return CliRunner().invoke(app, ["reproduce", *map(str, arguments)], catch_exceptions=False)


@pytest.mark.slow
def test_the_example_runs_as_an_experiment_with_everything_that_one_has(tmp_path):
    done = reproduce(EXAMPLE, "--quick", "--report", "--csv", "-o", tmp_path)
    assert done.exit_code == 0, done.output
    content = json.loads((tmp_path / "my-experiment.json").read_text())
    assert [finding["verdict"] for finding in content["findings"]] == ["reproduced"]
    assert len((tmp_path / "my-experiment.csv").read_text().splitlines()) == 1 + 6
    assert (tmp_path / "my-experiment.png").read_bytes().startswith(b"\x89PNG")
    assert "Medians of device centers" in (tmp_path / "report.html").read_text()
    assert "6 runs (6 found)" in reproduce(EXAMPLE, "--quick", "-o", tmp_path).output


def test_the_file_may_import_its_neighbours_and_be_loaded_again(write):
    write("CLAIM = 'two'", "neighbour_of_mine.py")
    source = EXAMPLE.read_text().replace('Medians of device centers"', 'Mine"')
    path = write(f"{source}\nimport neighbour_of_mine\n", "mine.py")
    assert load_experiment(path).title == get(str(path)).title == "Mine"


@pytest.mark.parametrize(
    ("name", "source", "match"),
    [
        ("mine.py", "x = 1", "must define EXPERIMENT, a kfed.experiments.Experiment; got nothing of that name"),
        ("mine.py", "EXPERIMENT = 3", "got a int"),
        ("json.py", "EXPERIMENT = 3", "a module 'json' is imported already; give the file another name"),
    ],
)
def test_a_file_that_is_no_experiment_is_refused(write, name, source, match):
    with pytest.raises(kfed.InvalidInputError, match=match):
        get(str(write(source, name)))


def test_a_file_that_is_not_there_is_refused(tmp_path):
    with pytest.raises(kfed.InvalidInputError, match="no such file"):
        get(str(tmp_path / "mine.py"))
