"""What a device may rely on: one message, any number of times, at any time, and an answer that does not change."""

import json
import sqlite3
from pathlib import Path

import numpy as np
from coordinators import SECRET, Caller, message, messages

import kfed
from kfed.coordinator.core import Aggregator
from kfed.coordinator.problems import StoreUnavailableError


def center_labels(identity):
    return np.array(identity["cluster_centers"])[identity["cluster_ids"]]


def assert_served_like(caller, sent, expected, name="clinics"):
    """Each device is told what a federation in one process would tell it, up to the ids of clusters."""
    for one in sent:
        own = expected.identity(one.device_id)
        np.testing.assert_array_equal(
            center_labels(caller.identity(one.device_id, name)), own.cluster_centers[own.cluster_ids]
        )


def test_the_same_bytes_again_change_nothing(caller):
    caller.create()
    sent = message("a")
    first = caller.put(sent)
    assert (first.status_code, first.json()["n_devices"]) == (201, 1)
    before = caller.show()
    for _ in range(3):
        again = caller.put(sent)
        assert again.status_code == 200
        assert again.json() == first.json()
    assert caller.show() == before


def test_another_message_takes_replace_and_the_devices_secret(caller):
    caller.create()
    caller.put(message("a"))
    before = caller.show()
    other = message("a", seed=1)
    assert caller.put(other).status_code == 409
    assert caller.put(other, replace=True, secret="x" * 24).status_code == 403
    assert caller.put(other, replace=True, secret=None).status_code == 403
    assert caller.show() == before
    assert caller.put(other, replace=True).status_code == 200
    assert caller.show()["n_devices"] == 1
    assert caller.put(other).status_code == 200
    assert caller.put(message("a"), secret=SECRET).status_code == 409


def test_a_device_without_a_secret_can_be_read_by_those_who_may_join_and_changed_by_nobody_but_the_administrator(
    caller,
):
    caller.create(quorum=1, n_clusters=2)
    caller.put(message("open"), secret=None)
    caller.wait_until("aggregated")
    path = caller.path("open")
    assert caller.http.get(f"{path}/identity", headers=caller.join["clinics"]).status_code == 200
    assert caller.put(message("open", seed=1), replace=True).status_code == 403
    assert caller.http.delete(path, headers=caller.join["clinics"]).status_code == 403
    assert caller.http.delete(path, headers=caller.admin).status_code == 200


def test_identities_are_those_of_an_aggregation_in_one_process(caller):
    sent = messages(12)
    state = caller.create_aggregated(sent[::-1])
    expected = kfed.aggregate(sent, 4)
    assert state["cluster_sizes"] == expected.cluster_sizes.tolist()
    for one in sent:
        identity = caller.identity(one.device_id)
        assert identity["cluster_ids"] == expected.identity(one.device_id).cluster_ids.tolist()
        np.testing.assert_array_equal(identity["cluster_centers"], expected.cluster_centers)


def test_while_gathering_a_device_is_told_when_to_ask_again(caller):
    caller.create(quorum=2)
    caller.put(message("a"))
    answer = caller.http.get(f"{caller.path('a')}/identity", headers={"Kfed-Device-Secret": SECRET})
    assert answer.status_code == 202
    assert int(answer.headers["retry-after"]) >= 1
    assert answer.json()["state"] == "gathering"


def test_an_identity_also_comes_as_bytes(caller):
    sent = messages(3)
    caller.create_aggregated(sent)
    headers = {"Kfed-Device-Secret": SECRET, "Accept": "application/octet-stream"}
    answer = caller.http.get(f"{caller.path(sent[0].device_id)}/identity", headers=headers)
    assert kfed.Identity.from_bytes(answer.content) == kfed.aggregate(sent, 4).identity(sent[0].device_id)


def test_a_late_device_is_answered_at_once_and_touches_nobody(caller):
    sent = messages(8)
    caller.create_aggregated(sent)
    before = [caller.identity(one.device_id) for one in sent]
    late = message("late", (3, 0))
    answer = caller.put(late)
    assert answer.status_code == 201
    assert answer.json()["cluster_ids"] == kfed.aggregate(sent, 4).assign(late).cluster_ids.tolist()
    assert caller.put(late).json() == answer.json() == caller.identity("late")
    assert [caller.identity(one.device_id) for one in sent] == before
    assert caller.show()["version"] == 1


