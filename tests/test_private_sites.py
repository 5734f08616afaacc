"""Differential privacy at a site: the options of the command line, the ledger of a table, and what servers demand."""

import json

import numpy as np
import pytest

import kfed
from consoles import run, said
from kfed.site import Ledger

PRIVATE = ("--epsilon", "1", "--radius", "4")


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    rows = np.repeat([[-2.0, 0.0], [2.0, 0.0]], 400, axis=0) + 0.3 * rng.normal(size=(800, 2))
    np.savetxt("north.csv", rows, delimiter=",", header="x,y", comments="")
    np.savetxt("few.csv", rows[:80], delimiter=",", header="x,y", comments="")
    return tmp_path


def promised(epsilon=1.0):
    privacy = kfed.Privacy(epsilon=epsilon, radius=4.0)
    points = np.random.default_rng(1).normal(size=(3000, 2))
    return kfed.cluster_device(points, 1, privacy=privacy).to_message("north")


# The ledger -----------------------------------------------------------------------------------------------------------


def test_two_releases_of_the_same_rows_compose_and_the_same_message_costs_nothing(tmp_path):
    ledger = Ledger(tmp_path / "north.csv.ledger")
    first = promised()
    for message in (first, promised(), first):
        ledger.spend(message)
    assert len(ledger.entries()) == 2
    assert ledger.epsilon(1e-6) == pytest.approx(1.4547, abs=0.001)
    assert ledger.has(first)


def test_a_release_beyond_the_budget_is_refused_and_not_written(tmp_path):
    ledger = Ledger(tmp_path / "north.csv.ledger")
    ledger.spend(promised(), budget=1.2)
    before = ledger.path.read_bytes()
    with pytest.raises(
        kfed.InvalidInputError, match=r"bring epsilon to 1.4\d at delta 1e-06, more than the budget of 1.2"
    ):
        ledger.spend(promised(), budget=1.2)
    assert ledger.path.read_bytes() == before


def test_a_damaged_ledger_is_an_error(tmp_path):
    path = tmp_path / "north.csv.ledger"
    path.write_text('{"mu": 0}\n')
    with pytest.raises(kfed.InvalidInputError, match="damaged"):
        Ledger(path).spend(promised())


def test_a_ledger_knows_private_messages_only(tmp_path):
    with pytest.raises(kfed.InvalidInputError, match="must be private"):
        Ledger(tmp_path / "ledger").spend(kfed.DeviceMessage("a", [[0.0]], [5]))


# The command line -----------------------------------------------------------------------------------------------------


def test_a_private_message_is_written_with_its_promise_cost_and_ledger(folder):
    text = run("device", "north.csv", "-k", "2", *PRIVATE)
    for words in ("differentially private: epsilon 1", "noise puts a center off by about", "1 release of these rows"):
        assert words in " ".join(text.split())
    message = kfed.DeviceMessage.load("north.kfed")
    assert message.details.promise.epsilon == 1.0
    assert [entry.digest for entry in Ledger.beside("north.csv").entries()] == [message.digest().hex()]
    assert (folder / "north.csv.ledger").stat().st_mode & 0o077 == 0


def test_inspect_says_the_promise_in_a_sentence_and_what_it_is_not(folder):
    run("device", "north.csv", "-k", "2", *PRIVATE)
    text = " ".join(run("inspect", "north.kfed").split())
    assert "at most 2.72 times the probability that it would have without that row, plus 1e-06" in text
    assert "The promise does not cover: - that this site took part" in text
    facts = json.loads(run("inspect", "north.kfed", "--json"))
    assert facts["privacy"]["epsilon"] == 1.0
    assert len(facts["privacy"]["expected_errors"]) == 2


def test_the_budget_of_a_table_is_kept_over_commands(folder):
    run("device", "north.csv", "-k", "2", *PRIVATE, "--budget", "1.2")
    message = (folder / "north.kfed").read_bytes()
    error = run("device", "north.csv", "-k", "2", *PRIVATE, "--budget", "1.2", "--force", code=1)
    assert "more than the budget of 1.2" in " ".join(error.split())
    assert (folder / "north.kfed").read_bytes() == message


def test_private_rows_are_labelled_when_the_answer_comes(folder):
    run("device", "north.csv", "-k", "2", *PRIVATE)
    run("aggregate", "north.kfed", "-k", "2", "--require-epsilon", "1")
    labels = run("label", "north.local", "--clusters", "clusters.kfed").splitlines()[1:]
    clusters = [line.split(",")[1] for line in labels]
    assert len(set(clusters[:400])) == len(set(clusters[400:])) == 1
    assert clusters[0] != clusters[-1]


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["north.csv", "--epsilon", "1"], "--epsilon needs --schema or --scale"),
        (["north.csv", "--radius", "1"], "add --epsilon"),
        (["north.csv", "--epsilon", "0", "--radius", "4"], "epsilon must be"),
        (["north.csv", "--epsilon", "nan", "--radius", "4"], "epsilon must be"),
        (["north.csv", *PRIVATE, "--delta", "1"], "delta must be less than 1"),
        (["north.csv", *PRIVATE, "--budget", "0"], "budget must be"),
        (["north.csv", "--epsilon", "1", "--radius", "0.001"], "below the norm of every row"),
        (["few.csv", "--epsilon", "0.1", "--radius", "4"], "80 rows cannot support epsilon 0.1"),
    ],
)
def test_bad_input_releases_and_spends_nothing(folder, arguments, text):
    error = run("device", *arguments, "-k", "2", code=1)
    assert text in " ".join(error.split())
    assert not list(folder.glob("*.kfed"))
    assert all(not Ledger(path).entries() for path in folder.glob("*.ledger"))


