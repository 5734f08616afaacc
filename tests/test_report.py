"""Pages of results: everything in one file, nothing from a network, and nothing that breaks out of its cell."""

import re
from dataclasses import replace
from html.parser import HTMLParser

import pytest

from kfed.experiments import (
    ExperimentOutcome,
    ExperimentSummary,
    Finding,
    TextTable,
    reproduce,
    write_documentation,
    write_html,
)
from kfed.experiments.pages import verdict_counts
from test_experiments import Toy


@pytest.fixture
def outcomes(tmp_path):
    toy = Toy(claim="a < b & c > d", title="Toys & <b>more</b>").experiment
    done = next(iter(reproduce([toy], tmp_path / "out", progress=False)))
    missed = Finding("one | two", "*1*", "2", "not reproduced", "it is <i>not</i>")
    failing = replace(
        done, summary=ExperimentSummary((missed, *done.summary.findings), (TextTable("T", ("x",), (("1|2",),)),))
    )
    return [done, failing, ExperimentOutcome(toy, "quick", 0, skipped="no data; put it there")]


class Page(HTMLParser):
    """Tags and addresses of a page, and whether every tag that opens closes."""

    VOID = ("meta", "img", "br")

    def __init__(self, text):
        super().__init__()
        self.open, self.tags, self.addresses, self.words = [], [], [], []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.addresses += [value for name, value in attrs if name in ("src", "href")]
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.words.append(data)


def test_the_html_report_holds_everything_and_asks_nothing_of_a_network(outcomes, tmp_path):
    write_html(outcomes, tmp_path / "report.html")
    text = (tmp_path / "report.html").read_text()
    page = Page(text)
    assert page.open == []
    outside = [a for a in page.addresses if not a.startswith(("data:image/png;base64,", "#"))]
    assert outside == ["https://arxiv.org/abs/2103.00697"]  # a link that a reader may follow
    assert page.tags.count("img") == 2
    assert "script" not in page.tags
    assert "@import" not in text
    assert "url(" not in text
    assert 'name="viewport"' in text
    assert "prefers-color-scheme: dark" in text
    for words in (
        "a < b & c > d",
        "one | two",
        "it is <i>not</i>",
        "Skipped: no data; put it there.",
        "not reproduced",
    ):
        assert words in " ".join(page.words)
    assert page.tags.count("i") == 3  # the dots of the contents: no tag came in with the texts


def test_the_page_of_the_documentation_has_tables_that_hold_and_pictures_beside_it(outcomes, tmp_path):
    write_documentation(outcomes, tmp_path / "page.md")
    text = (tmp_path / "page.md").read_text()
    for block in re.findall(r"(?:^\|.*\n)+", text, re.MULTILINE):
        widths = {len(re.findall(r"(?<!\\)\|", line)) for line in block.splitlines()}
        assert len(widths) == 1
    assert "**not reproduced**" in text
    assert r"one \| two" in text
    assert (tmp_path / "page" / "toy.png").read_bytes().startswith(b"\x89PNG")
    assert "](page/toy.png)" in text


def test_the_page_keeps_sections_without_results_once_and_says_that_they_are_of_an_earlier_version(outcomes, tmp_path):
    page = tmp_path / "page.md"
    page.write_text("# Old\n\n## table2\n\nk-FED leads.\n\n## toy\n\nold toy\n\n## no experiment\n\ngone\n")
    for _ in range(2):
        write_documentation(outcomes, page)
        text = page.read_text()
        assert text.count("k-FED leads.") == text.count("## table2\n") == text.count("*Of an earlier version") == 1
        assert text.rstrip().endswith("k-FED leads.")
        assert "not counted: [table2](#table2)." in text
        assert "gone" not in text


def test_the_tally_counts_claims_and_skipped_experiments(outcomes):
    assert verdict_counts(outcomes) == "3 claims of the paper: 2 reproduced, 1 not reproduced; experiments skipped: 1"
