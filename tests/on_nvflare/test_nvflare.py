"""kfed on NVIDIA FLARE: in its simulator, and the executor of a site by itself."""

import base64
import json
import subprocess
import sys

import pytest

import kfed

pytest.importorskip("nvflare", reason="needs NVIDIA FLARE, in an environment of its own: make nvflare")
from nvflare.apis.fl_constant import FLContextKey, ReturnCode
from nvflare.apis.fl_context import FLContext
from nvflare.apis.shareable import Shareable
from nvflare.apis.signal import Signal
from nvflare.fuel.utils import fobs

from kfed.adapters.nvflare import ASK_LABELS, ASK_MESSAGE, KFedController, KFedExecutor, kfed_job
from platforms import (
    CANARY,
    HOSPITALS,
    ROOT,
    files_under,
    labels_of_the_readme,
    table_with_a_canary,
    traces_of_the_canary,
)

EXAMPLE = ROOT / "examples" / "nvflare" / "run.py"
RUN_ONE = """
import runpy, sys, pathlib
from kfed.adapters.nvflare import kfed_job
_, example, workspace, *sites = sys.argv
runpy.run_path(example)["simulate"](kfed_job("patients", patience=60), pathlib.Path(workspace), sites)
"""


@pytest.fixture
def operator(monkeypatch, tmp_path):
    """What the operator of a site sets; gives the folder of the tables."""
    tables = tmp_path / "tables"
    tables.mkdir()
    monkeypatch.setenv("KFED_TABLE", str(tables / "{site}.csv"))
    monkeypatch.setenv("KFED_ID_COLUMN", "patient")
    monkeypatch.setenv("KFED_LABELS", str(tmp_path / "kept" / "{site}-labels.csv"))
    return tables


def replied(task_name=ASK_MESSAGE, site="north", **said):
    """What the executor of a site replies, and the bytes that are sent."""
    context, question = FLContext(), Shareable()
    context.set_prop(FLContextKey.CLIENT_NAME, site, private=False)
    context.set_prop("__identity_name__", site, private=False)
    question["kfed"] = {"options": {}} | said
    reply = KFedExecutor().execute(task_name, question, context, Signal())
    return reply, fobs.dumps(reply)


def message_of(reply):
    return kfed.DeviceMessage.from_bytes(base64.b64decode(reply["kfed"]["message"]))


def test_the_example_gives_every_row_the_label_that_the_readme_s_commands_give(tmp_path):
    expected = labels_of_the_readme(tmp_path)
    made = tmp_path / "made"
    said = subprocess.run([sys.executable, EXAMPLE, made], capture_output=True, text=True, check=False)
    assert said.returncode == 0, said.stdout + said.stderr
    for site in ("north", "south", "east", "west"):
        labels = f"{site}-labels.csv"
        assert (made / labels).read_text() == (expected / labels).read_text(), site
    clusters = (expected / "clusters.kfed").read_bytes()
    assert (made / "round" / "server" / "simulate_job" / "clusters.kfed").read_bytes() == clusters
    late = made / "late"
    assert (late / "server" / "simulate_job" / "clusters.kfed").read_bytes() == clusters
    assert json.loads((late / "server" / "simulate_job" / "kfed.json").read_text())["late"] == ["west"]
    at_the_late_site = files_under(late / "west")
    assert not any(b"north" in content for content in at_the_late_site.values())  # clusters.kfed names its devices


