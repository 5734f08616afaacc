"""A round on a platform, without one: what a site replies, and what a server makes of replies that it cannot trust."""

import base64
import json
import subprocess
import sys

import numpy as np
import pytest

import kfed
from kfed.adapters._platform_note import AskedNote
from kfed.adapters._platform_server import PlatformRound, Replies
from kfed.adapters._platform_site import SiteTerms, labels_reply, message_reply, safe_reply
from kfed.site import LocalFile

AGES = np.random.default_rng(1).normal([50.0, 27.0, 3.0], 4.0, size=(100, 3)).round(2)
ROWS = np.random.default_rng(0).normal(np.repeat([[0.0, 0.0], [20.0, 0.0]], 30, axis=0)).round(3)


@pytest.fixture
def table(tmp_path):
    path = tmp_path / "north.csv"
    path.write_text("x,y\n" + "\n".join(f"{x},{y}" for x, y in ROWS))
    return path


@pytest.fixture
def patients(tmp_path):
    """A table whose column `rare` is missing in row 17 alone, and in which `hiv` is no flag in row 4."""
    path = tmp_path / "patients.csv"
    cells = [[*map(str, row), "yes"] for row in AGES]
    cells[17][2], cells[4][3] = "", "unknown"
    path.write_text("age,bmi,rare,hiv\n" + "\n".join(map(",".join, cells)))
    return path


@pytest.fixture
def note(tmp_path):
    return AskedNote(tmp_path / "table.asked")


def message_in(reply):
    return kfed.DeviceMessage.from_bytes(base64.b64decode(reply["message"]))


def total_of(reply, column):
    """The sum of a column over all rows, as the message tells it."""
    message = message_in(reply)
    return message.counts @ message.centers[:, message.feature_names.index(column)]


def reply_of(site, names=("x", "y")):
    message = kfed.DeviceMessage(site, [[0.0] * len(names), [20.0] * len(names)], [30, 30], feature_names=names)
    return {"site": site, "message": base64.b64encode(message.to_bytes()).decode(), "warnings": ["missing cells"]}


def round_of(*sites):
    return PlatformRound.aggregated(Replies.read(map(reply_of, sites), sites), 2)


def test_a_round_from_a_table_to_labels_and_the_facts_are_json(table, note, tmp_path):
    terms = SiteTerms(labels=str(tmp_path / "kept" / "{site}.csv"))
    reply = json.loads(json.dumps(message_reply(table, "north", {}, terms, note)))
    found = PlatformRound.aggregated(Replies.read([reply], ["north"]))
    [(identity, digest)] = found.answers().values()
    text = base64.b64encode(identity.to_bytes()).decode()
    assert labels_reply(table, "north", {}, terms, note, text, digest) == {"site": "north", "labelled": True}
    labels = (tmp_path / "kept" / "north.csv").read_text().splitlines()
    assert labels[0] == "row,cluster"
    assert len(labels) == 1 + len(ROWS)
    assert (tmp_path / "kept" / "north.csv").stat().st_mode & 0o077 == 0
    facts = json.loads(json.dumps(found.facts(Replies.read([{"site": "north", "labelled": True}], ["north"]))))
    assert facts["labelled"] == ["north"]
    assert kfed.Aggregation.from_bytes(base64.b64decode(facts["clusters"])) == found.result


@pytest.mark.parametrize(
    ("reply", "reason"),
    [
        ({"site": "a", "error": "x" * 9999}, "x" * 500),
        ({"site": "a", "message": 7}, "its message cannot be used: expected a kfed message as text; got a int"),
        ({"site": "a", "message": "%%%"}, "its message cannot be used: expected a kfed message as base64"),
        ({"site": "a", "message": "QUJD"}, "its message cannot be used: "),
        ({"site": "a"}, "its message cannot be used: "),
        (reply_of("b") | {"site": "a"}, "its message is that of 'b'"),
    ],
)
def test_a_reply_that_cannot_be_used_fails_its_own_site(reply, reason):
    found = Replies.read([reply, reply_of("c")], ["a", "c"])
    assert found.failed["a"].startswith(reason)
    assert list(found.messages) == ["c"]


def test_two_different_messages_under_one_name_count_both_as_nothing():
    other = kfed.DeviceMessage("a", [[5.0, 5.0]], [30], feature_names=("x", "y"))
    said = {"site": "a", "message": base64.b64encode(other.to_bytes()).decode()}
    assert Replies.read([reply_of("a"), reply_of("a")], "a").failed == {}
    for replies in ([reply_of("a"), said], [said, reply_of("a")]):
        found = Replies.read(replies, "a")
        assert (found.failed, found.messages) == ({"a": "two different messages came under its name"}, {})


