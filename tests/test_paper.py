"""docs/paper.md: all that the paper has is in the table, and all that the table names exists."""

import importlib
import re
from pathlib import Path

import pytest

from kfed.experiments import EXPERIMENTS

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "paper.md").read_text()
LABELS = {
    "algorithms": ["algodevice", "algo:kfed"],
    "definitions": [
        "eq:separation",
        "def:proxcondition",
        "def:heterogeneity",
        "def:separations",
        "def:induced-clustering",
    ],
    "theorems": ["th:gen", "th:runtime", "th:mixgauss", "cor:main"],
    "lemmas": ["awasthi", "meanshift", "normchange", "centersep2", "localbound", "center_init", "missclass_lb"],
    "tables": ["table:synthetic", "table:personalization"],
    "figures": ["about-c", "cost_ratio", "communication", "client_selection", "mnist-sep"],
}
WITHOUT_LABEL = ["active and inactive pairs", "active and inactive separation"]
"""Definitions that the paper's source gives no label."""


@pytest.mark.parametrize("kind", LABELS)
def test_every_label_of_the_papers_source_has_a_row(kind):
    prefix = {"lemmas": "lemma:", "figures": "fig:"}.get(kind, "")
    assert [label for label in LABELS[kind] if f"`{prefix}{label}`" not in PAGE] == []


def test_every_definition_without_a_label_has_a_row_that_says_where_it_is_and_what_checks_it():
    rows = re.findall(r"^\| (.+?) \| (`kfed\..+) \| (`tests/.+) \|$", PAGE, re.MULTILINE)
    assert [name for name in WITHOUT_LABEL if [row[0] for row in rows].count(name) != 1] == []


def test_every_link_leads_somewhere():
    links = re.findall(r"\]\((?!https?:)([^)#]*)#?([^)]*)\)", PAGE)
    assert len(links) > 8
    assert [link for link in links if not leads_somewhere(*link)] == []


def leads_somewhere(page, anchor):
    """Whether the file is there, and the heading in it, if a link names one."""
    path = ROOT / "docs" / (page or "paper.md")
    return path.exists() and (not anchor or anchor in anchors(path.read_text()))


def anchors(text):
    """What GitHub calls the headings of a page: in small letters, without punctuation, with hyphens for spaces."""
    without_code = re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL)
    headings = re.findall(r"^#+ (.+)$", without_code, re.MULTILINE)
    return [re.sub(r"[^\w\- ]", "", heading).lower().replace(" ", "-") for heading in headings]


def test_an_anchor_is_a_heading_and_no_comment_of_an_example():
    assert anchors("# A page\n\n```bash\n# not a heading\n```\n\n## What is `k`, and why?\n") == [
        "a-page",
        "what-is-k-and-why",
    ]
    assert leads_somewhere("how-to-reproduce.md", "data")
    assert not leads_somewhere("how-to-reproduce.md", "dates")
    assert not leads_somewhere("how-to-produce.md", "")


def test_every_test_that_is_named_is_there():
    named = re.findall(r"`(tests/\w+\.py)::(\w+)`", PAGE)
    assert len(named) > 12
    assert [name for path, name in named if f"def {name}(" not in (ROOT / path).read_text()] == []


def test_every_name_can_be_imported():
    names = re.findall(r"`(kfed\.[\w.]+)`", PAGE)
    assert len(names) > 20
    assert [name for name in names if not is_there(name)] == []


def is_there(name):
    """Whether a dotted name is a module, or an attribute of one, or of a class in one."""
    parts = name.split(".")
    found = importlib.import_module("kfed")
    for position, part in enumerate(parts[1:], 2):
        if not hasattr(found, part):
            try:
                found = importlib.import_module(".".join(parts[:position]))
            except ImportError:
                return False
        else:
            found = getattr(found, part)
    return True


def test_every_experiment_of_the_paper_is_named_and_every_one_that_is_named_can_be_run():
    named = set(re.findall(r"`kfed reproduce ([\w-]+)`", PAGE))
    assert named <= set(EXPERIMENTS)
    assert {name for name, experiment in EXPERIMENTS.items() if experiment.is_of_paper} <= named