def test_in_a_job_no_cell_leaves_its_site_and_those_who_fail_are_named(tmp_path, operator):
    table_with_a_canary(operator / "north.csv")
    lines = (HOSPITALS / "east.csv").read_text().splitlines()
    (operator / "east.csv").write_text("\n".join(lines))
    (operator / "tiny.csv").write_text("\n".join(lines[:4]))
    (operator / "headless.csv").write_text(
        "\n".join(line for line in lines if ",n" not in line.lower())[len(lines[0]) :]
    )
    (operator / "other.csv").write_text("patient,age\n" + "\n".join(f"O{i},{20 + i % 25}" for i in range(40)))
    sites = ["north", "east", "tiny", "headless", "other", "absent"]
    workspace = tmp_path / "workspace"
    command = [sys.executable, "-c", RUN_ONE, EXAMPLE, workspace, *sites]
    said = subprocess.run(command, capture_output=True, text=True, check=False)
    assert said.returncode == 0, said.stdout + said.stderr
    facts = json.loads((workspace / "server" / "simulate_job" / "kfed.json").read_text())
    assert sorted(facts["sites"]) == facts["labelled"] == ["east", "north", "tiny"]
    assert {notice["code"] for notice in facts["warnings"]} >= {"no center"}
    assert set(facts["failed"]) == {"headless", "other", "absent"}
    assert "it holds numbers" in facts["failed"]["headless"]
    assert "the table that KFED_TABLE names is not there" in facts["failed"]["absent"]
    assert "all devices must have the same columns" in facts["failed"]["other"]
    assert "k-FED: absent is left out" in said.stdout + said.stderr
    assert f"{CANARY['patient']}," in (tmp_path / "kept" / "north-labels.csv").read_text()
    assert traces_of_the_canary([files_under(workspace), said.stdout, said.stderr]) == set()


def test_what_a_site_sends_holds_no_cell_of_a_row(operator):
    table_with_a_canary(operator / "north.csv")
    reply, sent = replied()
    assert message_of(reply).device_id == "north"
    assert traces_of_the_canary([sent, reply]) == set()


def test_the_search_for_a_cell_finds_it_where_the_floor_is_taken_away(operator, monkeypatch):
    monkeypatch.setenv("KFED_MIN_CLUSTER_SIZE", "1")
    (operator / "north.csv").write_text(f"{','.join(CANARY)}\n" + f"{','.join(CANARY.values())}\n" * 3)
    reply, _ = replied(options={"n_local_clusters": 1})
    assert traces_of_the_canary(reply) >= {"age", "bmi", "systolic", "glucose", "ward"}


def test_a_site_answers_one_question_and_notes_it_beside_its_table(operator):
    table_with_a_canary(operator / "north.csv")
    first, _ = replied()
    assert (operator / "north.csv.asked").is_file()
    other, _ = replied(options={"random_state": 1})
    assert "has answered another question about its table" in other["kfed"]["error"]
    assert replied()[0]["kfed"] == first["kfed"]


def test_a_site_labels_its_rows_by_its_answer_and_says_no_more_than_that(operator, tmp_path):
    table_with_a_canary(operator / "north.csv")
    message = message_of(replied()[0])
    identity = kfed.aggregate([message], n_clusters=2).identity("north")
    text = base64.b64encode(identity.to_bytes()).decode()
    reply, sent = replied(ASK_LABELS, identity=text, digest=message.digest().hex())
    assert reply["kfed"] == {"site": "north", "labelled": True}
    assert traces_of_the_canary(sent) == set()
    assert f"{CANARY['patient']}," in (tmp_path / "kept" / "north-labels.csv").read_text()
    other, _ = replied(ASK_LABELS, identity=text, digest="00" * 16)
    assert "has changed since" in other["kfed"]["error"]


def test_a_question_that_is_not_kfed_s_is_refused(operator):
    reply, _ = replied("train")
    assert reply.get_return_code() == ReturnCode.TASK_UNKNOWN


def test_a_job_holds_no_code_and_its_clusters_go_to_the_server_alone(tmp_path):
    clusters = tmp_path / "clusters.kfed"
    kfed.aggregate([kfed.DeviceMessage("north", [[0.0], [9.0]], [10, 10])], n_clusters=2).save(clusters)
    kfed_job("late", clusters=clusters, sites=["west"]).export_job(str(tmp_path / "jobs"))
    made = files_under(tmp_path / "jobs")
    assert not [name for name in made if name.endswith(".py")]
    assert [name.split("/")[-3] for name, content in made.items() if b"north" in content] == ["app_server"]
    with pytest.raises(kfed.InvalidInputError, match="pass sites when clusters is given"):
        kfed_job("late", clusters=clusters)


def test_patience_must_be_a_whole_number_of_seconds():
    with pytest.raises(kfed.InvalidInputError, match="patience must be"):
        KFedController(patience=0)


def test_the_adapters_do_not_import_the_platform():
    code = "import sys, kfed.adapters; print('nvflare' in sys.modules)"
    assert subprocess.check_output([sys.executable, "-c", code], text=True).strip() == "False"