@pytest.mark.parametrize("reply", [None, [], "x", {"site": 3}, {"site": "stranger"}, {"site": ["a"]}])
def test_a_reply_of_nobody_who_was_asked_is_left_out(reply):
    found = Replies.read([reply], ["a"])
    assert (found.messages, found.failed) == ({}, {})
    found.missing(["a"], {})
    assert found.failed == {"a": "it has not replied; it can be answered later"}


def test_columns_that_most_sites_have_count_and_the_others_are_named():
    sites = {"a": ("u", "v"), "b": ("x", "y"), "c": ("x", "y"), "d": ("x",)}
    found = PlatformRound.aggregated(Replies.read([reply_of(*one) for one in sites.items()], sites), 2)
    assert sorted(found.replies.messages) == ["b", "c"]
    assert set(found.replies.failed) == {"a", "d"}
    assert found.facts()["sites"] == {"b": ["missing cells"], "c": ["missing cells"]}


def test_late_sites_are_answered_by_the_clusters_and_a_changed_message_is_refused():
    clusters = round_of("a", "b").result
    late = PlatformRound.answered(Replies.read([reply_of("c"), reply_of("a")], "abc"), clusters)
    assert (late.late, sorted(late.answers())) == (("c",), ["a", "c"])
    assert late.result is clusters
    other = kfed.DeviceMessage("a", [[5.0, 5.0]], [30], feature_names=("x", "y"))
    said = {"site": "a", "message": base64.b64encode(other.to_bytes()).decode()}
    changed = PlatformRound.answered(Replies.read([said], "a"), clusters)
    assert "aggregated with a different message" in changed.replies.failed["a"]
    assert changed.answers() == {}


def test_without_any_message_the_reasons_are_told():
    with pytest.raises(kfed.EngineError, match=r"no site sent a message that can be used \(a: no table\)"):
        PlatformRound.aggregated(Replies.read([{"site": "a", "error": "no table"}], ["a"]))


@pytest.mark.parametrize("floor", ["0", "-3", "five", "2.5"])
def test_a_floor_that_is_no_number_is_refused_rather_than_left_out(floor):
    with pytest.raises(kfed.InvalidInputError, match="KFED_MIN_CLUSTER_SIZE must be a whole number"):
        SiteTerms.of({"KFED_MIN_CLUSTER_SIZE": floor})


def test_terms_are_those_of_the_environment():
    assert SiteTerms.of({"KFED_LABELS": ""}) == SiteTerms(min_cluster_size=5)
    assert SiteTerms.of({"KFED_ASKED": "/kept"}).note("t.csv").path.as_posix() == "/kept/t.csv.asked"
    given = SiteTerms.of({"KFED_MIN_CLUSTER_SIZE": "9", "KFED_ID_COLUMN": "id", "KFED_TABLE": "/t/{site}.csv"})
    assert given == SiteTerms(9, "id", table="/t/{site}.csv")
    assert given.path("table", "north").as_posix() == "/t/north.csv"
    for name in ("..", "a/b", ""):
        with pytest.raises(kfed.InvalidInputError, match="must be a valid file name"):
            given.path("table", name)


def test_two_tasks_whose_messages_would_tell_a_row_are_not_both_answered(patients, note, tmp_path):
    ask = {"missing": "drop", "n_local_clusters": 1}
    with_row, without = ask | {"columns": ["age", "bmi"]}, ask | {"columns": ["age", "bmi", "rare"]}
    other = AskedNote(tmp_path / "forgets.asked")
    first, second = (
        message_reply(patients, "north", how, SiteTerms(), where) for how, where in ((with_row, note), (without, other))
    )
    told = total_of(first, "age") - total_of(second, "age")
    assert told == pytest.approx(AGES[17, 0], abs=1e-6)  # what a site that forgets would tell
    said = safe_reply("north", lambda: message_reply(patients, "north", without, SiteTerms(), note))
    assert "has answered another question about its table" in said["error"]
    assert message_reply(patients, "north", with_row, SiteTerms(), note) == first


@pytest.mark.parametrize(
    ("site", "options"), [("south", {}), ("north", {"random_state": 1}), ("north", {"kinds": {"x": "flag"}})]
)
def test_another_question_is_refused_before_the_table_is_read(table, note, site, options):
    message_reply(table, "north", {}, SiteTerms(), note)
    with pytest.raises(kfed.InvalidInputError, match="another question about its table"):
        message_reply("not-read.csv", site, options, SiteTerms(), note)


