"""The benchmarks beside `src`: their command line, and the pages that they write."""

import json
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from benchmarks import scaling
from benchmarks.__main__ import app
from benchmarks.figures import Figure
from benchmarks.run import as_markdown

DOCS = Path(__file__).parents[1] / "docs"


def test_a_workload_prints_its_figures_for_programs():
    printed = CliRunner().invoke(app, ["speed", "message", "--quick", "--json"], catch_exceptions=False).stdout
    size, rate = json.loads(printed)
    assert size["measure"] == "bytes over the raw array"
    assert size["reached"]
    assert rate["value"] > 0


def test_a_page_holds_what_was_measured(tmp_path):
    page = tmp_path / "page.md"
    CliRunner().invoke(app, ["speed", "message", "--quick", "--markdown", str(page)], catch_exceptions=False)
    assert "| message | bytes over the raw array | 128 | ≤ 150 | yes | k=4, d=784 |" in page.read_text()


def test_growth_is_the_power_of_the_size_over_the_last_decade_that_was_measured():
    axis = scaling.Axis("n", "points", [10, 100, 1000, 10_000], lambda n: scaling.Shape(n_points=n))
    assert scaling.Curve("kfed", axis, [5.0, 1.0, 10.0, 1000.0]).growth == pytest.approx(2)
    assert scaling.Curve("kfed", axis, [5.0, 1.0, 10.0]).growth == pytest.approx(1)
    assert np.isnan(scaling.Curve("kfed", axis, [5.0]).growth)


@pytest.mark.slow
def test_a_contestant_that_takes_too_long_is_not_asked_again_and_the_picture_shows_the_rest(tmp_path, monkeypatch):
    sizes = [50, 100, 500]
    axis = scaling.Axis("n", "points", sizes, lambda n: scaling.Shape(n_points=n, n_features=2, n_clusters=2))
    monkeypatch.setattr(scaling, "axes", lambda quick: [axis])
    monkeypatch.setattr(scaling, "_cpu_seconds", lambda run: 7.0 if "theirs" in repr(run()) else 0.01)
    monkeypatch.setattr(scaling, "_contestants", lambda shape: {"kfed": lambda: "ours", "faiss": lambda: "theirs"})
    curves = scaling.measure(progress=False)
    assert {curve.contestant: len(curve.seconds) for curve in curves} == {"kfed": 3, "faiss": 1}
    scaling.save_picture(curves, tmp_path / "scaling.png")
    assert (tmp_path / "scaling.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.slow
def test_the_picture_is_drawn_from_measured_times(tmp_path):
    command = ["scaling", "--quick", "--picture", str(tmp_path / "scaling.png"), "--json"]
    found = json.loads(CliRunner().invoke(app, command, catch_exceptions=False).stdout)
    assert {curve["axis"] for curve in found} == {"n", "d", "k", "Z"}
    assert all(seconds > 0 for curve in found for seconds in curve["seconds"])


@pytest.mark.parametrize(
    ("name", "workload"), [("benchmarks", "W1"), ("benchmarks-coordinator", "coordinator"), ("benchmarks-dask", "dask")]
)
def test_pages_of_the_documentation_begin_as_they_are_written(name, workload):
    written = as_markdown([Figure(workload, "measure", 1.0, 1.0)]).split("\n\n")[:2]
    assert (DOCS / f"{name}.md").read_text().split("\n\n")[:2] == written
