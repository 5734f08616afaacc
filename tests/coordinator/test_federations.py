"""What an administrator may rely on: terms that are kept, rights that are three, and a service that says how it is."""

import time
from importlib import metadata

import httpx
import numpy as np
import pytest
from coordinators import ADMIN, SECRET, Caller, InProcess, made_settings, message, messages

import kfed
from kfed.coordinator.http.serve import GRACE_SECONDS
from kfed.coordinator.security import hashed
from kfed.coordinator.store import Store
from kfed.server import RULES


def test_a_federation_is_created_shown_listed_and_closed(caller):
    made = caller.create(feature_names=["age", "height"], quorum=3, rule="robust", max_devices=9, max_centers=5)
    state = made["federation"]
    assert (state["state"], state["quorum"], state["rule"], state["n_devices"]) == ("gathering", 3, "robust", 0)
    assert caller.show() == state
    assert caller.http.get("/v1/federations", headers=caller.admin).json() == [state]
    caller.put(message("in"))
    closed = caller.http.post("/v1/federations/clinics/close", headers=caller.admin).json()
    assert closed["closed"]
    assert caller.put(message("in")).status_code == 200
    refused = caller.put(message("out"))
    assert refused.status_code == 409
    assert "closed" in refused.json()["detail"]


def test_a_name_is_taken_once(caller):
    caller.create()
    again = caller.http.post(
        "/v1/federations", json={"name": "clinics", "n_features": 2, "n_clusters": 4}, headers=caller.admin
    )
    assert again.status_code == 409


def test_two_coordinators_in_one_process_share_nothing(caller, tmp_path):
    other = InProcess(made_settings(str(tmp_path / "other.db"), admin_token_hash=hashed("another-admin-token")))
    try:
        caller.create("one")
        elsewhere = Caller(other.client, "another-admin-token")
        assert elsewhere.http.get("/v1/federations", headers=elsewhere.admin).json() == []
        assert elsewhere.http.post("/v1/federations/one/close", headers=caller.admin).status_code == 403
        elsewhere.create("two")
        assert [one["name"] for one in caller.http.get("/v1/federations", headers=caller.admin).json()] == ["one"]
    finally:
        other.stop()


def test_federations_live_side_by_side(caller):
    caller.create("one", quorum=4)
    caller.create("two", quorum=9)
    for one in messages(4):
        caller.put(one, "one")
        caller.put(one, "two")
    caller.wait_until("aggregated", "one")
    assert caller.show("two")["state"] == "gathering"
    assert caller.put(message("x"), "one", headers=caller.join["two"]).status_code == 403
    assert caller.remove("device-0000", "two").status_code == 200
    assert caller.show("one")["n_devices"] == 4


def test_a_deadline_aggregates_by_itself(caller):
    caller.create(deadline=time.time() + 1.5)
    for one in messages(4):
        caller.put(one)
    assert caller.show()["state"] == "gathering"
    caller.wait_until("aggregated", seconds=10)


def test_a_deadline_in_the_past_is_refused(caller):
    terms = {"name": "old", "n_features": 2, "deadline": time.time() - 5}
    answer = caller.http.post("/v1/federations", json=terms, headers=caller.admin)
    assert answer.status_code == 422


def test_a_number_of_clusters_that_shows_is_found(caller):
    caller.create(n_clusters="auto", quorum=30)
    for one in messages(30):
        caller.put(one)
    assert caller.wait_until("aggregated")["n_clusters_found"] == 4


def blurred_messages():
    """What five devices send whose centers show no number of clusters."""
    rng = np.random.default_rng(0)
    centers = [rng.uniform(0, 30, size=(2, 2)) for _ in range(5)]
    return [kfed.DeviceMessage(f"{i}", own, [50, 50], [90.0, 90.0], 3.0) for i, own in enumerate(centers)]


def test_without_a_number_a_federation_takes_the_one_that_aggregating_files_takes_and_says_how_sure_it_is(
    caller, few_compared
):
    sent = blurred_messages()
    shown = caller.create_aggregated(sent, n_clusters=None)
    expected = kfed.aggregate(sent)
    assert shown["n_clusters"] is None
    assert shown["n_clusters_found"] == expected.n_clusters
    (unsure,) = [notice.text for notice in expected.notices if notice.code == "unsure k"]
    assert {"code": "unsure k", "text": unsure} in shown["notices"]


def test_a_number_is_taken_without_asking_only_if_nothing_was_said_about_it(caller):
    terms = {"name": "silent", "n_features": 2}
    made = caller.http.post("/v1/federations", json=terms, headers=caller.admin).json()
    assert made["federation"]["n_clusters"] is None
    assert caller.create(n_clusters="auto")["federation"]["n_clusters"] == "auto"


