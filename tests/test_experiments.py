"""Experiments: runs are stored and never done twice, claims can fail, and every experiment runs end to end."""

import importlib
import json
import os
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import kfed
from kfed._base import figures, text
from kfed._base.report import VERDICTS
from kfed.cli import app
from kfed.experiments import (
    EXPERIMENTS,
    Experiment,
    ExperimentOutcome,
    ExperimentSummary,
    Finding,
    Result,
    TextTable,
    _two_distances,
    choosing_k,
    code_of,
    communication,
    device_failures,
    expected,
    get,
    grid,
    heterogeneity,
    inactive_separation,
    privacy,
    registry,
    reproduce,
    scaling,
    seed_of,
    separation_constant,
    table1,
    tables,
)
from kfed.experiments import experiment as experiment_module
from kfed.experiments.code_of import fingerprint
from kfed.experiments.pages import findings_of, tally
from kfed.experiments.progress import following
from kfed.experiments.store import RunStore

needs_data = pytest.mark.skipif(not os.environ.get("KFED_DATA"), reason="KFED_DATA does not name a folder of data sets")


class Toy:
    """An experiment that adds numbers, remembers which runs were done, and can be interrupted."""

    def __init__(self, stop_at=None, **changes):
        self.done, self.stop_at = [], stop_at
        self.experiment = Experiment(
            name="toy",
            title="Toy",
            paper="Table 0",
            claim="One and one is two.",
            measure="The sum.",
            setup_differs="In no way.",
            quick=grid(a=[1], b=[1, 2]),
            full=grid(a=[1, 2], b=[1, 2]),
            run_one=self.run_one,
            summarize=self.summarize,
            plot=lambda results, figure: figure.add_subplot().plot([r["sum"] for r in results]),
        )
        self.experiment = replace(self.experiment, **changes)

    def run_one(self, axes, seed):
        if axes == self.stop_at:
            raise KeyboardInterrupt
        self.done.append(dict(axes))
        rng = np.random.default_rng(seed_of(seed, **axes))
        return {"sum": np.int64(axes["a"] + axes["b"]), "noise": rng.normal(size=2), "nothing": np.nan}

    @staticmethod
    def summarize(results):
        total = sum(r["sum"] for r in results)
        finding = Finding("the sum is 8 | or more", "8", str(total), "reproduced" if total >= 8 else "not reproduced")
        return ExperimentSummary(
            (finding,), (TextTable("Sums", ("a", "sum"), tuple((str(r["a"]), str(r["sum"])) for r in results)),)
        )


def which_process(axes, seed):
    """A run that tells where it was done; at the top of the file, where another process finds it."""
    return {"sum": axes["a"] + axes["b"], "seed": seed, "process": os.getpid()}


def run(toy, folder, **options):
    return next(iter(reproduce([toy.experiment], folder, progress=False, **options)))


def test_runs_side_by_side_are_done_in_other_processes_and_come_back_in_order(tmp_path):
    side_by_side = run(Toy(run_one=which_process, side_by_side=2), tmp_path / "two", seed=3)
    one_by_one = run(Toy(run_one=which_process), tmp_path / "one", seed=3)
    for ours, theirs in zip(side_by_side.results, one_by_one.results, strict=True):
        assert (ours.axes, ours["sum"], ours["seed"]) == (theirs.axes, theirs["sum"], theirs["seed"])
        assert ours["process"] != theirs["process"] == os.getpid()
    assert run(Toy(run_one=which_process, side_by_side=2), tmp_path / "two", seed=3).n_found == 4


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
from kfed._base import geometry
FACTOR = {factor}
def run_one(axes, seed):
    return helper(axes)
def helper(axes):
    return {{"sum": FACTOR * axes["a"], "at": geometry.nearest}}
def summarize(results):
    return {words!r}
