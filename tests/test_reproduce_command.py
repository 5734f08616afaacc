"""`kfed reproduce`: it names, runs and reports experiments."""

import json
from dataclasses import replace

import pytest

from kfed.experiments import (
    ExperimentOutcome,
    ExperimentSummary,
    TextTable,
    registry,
)
from kfed.experiments.pages import KEPT, findings_of, verdict_counts
from toy_experiments import (
    Toy,
    invoke,  # noqa: F401
    run,
)

# The command -----------------------------------------------------------------------------------------------------


def test_the_list_names_every_experiment(invoke):
    assert "toy" in invoke("--list").stdout
    assert [e["name"] for e in json.loads(invoke("--list", "--json").stdout)] == ["toy", "needy"]


def test_reproduce_prints_the_papers_number_beside_ours_and_says_what_it_wrote(invoke, tmp_path):
    done = invoke("toy", "--report", "--markdown", "page.md", "-o", "out")
    assert done.exit_code == 0
    for words in ("the sum is 8", "12", "reproduced", "4 runs (0 found)", "report.html", "page.md"):
        assert words in done.stdout
    assert (tmp_path / "out" / "report.html").exists()
    assert (tmp_path / "page.md").exists()
    assert "4 runs (4 found)" in invoke("toy", "-o", "out").stdout


def test_a_report_keeps_the_experiments_of_earlier_commands(invoke, tmp_path):
    registry.EXPERIMENTS["second"] = Toy(name="second").experiment
    invoke("toy", "-o", "out")
    invoke("second", "--report", "--markdown", "page.md", "-o", "out")
    for page in (tmp_path / "out" / "report.html", tmp_path / "page.md"):
        assert "kfed reproduce toy" in page.read_text() or "## toy" in page.read_text()
    assert "2 claims of the paper: 2 reproduced" in (tmp_path / "page.md").read_text()
    (tmp_path / "out" / "toy.json").write_text("{}")
    assert ExperimentOutcome.stored(registry.EXPERIMENTS["toy"], tmp_path / "out") is None


def pages_of(tmp_path):
    return tmp_path / "out" / "report.html", tmp_path / "page.md"


def test_a_report_keeps_an_experiment_that_is_skipped_now(invoke, tmp_path):
    words = ("toy", "--report", "--csv", "--markdown", "page.md", "-o", "out")
    invoke(*words)
    table = (tmp_path / "out" / "toy.csv").read_text()
    registry.EXPERIMENTS["toy"] = replace(registry.EXPERIMENTS["toy"], package="no_such_package")
    done = invoke(*words)
    assert "toy is skipped: it needs no_such_package" in done.stderr
    assert "toy.json keeps its results" in done.stderr
    assert "skipped" in done.stdout
    for page in pages_of(tmp_path):
        assert "the sum is 8" in page.read_text()
        assert "no_such_package" not in page.read_text()
    assert "1 claim of the paper: 1 reproduced" in (tmp_path / "page.md").read_text()
    assert (tmp_path / "out" / "toy.csv").read_text() == table


def test_a_page_keeps_its_section_of_an_experiment_that_is_skipped_now_without_results_in_the_folder(invoke, tmp_path):
    invoke("toy", "--markdown", "page.md", "-o", "out")
    registry.EXPERIMENTS["toy"] = replace(registry.EXPERIMENTS["toy"], package="no_such_package")
    for _ in range(2):
        invoke("toy", "--markdown", "page.md", "-o", "empty")
        page = (tmp_path / "page.md").read_text()
        assert page.count(f"## toy\n\n{KEPT}\n") == 1
        assert "the sum is 8" in page
        assert "no_such_package" not in page


def test_a_section_that_says_only_that_it_was_skipped_is_written_again_and_not_kept(invoke, tmp_path):
    toy = registry.EXPERIMENTS["toy"]
    for package in ("no_such_package", "no_other_package"):
        registry.EXPERIMENTS["toy"] = replace(toy, package=package)
        invoke("toy", "--markdown", "page.md", "-o", "out")
        assert f"Skipped: it needs {package}" in (tmp_path / "page.md").read_text()
    registry.EXPERIMENTS["second"] = Toy(name="second").experiment
    invoke("second", "--markdown", "page.md", "-o", "out")
    assert KEPT not in (tmp_path / "page.md").read_text()


