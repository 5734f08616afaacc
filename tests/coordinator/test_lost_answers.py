"""A COMMIT whose answer is lost: what is said is true, and the next request finds the truth."""

import httpx
import pytest
from coordinators import ADMIN, Caller, message, messages
from cuts import CuttingProxy
from test_order_of_events import assert_clusters_are_of, sent

from kfed.coordinator.client import Line

AFTER_OR_BEFORE = pytest.mark.parametrize("after", [True, False], ids=["carried out", "never arrived"])


@pytest.fixture
def proxy(postgres):
    running = CuttingProxy(postgres.port)
    yield running
    running.close()


@pytest.fixture
def proxied_address(proxy, postgres, postgres_address):
    return postgres_address.replace(f":{postgres.port}/", f":{proxy.port}/")


@pytest.fixture
def proxied(run_app, proxied_address):
    return Caller(run_app(proxied_address))


def assert_in_doubt(answer):
    assert answer.status_code == 503
    assert int(answer.headers["retry-after"]) >= 1
    assert "may or may not have been stored; send it again" in answer.json()["detail"]


@AFTER_OR_BEFORE
def test_a_message_in_doubt_is_there_once_when_it_is_sent_again_and_others_come_in(proxied, proxy, after):
    proxied.create()
    proxied.put(message("a"))
    proxy.cut_next_commit(after=after)
    assert_in_doubt(proxied.put(message("b")))
    assert proxied.put(message("c")).status_code == 201
    assert proxied.put(message("b")).status_code == (200 if after else 201)
    shown = proxied.show()
    assert (shown["n_devices"], shown["n_centers"]) == (3, 6)
    assert proxy.n_cuts == 1


@AFTER_OR_BEFORE
def test_a_removal_in_doubt_is_out_of_the_clusters_if_it_was_kept(proxied, proxy, after):
    proxied.create_aggregated([sent(device_id) for device_id in "abcd"])
    proxy.cut_next_commit(after=after)
    assert_in_doubt(proxied.remove("d"))
    assert proxied.put(sent("g")).status_code == 201
    proxied.wait_for(lambda shown: shown["n_aggregated"] == (3 if after else 4))
    assert_clusters_are_of(proxied, "abc" if after else "abcd")
    assert proxied.show()["n_devices"] == (4 if after else 5)


@AFTER_OR_BEFORE
def test_an_aggregation_in_doubt_is_shown_if_it_was_kept(proxied, proxy, after):
    proxied.create()
    for one in messages(6):
        proxied.put(one)
    proxy.cut_next_commit(after=after)
    assert_in_doubt(proxied.aggregate())
    if after:
        assert proxied.wait_until("aggregated")["version"] == 1
    assert proxied.aggregate().json()["version"] == (2 if after else 1)


@AFTER_OR_BEFORE
def test_closing_in_doubt_turns_devices_away_if_it_was_kept(proxied, proxy, after):
    proxied.create()
    proxy.cut_next_commit(after=after)
    answer = proxied.http.post("/v1/federations/clinics/close", headers=proxied.admin)
    assert_in_doubt(answer)
    assert proxied.put(message("a")).status_code == (409 if after else 201)
    assert proxied.show()["closed"] == after


# Federations ----------------------------------------------------------------------------------------------------------


def create(caller, key="a-key-of-this-request", admin=ADMIN, **terms):
    headers = {"Authorization": f"Bearer {admin}"} | ({} if key is None else {"Idempotency-Key": key})
    terms = {"name": "clinics", "n_features": 2, "n_clusters": 4, **terms}
    return caller.http.post("/v1/federations", json=terms, headers=headers)


@AFTER_OR_BEFORE
def test_a_federation_in_doubt_is_created_once_when_it_is_asked_for_again(proxied, proxy, after):
    proxy.cut_next_commit(after=after)
    assert_in_doubt(create(proxied))
    again = create(proxied)
    assert again.status_code == 201, again.text
    proxied.join["clinics"] = {"Authorization": f"Bearer {again.json()['join_token']}"}
    assert proxied.put(message("a")).status_code == 201
    assert proxied.show()["n_devices"] == 1


def test_creating_with_the_same_key_is_answered_like_the_first_time(store_caller, run_app, store_address):
    first = create(store_caller, quorum=3)
    assert first.status_code == 201
    assert create(store_caller, quorum=3).json() == first.json()
    store_caller.http = run_app(store_address)
    again = create(store_caller, quorum=3)
    assert (again.status_code, again.json()["join_token"]) == (201, first.json()["join_token"])


def test_another_key_or_other_terms_do_not_get_a_join_token_that_exists(caller):
    assert create(caller, quorum=3).status_code == 201
    for change in ({"key": "another-key"}, {"key": None}, {"quorum": 4}, {"n_features": 3}):
        answer = create(caller, **{"quorum": 3, **change})
        assert answer.status_code == 409
        assert "join_token" not in answer.text


@pytest.mark.parametrize("key", ["", "x" * 201, "a b", "ä".encode()])
def test_a_key_is_printable_and_short(standing, key):
    assert create(standing, key=key).status_code == 422


def test_two_federations_with_the_same_key_have_different_join_tokens(caller):
    tokens = {create(caller, name=name).json()["join_token"] for name in ("one", "two")}
    assert len(tokens) == 2


def test_a_client_repeats_a_request_under_the_same_key_and_makes_another_one_under_another():
    keys = []

    def respond(request):
        keys.append(request.headers["idempotency-key"])
        return httpx.Response(503 if len(keys) == 1 else 201, json={})

    with Line("http://127.0.0.1", transport=httpx.MockTransport(respond), sleep=lambda _: None) as line:
        line.request("POST", "/v1/federations")
        line.request("POST", "/v1/federations")
    assert keys[0] == keys[1] != keys[2]