def test_a_scale_made_from_these_very_rows_is_refused(folder):
    rows = np.loadtxt("north.csv", delimiter=",", skiprows=1)
    scale = {name: {"shift": float(rows[:, i].mean()), "scale": float(rows[:, i].std())} for i, name in enumerate("xy")}
    (folder / "scale.json").write_text(json.dumps(scale))
    error = run("device", "north.csv", "-k", "2", "--epsilon", "1", "--scale", "scale.json", code=1)
    assert "use numbers agreed without these rows; nothing was released" in " ".join(error.split())
    assert not (folder / "north.csv.ledger").exists()


def test_an_agreed_scale_is_enough(folder):
    (folder / "scale.json").write_text('{"x": {"shift": 0, "scale": 2}, "y": {"shift": 0, "scale": 1}}')
    run("device", "north.csv", "-k", "2", "--epsilon", "1", "--scale", "scale.json")
    assert kfed.DeviceMessage.load("north.kfed").details.promise.radius == pytest.approx(2 * np.sqrt(2))


SCHEMA = """{"columns": [{"name": "x", "kind": "number", "shift": 0, "scale": 2}, {"name": "y", "kind": "number",
"shift": 0, "scale": 1}], "scaling": "agreed", "missing": "observed"}"""


def test_a_scale_that_was_computed_from_rows_is_said_to_be_no_part_of_the_promise(folder):
    for name in ("north.csv", "few.csv"):
        run("summarize", name)
    run("agree", "north.summary", "few.summary", "-o", "schema.json")
    facts = json.loads(run("device", "north.csv", "-k", "2", "--epsilon", "2", "--schema", "schema.json", "--json"))
    assert "scale from rows" in [notice["code"] for notice in facts["warnings"]]
    run("device", "north.csv", "-k", "2", "--schema", "schema.json", "--force")  # without a promise, nothing to say


def test_tables_with_an_agreed_schema_are_private_missing_cells_and_all(folder):
    lines = (folder / "north.csv").read_text().splitlines()
    (folder / "north.csv").write_text("\n".join([*lines, ",0.5", "-2.0,", ""]))
    (folder / "schema.json").write_text(SCHEMA)
    run("device", "north.csv", "-k", "2", "--epsilon", "2", "--schema", "schema.json")
    message = kfed.DeviceMessage.load("north.kfed")
    assert message.schema.scaling == "agreed"
    assert set(message.details.tensors()) == {"noise"}
    assert np.abs(np.sort(message.centers[:, 0]) - [-1, 1]).max() < 0.3
    run("aggregate", "north.kfed", "-k", "2")
    assert len(run("label", "north.local", "--clusters", "clusters.kfed").splitlines()) == 803
    run("label", "north.local", "--clusters", "clusters.kfed", "--refine", "north.csv", code=1)


def test_a_scale_that_the_rows_show_is_not_private(folder):
    (folder / "schema.json").write_text(SCHEMA.replace('"agreed"', '"by message"'))
    error = run("device", "north.csv", "-k", "2", "--epsilon", "2", "--schema", "schema.json", code=1)
    assert "needs a schema with the shift and scale of every column" in " ".join(error.split())
    (folder / "schema.json").write_text(SCHEMA)
    options = ["--epsilon", "2", "--schema", "schema.json", "--missing", "mean"]
    assert "cannot use the mean of the rows for missing cells" in " ".join(
        run("device", "north.csv", "-k", "2", *options, code=1).split()
    )


def test_nothing_leaves_if_the_ledger_cannot_be_written(folder):
    (folder / "north.csv.ledger").mkdir()
    code, _, error = said("device", "north.csv", "-k", "2", *PRIVATE)
    assert code == 1
    assert "north.csv.ledger" in error
    assert not (folder / "north.kfed").exists()


def test_messages_that_promise_less_than_is_required_are_refused(folder):
    run("device", "north.csv", "-k", "2", "--epsilon", "2", "--radius", "4", "-o", "two.kfed", "--id", "two")
    run("device", "north.csv", "-k", "2", "-o", "none.kfed", "--id", "none")
    run("device", "north.csv", "-k", "2", *PRIVATE, "-o", "one.kfed", "--id", "one")
    for name, text in (("two", "promises epsilon 2; an epsilon of at most 1 is demanded"), ("none", "promises no")):
        error = run("aggregate", "one.kfed", f"{name}.kfed", "-k", "2", "--require-epsilon", "1", code=1)
        assert text in " ".join(error.split())
    run("aggregate", "one.kfed", "two.kfed", "none.kfed", "-k", "2", "--require-epsilon", "1", "--skip-bad")
    assert kfed.Aggregation.load("clusters.kfed").messages.device_ids == ("one",)
