"""Experiments: runs are stored and never done twice, claims can fail, and every experiment runs end to end."""

import importlib
import json
import os
import sys
from dataclasses import replace
from itertools import count
from pathlib import Path
from types import ModuleType

import pytest
from threadpoolctl import threadpool_info, threadpool_limits

import kfed
from kfed._base.report import VERDICTS
from kfed.experiments import (
    EXPERIMENTS,
    ExperimentOutcome,
    Result,
    code_of,
    expected,
    reproduce,
    seed_of,
    tables,
)
from kfed.experiments.code_of import fingerprint
from kfed.experiments.pages import KEPT, report_of
from kfed.experiments.progress import following
from kfed.experiments.store import RunStore
from kfed.insight import to_markdown
from toy_experiments import (
    Toy,
    draw,
    invoke,  # noqa: F401
    results_of,
    run,
)


def which_process(axes, seed):
    """A run that tells where it was done; at the top of the file, where another process finds it."""
    return {"sum": axes["a"] + axes["b"], "seed": seed, "process": os.getpid()}


@pytest.mark.slow
def test_runs_side_by_side_are_done_in_other_processes_and_come_back_in_order(tmp_path):
    side_by_side = run(Toy(run_one=which_process, side_by_side=2), tmp_path / "two", seed=3)
    one_by_one = run(Toy(run_one=which_process), tmp_path / "one", seed=3)
    for ours, theirs in zip(side_by_side.results, one_by_one.results, strict=True):
        assert (ours.axes, ours["sum"], ours["seed"]) == (theirs.axes, theirs["sum"], theirs["seed"])
        assert ours["process"] != theirs["process"] == os.getpid()
    assert run(Toy(run_one=which_process, side_by_side=2), tmp_path / "two", seed=3).n_found == 4


def n_threads(axes, seed):
    return {"sum": 0, "threads": max(library["num_threads"] for library in threadpool_info())}


