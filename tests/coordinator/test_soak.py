"""The command that runs a coordinator for many minutes, for a few seconds."""

import json

import pytest
from typer.testing import CliRunner

from benchmarks import soak
from benchmarks.__main__ import app


@pytest.mark.slow
def test_devices_come_replace_leave_and_are_watched_without_an_error(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("# A page\n")
    command = ["soak", "--minutes", "0.35", "--rate", "40", "--markdown", str(page), "--json"]
    ran = CliRunner().invoke(app, command, catch_exceptions=False)
    found = {figure["measure"]: figure for figure in json.loads(ran.stdout)}
    assert found["errors"]["value"] == 0
    assert "of 201" in found["errors"]["detail"]
    assert "leaving: p50" in found["p99 of a message, ms"]["detail"]
    assert "| soak | errors | 0 | ≤ 0 | yes |" in page.read_text()


def test_a_section_is_written_between_its_markers_and_kept_when_the_rest_is_written_anew():
    page = soak.with_section("# Page\n\nFigures.\n", "\none\n")
    assert page == "# Page\n\nFigures.\n\n<!-- soak -->\none\n<!-- /soak -->\n"
    assert soak.with_section(page, "\ntwo\n") == page.replace("one", "two")
    assert soak.with_section("# Other\n", soak.section_of(page)).startswith("# Other\n\n<!-- soak -->\none\n")
    assert soak.with_section("# Other\n", soak.section_of("# None\n")) == "# Other\n"
