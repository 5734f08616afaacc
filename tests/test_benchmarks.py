"""The benchmarks beside `src`: their command line, and the pages that they write."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

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


@pytest.mark.parametrize(
    ("name", "workload"), [("benchmarks", "W1"), ("benchmarks-coordinator", "coordinator"), ("benchmarks-dask", "dask")]
)
def test_pages_of_the_documentation_begin_as_they_are_written(name, workload):
    written = as_markdown([Figure(workload, "measure", 1.0, 1.0)]).split("\n\n")[:2]
    assert (DOCS / f"{name}.md").read_text().split("\n\n")[:2] == written