@pytest.mark.parametrize("side_by_side", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_a_run_sees_one_thread_whatever_there_was_before(tmp_path, side_by_side):
    with threadpool_limits(2):
        before = n_threads({}, 0)["threads"]
        results = run(Toy(run_one=n_threads, side_by_side=side_by_side), tmp_path).results
        assert n_threads({}, 0)["threads"] == before
    assert [result["threads"] for result in results] == [1, 1, 1, 1]


def test_each_experiment_gives_a_json_file_and_a_picture(tmp_path):
    outcome = run(Toy(), tmp_path)
    content = json.loads((tmp_path / "toy.json").read_text())
    assert content == json.loads(json.dumps(outcome.to_dict()))
    assert content["findings"][0] == {
        "claim": "the sum is 8 | or more",
        "paper": "8",
        "ours": "12",
        "verdict": "reproduced",
        "reason": "",
        "is_ours": False,
    }
    assert [r["values"]["sum"] for r in content["runs"]] == [2, 3, 3, 4]
    assert content["runs"][0]["values"]["nothing"] is None
    assert (tmp_path / "toy.png").read_bytes().startswith(b"\x89PNG")


def test_an_interrupted_experiment_goes_on_without_doing_finished_runs_again(tmp_path):
    toy = Toy(stop_at={"a": 2, "b": 1})
    with pytest.raises(KeyboardInterrupt):
        run(toy, tmp_path)
    assert not (tmp_path / "toy.json").exists()
    resumed = Toy()
    outcome = run(resumed, tmp_path)
    assert resumed.done == [{"a": 2, "b": 1}, {"a": 2, "b": 2}]
    assert outcome.n_found == 2
    whole = run(Toy(), tmp_path / "elsewhere")
    assert [r.values for r in outcome.results] == [r.values for r in whole.results]


def test_runs_of_the_quick_preset_are_found_by_the_full_one_but_not_those_of_another_seed(tmp_path):
    run(Toy(), tmp_path, quick=True)
    assert run(Toy(), tmp_path).n_found == 2
    assert run(Toy(), tmp_path, seed=1).n_found == 0
    assert run(Toy(), tmp_path).n_found == 4


def test_fresh_does_finished_runs_again(tmp_path):
    run(Toy(), tmp_path)
    toy = Toy()
    assert run(toy, tmp_path, fresh=True).n_found == 0
    assert len(toy.done) == 4


MODULE = """
{imports}
from kfed._base import geometry
from kfed.experiments import seed_of
from kfed.experiments import drawing
FACTOR = {factor}
def run_one(axes, seed):
    '''{words}'''
    return helper(axes)  # {words}
def helper(axes):
    if not axes:
        raise ValueError(f"{words}: {{axes}}", "{words}")
    {calls}
    return {{"sum": FACTOR * axes["a"], "at": geometry.nearest, "all": drawing.select, "seed": seed_of(0)}}
def summarize(results):
    return {words!r}
"""


@pytest.fixture
def fingerprint_with(tmp_path, monkeypatch):
    """The fingerprint of an experiment of one's own, written with these parts."""

    folders = (tmp_path / str(number) for number in count())  # one for each, as code is read once

    def made(**parts):
        usual = {"factor": 1, "words": "a", "imports": "", "calls": ""}
        folder = next(folders)
        folder.mkdir()
        (folder / "own_experiment.py").write_text(MODULE.format(**usual | parts))
        with monkeypatch.context() as patch:
            patch.syspath_prepend(folder)
            patch.delitem(sys.modules, "own_experiment", raising=False)
            patch.setattr(sys, "dont_write_bytecode", True)
            importlib.invalidate_caches()
            found = fingerprint(importlib.import_module("own_experiment").run_one)
            reached = code_of._reached("own_experiment", "run_one")
            del sys.modules["own_experiment"]
        return found, reached

    return made


def test_a_fingerprint_knows_what_a_run_uses_and_not_how_it_is_summarized(fingerprint_with):
    one, (own, modules) = fingerprint_with()
    assert one != fingerprint_with(factor=2)[0]
    assert modules == {"kfed._base.geometry"}
    assert any("seed_of" in code for code in own)
    assert any("'select'" in code for code in own)
    assert not any("'finish'" in code for code in own), "what a run does not use of another experiment counts"


def test_words_do_not_change_a_fingerprint(fingerprint_with):
    assert fingerprint_with()[0] == fingerprint_with(words="other, {0} and longer")[0]


def test_strings_that_are_not_words_change_a_fingerprint(fingerprint_with):
    assert fingerprint_with(factor="'a'")[0] != fingerprint_with(factor="'b'")[0]


@pytest.mark.parametrize(
    ("imports", "calls", "reached"),
    [
        ("import kfed", "kfed.cluster_device(axes)", "kfed.device"),
        ("import kfed as k", "k.cluster_device(axes)", "kfed.device"),
        ("import kfed.metrics", "kfed.metrics.kmeans_cost(axes)", "kfed.metrics"),
        ("import kfed.metrics as m", "m.kmeans_cost(axes)", "kfed.metrics"),
        ("", "import kfed; kfed.cluster_device(axes)", "kfed.device"),
        ("import kfed", "kfed.datasets.mixture(axes)", "kfed.datasets"),
        ("import kfed", "kfed.KFed(axes)", "kfed.estimator"),
        ("from kfed import KFed", "KFed(axes)", "kfed.estimator"),
        ("import kfed", "getattr(kfed, 'aggregate')(axes)", "kfed"),
    ],
)
def test_a_fingerprint_follows_the_ways_to_import_kfed(fingerprint_with, imports, calls, reached):
    one, (_, modules) = fingerprint_with(imports=imports, calls=calls)
    assert modules == {"kfed._base.geometry", reached}
    assert one != fingerprint_with(imports=imports)[0]


def test_an_experiment_that_is_called_through_kfed_is_followed_by_name(fingerprint_with):
    _, (own, modules) = fingerprint_with(imports="import kfed", calls="kfed.experiments.drawing.signless('0')")
    assert any("'signless'" in code for code in own)
    assert modules == {"kfed._base.geometry"}


@pytest.mark.parametrize(
    ("one", "other", "counts"),
    [
        ("'rows are left out'", "'some rows are left out'", False),
        ("f'{axes} rows of {axes}'", "f'{axes} lines of {axes}'", False),
        ("'rows'", "'lines'", True),
        ("f'{axes}rows'", "f'{axes}lines'", True),
        ("'abc ,;'", "'abcd ,;'", True),
    ],
)
def test_sentences_count_in_experiments_and_nowhere_else(fingerprint_with, tmp_path, monkeypatch, one, other, counts):
    made_up = ModuleType("kfed.made_up")
    monkeypatch.setitem(sys.modules, "kfed.made_up", made_up)
    found = []
    for name, text in (("one", one), ("other", other)):
        file = tmp_path / f"{name}.py"
        file.write_text(f"def said(axes):\n    return {text}\n")
        made_up.__file__ = str(file)
        found.append(fingerprint_with(imports="from kfed import made_up", calls="made_up.said(axes)")[0])
    assert (found[0] != found[1]) is counts
    assert fingerprint_with(calls=f"axes = {one}")[0] != fingerprint_with(calls=f"axes = {other}")[0]


def test_a_run_whose_code_has_changed_is_done_again(tmp_path, monkeypatch):
    run(Toy(), tmp_path)
    monkeypatch.setattr("kfed.experiments.store.fingerprint", lambda function: "other code")
    assert run(Toy(), tmp_path).n_found == 0
    assert run(Toy(), tmp_path).n_found == 4


def test_a_run_that_reads_other_data_is_done_again(tmp_path):
    run(Toy(), tmp_path)
    reading = Toy(run_requires=lambda axes: ("mnist",))
    assert RunStore(tmp_path, Toy().experiment, 0).find({"a": 1, "b": 1}) is not None
    assert RunStore(tmp_path, reading.experiment, 0).find({"a": 1, "b": 1}) is None


def test_a_run_on_other_files_of_leaf_is_done_again(tmp_path, monkeypatch):
    monkeypatch.setenv("KFED_DATA", str(tmp_path / "data"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    reading = Toy(run_reads=lambda axes: ("femnist",))
    assert run(Toy(), tmp_path).n_found == 0
    assert run(reading, tmp_path).n_found == 4, "without files of LEAF's the key is as ever"
    file = tmp_path / "data" / "femnist" / "train" / "one.json"
    file.parent.mkdir(parents=True)
    for content, n_found in (("{}", 0), ("{}", 4), ("[]", 0)):
        file.write_text(content)
        os.utime(file, ns=(hash(content) % 10**9, hash(content) % 10**9))
        assert run(reading, tmp_path).n_found == n_found
    file.rename(file.with_name("two.json"))
    assert run(reading, tmp_path).n_found == 0


def test_experiments_on_files_of_leaf_say_so():
    reads = {name: {part for axes in own.full for part in own.run_reads(axes)} for name, own in EXPERIMENTS.items()}
    both = {"femnist", "shakespeare"}
    assert {name: own for name, own in reads.items() if own} == dict.fromkeys(
        ("heterogeneity", "communication", "client-selection"), both
    )


def test_figures_that_the_paper_makes_on_mnist_stay_on_it(tmp_path, monkeypatch):
    monkeypatch.setenv("KFED_DATA", str(tmp_path))
    (tmp_path / "femnist" / "train").mkdir(parents=True)
    (tmp_path / "femnist" / "train" / "all.json").write_text("{}")
    for name in ("choosing-k", "table2", "table2-settings"):
        assert "mnist" in EXPERIMENTS[name].data_sets
    assert "mnist" not in {
        need for axes in EXPERIMENTS["client-selection"].full for need in EXPERIMENTS["client-selection"].needs(axes)
    }


def test_results_that_were_edited_are_not_taken(tmp_path):
    toy, path = Toy().experiment, tmp_path / "toy.json"
    assert run(Toy(), tmp_path).to_dict() == ExperimentOutcome.stored(toy, tmp_path).to_dict()
    whole = json.loads(path.read_text())
    for edit in ({"runs": whole["runs"][:-1]}, {"code": "other"}, {"digest": ""}, {"seed": 1}):
        path.write_text(json.dumps(whole | edit))
        assert ExperimentOutcome.stored(toy, tmp_path) is None
    whole["runs"][0]["values"]["sum"] = 7
    path.write_text(json.dumps(whole))
    assert ExperimentOutcome.stored(toy, tmp_path) is None


@pytest.mark.slow
def test_time_is_shared_by_the_cores_that_there_were(tmp_path):
    runs = tuple(Result(axes, {"sum": 1}, 3.0) for axes in Toy().experiment.full)
    two = Toy(side_by_side=2).experiment
    replace(run(Toy(side_by_side=2, run_one=which_process), tmp_path), results=runs, cores=1).write(tmp_path)
    assert ExperimentOutcome.stored(two, tmp_path).seconds == 12.0


REPRODUCTION = Path(__file__).parent.parent / "docs" / "reproduction"
PAGE = REPRODUCTION.with_suffix(".md").read_text(encoding="utf-8")
SHOWN = [name for name in EXPERIMENTS if f"\n## {name}\n" in PAGE and f"\n## {name}\n\n{KEPT}\n" not in PAGE]


def test_the_repository_holds_the_results_of_every_section_that_is_not_said_to_have_none():
    assert SHOWN
    assert sorted(path.stem for path in REPRODUCTION.glob("*.json")) == sorted(SHOWN)


@pytest.mark.parametrize("name", SHOWN)
def test_what_the_repository_holds_of_an_experiment_is_sound_and_its_page_shows_it(name):
    outcome = ExperimentOutcome.stored(EXPERIMENTS[name], REPRODUCTION)
    assert outcome is not None
    section = to_markdown(report_of([outcome]), "reproduction").partition(f"## {name}")[2]
    assert section
    for line in section.rpartition(" runs")[0].splitlines()[:-1]:
        assert line in PAGE


@pytest.mark.parametrize("name", [path.stem for path in sorted(REPRODUCTION.glob("*.json"))])
def test_the_duration_that_the_list_states_is_about_the_one_measured(name):
    measured = json.loads((REPRODUCTION / f"{name}.json").read_text())["seconds"] / 60
    assert measured / 1.5 <= EXPERIMENTS[name].minutes[1] <= measured * 1.5


def test_in_a_pipe_a_line_tells_before_the_first_run_how_many_there_are_and_how_long_they_take(capsys, tmp_path):
    told = []
    toy = Toy(minutes=(0.5, 8.0))
    says = replace(toy.experiment, run_one=lambda axes, seed: told.append(capsys.readouterr().err) or {"sum": 1})
    next(iter(reproduce([says], tmp_path)))
    assert told[0] == "toy: 4 runs, about 8 min\n"
    next(iter(reproduce([says], tmp_path)))
    assert capsys.readouterr().err == "", "nothing is left to wait for"


def test_the_time_that_is_told_is_of_the_runs_that_are_not_there(capsys, tmp_path):
    run(Toy(), tmp_path, quick=True)
    next(iter(reproduce([Toy(minutes=(0.5, 8.0)).experiment], tmp_path)))
    assert capsys.readouterr().err == "toy: 4 runs (2 found), about 4 min\n"


def test_in_a_pipe_progress_is_a_line_now_and_then(capsys, monkeypatch):
    monkeypatch.setattr("kfed.experiments.progress.SECONDS_BETWEEN_LINES", 0.0)
    with following("toy", 3) as advance:
        advance(1)
        advance(2)
    before, first, last = capsys.readouterr().err.splitlines()
    assert before == "toy: 3 runs"
    assert first.startswith("toy: 1 of 3 runs after ")
    assert last.startswith("toy: 3 of 3 runs after ")
    with following("toy", 3, False) as advance:
        advance(3)
    assert capsys.readouterr().err == ""


def test_runs_that_were_found_do_not_shorten_the_time_that_is_left(capsys, monkeypatch, tmp_path):
    seconds = count(0, 10)
    monkeypatch.setattr("kfed.experiments.progress.time.monotonic", lambda: float(next(seconds)))
    monkeypatch.setattr("kfed.experiments.progress.SECONDS_BETWEEN_LINES", 0.0)
    toy = Toy()
    run(toy, tmp_path, quick=True)
    capsys.readouterr()
    next(iter(reproduce([toy.experiment], tmp_path)))
    said = capsys.readouterr().err.splitlines()[1:]
    assert [line.partition(" after ")[0] for line in said] == [f"toy: {n} of 4 runs (2 found)" for n in (3, 4)]
    assert [line.partition(" after ")[2] for line in said] == ["10 s, about 10 s left", "20 s, about 0 s left"]


def test_a_stored_run_that_is_not_sound_is_done_again(tmp_path):
    run(Toy(), tmp_path)
    for path in (tmp_path / "runs" / "toy").iterdir():
        path.write_text(path.read_text()[:20])
    assert run(Toy(), tmp_path).n_found == 0


def test_the_same_seed_gives_the_same_numbers_and_another_gives_others(tmp_path):
    one, same, other = (run(Toy(), tmp_path / name, seed=seed) for name, seed in (("a", 0), ("b", 0), ("c", 1)))
    assert [r["noise"] for r in one.results] == [r["noise"] for r in same.results]
    assert [r["noise"] for r in one.results] != [r["noise"] for r in other.results]


@pytest.fixture
def no_data(tmp_path, monkeypatch):
    """Neither data nor a place to download them from."""
    monkeypatch.setenv("KFED_DATA", str(tmp_path / "nothing"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "nothing"))
    for name, files in kfed.datasets.sources.SOURCES.items():
        monkeypatch.setitem(kfed.datasets.sources.SOURCES, name, tuple(replace(file, urls=()) for file in files))


def test_without_its_data_an_experiment_is_skipped_with_the_reason(tmp_path, no_data):
    toy = Toy(requires=("mnist",))
    outcome = run(toy, tmp_path)
    assert toy.done == []
    assert "put mnist/train-images-idx3-ubyte.gz" in outcome.skipped
    assert json.loads((tmp_path / "toy.json").read_text())["skipped"] == outcome.skipped


def test_runs_whose_data_are_missing_are_left_out_and_the_others_done(tmp_path, no_data):
    toy = Toy(run_requires=lambda axes: ("mnist",) if axes["a"] == 2 else ())
    outcome = run(toy, tmp_path)
    assert toy.done == [{"a": 1, "b": 1}, {"a": 1, "b": 2}]
    assert outcome.skipped == ""
    assert "put mnist/train-images-idx3-ubyte.gz" in outcome.left_out
    assert json.loads((tmp_path / "toy.json").read_text())["left_out"] == outcome.left_out


def test_results_stay_where_an_experiment_is_skipped(tmp_path, no_data):
    run(Toy(), tmp_path)
    files = {path: path.read_bytes() for path in tmp_path.glob("toy.*")}
    outcome = run(Toy(requires=("mnist",)), tmp_path)
    assert outcome.skipped
    assert outcome.not_written == f"{tmp_path / 'toy.json'} keeps its results"
    assert {path: path.read_bytes() for path in tmp_path.glob("toy.*")} == files


def test_results_of_another_version_stay_too_where_an_experiment_is_skipped(tmp_path, no_data):
    run(Toy(), tmp_path)
    before = (tmp_path / "toy.json").read_bytes()
    assert run(Toy(requires=("mnist",), full=({"a": 5, "b": 5},)), tmp_path).not_written
    assert (tmp_path / "toy.json").read_bytes() == before


def test_a_file_that_says_only_that_it_was_skipped_is_written_again(tmp_path, no_data):
    for needs in (("mnist",), ("tff-shakespeare",)):
        outcome = run(Toy(requires=needs), tmp_path)
        assert outcome.not_written == ""
        assert json.loads((tmp_path / "toy.json").read_text())["skipped"] == outcome.skipped
    assert run(Toy(), tmp_path).not_written == ""


def test_a_quick_look_leaves_the_results_of_the_full_preset(tmp_path):
    run(Toy(), tmp_path)
    files = {path: path.read_bytes() for path in tmp_path.glob("toy.*")}
    outcome = run(Toy(), tmp_path, quick=True, fresh=True)
    assert len(outcome.results) == 2
    assert outcome.picture is None
    assert "toy.json keeps its 4 runs of the full preset; to write the 2 of now, name another" in outcome.not_written
    assert {path: path.read_bytes() for path in tmp_path.glob("toy.*")} == files


def test_the_full_preset_and_another_seed_replace_what_is_there(tmp_path):
    for options in ({"quick": True}, {"quick": True, "seed": 1}, {}, {"seed": 1}, {"fresh": True}):
        outcome = run(Toy(), tmp_path, **options)
        assert outcome.not_written == ""
        assert ExperimentOutcome.stored(Toy().experiment, tmp_path).to_dict() == outcome.to_dict()


def test_runs_that_are_left_out_for_missing_data_do_not_take_the_place_of_those_that_are_there(tmp_path, no_data):
    run(Toy(), tmp_path)
    before = (tmp_path / "toy.json").read_bytes()
    fewer = run(Toy(run_requires=lambda axes: ("mnist",) if axes["a"] == 2 else ()), tmp_path)
    assert "toy.json keeps its 4 runs of the full preset; to write the 2 of now" in fewer.not_written
    assert (tmp_path / "toy.json").read_bytes() == before


def test_an_experiment_asked_for_by_name_fails_without_its_data_before_any_work(tmp_path, no_data):
    toys = [Toy(name="first"), Toy(requires=("mnist",))]
    with pytest.raises(kfed.MissingDataError, match=r"put mnist/train-images-idx3-ubyte\.gz"):
        list(reproduce([toy.experiment for toy in toys], tmp_path / "out", skip_missing=False))
    assert toys[0].done == []
    assert not (tmp_path / "out").exists()


def test_without_matplotlib_there_are_results_but_no_picture(tmp_path, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "matplotlib", None)
    outcome = run(Toy(), tmp_path)
    assert outcome.picture is None
    assert len(outcome.results) == 4


def test_seeds_depend_on_names_and_values_of_axes_and_on_nothing_else():
    assert seed_of(0, a=1, b="x") == seed_of(0, b="x", a=1)
    assert len({seed_of(0, a=1), seed_of(1, a=1), seed_of(0, b=1), seed_of(0, a=2), seed_of(0)}) == 5


# Expected verdicts -----------------------------------------------------------------------------------------------


def test_a_verdict_that_falls_below_what_is_written_down_fails(tmp_path, capsys):
    file = str(tmp_path / "expected.json")
    sums_more = Toy(quick=Toy().experiment.full, full=Toy().experiment.quick)
    for seed in (0, 1):
        run(sums_more, tmp_path / str(seed), seed=seed, quick=True)
    assert expected.main(["write", file, str(tmp_path / "0"), str(tmp_path / "1")]) == 0
    assert json.loads(Path(file).read_text()) == {"toy": {"the sum is 8 | or more": "reproduced"}}
    assert expected.main(["check", file, str(tmp_path / "0")]) == 0
    run(Toy(), tmp_path / "worse", quick=True)
    assert expected.main(["check", file, str(tmp_path / "worse")]) == 1
    assert "toy: the sum is 8 | or more is not reproduced; expected reproduced" in capsys.readouterr().out
    assert expected.main(["check", file]) == 2


def test_nothing_is_written_down_that_the_full_preset_refutes(tmp_path):
    file = str(tmp_path / "expected.json")
    sums_more = Toy(quick=Toy().experiment.full, full=Toy().experiment.quick)
    run(sums_more, tmp_path / "quick", quick=True)
    run(sums_more, tmp_path / "full")
    assert expected.main(["write", file, str(tmp_path / "quick"), str(tmp_path / "full")]) == 0
    assert json.loads(Path(file).read_text()) == {"toy": {}}


def test_full_runs_alone_lower_what_is_written_down(tmp_path):
    file = tmp_path / "expected.json"
    file.write_text(json.dumps({"toy": {"the sum is 8 | or more": "exceeded"}, "other": {"it is": "reproduced"}}))
    run(Toy(), tmp_path / "full")
    assert expected.main(["write", str(file), str(tmp_path / "full")]) == 0
    kept = {"toy": {"the sum is 8 | or more": "reproduced"}, "other": {"it is": "reproduced"}}
    assert json.loads(file.read_text()) == kept


def test_an_experiment_that_is_written_down_and_did_not_run_fails(tmp_path, capsys):
    file = tmp_path / "expected.json"
    file.write_text(
        json.dumps({"toy": {"the sum is 8 | or more": "reproduced"}, "gone": {"it is there": "reproduced"}})
    )
    run(Toy(), tmp_path / "results")
    assert expected.main(["check", str(file), str(tmp_path / "results")]) == 1
    said = capsys.readouterr().out
    assert said == "gone did not run; expected: it is there\n1 expected verdict checked; 1 problem\n"
    (tmp_path / "nothing").mkdir()
    assert expected.main(["check", str(file), str(tmp_path / "nothing")]) == 1
    assert "toy did not run; expected: the sum is 8 | or more" in capsys.readouterr().out


def test_what_is_written_down_is_of_experiments_and_claims_that_there_are():
    written = json.loads((Path(__file__).parent / "expected_verdicts.json").read_text())
    assert set(written) <= set(EXPERIMENTS)
    assert {verdict for claims in written.values() for verdict in claims.values()} <= set(VERDICTS[1:])


def test_nothing_is_written_down_above_its_verdict_in_the_repository():
    written = json.loads((Path(__file__).parent / "expected_verdicts.json").read_text())
    assert expected.capped_by(written, expected.full_in(REPRODUCTION)) == written


def test_all_skips_what_it_cannot_do_and_says_so(invoke, no_data):
    done = invoke("all", "--quick")
    assert done.exit_code == 0
    assert "skipped" in done.stdout
    assert "needy is skipped: train-images-idx3-ubyte.gz" in done.stderr


def test_json_is_all_that_is_printed(invoke, no_data):
    content = json.loads(invoke("all", "--quick", "--json").stdout)
    assert [(outcome["name"], bool(outcome["skipped"])) for outcome in content] == [("toy", False), ("needy", True)]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["table9"], "unknown experiment 'table9'; choose from toy, needy"),
        ([], "name at least one experiment, or all; the experiments are toy, needy"),
        (["toy", "needy"], "put mnist/train-images-idx3-ubyte.gz"),
    ],
)
def test_what_cannot_be_run_is_an_error_before_any_work(invoke, no_data, words, message, tmp_path):
    done = invoke(*words)
    assert done.exit_code == 1
    assert message in done.stderr
    assert not (tmp_path / "kfed-reproduction").exists()


