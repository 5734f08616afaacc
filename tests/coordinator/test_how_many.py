"""How many clusters, by which rule and why: a coordinator says the same on its page, to devices and in its files."""

import json
from dataclasses import replace

import numpy as np
import pytest
from coordinators import Caller, messages

import kfed
from k_worlds import sent_by, square_of_places
from kfed.cli._states import state_text
from kfed.coordinator.names import FOUND_HEADER
from kfed.insight import diagnose
from kfed.server import ComparisonWords

pytestmark = pytest.mark.usefixtures("few_compared_in_module")


def summaries():
    """What six devices that are alike send of sixteen clusters, without a number."""
    rng = np.random.default_rng(0)
    classes = rng.permutation(np.repeat(np.arange(16), 48))
    return sent_by(np.split(square_of_places(4, 9.0)[classes] + rng.normal(size=(len(classes), 2)), 6), None)


@pytest.fixture(scope="module")
def sent():
    return summaries()


@pytest.fixture(scope="module")
def expected(sent, few_compared_in_module):
    return kfed.aggregate(sent)


def test_the_comparison_that_is_shown_is_the_one_that_chose_the_number(caller, sent, expected):
    shown = caller.create_aggregated(sent, n_clusters=None)
    assert shown["n_clusters_found"] == expected.n_clusters == 16
    assert (shown["reason"], shown["certainty"]) == (str(expected.k_choice), expected.k_choice.certainty)
    found = caller.get("comparison").json()
    assert found["conclusion"] == str(expected.k_choice)
    assert (found["recommended"], found["certainty"]) == (16, expected.k_choice.certainty)
    assert found["n_clusters"] == expected.k_choice.comparison.n_clusters.tolist()
    assert found["stability"] == expected.k_choice.comparison.stability.tolist()
    table = ComparisonWords(expected.k_choice.comparison).table()
    assert found["table"] == {"headings": list(table.headings), "rows": list(map(list, table.rows))}
    assert found["calinski_harabasz"] == expected.k_choice.comparison.calinski_harabasz.tolist()
    asked = {"first": 2, "last": 5}
    other = caller.http.post("/v1/federations/clinics/comparison", json=asked, headers=caller.admin).json()
    assert other["n_clusters"] == [2, 3, 4, 5]
    assert caller.get("comparison").json() == other


def test_before_clusters_are_made_the_numbers_compared_are_those_that_would_choose(caller, sent, expected):
    caller.create(n_clusters=None)
    for one in sent:
        caller.put(one)
    caller.http.post("/v1/federations/clinics/close", headers=caller.admin)
    found = caller.get("comparison").json()
    assert found["n_clusters"] == expected.k_choice.comparison.n_clusters.tolist()
    assert found["best"] == 16


def test_a_number_that_was_given_is_among_those_compared(caller):
    caller.create_aggregated(messages(20), n_clusters=14)
    assert 14 in caller.get("comparison").json()["n_clusters"]


def test_a_number_that_was_asked_for_is_shown_as_chosen_with_what_was_found_before(run_app, tmp_path, sent, expected):
    """It is said again after a restart and after a device left, and no longer once the best number is taken."""
    caller = Caller(run_app(str(tmp_path / "kfed.db")))
    assert caller.create_aggregated(sent, n_clusters=None)["n_clusters_asked"] is None
    for asked in (5, 6):
        assert caller.aggregate(n_clusters=asked).status_code == 200
        shown = caller.show()
        assert (shown["n_clusters"], shown["n_clusters_asked"], shown["certainty"]) == (None, asked, None)
        doubts = [one["text"] for one in shown["notices"] if one["code"] == "unsure k"]
        assert doubts == [f"{asked} clusters were asked for, but {expected.k_choice}"]
    assert "chosen: 6 clusters, rule default" in state_text(shown)[1]
    caller.http = run_app(str(tmp_path / "kfed.db"))
    assert caller.show()["notices"] == shown["notices"]
    assert caller.remove(sent[0].device_id).status_code == 200
    assert caller.show()["n_clusters_asked"] == 6
    assert caller.aggregate(n_clusters=16).status_code == 200
    assert caller.show()["n_clusters_asked"] == 16
    assert "asked for" not in str(caller.show()["notices"])
    caller.aggregate()
    assert (caller.show()["n_clusters_asked"], caller.show()["certainty"]) == (None, expected.k_choice.certainty)
    caller.create_aggregated(messages(8), "given")
    assert caller.show("given")["n_clusters_asked"] is None


