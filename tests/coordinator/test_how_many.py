"""How many clusters, by which rule and why: a coordinator says the same on its page, to devices and in its files."""

import json
from dataclasses import replace

import numpy as np
import pytest
from coordinators import Caller, InProcess, made_settings, messages

import kfed
from k_worlds import sent_by, square_of_places
from kfed.cli._states import state_text
from kfed.coordinator.names import FOUND_HEADER
from kfed.coordinator.store import backup
from kfed.insight import diagnose
from kfed.server import ComparisonWords

pytestmark = pytest.mark.usefixtures("few_compared_in_module")


def summaries():
    """What four devices that are alike send of nine clusters, without a number."""
    rng = np.random.default_rng(0)
    classes = rng.permutation(np.repeat(np.arange(9), 24))
    return sent_by(np.split(square_of_places(3, 9.0)[classes] + rng.normal(size=(len(classes), 2)), 4), None)


@pytest.fixture(scope="module")
def sent():
    return summaries()


@pytest.fixture(scope="module")
def expected(sent, few_compared_in_module):
    return kfed.aggregate(sent)


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    return str(tmp_path_factory.mktemp("found") / "kfed.db")


@pytest.fixture(scope="module")
def found(store, sent, few_compared_in_module):
    """Calls a coordinator that has found a number, and was given one, for tests that change nothing."""
    running = InProcess(made_settings(store))
    caller = Caller(running.client)
    caller.create_aggregated(sent, n_clusters=None)
    caller.create_aggregated(messages(8), "given")
    yield caller
    running.stop()


@pytest.fixture
def copied(found, store, tmp_path):
    """A copy of the store of `found`, for tests that change something."""
    backup(store, tmp_path / "kfed.db")
    return str(tmp_path / "kfed.db")


def test_the_comparison_that_is_shown_is_the_one_that_chose_the_number(found, expected):
    shown = found.show()
    assert shown["n_clusters_found"] == expected.n_clusters == 9
    assert (shown["reason"], shown["certainty"]) == (str(expected.k_choice), expected.k_choice.certainty)
    compared = found.get("comparison").json()
    assert compared["conclusion"] == str(expected.k_choice)
    assert (compared["recommended"], compared["certainty"]) == (9, expected.k_choice.certainty)
    assert compared["n_clusters"] == expected.k_choice.comparison.n_clusters.tolist()
    assert compared["stability"] == expected.k_choice.comparison.stability.tolist()
    table = ComparisonWords(expected.k_choice.comparison).table()
    assert compared["table"] == {"headings": list(table.headings), "rows": list(map(list, table.rows))}
    assert compared["calinski_harabasz"] == expected.k_choice.comparison.calinski_harabasz.tolist()


def test_another_comparison_that_was_asked_for_is_shown_from_then_on(run_app, copied):
    caller = Caller(run_app(copied))
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
    assert found["best"] == 9


def test_a_number_that_was_given_is_among_those_compared(caller):
    caller.create_aggregated(messages(8), n_clusters=14)
    assert 14 in caller.get("comparison").json()["n_clusters"]


@pytest.mark.slow
def test_a_number_that_was_asked_for_is_shown_as_chosen_with_what_was_found_before(run_app, copied, sent, expected):
    """It is said again after a restart and after a device left, and no longer once the best number is taken."""
    caller = Caller(run_app(copied))
    assert caller.show()["n_clusters_asked"] is None
    for asked in (5, 6):
        assert caller.aggregate(n_clusters=asked).status_code == 200
        shown = caller.show()
        assert (shown["n_clusters"], shown["n_clusters_asked"], shown["certainty"]) == (None, asked, None)
        doubts = [one["text"] for one in shown["notices"] if one["code"] == "unsure k"]
        assert doubts == [f"{asked} clusters were asked for, but {expected.k_choice}"]
    assert "chosen: 6 clusters, rule: default" in state_text(shown)[1]
    caller.http = run_app(copied)
    assert caller.show()["notices"] == shown["notices"]
    assert caller.remove(sent[0].device_id).status_code == 200
    assert caller.show()["n_clusters_asked"] == 6
    assert caller.aggregate(n_clusters=9).status_code == 200
    assert caller.show()["n_clusters_asked"] == 9
    assert "asked for" not in str(caller.show()["notices"])
    caller.aggregate()
    assert (caller.show()["n_clusters_asked"], caller.show()["certainty"]) == (None, expected.k_choice.certainty)
    assert caller.show("given")["n_clusters_asked"] is None


def test_the_rule_that_answered_is_named_to_everybody(found, sent):
    shown = found.show()
    assert (shown["rule"], shown["answered_by"]) == ("default", "pooled")
    told = found.identity(sent[0].device_id)
    assert (told["n_clusters"], told["answered_by"], told["found"]) == (9, "pooled", shown["reason"])
    assert found.show("given")["answered_by"] == "paper"
    assert (found.show("given")["certainty"], found.identity("device-0000", "given")["found"]) == (None, "")


def test_a_device_that_asks_for_bytes_hears_it_in_a_header(found, sent):
    headers = {"Accept": "application/octet-stream", "Kfed-Device-Secret": "a-device-secret-for-tests"}
    answer = found.http.get(f"{found.path(sent[0].device_id)}/identity", headers=headers)
    said = {"n_clusters": 9, "answered_by": "pooled", "found": found.show()["reason"]}
    assert json.loads(answer.headers[FOUND_HEADER]) == said


def test_devices_are_not_told_of_others_by_how_the_number_was_found(caller):
    sent = [*messages(30), kfed.DeviceMessage("alone", [[90.0, 90.0]], [40], [80.0], 9.0)]
    shown = caller.create_aggregated(sent, n_clusters=None)
    assert "'alone'" in shown["reason"]
    assert "alone" not in caller.identity("device-0000")["found"]


def test_what_is_downloaded_says_what_was_said(found, expected):
    loaded = kfed.Aggregation.from_bytes(found.get("download/aggregation").content)
    assert (str(loaded.k_choice), loaded.rule) == (str(expected.k_choice), "pooled")
    assert diagnose(loaded).warnings == diagnose(expected).warnings
    assert diagnose(loaded).evidence == diagnose(expected).evidence


def test_after_a_restart_it_is_said_again_and_the_last_change_is_no_creation(run_app, found, copied):
    before, compared = found.show(), found.get("comparison").json()
    caller = Caller(run_app(copied))
    after = caller.show()
    assert {name for name in before if before[name] != after[name]} <= {"changed_at"}
    assert after["last_change"] == "aggregated: 9 clusters from 4 devices"
    assert before["created_at"] < after["changed_at"] <= before["changed_at"]
    assert caller.get("comparison").json() == compared


@pytest.mark.parametrize(
    ("weakest", "certainty"), [pytest.param(1.0, "reliable", marks=pytest.mark.slow), (0.87, "stands out")]
)
def test_a_number_that_stands_out_is_taken_with_auto_as_in_files(caller, sent, weakest, certainty, monkeypatch):
    def shaky(*args, **options):
        found = kfed.compare_k(*args, n_resamplings=6, **options)
        return replace(found, weakest=np.minimum(found.weakest, weakest))

    monkeypatch.setattr("kfed.server.k.finding.compare_k", shaky)
    shown = caller.create_aggregated(sent, n_clusters="auto")
    assert (shown["n_clusters_found"], shown["certainty"]) == (9, certainty)