def test_where_no_number_of_clusters_shows_the_administrator_is_told_and_gives_it(caller, few_compared):
    caller.create(n_clusters="auto", quorum=5)
    for one in blurred_messages():
        caller.put(one)
    caller.wait_for(lambda shown: shown["remark"])
    told = "the administrator has to choose a number: kfed federation aggregate clinics -k N"
    n_devices = len(blurred_messages())
    assert caller.show()["remark"].startswith(f"with {n_devices} devices: no number of clusters stands out")
    assert caller.show()["remark"].endswith(told)
    assert caller.get("comparison").json()["n_devices"] == n_devices
    caller.put(kfed.DeviceMessage("later", [[0.0, 9.0], [9.0, 0.0]], [50, 50], [90.0, 90.0], 3.0))
    assert caller.show()["remark"] == (
        f"with {n_devices} devices, no number of clusters stood out; it is tried again when there are "
        f"{2 * n_devices}, or when the administrator asks: kfed federation aggregate clinics"
    )
    assert caller.get("comparison").json()["n_devices"] == n_devices + 1
    assert caller.aggregate().status_code == 409
    assert caller.show()["remark"].startswith(f"with {n_devices + 1} devices: ")
    assert caller.aggregate(n_clusters=3).json()["n_clusters_found"] == 3
    assert caller.show()["remark"] == ""


@pytest.mark.parametrize(("hours", "again"), [(None, ""), (1, "there are 10 after the deadline, or when ")])
def test_where_nobody_waits_for_a_quorum_it_is_said_when_it_is_tried_again_and_other_failures_are_as_they_were(
    caller, few_compared, hours, again
):
    caller.create(n_clusters="auto", deadline=None if hours is None else time.time() + 3600 * hours)
    for one in blurred_messages():
        caller.put(one)
    assert caller.aggregate().status_code == 409
    more = [kfed.DeviceMessage(f"later {i}", [[0.0, 9.0], [9.0, 0.0]], [50, 50], [90.0, 90.0], 3.0) for i in range(2)]
    caller.put(more[0])
    assert caller.show()["remark"] == (
        f"with {len(blurred_messages())} devices, no number of clusters stood out; it is tried again when {again}the "
        "administrator asks: kfed federation aggregate clinics"
    )
    assert caller.aggregate(n_clusters=1000).status_code == 409
    remark = caller.show()["remark"]
    caller.put(more[1])
    assert "got 1000" in remark
    assert caller.show()["remark"] == remark


def test_by_hand_it_takes_enough_centers(caller):
    caller.create()
    assert caller.aggregate().status_code == 409
    caller.put(message("a"))
    answer = caller.aggregate()
    assert answer.status_code == 409
    assert "wait for more devices" in answer.json()["detail"]
    assert caller.show()["state"] == "gathering"


def test_limits_of_a_federation_hold(caller):
    caller.create(max_devices=2, max_centers=2)
    assert caller.put(message("wide", (0, 1, 2))).status_code == 422
    for name in "ab":
        assert caller.put(message(name)).status_code == 201
    assert caller.put(message("c")).status_code == 409
    assert caller.put(message("a")).status_code == 200
    caller.remove("a")
    assert caller.put(message("c")).status_code == 201


def test_a_federation_bounds_counts_and_values(caller):
    caller.create(max_count=1000, max_value=1e6)
    assert caller.put(message("usual")).status_code == 201
    for centers, count, what in (([[0.0, 0.0]], 1001, "count"), ([[0.0, -2e6]], 9, "value")):
        refused = caller.put(kfed.DeviceMessage("absurd", centers, [count]))
        assert refused.status_code == 422
        assert f"a {what} of a center may be at most" in refused.json()["detail"]


def test_a_federation_can_demand_differential_privacy(caller):
    made = caller.create(max_epsilon=1.0)
    assert made["federation"]["max_epsilon"] == 1.0
    rows = np.random.default_rng(0).normal(size=(2000, 2))
    for epsilon, status in ((0.5, 201), (1.0, 201), (2.0, 422)):
        local = kfed.cluster_device(rows, 1, privacy=kfed.Privacy(epsilon=epsilon, radius=5.0))
        assert caller.put(local.to_message(f"site-{epsilon}")).status_code == status
    refused = caller.put(message("plain"))
    assert refused.status_code == 422
    assert "promises no differential privacy; an epsilon of at most 1 is demanded" in refused.json()["detail"]