def test_a_quick_look_is_shown_on_the_terminal_and_pages_keep_the_full_preset(invoke, tmp_path):
    invoke("toy", "-o", "out")
    done = invoke("toy", "--quick", "--report", "--markdown", "page.md", "-o", "out")
    assert "2 runs (2 found)" in done.stdout
    assert "toy.json keeps its 4 runs of the full preset" in done.stderr
    for page in pages_of(tmp_path):
        assert "quick" not in page.read_text()
        assert "4 runs" in page.read_text()


def test_a_report_keeps_experiments_of_ones_own_as_their_files_have_them(invoke, tmp_path):
    run(Toy(name="own", title="My own sums", paper="beyond the paper"), tmp_path / "out")
    done = invoke("toy", "--report", "--markdown", "page.md", "-o", "out")
    assert "left out" not in done.stderr
    for page in (tmp_path / "out" / "report.html", tmp_path / "page.md"):
        assert "My own sums" in page.read_text()
        assert ", as own.json has it" in page.read_text()
        assert "earlier code" not in page.read_text()
    assert "kfed reproduce FILE.py" in (tmp_path / "out" / "report.html").read_text()
    assert "1 claim of the paper: 1 reproduced; 1 claim of kfed: 1 reproduced" in (tmp_path / "page.md").read_text()
    assert (tmp_path / "page" / "own.png").exists()


def test_a_report_names_the_files_that_it_leaves_out(invoke, tmp_path):
    registry.EXPERIMENTS |= {name: Toy(name=name).experiment for name in ("edited", "torn", "other-runs")}
    invoke("edited", "torn", "other-runs", "-o", "out")
    run(Toy(name="own"), tmp_path / "out")
    for name in ("edited", "own"):
        path = tmp_path / "out" / f"{name}.json"
        path.write_text(json.dumps(json.loads(path.read_text()) | {"seed": 7}))
    (tmp_path / "out" / "torn.json").write_text("{")
    (tmp_path / "out" / "notes.json").write_text("[1]")  # not of an experiment: no concern of the page
    registry.EXPERIMENTS["other-runs"] = Toy(name="other-runs", full=({"a": 5, "b": 5},)).experiment
    done = invoke("toy", "--report", "--markdown", "page.md", "-o", "out")
    reasons = {
        "edited": "its digest does not fit its runs, so it was edited or damaged",
        "own": "its digest does not fit its runs, so it was edited or damaged",
        "torn": "it cannot be read",
        "other-runs": "its runs are not those of this version",
    }
    for name, why in reasons.items():
        assert f"{name}.json is left out of the page: {why}" in done.stderr
        for page in (tmp_path / "out" / "report.html", tmp_path / "page.md"):
            assert f"{name}.json is left out: {why}" in page.read_text()
    assert "notes" not in done.stderr


def test_a_page_names_the_folder_that_it_is_written_from(invoke, tmp_path):
    invoke("toy", "-o", "out", "--markdown", "page.md")
    assert "from the runs in the JSON files of the folder `out`;" in (tmp_path / "page.md").read_text()
    assert "make " not in (tmp_path / "page.md").read_text()


def test_a_page_is_rendered_again_without_a_run(invoke, tmp_path):
    invoke("toy", "-o", "page", "--markdown", "page.md")
    written, files = (tmp_path / "page.md").read_text(), {p.name: p.read_bytes() for p in tmp_path.glob("page/toy.*")}
    toy = Toy()
    registry.EXPERIMENTS["toy"] = toy.experiment
    assert invoke("all", "--stored", "-o", "page", "--markdown", "page.md").exit_code == 0
    assert toy.done == []
    assert (tmp_path / "page.md").read_text() == written
    assert {p.name: p.read_bytes() for p in tmp_path.glob("page/toy.*")} == files
    told = replace(toy.experiment, summarize=lambda results: replace(Toy.summarize(results), headline="New words."))
    registry.EXPERIMENTS["toy"] = told
    invoke("toy", "--stored", "-o", "page", "--markdown", "page.md")
    assert "New words." in (tmp_path / "page.md").read_text()
    assert json.loads((tmp_path / "page" / "toy.json").read_text())["headline"] == "New words."


def test_without_stored_results_there_is_nothing_to_show(invoke, tmp_path):
    done = invoke("toy", "--stored", "-o", "nothing", "--markdown", "page.md")
    assert done.exit_code == 1
    assert "nothing: no such folder; run without --stored and --repeat, or name it with -o" in done.stderr
    (tmp_path / "nothing").mkdir()
    done = invoke("toy", "--stored", "-o", "nothing", "--markdown", "page.md")
    assert done.exit_code == 1
    assert "nothing: no results of toy that fit this version; run without --stored and --repeat" in done.stderr
    assert not (tmp_path / "page.md").exists()


