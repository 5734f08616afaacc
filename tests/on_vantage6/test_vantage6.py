"""kfed on vantage6: with its mock client, and with the wrapper that runs in the container of an algorithm."""

import base64
import contextlib
import json
import os
import re
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

import kfed

pytest.importorskip("vantage6", reason="needs vantage6's algorithm tools, in an environment of its own: make vantage6")
import jwt
import pandas as pd
from vantage6.algorithm.tools.mock_client import MockAlgorithmClient

from platforms import (
    CANARY,
    HOSPITALS,
    ROOT,
    UNLIKE,
    labels_of_the_readme,
    table_with_a_canary,
    traces_of_the_canary,
)

EXAMPLE = ROOT / "examples" / "vantage6"
SITES = ("north", "south", "east", "west")


@pytest.fixture(autouse=True)
def _operator(monkeypatch, tmp_path):
    """What the operator of every node sets."""
    monkeypatch.setenv("KFED_ID_COLUMN", "patient")
    monkeypatch.setenv("KFED_LABELS", str(tmp_path / "kept" / "{site}-labels.csv"))
    monkeypatch.setenv("KFED_ASKED", str(tmp_path))


def client_of(*tables, of=MockAlgorithmClient):
    """A client whose organizations 1, 2, ... have these tables."""
    databases = [{"database": table if isinstance(table, pd.DataFrame) else pd.read_csv(table)} for table in tables]
    ids = list(range(1, len(tables) + 1))
    return of([[one] for one in databases], "kfed.adapters.vantage6", organization_ids=ids)


def names_of(*names):
    return {str(id_): name for id_, name in enumerate(names, 1)}


def run(client, **kwargs):
    task = client.task.create(input_={"method": "central", "kwargs": kwargs}, organizations=[1])
    return client.result.from_task(task["id"])[0]


def clusters_of(found):
    return kfed.Aggregation.from_bytes(base64.b64decode(found["clusters"]))


def one_site(name="north", **options):
    """What one node replies to the question for its message."""
    client = client_of(HOSPITALS / "north.csv")
    ask = {"method": "partial_message", "kwargs": {"names": {"1": name}, "options": options}}
    return client.result.from_task(client.task.create(input_=ask, organizations=[1])["id"])[0]


def new_site(**options):
    """What a node replies that was not asked before."""
    for note in Path(os.environ["KFED_ASKED"]).glob("*.asked"):
        note.unlink()
    return one_site(**options)


def test_the_example_gives_every_row_the_label_that_the_readme_s_commands_give(tmp_path, monkeypatch, capsys):
    expected = labels_of_the_readme(tmp_path)
    made = tmp_path / "made"
    made.mkdir()
    for name in ("KFED_ID_COLUMN", "KFED_LABELS", "KFED_ASKED"):
        monkeypatch.delenv(name)  # the example sets them
    runpy.run_path(str(EXAMPLE / "run.py"))["main"](made)
    for site in SITES:
        labels = f"{site}-labels.csv"
        assert (made / labels).read_text() == (expected / labels).read_text(), site
    assert (made / "clusters.kfed").read_bytes() == (expected / "clusters.kfed").read_bytes()
    assert "late: ['west']; labelled: ['west']" in capsys.readouterr().out


def test_with_numbers_it_is_the_paper_s_method_as_on_the_command_line():
    north, east = (pd.read_csv(HOSPITALS / f"{site}.csv") for site in ("north", "east"))
    found = run(client_of(north, east), n_clusters=3, options={"n_local_clusters": 2}, names=names_of("north", "east"))
    assert (found["n_clusters"], found["rule"]) == (3, "paper")
    assert set(found["sites"]) == set(found["labelled"]) == {"north", "east"}


def test_no_cell_of_a_row_leaves_its_node(tmp_path, capfd):
    client = client_of(table_with_a_canary(tmp_path / "north.csv"), HOSPITALS / "east.csv")
    found = run(client, names=names_of("north", "east"))
    assert found["labelled"] == ["east", "north"]
    assert f"{CANARY['patient']}," in (tmp_path / "kept" / "north-labels.csv").read_text()
    at_the_server = [client.results, client.runs, client.tasks, found, *capfd.readouterr()]
    assert traces_of_the_canary(at_the_server) == set()


