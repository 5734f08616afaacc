"""What a terminal of 80 columns and an HTML page show of the same results: all of it, and in plain words."""

import json
import re

import numpy as np
import pandas as pd
import pytest

import kfed
from consoles import invoked as run
from kfed._base.report import Conclusion, Notes, Paragraph, Report, Section, TextTable
from kfed.insight import diagnose, to_html, to_markdown
from kfed.wire import Column

N_CENTERS, N_COLUMNS = 24, 5


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")
    return tmp_path


@pytest.fixture
def message(folder):
    """A message of more centers than fit beside each other."""
    centers = np.random.default_rng(0).normal(scale=3e4, size=(N_CENTERS, N_COLUMNS))
    names = tuple(f"measurement_{j}_of_blood" for j in range(N_COLUMNS))
    sent = kfed.DeviceMessage("north", centers, [20] * N_CENTERS, [4.0] * N_CENTERS, 8.0, names)
    sent.save("north.kfed")
    return sent


@pytest.fixture
def sites(folder):
    """Two sites of two groups, of which one site has columns that lie far from those of the other."""
    rng = np.random.default_rng(0)
    for name, far in {"north": 0, "south": 500}.items():
        rows = rng.normal(size=(60, 2)) + 9 * (np.arange(60) % 2)[:, None] + far
        pd.DataFrame(rows.round(3), columns=["age", "dose"]).to_csv(f"{name}.csv", index=False)
        assert run("device", f"{name}.csv", "-k", "2").exit_code == 0
    assert run("aggregate", "north.kfed", "south.kfed", "-k", "2").exit_code == 0
    return folder


def test_many_centers_are_shown_in_parts_that_fit_and_no_number_is_cut(message):
    shown = run("inspect", "north.kfed", "--centers").stdout.partition("Centers\n")[2]
    assert max(map(len, shown.splitlines())) <= 80
    for name, values in zip(message.feature_names, message.centers.T.tolist(), strict=True):
        lines = [line for line in shown.splitlines() if name in line]
        assert len(lines) > 1
        cells = [cell.strip() for line in lines for cell in line.split("│")[2:-1]]
        assert cells == [f"{value:.6g}" for value in values]
    heads = [head for line in shown.splitlines() if "┃" in line for head in line.replace("┃", " ").split()]
    assert heads == list(map(str, range(N_CENTERS)))


def test_a_report_that_is_written_to_a_page_warns_on_the_terminal_too(sites):
    whole = run("report", "clusters.kfed").stdout
    brief = run("report", "clusters.kfed", "--html", "report.html").stdout
    warnings = re.findall("^warning: .*$", whole, re.MULTILINE)
    assert warnings
    assert re.findall("^warning: .*$", brief, re.MULTILINE) == warnings
    assert "Look at this first" in brief
    assert "Where they live" in whole
    assert "Where they live" not in brief


def test_headings_are_followed_by_one_empty_line(sites):
    for command in ("report", "diagnose"):
        shown = run(command, "clusters.kfed").stdout
        assert "\n\n" in shown
        assert "\n\n\n" not in shown


def test_text_columns_can_be_left_out_of_rows_that_are_diagnosed(folder):
    rows = np.repeat([[0.0], [9.0]], 20, axis=0) + np.random.default_rng(0).normal(size=(40, 1))
    table = pd.DataFrame({"age": rows[:, 0], "ward": ["a", "b"] * 20, "site": ["x"] * 20 + ["y"] * 20})
    table.to_csv("all.csv", index=False)
    pd.DataFrame({"cluster": np.repeat([0, 1], 20)}).to_csv("labels.csv", index=False)
    asked = ["diagnose", "--data", "all.csv", "--labels", "labels.csv", "--json"]
    assert "--exclude ward,site" in run(*asked).stderr
    without = json.loads(run(*asked, "--exclude", "ward,site").stdout)
    assert without == json.loads(run(*asked, "--columns", "age").stdout)
    by_site = json.loads(run(*asked, "--exclude", "ward", "--device-column", "site").stdout)
    assert by_site == json.loads(run(*asked, "--columns", "age", "--device-column", "site").stdout)