@pytest.mark.filterwarnings("ignore::kfed.AggregationWarning")
def test_a_cluster_of_a_federation_rests_on_as_many_devices_as_it_asks_for(caller):
    sent = [*messages(12), kfed.DeviceMessage("liar", [[900.0, 900.0]], [2**53])]
    made = caller.create(quorum=13, rule="robust", min_devices=2)
    assert made["federation"]["min_devices"] == 2
    for one in sent:
        caller.put(one)
    caller.wait_until("aggregated")
    state = caller.show()
    text = "1 center of 'liar' was set aside: fewer than 2 devices have a cluster there"
    assert {"code": "set aside", "text": text} in state["notices"]
    expected = kfed.aggregate(sent[:-1], 4, rule="robust", min_devices=2)
    assert sorted(state["cluster_sizes"])[:3] == sorted(expected.cluster_sizes)[:3]


def by_first_feature(batch, n_clusters):
    ranks = batch.centers[:, 0].argsort().argsort()
    return ranks * n_clusters // len(ranks)


def test_a_federation_goes_by_the_rule_of_an_installed_package(run_app, tmp_path, monkeypatch):
    found = metadata.EntryPoint("mine", f"{__name__}:by_first_feature", "kfed.rules")
    monkeypatch.setattr("importlib.metadata.entry_points", lambda name=None, **_: [found] if name == "mine" else [])
    monkeypatch.delitem(RULES, "mine", raising=False)
    caller = Caller(run_app(str(tmp_path / "kfed.db")))
    caller.create_aggregated(messages(3), rule="mine")
    expected = kfed.aggregate(messages(3), 4, rule=by_first_feature)
    assert sorted(caller.show()["cluster_sizes"]) == sorted(expected.cluster_sizes)
    del RULES["mine"]
    caller.http = run_app(str(tmp_path / "kfed.db"))
    assert caller.show()["state"] == "aggregated"
    asked = {"name": "other", "n_features": 2, "rule": "yours"}
    refused = caller.http.post("/v1/federations", json=asked, headers=caller.admin)
    assert (refused.status_code, "rule must be one of" in refused.text) == (422, True)


def test_regions_join_as_devices_and_pass_their_answer_on(caller):
    sent = messages(12)
    regions = {f"region-{i}": kfed.aggregate(sent[i : i + 4], 4) for i in (0, 4, 8)}
    spoken = [region.to_message(name) for name, region in regions.items()]
    caller.create(rule="regions", quorum=3)
    for one in spoken:
        assert caller.put(one, secret=None).status_code == 201
    caller.wait_until("aggregated")
    expected = kfed.aggregate(spoken, 4, rule="regions")
    for i, (name, region) in enumerate(regions.items()):
        headers = {**caller.join["clinics"], "Accept": "application/octet-stream"}
        said = caller.http.get(f"{caller.path(name)}/identity", headers=headers)
        answer = kfed.Identity.from_bytes(said.content)
        assert answer == expected.identity(name)
        for one in sent[4 * i : 4 * i + 4]:
            assert region.relay(one.device_id, answer).cluster_ids.tolist() == expected.assign(one).cluster_ids.tolist()


# Rights ---------------------------------------------------------------------------------------------------------


ADMIN_REQUESTS = [
    ("POST", "/v1/federations"),
    ("POST", "/v1/federations/clinics/close"),
    ("POST", "/v1/federations/clinics/aggregate"),
]
VIEWER_REQUESTS = [
    ("GET", "/v1/federations"),
    ("GET", "/v1/federations/clinics"),
    ("GET", "/v1/federations/clinics/picture"),
    ("GET", "/v1/events"),
    ("GET", "/metrics"),
]


@pytest.fixture
def public(run_app, tmp_path):
    """A coordinator that other machines can reach."""
    caller = Caller(run_app(str(tmp_path / "kfed.db"), open_to_loopback=False))
    caller.create()
    caller.put(message("a"))
    return caller


@pytest.mark.parametrize(("method", "path"), ADMIN_REQUESTS + VIEWER_REQUESTS)
def test_what_is_the_administrators_takes_the_admin_token(public, method, path):
    body = {"name": "x", "n_features": 2} if path == "/v1/federations" else None
    body = body if method == "POST" else None
    assert public.http.request(method, path, json=body).status_code == 401
    for wrong in (public.join["clinics"], {"Authorization": f"Bearer {SECRET}"}, {"Kfed-Device-Secret": ADMIN}):
        assert public.http.request(method, path, json=body, headers=wrong).status_code == 403