def test_the_search_for_a_cell_finds_it_where_the_floor_is_taken_away(tmp_path, monkeypatch):
    monkeypatch.setenv("KFED_MIN_CLUSTER_SIZE", "1")
    alone = pd.read_csv(table_with_a_canary(tmp_path / "north.csv"))[lambda rows: rows["patient"] == CANARY["patient"]]
    client = client_of(pd.concat([alone] * 3))
    found = run(client, n_clusters=1, options={"n_local_clusters": 1}, label=False)
    assert traces_of_the_canary(client.results) >= {"age", "bmi", "systolic", "glucose", "ward"}
    assert traces_of_the_canary([found, alone.to_csv()]) == set(UNLIKE)


def test_a_task_cannot_ask_for_less_than_the_floor_of_the_node(monkeypatch):
    assert "must be at least 5 at this site; got 2" in one_site(min_cluster_size=2)["error"]
    monkeypatch.setenv("KFED_MIN_CLUSTER_SIZE", "30")
    message = kfed.DeviceMessage.from_bytes(base64.b64decode(one_site()["message"]))
    assert message.counts.min() >= 30
    assert "error" not in new_site(min_cluster_size=40)


def test_the_operator_s_id_column_counts_and_not_that_of_a_task():
    assert one_site(id_column="age") == new_site()


def test_a_node_answers_one_question_whatever_name_a_task_gives_it():
    first = one_site()
    for other in (one_site("south"), one_site(random_state=1), one_site(columns=["age", "bmi"])):
        assert "has answered another question about its table" in other["error"]
    assert one_site() == first


def test_a_node_without_a_place_for_notes_sends_nothing(monkeypatch):
    monkeypatch.delenv("KFED_ASKED")
    assert "KFED_ASKED is not set at this site" in one_site()["error"]


@pytest.mark.parametrize("how", ["QUERY", "PREPROCESSING"])
def test_a_task_does_not_choose_the_rows(how, monkeypatch):
    monkeypatch.setenv(f"DEFAULT_{how}", "select * from patients where patient <> 17")
    assert "a task may bring neither a query nor preprocessing" in one_site()["error"]
    monkeypatch.setenv(f"DEFAULT_{how}", "")
    assert "message" in one_site()


@pytest.mark.parametrize("option", ["privacy", "scale", "path", "weight_column"])
def test_a_task_sets_nothing_that_it_may_not(option):
    assert f"got '{option}'" in one_site(**{option: "x"})["error"]


def test_a_schema_that_was_agreed_on_is_given_as_json():
    columns = [{"name": "age", "kind": "number"}, {"name": "smoker", "kind": "flag"}]
    message = kfed.DeviceMessage.from_bytes(base64.b64decode(one_site(schema={"columns": columns})["message"]))
    assert [column.name for column in message.schema.columns] == ["age", "smoker"]
    assert "a schema must have a list of columns" in new_site(schema={"columns": 3})["error"]


def test_sites_that_cannot_take_part_are_named_with_the_reason_and_the_others_go_on():
    north, east = (pd.read_csv(HOSPITALS / f"{site}.csv") for site in ("north", "east"))
    no_header = pd.read_csv(HOSPITALS / "west.csv", header=1)
    one_column = pd.read_csv(HOSPITALS / "south.csv")
    other = north[["patient", "age", "bmi"]]
    client = client_of(north, east, no_header, one_column, other, north.head(3))
    found = run(client, names=names_of("north", "east", "headless", "semicolons", "other", "tiny"))
    assert sorted(found["sites"]) == ["east", "north", "tiny"]
    assert {notice["code"] for notice in found["warnings"]} >= {"no center"}
    assert "it holds numbers" in found["failed"].pop("headless")
    assert "commas" in found["failed"].pop("semicolons")
    assert "all devices must have the same columns" in found["failed"].pop("other")
    assert found["failed"] == {}
    assert found["labelled"] == ["east", "north", "tiny"]


