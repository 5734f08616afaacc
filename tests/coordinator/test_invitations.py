"""Who may join: invitations for named devices, join tokens that change, and federations that are deleted."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
from coordinators import ADMIN, SECRET, message, messages
from hypothesis import given
from hypothesis import strategies as st
from test_parts import FEDERATION, arrival
from typer.testing import CliRunner

from kfed.cli import app
from kfed.coordinator.federation import Admission, Invitation
from kfed.coordinator.security import hashed
from kfed.coordinator.store import Store
from kfed.coordinator.store.invitations import Invitations

OTHER_SECRET = "another-device-secret-for-tests"


def invite(caller, device_id, name="clinics", **headers):
    path = f"/v1/federations/{name}/invitations"
    answer = caller.http.post(path, json={"device_id": device_id}, headers=caller.admin | headers)
    assert answer.status_code == 201, answer.text
    return answer.json()["token"]


def revoke(caller, device_id, name="clinics"):
    return caller.http.delete(f"/v1/federations/{name}/invitations/{device_id}", headers=caller.admin)


def put(caller, sent, token, **options):
    return caller.put(sent, headers={"Authorization": f"Bearer {token}"}, **options)


# Invitations ----------------------------------------------------------------------------------------------------------


def test_an_invited_device_joins_once_and_may_repeat_and_replace_its_message(store_caller, run_app, store_address):
    store_caller.create(invited_only=True)
    token = invite(store_caller, "north")
    assert put(store_caller, message("north"), token).status_code == 201
    store_caller.http = run_app(store_address)
    assert put(store_caller, message("north"), token).status_code == 200
    assert put(store_caller, message("north", seed=1), token, replace=True).status_code == 200
    assert put(store_caller, message("north", seed=2), token, replace=True, secret=OTHER_SECRET).status_code == 403
    assert store_caller.remove("north").status_code == 200
    again = put(store_caller, message("north"), token)
    assert (again.status_code, "works once" in again.json()["detail"]) == (403, True)
    assert store_caller.show()["n_devices"] == 0


def test_an_invitation_is_for_its_device_and_its_federation_alone(caller):
    caller.create(invited_only=True)
    caller.create("other")
    token = invite(caller, "north")
    assert put(caller, message("south"), token).status_code == 403
    assert put(caller, message("north"), token, name="other").status_code == 403
    assert put(caller, message("north"), token[:-1] + ("y" if token[-1] == "x" else "x")).status_code == 403


def test_a_wrong_token_makes_the_same_reads_whether_or_not_a_federation_exists(caller, monkeypatch):
    caller.create()
    caller.create("invited", invited_only=True)
    invite(caller, "north", "invited")
    found, find = [], Invitations.find
    monkeypatch.setattr(Invitations, "find", lambda *asked: found.append(asked[2]) or find(*asked))
    for name in ("clinics", "invited", "none"):
        caller.join[name] = {"Authorization": "Bearer " + "x" * 32}
        assert caller.put(message("north"), name).status_code == 403
    assert found == ["north"] * 3


def test_an_id_that_no_database_can_hold_is_the_fault_of_the_sender(store_caller):
    store_caller.create(invited_only=True)
    sent = message("north").to_bytes()
    assert store_caller.put(sent, device_id="a\0b").status_code == 422
    assert put(store_caller, sent, "x" * 32, device_id="a\0b").status_code == 403
    assert revoke(store_caller, "a%00b").status_code == 404


def test_by_the_join_token_nobody_joins_a_federation_of_invited_devices(caller):
    caller.create(invited_only=True)
    refused = caller.put(message("invented"))
    assert (refused.status_code, "invitation" in refused.json()["detail"]) == (403, True)
    assert caller.show()["invited_only"]


def test_the_id_of_an_invited_device_is_kept_for_it(caller):
    caller.create()
    token = invite(caller, "north")
    assert caller.put(message("north")).status_code == 403
    assert caller.put(message("south")).status_code == 201
    assert put(caller, message("north"), token).status_code == 201


def test_an_invitation_that_was_revoked_or_replaced_lets_nobody_in(caller):
    caller.create(invited_only=True)
    first = invite(caller, "north")
    second = invite(caller, "north")
    assert put(caller, message("north"), first).status_code == 403
    assert revoke(caller, "north").json() == {"device_id": "north", "revoked": True}
    assert put(caller, message("north"), second).status_code == 403
    assert revoke(caller, "north").status_code == 404
    assert put(caller, message("north"), invite(caller, "north")).status_code == 201


def test_a_device_whose_invitation_is_revoked_stays_and_may_leave(caller):
    caller.create(invited_only=True)
    assert put(caller, message("north"), invite(caller, "north")).status_code == 201
    assert revoke(caller, "north").status_code == 200
    assert caller.show()["n_devices"] == 1
    assert caller.remove("north").status_code == 200


def test_inviting_again_with_the_same_key_is_answered_with_the_same_token(caller):
    caller.create()
    tokens = [invite(caller, "north", **{"Idempotency-Key": key}) for key in ("one", "one", "two")]
    assert tokens[0] == tokens[1] != tokens[2]
    assert invite(caller, "south", **{"Idempotency-Key": "two"}) != tokens[2]


def test_invitations_are_listed_without_their_tokens(caller):
    caller.create()
    token = invite(caller, "north")
    invite(caller, "sud/süd")
    put(caller, message("north"), token)
    answer = caller.http.get("/v1/federations/clinics/invitations", headers=caller.admin)
    listed = {one["device_id"]: one["used_at"] is not None for one in answer.json()}
    assert listed == {"north": True, "sud/süd": False}
    assert token not in answer.text
    assert revoke(caller, "sud/süd").status_code == 200


@pytest.mark.parametrize("path", ["invitations", "join-token"])
def test_only_the_administrator_invites_and_changes_tokens(caller, path):
    caller.create()
    for headers in ({}, caller.join["clinics"], {"Kfed-Device-Secret": SECRET}):
        answer = caller.http.post(f"/v1/federations/clinics/{path}", json={"device_id": "x"}, headers=headers)
        assert answer.status_code in (401, 403)
        assert caller.http.delete("/v1/federations/clinics", headers=headers).status_code in (401, 403)


@given(order=st.permutations([0, 1, 2, 3]), n_first=st.integers(1, 4))
def test_of_devices_that_come_with_one_invitation_in_whatever_batches_one_joins(order, n_first, tmp_path_factory):
    store = Store(str(tmp_path_factory.mktemp("store") / "kfed.db"))
    store.invitations.add(FEDERATION.id, Invitation("north", hashed("the token"), 0.0))
    sent = [arrival("north", seed=seed, invitation="the token") for seed in range(4)]
    receipts = [
        *store.change_devices([sent[i] for i in order[:n_first]]),
        *store.change_devices([sent[i] for i in order[n_first:]]),
    ]
    admissions = [receipt.admission for receipt in receipts]
    assert admissions == [Admission.JOINED] + [Admission.CONFLICT] * 3
    store.close()


# Join tokens and deleting ---------------------------------------------------------------------------------------------


def test_after_a_rotation_the_old_join_token_lets_nobody_in_and_the_new_one_does(store_caller, run_app, store_address):
    store_caller.create()
    assert store_caller.put(message("a")).status_code == 201
    path, key = "/v1/federations/clinics/join-token", {"Idempotency-Key": "1"}
    rotated = store_caller.http.post(path, headers=store_caller.admin | key)
    assert store_caller.http.post(path, headers=store_caller.admin | key).json() == rotated.json()
    for _ in range(2):
        assert store_caller.put(message("b")).status_code == 403
        assert put(store_caller, message("b"), rotated.json()["join_token"]).status_code in (200, 201)
        store_caller.http = run_app(store_address)
    assert store_caller.show()["n_devices"] == 2


def test_a_federation_that_is_deleted_is_gone_with_everything_in_it(store_caller, run_app, store_address):
    store_caller.create_aggregated(messages(4))
    store_caller.create_aggregated(messages(4), "other")
    invite(store_caller, "north")
    path = "/v1/federations/clinics"
    assert store_caller.http.delete(path, headers=store_caller.admin).json() == {"name": "clinics", "deleted": True}
    for _ in range(2):
        assert store_caller.http.get(path, headers=store_caller.admin).status_code == 404
        assert store_caller.put(messages(4)[0]).status_code == 403
        assert store_caller.show("other")["n_aggregated"] == 4
        assert b'federation="clinics"' not in store_caller.http.get("/metrics", headers=store_caller.admin).content
        store_caller.http = run_app(store_address)
    store_caller.create()
    shown = store_caller.show()
    assert (shown["state"], shown["n_devices"], shown["version"]) == ("gathering", 0, 0)
    assert store_caller.http.get(f"{path}/invitations", headers=store_caller.admin).json() == []


def test_a_federation_never_gets_the_number_of_one_that_was_deleted(store_address):
    numbers = []
    for _ in range(2):
        store = Store(store_address)
        numbers.append(store.add_federation(replace(FEDERATION, id=0)).id)
        store.delete_federation(numbers[-1])
        store.close()
    assert numbers == [1, 2]


def test_a_message_on_its_way_to_a_federation_that_is_deleted_is_not_kept(store_address):
    store = Store(store_address)
    store.add_federation(FEDERATION)
    store.delete_federation(1)
    assert store.change_devices([arrival("a")])[0].admission is Admission.GONE
    assert store.device(1, "a") is None
    store.close()


# The command line -----------------------------------------------------------------------------------------------------


def test_an_administrator_invites_rotates_and_deletes_from_the_command_line(socket_caller, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("KFED_ADMIN_TOKEN", ADMIN)
    url = str(socket_caller.http.base_url)

    def kfed(*arguments):
        done = CliRunner().invoke(app, ["federation", *arguments, "--url", url, "--json"])
        assert done.exit_code == 0, done.output
        return json.loads(done.stdout)

    created = kfed("create", "clinics", "--n-features", "2", "-k", "4", "--invited-only")
    assert created["federation"]["invited_only"]
    assert kfed("invite", "clinics", "north") == {"device_id": "north", "token_file": "clinics-north.token"}
    socket_caller.join["clinics"] = {"Authorization": f"Bearer {Path('clinics-north.token').read_text().strip()}"}
    assert Path("clinics-north.token").stat().st_mode & 0o077 == 0
    assert socket_caller.put(message("north")).status_code == 201
    assert kfed("invitations", "clinics")[0]["used_at"] is not None
    assert kfed("revoke", "clinics", "north")["revoked"]
    before = Path("clinics.token").read_text()
    kfed("rotate", "clinics", "--force")
    assert Path("clinics.token").read_text() != before
    assert kfed("delete", "clinics", "--yes")["deleted"]
    assert kfed("list") == []


def test_an_id_that_is_no_name_for_a_file_needs_one_for_its_token(tmp_path):
    done = CliRunner().invoke(app, ["federation", "invite", "clinics", "a/b", "--url", "http://127.0.0.1:9"])
    assert "--token-file" in done.output