def test_the_rule_that_answered_is_named_to_everybody(caller, sent):
    shown = caller.create_aggregated(sent, n_clusters=None)
    assert (shown["rule"], shown["answered_by"]) == ("default", "pooled")
    told = caller.identity(sent[0].device_id)
    assert (told["n_clusters"], told["answered_by"], told["found"]) == (16, "pooled", shown["reason"])
    caller.create_aggregated(messages(8), "given")
    assert caller.show("given")["answered_by"] == "paper"
    assert (caller.show("given")["certainty"], caller.identity("device-0000", "given")["found"]) == (None, "")


def test_a_device_that_asks_for_bytes_hears_it_in_a_header(caller, sent):
    shown = caller.create_aggregated(sent, n_clusters=None)
    headers = {"Accept": "application/octet-stream", "Kfed-Device-Secret": "a-device-secret-for-tests"}
    answer = caller.http.get(f"{caller.path(sent[0].device_id)}/identity", headers=headers)
    said = {"n_clusters": 16, "answered_by": "pooled", "found": shown["reason"]}
    assert json.loads(answer.headers[FOUND_HEADER]) == said


def test_devices_are_not_told_of_others_by_how_the_number_was_found(caller):
    sent = [*messages(30), kfed.DeviceMessage("alone", [[90.0, 90.0]], [40], [80.0], 9.0)]
    shown = caller.create_aggregated(sent, n_clusters=None)
    assert "'alone'" in shown["reason"]
    assert "alone" not in caller.identity("device-0000")["found"]


def test_what_is_downloaded_says_what_was_said(caller, sent, expected):
    caller.create_aggregated(sent, n_clusters=None)
    loaded = kfed.Aggregation.from_bytes(caller.get("download/aggregation").content)
    assert (str(loaded.k_choice), loaded.rule) == (str(expected.k_choice), "pooled")
    assert diagnose(loaded).warnings == diagnose(expected).warnings
    assert diagnose(loaded).evidence == diagnose(expected).evidence


def test_after_a_restart_it_is_said_again_and_the_last_change_is_no_creation(run_app, tmp_path, sent):
    store = str(tmp_path / "kfed.db")
    caller = Caller(run_app(store))
    before = caller.create_aggregated(sent, n_clusters=None)
    compared = caller.get("comparison").json()
    caller.http = run_app(store)
    after = caller.show()
    assert {name for name in before if before[name] != after[name]} <= {"changed_at"}
    assert after["last_change"] == "aggregated: 16 clusters of 6 devices"
    assert before["created_at"] < after["changed_at"] <= before["changed_at"]
    assert caller.get("comparison").json() == compared


@pytest.mark.parametrize(("weakest", "certainty"), [(1.0, "reliable"), (0.87, "stands out")])
def test_a_number_that_stands_out_is_taken_with_auto_as_in_files(caller, sent, weakest, certainty, monkeypatch):
    def shaky(*args, **options):
        found = kfed.compare_k(*args, n_resamplings=6, **options)
        return replace(found, weakest=np.minimum(found.weakest, weakest))

    monkeypatch.setattr("kfed.server.finding_k.compare_k", shaky)
    shown = caller.create_aggregated(sent, n_clusters="auto")
    assert (shown["n_clusters_found"], shown["certainty"]) == (16, certainty)