def test_a_page_that_cannot_be_written_is_an_error_before_any_work(invoke, tmp_path):
    done = invoke("toy", "--markdown", "no/such/folder/page.md")
    assert done.exit_code == 1
    assert "its folder must exist" in done.stderr
    assert not (tmp_path / "kfed-reproduction").exists()


def test_the_example_in_the_docstring_names_what_there_is():
    for name in ("Experiment", "Finding", "ExperimentSummary", "TextTable", "grid", "seed_of"):
        assert hasattr(kfed.experiments, name)


@pytest.mark.slow
def test_the_experiment_on_tables_says_how_much_is_lost_against_pooled_clustering(tmp_path):
    experiment = tables.EXPERIMENT
    runs = [axes for axes in experiment.quick if axes["data"] == "wine" and axes["sites"] == 6]
    results = results_of(experiment, runs)
    assert all(-0.5 <= result[way] <= 1 for result in results for way in tables.WAYS)
    assert all(result["no floor"] >= result["pooled"] - 0.03 for result in results if result["missing"] == 0)
    summary = experiment.summarize(results)
    assert [finding.verdict in ("reproduced", "not reproduced") for finding in summary.findings] == [True, True]
    assert len(summary.tables[0].rows) == 4
    draw(experiment, results, tmp_path)


@pytest.mark.parametrize("lost", [0.0, 0.05])
def test_a_table_that_loses_too_much_is_not_reproduced(lost):
    axes = [{"data": "cancer", "sites": 6, "split": split, "missing": 0.0, "run": 0} for split in ("iid", "group")]
    values = {"no floor": 0.8, "default": 0.8 - lost, "pooled": 0.8}
    found = tables.EXPERIMENT.summarize([Result(one, values, 1.0) for one in axes]).findings
    assert [finding.verdict for finding in found] == ["not reproduced" if lost else "reproduced"]