"""


def test_a_fingerprint_knows_what_a_run_uses_and_not_how_it_is_summarized(tmp_path, monkeypatch):
    found = {}
    for name, parts in {"one": (1, "a"), "words": (1, "b"), "other": (2, "a")}.items():
        (tmp_path / name).mkdir()
        (tmp_path / name / "own_experiment.py").write_text(MODULE.format(factor=parts[0], words=parts[1]))
        with monkeypatch.context() as patch:
            patch.syspath_prepend(tmp_path / name)
            patch.delitem(sys.modules, "own_experiment", raising=False)
            code_of._path_of.cache_clear()
            code_of._source.cache_clear()
            found[name] = fingerprint(importlib.import_module("own_experiment").run_one)
            del sys.modules["own_experiment"]
    assert found["one"] == found["words"] != found["other"]
    source = MODULE.format(factor=1, words="a")
    assert code_of._reached(source, "run_one")[1] == {"kfed._base", "kfed._base.geometry"}


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


def test_in_a_pipe_progress_is_a_line_now_and_then(capsys, monkeypatch):
    monkeypatch.setattr("kfed.experiments.progress.SECONDS_BETWEEN_LINES", 0.0)
    with following("toy", 3) as advance:
        advance(1)
        advance(2)
    first, last = capsys.readouterr().err.splitlines()
    assert first.startswith("toy: 1 of 3 runs after ")
    assert last.startswith("toy: 3 of 3 runs after ")
    with following("toy", 3, False) as advance:
        advance(3)
    assert capsys.readouterr().err == ""


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


# The registered ones ---------------------------------------------------------------------------------------------


def test_an_unknown_experiment_lists_the_known_ones():
    with pytest.raises(kfed.InvalidInputError, match=f"experiment 'table9'; choose from {', '.join(EXPERIMENTS)}"):
        get("table9")


@pytest.mark.parametrize("experiment", EXPERIMENTS.values(), ids=EXPERIMENTS)
def test_every_experiment_says_what_it_is_and_has_runs_that_json_can_name(experiment):
    for name in ("title", "paper", "claim", "measure", "setup_differs"):
        assert getattr(experiment, name)
    for preset in (experiment.quick, experiment.full):
        named = [json.dumps(dict(axes), sort_keys=True) for axes in preset]
        assert len(set(named)) == len(named) > 0
    assert set(experiment.data_sets) <= set(kfed.datasets.sources.SOURCES)


def results_of(experiment, runs, seed=0):
    return [Result(axes, json.loads(json.dumps(text.plain(experiment.run_one(axes, seed)))), 1.0) for axes in runs]


def draw(experiment, results, tmp_path):
    figure = figures.new_figure(*experiment.figure_size)
    experiment.plot(results, figure)
    figures.save_figure(figure, tmp_path / "picture.png")


def verdicts(experiment, results):
    return [finding.verdict for finding in experiment.summarize(results).findings]


@pytest.mark.slow
def test_clusters_that_share_no_device_are_told_apart_where_pooled_clustering_takes_them_for_one():
    experiment = inactive_separation.EXPERIMENT
    near = [a for a in experiment.full if a["distance"] == inactive_separation.NEAR and a["in_one_place"]]
    results = results_of(experiment, near[:2])
    assert all(r["kfed"] == 100 and r["pooled"] < r["known"] < 70 for r in results)


def test_the_claims_of_inactive_separation_hold_or_fail_by_the_accuracies(tmp_path):
    experiment = inactive_separation.EXPERIMENT
    bounds = {"inactive_bound": 259.0, "active_bound": 16_000.0, "centralized_bound": 3_451.0}

    def made_up(axes, is_blind):
        distance = 1e9 if axes["distance"] == inactive_separation.THEOREM else axes["distance"]
        told = distance >= axes["sharing"] / 6
        return Result(
            axes, {"kfed": 25.0 if is_blind or not told else 100.0, "pooled": 30.0, "known": 40.0, **bounds}, 1.0
        )

    results = [made_up(axes, is_blind=False) for axes in experiment.quick]
    assert verdicts(experiment, results) == ["reproduced"] * 4
    draw(experiment, results, tmp_path)
    assert verdicts(experiment, [made_up(a, is_blind=True) for a in experiment.quick]) == ["not reproduced"] * 4


def test_the_two_distances_are_as_far_as_asked_and_the_theorems_guarantee_the_points():
    drawn = _two_distances.two_distances(4, 6, None, None, np.random.default_rng(0))
    groups = np.repeat(list(drawn.devices), [len(points) for points in drawn.devices.values()])
    report = kfed.separation_report(np.concatenate(list(drawn.devices.values())), drawn.targets, groups)
    assert report.verdict == "guaranteed for every point"
    inactive = report.distances[tuple(report.inactive_pairs.T)]
    assert inactive.min() == pytest.approx(drawn.inactive_bound)
    assert report.distances[tuple(report.active_pairs.T)].min() == pytest.approx(drawn.active_bound)


def test_table_1_reaches_100_at_the_theorems_c_and_at_20_standard_deviations(tmp_path):
    runs = [{**axes, "n_r": 100} for axes in table1.EXPERIMENT.quick if axes["k"] == 16 and axes["run"] == 0]
    results = results_of(table1.EXPERIMENT, runs)
    ours = [r["accuracy"] for r in results if r["column"].startswith("ours")]
    assert min(ours) == 100
    assert verdicts(table1.EXPERIMENT, results) == ["reproduced"]  # as 100 is the paper's number, too
    assert min(r["theorem_c"] for r in results if r["column"] == table1.LITERAL) == pytest.approx(100)
    draw(table1.EXPERIMENT, results, tmp_path)


@pytest.mark.slow
def test_every_row_of_table_1_reaches_100_at_the_theorems_c_and_99_95_at_20_standard_deviations():
    reached = {table1.LITERAL: 100.0, "ours, 20 sd": 99.95}
    runs = [a for a in table1.EXPERIMENT.full if a["run"] == 0 and a["column"] in reached]
    results = results_of(table1.EXPERIMENT, runs, seed=5)
    for column, must_reach in reached.items():
        rows = {(r["d"], r["k"]): r["accuracy"] for r in results if r["column"] == column}
        assert len(rows) == 5
        assert min(rows.values()) >= must_reach


def test_a_lower_accuracy_is_said_not_to_reproduce_table_1():
    axes = [a for a in table1.EXPERIMENT.quick if a["run"] == 0]
    for accuracy, verdict in ((97.0, "not reproduced"), (99.6, "reproduced"), (100.0, "exceeded")):
        results = [Result(a, {"accuracy": accuracy, "theorem_c": 1.0}, 1.0) for a in axes]
        assert verdicts(table1.EXPERIMENT, results) == [verdict]


def test_accuracy_grows_with_the_separation_constant(tmp_path):
    experiment = separation_constant.EXPERIMENT
    results = results_of(experiment, [{**a, "n_r": 100} for a in experiment.quick if a["run"] < 2])
    by_c = {c: np.mean([r["accuracy"] for r in results if r["c"] == c]) for c in (0.01, 0.1, 100.0)}
    assert by_c[0.01] < 30 < 99 < by_c[0.1] <= by_c[100.0] == 100
    assert verdicts(experiment, results) == ["reproduced"]
    draw(experiment, results, tmp_path)
    worse = [replace(r, values={**r.values, "accuracy": 50.0}) for r in results]
    assert verdicts(experiment, worse) == ["not reproduced"]


def test_the_server_computes_fewer_distances_than_the_theorem_allows(tmp_path):
    experiment = scaling.EXPERIMENT
    results = results_of(experiment, experiment.quick)
    assert verdicts(experiment, results) == ["reproduced", "reproduced"]
    assert all(r["late_distances"] == scaling.K_PRIME * r["k"] for r in results)
    draw(experiment, results, tmp_path)
    more = [replace(r, values={**r.values, "server_distances": 2 * scaling._bound(r)}) for r in results]
    assert verdicts(experiment, more)[0] == "not reproduced"


def test_devices_that_answer_and_those_that_come_later_are_right_whichever_others_fail(tmp_path):
    experiment = device_failures.EXPERIMENT
    results = results_of(experiment, [axes for axes in experiment.quick if axes["run"] == 0])
    assert [r["answered"] for r in results] == [100] * 3
    assert [r["late"] for r in results] == [None, 100, 100]
    assert results[-1]["held"] < 16 <= results[0]["held"]
    assert results[-1]["stale"] < 90  # more clusters were asked for than there are
    assert verdicts(experiment, results) == ["reproduced"] * 2
    draw(experiment, results, tmp_path)
    wrong = [replace(r, values={**r.values, "late": 50.0}) for r in results]
    assert verdicts(experiment, wrong) == ["reproduced", "not reproduced"]


def test_counting_distances_leaves_the_library_as_it_was():
    before = kfed._base.geometry.squared_distances, kfed._base.geometry.product_distances
    with scaling.counting_distances() as count:
        kfed._base.geometry.squared_distances(np.eye(3), np.eye(3)[:2])
        assert count() == 6
    with pytest.raises(ValueError, match="shape"), scaling.counting_distances():
        kfed._base.geometry.squared_distances(np.eye(3), np.eye(2))
    assert (kfed._base.geometry.squared_distances, kfed._base.geometry.product_distances) == before


def heterogeneity_results(ratios, k=10):
    """Made-up results: random partitions cost twice as much as the oracle, structured ones by the ratios."""
    costs = {heterogeneity.IID: 2.0, **{k_prime: 1 + ratio for k_prime, ratio in ratios.items()}}
    about = {"oracle_cost": 1.0, "n_clusters": k, "n_points": 100, "is_chosen": True, "source": "nowhere"}
    return [
        Result(
            {"data": "made up", "split": split, "n_devices": 5, "k": k, "run": 0},
            {"cost": cost, "nearest_cost": cost - 0.01, **about},
            1.0,
        )
        for split, cost in costs.items()
    ]


@pytest.mark.parametrize(
    ("ratios", "expected"),
    [
        ({1: 0.0, 2: 0.1, 3: 0.2, 5: 0.7, 10: 1.0}, ["reproduced", "reproduced", "reproduced"]),
        ({1: 0.3, 2: 0.1, 3: 0.2, 5: 0.7, 10: 1.0}, ["reproduced", "not reproduced", "reproduced"]),
        ({1: 0.0, 2: 0.1, 3: 0.8, 5: 1.2, 10: 1.0}, ["not reproduced", "reproduced", "not reproduced"]),
    ],
)
def test_the_claims_of_heterogeneity_hold_or_fail_by_the_ratios(ratios, expected, tmp_path):
    results = heterogeneity_results(ratios)
    assert verdicts(heterogeneity.EXPERIMENT, results) == expected
    draw(heterogeneity.EXPERIMENT, results, tmp_path)


@pytest.mark.parametrize(("cost", "verdict"), [(0.99, "reproduced"), (1.01, "reproduced"), (1.2, "not reproduced")])
def test_the_claim_of_communication_holds_or_fails_by_the_costs_in_each_reading(cost, verdict, tmp_path):
    sent = {"n_rounds": 1, "n_messages": 10, "n_bytes": 100}
    values = {"n_clusters": 4, "kfed_cost": cost, "kfed_nearest_cost": 1.02, "source": "nowhere", "kfed": sent}
    values |= {"lloyd_costs": [1.5, 1.0], "lloyd_bytes": [200, 400]}
    values |= {"lloyd": {**sent, "n_rounds": 3, "n_bytes": 400}, "pooled_bytes": 900}
    results = [Result({"data": "made up", "n_devices": 5, "k_prime": k, "run": 0}, values, 1.0) for k in (1, 2, 4)]
    assert verdicts(communication.EXPERIMENT, results) == [verdict, verdict, "reproduced", "reproduced"]
    draw(communication.EXPERIMENT, results, tmp_path)


@pytest.mark.parametrize(
    ("ratio", "expected"),
    [(0.24, ["not reproduced"] * 2), (0.3, ["not reproduced", "reproduced"]), (0.7, ["reproduced"] * 2)],
)
def test_the_rule_of_the_appendix_picks_a_k_or_is_said_not_to_with_the_2_and_without(ratio, expected, tmp_path):
    values = {"separation_ratios": [0.2, 0.22, ratio], "n_points": 100, "source": "nowhere"}
    results = [Result({"n_owners": 5, "k": 3}, values, 1.0), Result({"n_owners": 5, "k": 4}, values, 1.0)]
    assert verdicts(choosing_k.EXPERIMENT, results) == ["reproduced", *expected]
    draw(choosing_k.EXPERIMENT, results, tmp_path)


@needs_data
@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name, experiment in EXPERIMENTS.items() if experiment.data_sets])
def test_experiments_on_real_data_run_end_to_end(name, tmp_path):
    outcome = next(iter(reproduce([get(name)], tmp_path, quick=True)))
    assert outcome.summary.findings
    assert outcome.picture.exists()


def test_areas_beside_the_published_ones_can_fail(tmp_path):
    experiment = privacy.EXPERIMENT
    small = {"losses": [0.01] * len(privacy.EPSILONS), "ratio": 1.1}
    results = [Result(axes, small, 1.0) for axes in experiment.quick]
    assert verdicts(experiment, results) == ["reproduced"] * 3
    draw(experiment, results, tmp_path)
    worse = [Result(axes, {"losses": [0.1] * len(privacy.EPSILONS), "ratio": 1.1}, 1.0) for axes in experiment.quick]
    assert verdicts(experiment, worse) == ["not reproduced"] * 3


@pytest.mark.slow
def test_privacy_costs_little_on_one_device_and_in_one_round_by_cluster():
    experiment = privacy.EXPERIMENT
    runs = [a for a in experiment.quick if a["part"] == "blobs" and (a["k"], a["d"]) == (4, 4)]
    areas = {r["method"]: np.trapezoid(r["losses"], privacy.EPSILONS) for r in results_of(experiment, runs)}
    assert areas[privacy.ONE] < 1.02 * areas[privacy.NONE]
    assert areas[privacy.BY_CLUSTER] < 1.02 * areas[privacy.NONE] < areas[privacy.DIFFPRIVLIB]
    sites = {"part": privacy.ROWS, "rows": 2000, "local": 4, "epsilon": 2.0, "run": 0}
    assert experiment.run_one(sites, 0)["ratio"] < 1.05


# The command -----------------------------------------------------------------------------------------------------


@pytest.fixture
def invoke(monkeypatch, tmp_path):
    """Run `kfed reproduce` where the toy is the only experiment."""
    monkeypatch.chdir(tmp_path)
    toys = {"toy": Toy().experiment, "needy": replace(Toy(requires=("mnist",)).experiment, name="needy")}
    for name in list(registry.EXPERIMENTS):
        monkeypatch.delitem(registry.EXPERIMENTS, name)
    for name, toy in toys.items():
        monkeypatch.setitem(registry.EXPERIMENTS, name, toy)
    return lambda *words: CliRunner().invoke(app, ["reproduce", *words])


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


def test_the_list_says_how_long_each_takes_and_breaks_no_name(invoke, monkeypatch):
    registry.EXPERIMENTS["toy"] = replace(registry.EXPERIMENTS["toy"], minutes=(0.5, 12.0))
    shown = invoke("--list").stdout
    assert "toy (quick 30 s, full 12 min)\n  Toy. One and one is two.\n" in shown
    assert "needy (duration not measured)\n  Toy. One and one is two. Data: mnist.\n" in shown


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


def test_claims_of_ours_are_counted_apart(tmp_path):
    ours = run(Toy(paper="beyond the paper, which adds nothing"), tmp_path / "ours")
    assert tally([run(Toy(), tmp_path), ours]) == "1 claim of the paper: 1 reproduced; 1 claim of kfed: 1 reproduced"
    assert [finding.is_ours for finding in findings_of(ours)] == [True]


# Expected verdicts -----------------------------------------------------------------------------------------------


def test_a_verdict_that_falls_below_what_is_written_down_fails(tmp_path, capsys):
    file = str(tmp_path / "expected.json")
    for seed in (0, 1):
        run(Toy(), tmp_path / str(seed), seed=seed)
    assert expected.main(["write", file, str(tmp_path / "0"), str(tmp_path / "1")]) == 0
    assert json.loads(Path(file).read_text()) == {"toy": {"the sum is 8 | or more": "reproduced"}}
    assert expected.main(["check", file, str(tmp_path / "0")]) == 0
    run(Toy(), tmp_path / "worse", quick=True)
    assert expected.main(["check", file, str(tmp_path / "worse")]) == 1
    assert "toy: the sum is 8 | or more is not reproduced; expected reproduced" in capsys.readouterr().out
    run(Toy(name="other"), tmp_path / "other")
    assert expected.main(["check", file, str(tmp_path / "other")]) == 0
    assert "not run: toy" in capsys.readouterr().out
    assert expected.main(["check", file]) == 2


def test_what_is_written_down_is_of_experiments_and_claims_that_there_are():
    written = json.loads((Path(__file__).parent / "expected_verdicts.json").read_text())
    assert set(written) <= set(EXPERIMENTS)
    assert {verdict for claims in written.values() for verdict in claims.values()} <= set(VERDICTS[1:])


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
        assert hasattr(experiment_module, name)


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