def test_a_table_that_has_changed_is_not_told_again_until_the_operator_removes_the_note(table, note):
    first = message_reply(table, "north", {}, SiteTerms(), note)
    kept = note.path.read_text()
    assert (note.path.stat().st_mode & 0o077, json.loads(kept)["options"]) == (0, {})
    table.write_text(f"{table.read_text()}\n1.0,2.0\n")
    with pytest.raises(kfed.InvalidInputError, match="has changed since this site sent its message"):
        message_reply(table, "north", {}, SiteTerms(), note)
    assert note.path.read_text() == kept
    note.path.unlink()
    assert message_in(message_reply(table, "north", {}, SiteTerms(), note)) != message_in(first)


def test_a_site_that_cannot_keep_a_note_sends_nothing(table, note, tmp_path):
    with pytest.raises(kfed.InvalidInputError, match="KFED_ASKED is not set at this site"):
        SiteTerms().note("default")
    with pytest.raises(kfed.InvalidInputError, match="must be a valid file name"):
        SiteTerms(asked=str(tmp_path)).note("../default")
    with pytest.raises(kfed.InvalidInputError, match="KFED_ASKED must be an existing folder that stays"):
        message_reply(table, "north", {}, SiteTerms(), AskedNote(tmp_path / "gone" / "table.asked"))
    note.path.write_text("")
    with pytest.raises(kfed.InvalidInputError, match="cannot be read"):
        message_reply(table, "north", {}, SiteTerms(), note)


def test_of_two_tasks_at_once_one_is_answered(table, note, monkeypatch):
    monkeypatch.setattr(note, "check", lambda *_: None)  # both looked before either of them sent
    message_reply(table, "north", {"random_state": 1}, SiteTerms(), AskedNote(note.path))
    with pytest.raises(kfed.InvalidInputError, match="has changed since"):
        message_reply(table, "north", {"random_state": 2, "n_local_clusters": 2}, SiteTerms(), note)


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"kinds": {"hiv": "flag"}}, " line N "),
        ({"columns": ["age", "rare"], "as_is": True}, "in line N. "),
        ({"columns": ["age7"]}, "'age7'"),
        ({"min_cluster_size": 2}, "min_cluster_size must be at least 5 at this site; got 2"),
    ],
)
def test_errors_do_not_say_which_row_is_at_fault(patients, note, options, reason):
    said = safe_reply("north", lambda: message_reply(patients, "north", options, SiteTerms(), note))
    assert reason in said["error"]
    assert not note.path.exists()


@pytest.mark.parametrize("options", [{"columns": ["age7"]}, {"kinds": {"hiv": "flag"}}])
def test_errors_do_not_say_where_the_table_lies(patients, note, options):
    said = safe_reply("north", lambda: message_reply(patients, "north", options, SiteTerms(), note))
    assert said["error"].startswith("the table: ")
    assert not any(part in said["error"] for part in patients.parts)


def test_a_table_that_cannot_be_read_again_is_not_named_either(table, note, tmp_path, monkeypatch):
    terms = SiteTerms(labels=str(tmp_path / "labels.csv"))
    sent = message_reply(table, "north", {}, terms, note)
    identity = kfed.aggregate([message_in(sent)], 2).identity("north")
    answer = base64.b64encode(identity.to_bytes()).decode(), message_in(sent).digest().hex()

    def fail(self, path, scale=None):
        raise kfed.InvalidInputError(f"{path}: it has changed")

    monkeypatch.setattr(LocalFile, "read_rows", fail)
    said = safe_reply("north", lambda: labels_reply(table, "north", {}, terms, note, *answer))
    assert said["error"] == "the table: it has changed"


def test_errors_count_no_rows_and_keep_the_names_of_columns():
    def fail():
        raise kfed.InvalidInputError("'x 1' isn't in 1,234 rows (first: row 4, column 2.5); site7's \"y 2\" is in 3.")

    assert safe_reply("a", fail)["error"] == "'x 1' isn't in N rows (first: row N, column N); site7's \"y 2\" is in N."


def test_what_an_error_of_others_says_stays_at_the_site():
    said = safe_reply("a", lambda: {}["71.90625"])
    assert said["error"].startswith("it raised KeyError (test_platforms.py, line ")


@pytest.mark.parametrize("name", ["vantage6", "nvflare"])
def test_without_its_platform_an_adapter_says_what_to_install(name):
    code = f"import sys; sys.modules[{name!r}] = None\nimport kfed.adapters.{name}"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert f"MissingExtraError: kfed.adapters.{name} needs" in done.stderr