def by_earlier_code(toy, folder):
    """Write what is stored of the toy as if other code had made it."""
    replace(ExperimentOutcome.stored(toy.experiment, folder), code="earlier").write(folder)


def test_some_runs_are_repeated_where_code_has_changed_and_the_page_says_that_they_came_out_the_same(invoke, tmp_path):
    toy = Toy()
    registry.EXPERIMENTS["toy"] = toy.experiment
    run(toy, tmp_path)
    assert invoke("toy", "--repeat", "3", "-o", ".").exit_code == 0
    assert len(toy.done) == 4, "results of the present code are not repeated"
    by_earlier_code(toy, tmp_path)
    for path in (tmp_path / "runs" / "toy").iterdir():
        path.unlink()
    assert invoke("toy", "--repeat", "3", "-o", ".", "--markdown", "page.md").exit_code == 0
    assert len(toy.done) == 4 + 3
    page = (tmp_path / "page.md").read_text()
    assert "by earlier code; the present code repeated 3 of them, with the same results: run all again" in page
    assert "1 of 1 experiment by earlier code, of which the present code repeated some runs with the same" in page
    invoke("toy", "--stored", "-o", ".", "--markdown", "page.md")
    assert (tmp_path / "page.md").read_text() == page


def test_a_repeated_run_that_comes_out_otherwise_is_counted_and_its_new_result_is_not_mixed_with_the_old(
    invoke, tmp_path
):
    toy = Toy()
    run(toy, tmp_path)
    before = ExperimentOutcome.stored(toy.experiment, tmp_path)
    by_earlier_code(toy, tmp_path)
    for path in (tmp_path / "runs" / "toy").iterdir():
        path.unlink()
    other = Toy(run_one=lambda axes, seed: toy.run_one(axes, seed) | {"sum": 3})
    registry.EXPERIMENTS["toy"] = other.experiment
    invoke("toy", "--repeat", "9", "-o", ".", "--markdown", "page.md")
    assert "repeated 4 of them, of which 2 differ: run all again" in (tmp_path / "page.md").read_text()
    assert "with the same results" not in (tmp_path / "page.md").read_text()
    assert ExperimentOutcome.stored(other.experiment, tmp_path).results == before.results


def of_data(toy, *names):
    """The toy, with runs that say which data they are of: those with b = 1, and those with b = 2."""
    told = Toy(run_one=lambda axes, seed: toy.run_one(axes, seed) | {"source": names[axes["b"] - 1]})
    registry.EXPERIMENTS["toy"] = told.experiment
    return told


def test_a_repeated_run_on_other_data_is_not_compared_and_the_page_says_so(invoke, tmp_path):
    toy = of_data(Toy(), "one", "two")
    run(toy, tmp_path)
    for names, told in (
        (("one", "three"), "repeated 2 of them, with the same results, and 2 on other data, not compared: run all"),
        (("three", "one"), "repeated 4 on other data, not compared: run all"),
        (("one", "two"), "repeated 4 of them, with the same results: run all"),
    ):
        by_earlier_code(toy, tmp_path)
        for path in (tmp_path / "runs" / "toy").iterdir():
            path.unlink()
        of_data(Toy(), *names)
        assert invoke("toy", "--repeat", "4", "-o", ".", "--markdown", "page.md").exit_code == 0
        page = (tmp_path / "page.md").read_text()
        assert told in page
        assert ("repeated some runs with the same results" in page) is ("of them" in told)


def test_what_was_said_of_repeated_runs_cannot_be_edited_or_outlive_a_change_of_the_code(invoke, tmp_path, monkeypatch):
    toy = Toy()
    registry.EXPERIMENTS["toy"] = toy.experiment
    run(toy, tmp_path)
    by_earlier_code(toy, tmp_path)
    invoke("toy", "--repeat", "1", "-o", ".")
    path = tmp_path / "toy.json"
    content = json.loads(path.read_text())
    assert ExperimentOutcome.stored(toy.experiment, tmp_path).repeated_now == content["repeated"]
    path.write_text(json.dumps(content | {"repeated": content["repeated"] | {"runs": 4}}))
    assert ExperimentOutcome.stored(toy.experiment, tmp_path) is None
    path.write_text(json.dumps(content))
    monkeypatch.setattr("kfed.experiments.outcome.fingerprint", lambda function: "later")
    assert ExperimentOutcome.stored(toy.experiment, tmp_path).repeated_now == {}


