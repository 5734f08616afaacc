"""A round on a platform, without one: what a site replies, and what a server makes of replies that it cannot trust."""

import base64
import json
import subprocess
import sys

import numpy as np
import pytest

import kfed
from kfed.adapters._platform_server import PlatformRound, Replies
from kfed.adapters._platform_site import SiteTerms, labels_reply, message_reply, safe_reply

ROWS = np.random.default_rng(0).normal(np.repeat([[0.0, 0.0], [20.0, 0.0]], 30, axis=0)).round(3)


@pytest.fixture
def table(tmp_path):
    path = tmp_path / "north.csv"
    path.write_text("x,y\n" + "\n".join(f"{x},{y}" for x, y in ROWS))
    return path


def reply_of(site, names=("x", "y")):
    message = kfed.DeviceMessage(site, [[0.0] * len(names), [20.0] * len(names)], [30, 30], feature_names=names)
    return {"site": site, "message": base64.b64encode(message.to_bytes()).decode(), "warnings": ["missing cells"]}


def round_of(*sites):
    return PlatformRound.aggregated(Replies.read(map(reply_of, sites), sites), 2)


def test_a_round_from_a_table_to_labels_and_the_facts_are_json(table, tmp_path):
    terms = SiteTerms(labels=str(tmp_path / "kept" / "{site}.csv"))
    reply = json.loads(json.dumps(message_reply(table, "north", {}, terms)))
    found = PlatformRound.aggregated(Replies.read([reply], ["north"]))
    [(identity, digest)] = found.answers().values()
    text = base64.b64encode(identity.to_bytes()).decode()
    assert labels_reply(table, "north", {}, terms, text, digest) == {"site": "north", "labelled": True}
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
    assert "aggregated with another message" in changed.replies.failed["a"]
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
    given = SiteTerms.of({"KFED_MIN_CLUSTER_SIZE": "9", "KFED_ID_COLUMN": "id", "KFED_TABLE": "/t/{site}.csv"})
    assert given == SiteTerms(9, "id", table="/t/{site}.csv")
    assert given.path("table", "north").as_posix() == "/t/north.csv"
    for name in ("..", "a/b", ""):
        with pytest.raises(kfed.InvalidInputError, match="must do for a file"):
            given.path("table", name)


def test_what_an_error_of_others_says_stays_at_the_site():
    said = safe_reply("a", lambda: {}["71.90625"])
    assert said["error"].startswith("it raised KeyError (test_platforms.py, line ")


@pytest.mark.parametrize("name", ["vantage6", "nvflare"])
def test_without_its_platform_an_adapter_says_what_to_install(name):
    code = f"import sys; sys.modules[{name!r}] = None\nimport kfed.adapters.{name}"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert f"MissingExtraError: kfed.adapters.{name} needs" in done.stderr