def test_removal_is_as_if_the_device_had_never_joined_and_the_others_keep_their_ids(caller):
    sent = messages(12)
    caller.create_aggregated(sent)
    before = {one.device_id: caller.identity(one.device_id) for one in sent}
    for gone in (sent[3], sent[7]):
        assert caller.remove(gone.device_id).status_code == 200
        sent = [one for one in sent if one is not gone]
        assert_served_like(caller, sent, kfed.aggregate(sent, 4))
        for one in sent:
            assert caller.identity(one.device_id)["cluster_ids"] == before[one.device_id]["cluster_ids"]
    assert caller.remove("device-0003").status_code in (403, 404)
    assert caller.show()["n_devices"] == 10


def test_removal_of_a_late_device_leaves_the_clusters_alone(caller):
    caller.create_aggregated(messages(4))
    caller.put(message("late"))
    assert caller.remove("late").json() == {"device_id": "late", "state": "aggregated", "version": 1}


def test_where_too_few_centers_are_left_a_federation_gathers_again(caller):
    sent = [message("a", (0, 1)), message("b", (2, 3))]
    caller.create_aggregated(sent)
    assert caller.remove("a").json()["state"] == "gathering"
    assert "at most the number of device centers" in caller.show()["remark"]
    caller.put(message("c", (0, 1)))
    caller.wait_until("aggregated")


def test_a_message_replaced_after_the_aggregation_counts_as_late(store_caller):
    caller = store_caller
    sent = messages(8)
    caller.create_aggregated(sent)
    before = {one.device_id: caller.identity(one.device_id)["cluster_ids"] for one in sent}
    other = message(sent[0].device_id, (2, 3), seed=5)
    answer = caller.put(other, replace=True).json()
    expected = kfed.aggregate(sent[1:], 4)
    late = expected.assign(other)
    np.testing.assert_array_equal(center_labels(answer), late.cluster_centers[late.cluster_ids])
    assert_served_like(caller, sent[1:], expected)
    assert all(caller.identity(one.device_id)["cluster_ids"] == before[one.device_id] for one in sent[1:])


def test_a_device_that_replaced_its_message_asks_again_until_the_clusters_are_made_anew(caller, monkeypatch):
    sent = messages(6)
    caller.create_aggregated(sent)
    settle = Aggregator.settle

    async def refuse(*_):
        raise StoreUnavailableError("on purpose")

    monkeypatch.setattr(Aggregator, "settle", refuse)
    other = message(sent[0].device_id, (2, 3), seed=5)
    assert caller.put(other, replace=True).status_code == 503
    path = f"{caller.path(other.device_id)}/identity"
    waiting = caller.http.get(path, headers={"Kfed-Device-Secret": SECRET})
    assert (waiting.status_code, waiting.json()["state"]) == (202, "gathering")
    assert int(waiting.headers["retry-after"]) >= 1
    assert caller.put(other).json()["state"] == "gathering"
    assert caller.http.get("/v1/federations/clinics/picture").status_code == 200
    assert caller.identity(sent[1].device_id)["version"] == 1
    monkeypatch.setattr(Aggregator, "settle", settle)
    assert caller.wait_for(lambda shown: shown["version"] == 2)["n_aggregated"] == 5
    late = kfed.aggregate(sent[1:], 4).assign(other)
    np.testing.assert_array_equal(
        center_labels(caller.identity(other.device_id)), late.cluster_centers[late.cluster_ids]
    )


def test_clusters_saved_by_the_first_version_still_answer_their_devices(run_app, tmp_path):
    path = tmp_path / "kfed.db"
    sent = [
        kfed.DeviceMessage("a", [[0.0, 0.0], [20.0, 0.0]], [10, 10]),
        kfed.DeviceMessage("b", [[0.0, 20.0], [20.0, 20.0]], [10, 10]),
        kfed.DeviceMessage("c", [[1.0, 1.0], [19.0, 21.0]], [10, 10]),
    ]
    caller = Caller(run_app(str(path)))
    caller.create_aggregated(sent)
    late = message("late")
    expected = [caller.put(late).json()["cluster_ids"]] + [caller.identity(i)["cluster_ids"] for i in "abc"]
    run_app(str(tmp_path / "other.db"))  # ends the first one
    old = (Path(__file__).parent / "data" / "clusters-version-1.safetensors").read_bytes()
    with sqlite3.connect(path) as connection:
        connection.execute("UPDATE kfed_clusterings SET payload = ?", (old,))
    for _ in range(2):  # the second start reads what the first one saved
        caller.http = run_app(str(path))
        assert caller.show()["version"] == 1
        assert [caller.identity(i)["cluster_ids"] for i in ("late", "a", "b", "c")] == expected
    with sqlite3.connect(path) as connection:
        assert connection.execute("SELECT payload FROM kfed_clusterings").fetchone()[0] != old
    other = message("a", (2, 3))
    caller.put(other, replace=True)
    assert caller.show()["n_aggregated"] == 2