def test_options_that_would_be_ignored_are_refused(invoke):
    for what in (["--stored"], ["--repeat", "2"]):
        for option in (["--quick"], ["--fresh"], ["--seed", "1"]):
            done = invoke("toy", *what, *option)
            assert done.exit_code == 1
            assert "leave out --quick, --fresh, --seed" in done.stderr


def test_a_page_says_which_sections_are_of_earlier_code(invoke, tmp_path):
    registry.EXPERIMENTS["second"] = Toy(name="second").experiment
    invoke("toy", "second", "-o", "out")
    old = ExperimentOutcome.stored(registry.EXPERIMENTS["toy"], tmp_path / "out")
    replace(old, code="earlier").write(tmp_path / "out")
    invoke("second", "-o", "out", "--markdown", "page.md")
    page = (tmp_path / "page.md").read_text()
    assert "; 1 of 2 experiments by earlier code" in page
    assert page.count("seconds, by earlier code: run again with `kfed reproduce toy`.") == 1
    invoke("all", "-o", "out", "--markdown", "page.md")
    assert "earlier code" not in (tmp_path / "page.md").read_text()


def test_the_list_says_how_long_each_takes_and_breaks_no_name(invoke, monkeypatch):
    registry.EXPERIMENTS["toy"] = replace(registry.EXPERIMENTS["toy"], minutes=(0.5, 12.0))
    shown = invoke("--list").stdout
    assert "toy (quick 30 s, full 12 min)\n  Toy. One and one is two.\n" in shown
    assert "needy (duration not measured)\n  Toy. One and one is two. Data: mnist.\n" in shown


@pytest.mark.parametrize("columns", range(20, 60, 3))
def test_the_list_does_not_break_a_name_at_its_hyphen(invoke, monkeypatch, columns):
    monkeypatch.setenv("COLUMNS", str(columns))
    registry.EXPERIMENTS["toy"] = replace(registry.EXPERIMENTS["toy"], requires=("mnist", "mnist-writers"))
    assert "mnist-writers" in invoke("--list").stdout


def test_the_list_takes_durations_from_results_that_are_there(invoke, tmp_path):
    registry.EXPERIMENTS["toy"] = replace(registry.EXPERIMENTS["toy"], minutes=(0.5, 12.0))
    invoke("toy", "-o", "out")
    stored = ExperimentOutcome.stored(registry.EXPERIMENTS["toy"], tmp_path / "out")
    results = tuple(replace(result, seconds=45.0) for result in stored.results)
    replace(stored, results=results).write(tmp_path / "out")
    assert "toy (quick 30 s, full 3 min)" in invoke("--list", "-o", "out").stdout
    assert "toy (quick 30 s, full 12 min)" in invoke("--list", "-o", "nothing").stdout


def test_numbers_are_not_broken_on_a_narrow_terminal(invoke, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    cells = tuple(f"{number}00.00 ± 0.{number}0" for number in range(1, 9))
    wide = ExperimentSummary(
        (), (TextTable("Wide", ("d", *(f"a heading of column {c[0]}" for c in cells)), (("1", *cells),)),)
    )
    registry.EXPERIMENTS["toy"] = replace(registry.EXPERIMENTS["toy"], summarize=lambda results: wide)
    lines = invoke("toy", "--quick").stdout.splitlines()
    assert all(any(cell in line for line in lines) for cell in cells)
    assert max(map(len, lines)) <= 80


def test_what_a_reader_must_know_first_is_said_first(invoke, tmp_path):
    toy = registry.EXPERIMENTS["toy"]
    told = replace(toy, summarize=lambda results: replace(Toy.summarize(results), headline="Less than half."))
    registry.EXPERIMENTS["toy"] = told
    shown = invoke("toy", "--markdown", "page.md").stdout
    assert shown.index("Less than half.") < shown.index("the sum is 8")
    assert "Less than half." in (tmp_path / "page.md").read_text()


def test_a_page_says_which_sections_are_of_the_quick_preset(invoke, tmp_path):
    for preset, is_said in (("--quick", True), ("--fresh", False)):
        invoke("toy", preset, "--markdown", "page.md")
        assert ("runs of the quick preset, " in (tmp_path / "page.md").read_text()) is is_said


def test_claims_of_ours_are_counted_apart(tmp_path):
    ours = run(Toy(paper="beyond the paper, which adds nothing"), tmp_path / "ours")
    assert (
        verdict_counts([run(Toy(), tmp_path), ours])
        == "1 claim of the paper: 1 reproduced; 1 claim of kfed: 1 reproduced"
    )
    assert [finding.is_ours for finding in findings_of(ours)] == [True]