def test_with_open_on_loopback_anyone_there_may_look_but_not_touch(caller):
    caller.create()
    for method, path in VIEWER_REQUESTS:
        if path != "/v1/events":
            assert caller.http.request(method, path).status_code == 200
    for method, path in ADMIN_REQUESTS:
        body = {"name": "x", "n_features": 2} if path == "/v1/federations" else None
        assert caller.http.request(method, path, json=body).status_code == 401


def test_neither_the_admin_token_nor_that_of_another_federation_lets_a_device_join(public):
    public.create("other")
    for wrong in (public.admin, public.join["other"], {"Authorization": "Bearer " + "x" * 32}):
        assert public.put(message("b"), headers=wrong).status_code == 403
    assert public.http.put(f"{public.path('b')}/message", content=b"").status_code == 401


def test_whether_a_federation_exists_is_told_to_nobody_without_a_token(public):
    answers = [
        public.http.put(f"/v1/federations/{name}/devices/b/message", headers={"Authorization": "Bearer " + "x" * 32})
        for name in ("clinics", "klinics")
    ]
    assert answers[0].status_code == answers[1].status_code == 403
    assert answers[0].text.replace("clinics", "klinics") == answers[1].text


def test_an_identity_is_for_the_device_alone(public):
    path = f"{public.path('a')}/identity"
    assert public.http.get(path).status_code == 401
    assert public.http.get(path, headers=public.join["clinics"]).status_code == 403
    assert public.http.get(path, headers={"Kfed-Device-Secret": "x" * 24}).status_code == 403
    assert public.http.get(path, headers={"Kfed-Device-Secret": SECRET}).status_code == 202
    assert public.http.get(path, headers=public.admin).status_code == 202


def test_tokens_are_kept_as_hashes(public, tmp_path):
    kept = b"".join(path.read_bytes() for path in tmp_path.glob("kfed.db*"))
    assert b"device" in kept
    for token in (ADMIN, SECRET, public.join["clinics"]["Authorization"].split()[1]):
        assert token.encode() not in kept


# How it is ------------------------------------------------------------------------------------------------------


def test_it_says_that_it_is_well(caller):
    assert caller.http.get("/healthz").json() == {"status": "ok"}


def test_it_counts_for_prometheus(caller):
    caller.create()
    caller.put(message("a"))
    caller.put(message("a"))
    text = caller.http.get("/metrics").text
    assert 'kfed_messages_total{outcome="joined"} 1.0' in text
    assert 'kfed_messages_total{outcome="repeated"} 1.0' in text
    assert 'kfed_devices{federation="clinics"} 1.0' in text


def test_a_second_coordinator_cannot_take_the_same_store(store_caller, store_address):
    with pytest.raises(kfed.InvalidInputError, match="in use by another coordinator"):
        Store(store_address)
    assert store_caller.http.get("/healthz").status_code == 200


def test_events_tell_what_changed(socket_caller):
    caller = socket_caller
    caller.create()
    with caller.http.stream("GET", "/v1/events") as stream:
        lines = stream.iter_lines()
        first = next(line for line in lines if line.startswith("data:"))
        caller.put(message("newcomer"))
        second = next(line for line in lines if line.startswith("data:"))
    assert '"n_devices": 0' in first
    assert '"n_devices": 1' in second
    assert "newcomer joined" in second


@pytest.mark.slow
def test_a_coordinator_that_ends_lets_those_who_watch_go_at_once_and_without_a_word(serve):
    server = serve("--open-on-loopback")
    with httpx.stream("GET", f"{server.url}/v1/events", timeout=60) as stream:
        lines = stream.iter_lines()
        assert next(lines) == "retry: 1000"
        began = time.monotonic()
        server.process.terminate()
        assert not [line for line in lines if line.startswith("data:")]
        server.stop()
    assert time.monotonic() - began < GRACE_SECONDS
    assert "ERROR" not in (server.folder / "serve.log").read_text()


def test_the_openapi_document_describes_every_route_and_its_rights(caller):
    document = caller.http.get("/openapi.json").json()
    put = document["paths"]["/v1/federations/{name}/devices/{device_id}/message"]["put"]
    assert list(put["requestBody"]["content"]) == ["application/octet-stream"]
    assert put["security"] == [{"join token": []}]
    assert set(document["components"]["securitySchemes"]) == {"admin token", "join token", "device secret"}
    assert {"200", "201", "401", "403", "409", "413", "421", "422", "429", "503"} <= set(put["responses"])
    picture = document["paths"]["/v1/federations/{name}/picture"]["get"]["responses"]["200"]["content"]
    assert picture["application/json"]["schema"] == {"$ref": "#/components/schemas/FederationPicture"}
    assert {"FederationPicture", "PlottedCenter", "ArrivedDevice"} <= set(document["components"]["schemas"])