def test_aggregating_again_takes_in_late_devices_and_keeps_ids(caller):
    sent = messages(8)
    caller.create_aggregated(sent)
    late = [message(f"late-{i}", (i % 4, (i + 1) % 4), seed=3) for i in range(20)]
    answers = {one.device_id: caller.put(one).json()["cluster_ids"] for one in late}
    before = {one.device_id: caller.identity(one.device_id)["cluster_ids"] for one in sent}
    state = caller.aggregate().json()
    assert (state["version"], state["n_aggregated"]) == (2, 28)
    assert_served_like(caller, sent + late, kfed.aggregate(sent + late, 4))
    for device_id, ids in (before | answers).items():
        assert caller.identity(device_id)["cluster_ids"] == ids


def test_any_printable_name_will_do(caller):
    caller.create(quorum=1, n_clusters=2)
    headers = caller.join["clinics"] | {"Kfed-Device-Secret": SECRET}
    names = ["a/b", "..", ".", "ä ö", "a%2Fb", "message", "x/message", "?q=1#f", "é" * 100]
    for n_before, device_id in enumerate(names):
        path = f"{caller.path(device_id).replace('.', '%2E')}/message"
        assert caller.http.put(path, content=message(device_id).to_bytes(), headers=headers).status_code == 201
        assert caller.show()["n_devices"] == n_before + 1


def test_everything_is_there_after_a_restart(store_caller, run_app, store_address):
    caller = store_caller
    sent = messages(6)
    caller.create_aggregated(sent)
    caller.put(message("late"))
    before = caller.show()
    identities = [caller.identity(one.device_id) for one in [*sent, message("late")]]
    caller.http = run_app(store_address)
    after = caller.show()
    unlike = {key for key in before if before[key] != after[key]}
    assert unlike <= {"last_change", "changed_at"}
    assert [caller.identity(one.device_id) for one in [*sent, message("late")]] == identities


def test_devices_in_single_and_double_precision_and_of_no_centers_live_side_by_side(store_caller):
    caller = store_caller
    empty = kfed.DeviceMessage("empty", np.empty((0, 2)), [])
    sent = [message("a", (0, 1), dtype=np.float32), message("b", (2, 3)), empty]
    caller.create(quorum=3)
    for one in sent:
        assert caller.put(one).status_code == 201
    caller.wait_until("aggregated")
    assert_served_like(caller, sent, kfed.aggregate(sent, 4))
    assert caller.identity("empty")["cluster_ids"] == []


def test_a_message_written_by_another_program_is_the_same_message(caller):
    caller.create(quorum=2, n_clusters=2)
    sent = message("a")
    written = sent.to_bytes()
    header = json.dumps(json.loads(written[8 : 8 + int.from_bytes(written[:8], "little")]), indent=1).encode()
    spaced = len(header).to_bytes(8, "little") + header + written[8 + int.from_bytes(written[:8], "little") :]
    assert spaced != written
    assert kfed.DeviceMessage.from_bytes(spaced) == sent
    assert caller.put(spaced, device_id="a").status_code == 201
    assert caller.put(message("b")).status_code == 201
    caller.wait_until("aggregated")
    again = caller.put(sent)
    assert (again.status_code, again.json()) == (200, caller.identity("a"))


def test_a_device_that_was_not_aggregated_leaves_or_is_replaced_without_a_look_at_the_others(caller, monkeypatch):
    sent = messages(4)
    before = caller.create_aggregated(sent)
    settled, settle = [], Aggregator.settle
    monkeypatch.setattr(Aggregator, "settle", lambda self, job: settled.append(job) or settle(self, job))
    caller.put(message("late"))
    assert caller.put(message("late", seed=1), replace=True).status_code == 200
    assert caller.remove("late").status_code == 200
    assert not settled
    assert caller.show()["version"] == before["version"]
    assert caller.remove(sent[0].device_id).json()["version"] == before["version"] + 1
    assert len(settled) == 1