def test_a_table_without_a_header_shows_no_cell_of_its_first_row(tmp_path):
    path = table_with_a_canary(tmp_path / "north.csv")
    path.write_text("\n".join(line for line in path.read_text().splitlines() if "CANARY" in line) + "\n")
    client = client_of(path, HOSPITALS / "east.csv")
    assert set(run(client, names=names_of("north", "east"))["failed"]) == {"north"}
    assert traces_of_the_canary([client.results, client.runs]) == set()


def test_the_error_of_another_library_is_told_without_its_words(monkeypatch):
    def fail(*_, **__):
        raise ValueError(f"could not convert {CANARY['age']!r}")

    monkeypatch.setattr("kfed.adapters._platform_site.cluster_file", fail)
    said = one_site()["error"]
    assert re.fullmatch(r"it raised ValueError \(test_vantage6.py, line \d+\)", said)


def test_if_no_site_can_take_part_the_task_fails_and_says_why():
    client = client_of(pd.read_csv(HOSPITALS / "south.csv"))
    with pytest.raises(kfed.EngineError, match=r"no site sent a message that can be used \(south: .*commas"):
        run(client, names=names_of("south"))


def test_labels_that_no_operator_asked_for_are_not_written(monkeypatch):
    monkeypatch.delenv("KFED_LABELS")
    found = run(client_of(HOSPITALS / "north.csv", HOSPITALS / "east.csv"), names=names_of("north", "east"))
    assert set(found["unlabelled"]) == {"north", "east"}
    assert "KFED_LABELS is not set at this site" in found["unlabelled"]["north"]
    assert sorted(found["sites"]) == ["east", "north"]


def test_a_name_of_a_site_does_not_lead_out_of_the_folder_for_labels(tmp_path):
    found = run(client_of(HOSPITALS / "north.csv"), names={"1": "../../escaped"}, n_clusters=2)
    assert "the name of a site must be a valid file name" in found["unlabelled"]["../../escaped"]
    assert not list(tmp_path.rglob("*escaped*"))


def test_a_table_that_has_changed_is_not_labelled_by_an_old_answer():
    client = client_of(HOSPITALS / "north.csv")
    found = run(client, names=names_of("north"), label=False)
    identity = base64.b64encode(clusters_of(found).identity("north").to_bytes()).decode()
    digest = clusters_of(found).messages.message("north").digest().hex()
    said = {"name": "north", "identity": identity, "digest": digest}
    ask = {"method": "partial_labels", "kwargs": said}
    same, changed = pd.read_csv(HOSPITALS / "north.csv"), pd.read_csv(HOSPITALS / "north.csv")
    changed.loc[3, "age"] = "50.5"
    for table, said in [(same, "True"), (changed, "has changed since this site sent its message")]:
        other = client_of(table)
        task = other.task.create(input_=ask, organizations=[1])
        assert said in str(other.result.from_task(task["id"])[0])


class Unreliable(MockAlgorithmClient):
    """The run of organization 2 ends as its state says, without a result."""

    state = "pending"

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        all_runs, all_results = self.run.from_task, self.result.from_task

        def runs(task_id):
            found = all_runs(task_id)
            return [one | {"status": self.state} if one["organization"]["id"] == 2 else one for one in found]

        self.run.from_task = runs
        self.result.from_task = lambda task_id: [one for one in all_results(task_id) if one.get("site") != "east"]