def test_a_private_message_without_a_number_of_clusters_asks_for_the_option(folder):
    pd.DataFrame({"age": np.arange(60.0)}).to_csv("north.csv", index=False)
    schema = kfed.FeatureSchema.of_columns([Column("age", shift=30.0, scale=9.0)], scaling="agreed")
    (folder / "schema.json").write_text(json.dumps(schema.facts()))
    for more in ([], ["-k", "auto"]):
        refused = run("device", "north.csv", "--schema", "schema.json", "--epsilon", "1", *more)
        assert "--epsilon needs -k N" in refused.stderr
        assert "n_local_clusters" not in refused.stderr


def test_a_limit_in_bytes_is_told_with_the_centers_that_it_took_away(folder):
    rows = np.random.default_rng(0).normal(size=(300, 6))
    pd.DataFrame(rows, columns=list("abcdef")).to_csv("north.csv", index=False)
    n_whole = json.loads(run("device", "north.csv", "--json", "--max-bytes", "100000").stdout)
    assert "max bytes" not in [one["code"] for one in n_whole["warnings"]]
    told = json.loads(run("device", "north.csv", "--force", "--json", "--max-bytes", "1500").stdout)
    said = next(one["text"] for one in told["warnings"] if one["code"] == "max bytes")
    assert f"has {told['n_centers_sent']} of the {n_whole['n_centers_sent']} centers" in said


def test_headings_of_a_few_columns_are_whole_and_those_of_many_are_shortened():
    long = "standard deviations that clusters are apart"
    few = TextTable("", ("clusters", long), (("0 and 1", "2.5"),))
    many = TextTable("", ("clusters", *(f"{j} {long}" for j in range(9))), (("0 and 1", *["2.5"] * 9),))
    page = to_html(Report("Distances", (Section("", (few,)),))).decode()
    assert f"<th class=number>{long}</th>" in page
    assert f"8 {long}" not in to_html(Report("Distances", (Section("", (many,)),))).decode()


def test_a_page_shows_commands_as_code_and_questions_with_one_mark():
    texts = ("run `kfed label a<b`; is it in the same unit?", "all is well")
    blocks = (Notes(texts), Paragraph("see `kfed report`"), Conclusion("open: run `kfed diagnose`", None))
    report = Report("Commands", (Section("", blocks),))
    page = to_html(report).decode()
    assert "<li>Run <code>kfed label a&lt;b</code>; is it in the same unit?</li><li>All is well.</li>" in page
    assert "<p>see <code>kfed report</code></p>" in page
    assert "<code>kfed diagnose</code>" in page
    assert "unit?\n" in to_markdown(report)


def test_no_sentence_begins_with_a_symbol_of_the_paper():
    places = np.array([[0.0, 0.0], [90.0, 0.0], [0.0, 90.0]])
    sent = [kfed.DeviceMessage(f"{i}", places + i, [20] * 3, [40.0] * 3, 8.0) for i in range(3)]
    found = diagnose(kfed.aggregate(sent, n_clusters=3))
    assert any("c_rs uses the spread" in note for note in found.notes)
    assert b"C_rs" not in found.to_html("Diagnosis")


def test_a_wrong_table_is_named_alike_by_refine_and_label(sites):
    wrong = "south.csv: the rows must be the clustered rows of 'north'"
    refined = run("refine", "north.local", "--data", "south.csv", "--clusters", "clusters.kfed")
    labelled = run("label", "north.local", "--refine", "south.csv", "--clusters", "clusters.kfed")
    assert refined.stderr == labelled.stderr
    assert wrong in refined.stderr
    lacking = run("refine", "north.local", "--data", "clusters.kfed", "--clusters", "clusters.kfed").stderr
    assert lacking.count("clusters.kfed") == 1