@pytest.mark.parametrize(
    ("state", "reason"),
    [("pending", "it has not replied; it can be answered later"), ("crashed", "ended as 'crashed'")],
)
def test_a_node_that_is_offline_or_crashes_is_waited_for_as_long_as_asked_and_answered_later(state, reason):
    tables = [HOSPITALS / f"{site}.csv" for site in ("north", "east", "west")]
    names = names_of("north", "east", "west")
    client = client_of(*tables, of=type("Unreliable", (Unreliable,), {"state": state}))
    from kfed.adapters import vantage6

    found = vantage6.central(mock_client=client, names=names, patience=0.1)
    assert reason in found["failed"]["east"]
    assert found["labelled"] == ["north", "west"]
    late = run(client_of(*tables), names=names, organizations=[2], clusters=found["clusters"])
    assert (late["late"], late["labelled"], late["failed"]) == (["east"], ["east"], {})
    assert late["clusters"] == found["clusters"]


def test_organizations_must_be_known_and_have_names_that_differ():
    from kfed.adapters.vantage6 import central

    client = client_of(HOSPITALS / "north.csv", HOSPITALS / "east.csv")
    with pytest.raises(kfed.InvalidInputError, match=r"must be of this collaboration; got \[7\]"):
        central(mock_client=client, organizations=[1, 7])
    with pytest.raises(kfed.InvalidInputError, match="names that differ"):
        central(mock_client=client, names={"1": "north", "2": "north"})
    client.task.create = lambda **_: {"msg": "organization 2 has no node"}
    with pytest.raises(kfed.EngineError, match=r"did not create a task .*\[1, 2\]: organization 2 has no node"):
        central(mock_client=client)


@pytest.fixture
def container(tmp_path):
    """Run what the example's Dockerfile starts, with what a node gives the container of an algorithm."""

    def run_in_container(table, method, **kwargs):
        command = re.search(r"^CMD (.*)$", (EXAMPLE / "Dockerfile").read_text(), flags=re.MULTILINE)[1]
        package = re.search(r"^ENV PKG_NAME=(.*)$", (EXAMPLE / "Dockerfile").read_text(), flags=re.MULTILINE)[1]
        identity = {"client_type": "container", "node_id": 4, "organization_id": 1, "collaboration_id": 1}
        token = jwt.encode({"sub": identity | {"image": "kfed", "databases": []}}, "secret" * 8)
        given = {"input": json.dumps({"method": method, "kwargs": kwargs}), "token": token}
        for name, text in given.items():
            (tmp_path / name).write_text(text)
        node = {f"{name.upper()}_FILE": str(tmp_path / name) for name in ("input", "output", "token")}
        node |= {"HOST": "http://127.0.0.1", "PORT": "9", "API_PATH": "", "PKG_NAME": package}
        node |= {"USER_REQUESTED_DATABASE_LABELS": "default", "DEFAULT_DATABASE_URI": str(table)}
        _, *arguments = json.loads(command)
        said = subprocess.run(
            [sys.executable, *arguments], env=os.environ | node, capture_output=True, text=True, check=False
        )
        output = tmp_path / "output"
        with contextlib.suppress(FileNotFoundError):
            return json.loads(output.read_text()), said
        return None, said

    return run_in_container


def test_in_the_container_of_a_node_no_cell_is_sent_or_logged(tmp_path, container):
    table = table_with_a_canary(tmp_path / "north.csv")
    reply, said = container(table, "partial_message", names={"1": "north"})
    assert kfed.DeviceMessage.from_bytes(base64.b64decode(reply["message"])).device_id == "north"
    assert traces_of_the_canary([reply, said.stdout, said.stderr]) == set()


def test_in_the_container_a_table_that_pandas_cannot_read_is_told_without_a_cell(tmp_path, container):
    table = table_with_a_canary(tmp_path / "north.csv")
    table.write_text(f"{table.read_text()}{','.join([CANARY['age']] * 20)}\n")
    reply, said = container(table, "partial_message", names={"1": "north"})
    assert reply["error"].startswith("it raised ParserError")
    assert traces_of_the_canary([reply, said.stdout, said.stderr]) == set()


def test_the_adapters_do_not_import_the_platform():
    code = "import sys, kfed.adapters; print('vantage6' in sys.modules)"
    assert subprocess.check_output([sys.executable, "-c", code], text=True).strip() == "False"
