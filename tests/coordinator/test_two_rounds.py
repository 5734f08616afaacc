"""Federations of two rounds: the second messages of devices refine the clusters, and nothing else changes."""

import contextlib
import sqlite3
import subprocess
from pathlib import Path

import numpy as np
import pytest
from coordinators import ADMIN, KFED, MEANS, SECRET, Caller

import kfed
from consoles import SITES as TABLES
from consoles import run, said, write_sites
from kfed.coordinator.problems import StoreUnavailableError
from kfed.coordinator.store import Store
from kfed.wire import second_message

SITES = ("east", "north", "south")


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(0)
    return {site: rng.normal(size=(120, 2)) for site in SITES}


@pytest.fixture(scope="module")
def local(rows):
    return {site: kfed.cluster_device(own, 5, random_state=0, device_id=site) for site, own in rows.items()}


def refined(caller, local, rows, site):
    answer = caller.http.get(
        f"{caller.path(site)}/identity", headers={"Kfed-Device-Secret": SECRET, "Accept": "application/octet-stream"}
    )
    own = local[site]
    return kfed.refine_device(own, kfed.Identity.from_bytes(answer.content), rows[site]).to_message(site)


def put_second(caller, message, secret=SECRET, site=None):
    headers = {} if secret is None else {"Kfed-Device-Secret": secret}
    path = f"{caller.path(site or message.device_id)}/second-message"
    return caller.http.put(path, content=message.to_bytes(), headers=headers)


@pytest.fixture
def aggregated(caller, local):
    caller.create_aggregated([own.to_message(site) for site, own in local.items()], rounds=2, n_clusters=3)
    return caller


def test_when_all_have_sent_a_second_message_the_centers_are_means_of_rows(aggregated, local, rows):
    sent = [refined(aggregated, local, rows, site) for site in SITES]
    for number, message in enumerate(sent[:2], start=1):
        assert put_second(aggregated, message).status_code == 201
        assert put_second(aggregated, message).status_code == 200
        assert (aggregated.show()["round"], aggregated.show()["n_second"]) == (1, number)
    assert put_second(aggregated, sent[2]).json()["round"] == 2
    shown = aggregated.show()
    assert (shown["round"], shown["version"], sum(shown["cluster_sizes"])) == (2, 2, sum(one.n_points for one in sent))
    centers = np.array(aggregated.identity("north")["cluster_centers"])
    sums = np.zeros((3, 2))
    for message in sent:
        sums[message.details.cluster_ids] += message.counts[:, None] * message.centers
    np.testing.assert_allclose(centers, sums / np.array(shown["cluster_sizes"])[:, None])
    assert put_second(aggregated, sent[0]).status_code == 409  # refined already


def test_a_store_that_fails_after_the_last_second_message_is_a_503_and_sending_it_again_refines(
    aggregated, local, rows, monkeypatch
):
    sent = [refined(aggregated, local, rows, site) for site in SITES]
    for message in sent[:2]:
        put_second(aggregated, message)
    with monkeypatch.context() as failing:
        failing.setattr(Store, "save_clustering", _fail)
        answer = put_second(aggregated, sent[2])
    assert (answer.status_code, answer.headers["retry-after"]) == (503, "2")
    assert "may or may not have been stored; send it again" in answer.json()["detail"]
    assert (aggregated.show()["round"], aggregated.show()["n_second"]) == (1, 3)
    assert put_second(aggregated, sent[2]).json()["round"] == 2


def _fail(*_):
    raise StoreUnavailableError("on purpose")


@pytest.mark.parametrize("table", ["kfed_devices", "kfed_second_messages"])
def test_a_damaged_message_disables_the_federation_in_the_second_round_too_until_it_is_aggregated_anew(
    aggregated, local, rows, tmp_path, table
):
    sent = [refined(aggregated, local, rows, site) for site in SITES]
    for message in sent[:2]:
        put_second(aggregated, message)
    with contextlib.closing(sqlite3.connect(tmp_path / "kfed.db")) as store:
        store.execute(f"UPDATE {table} SET message = 'junk' WHERE device_id = 'east'")
        store.commit()
    answer = put_second(aggregated, sent[2])
    assert (answer.status_code, answer.headers["retry-after"]) == (503, "60")
    assert answer.json()["detail"].startswith("stored messages cannot be read; the administrator sees whose")
    assert (aggregated.show()["state"], "of 'east'" in aggregated.show()["remark"]) == ("damaged", True)
    assert aggregated.remove("east").status_code == 200
    assert aggregated.aggregate().json()["state"] == "aggregated"


@pytest.mark.slow
def test_the_administrator_need_not_wait_for_all(aggregated, local, rows):
    path = "/v1/federations/clinics/refine"
    assert aggregated.http.post(path, headers=aggregated.admin).status_code == 409
    put_second(aggregated, refined(aggregated, local, rows, "north"))
    assert aggregated.http.post(path).status_code == 401
    assert aggregated.http.post(path, headers=aggregated.admin).json()["round"] == 2


@pytest.mark.slow
def test_a_restart_keeps_second_messages_and_refined_clusters(run_app, tmp_path, local, rows):
    store = str(tmp_path / "kfed.db")
    caller = Caller(run_app(store))
    caller.create_aggregated([own.to_message(site) for site, own in local.items()], rounds=2, n_clusters=3)
    sent = [refined(caller, local, rows, site) for site in SITES]
    put_second(caller, sent[0])
    caller.http = run_app(store)
    assert caller.show()["n_second"] == 1
    for message in sent[1:]:
        put_second(caller, message)
    sizes = caller.show()["cluster_sizes"]
    caller.http = run_app(store)
    assert (caller.show()["round"], caller.show()["cluster_sizes"]) == (2, sizes)


@pytest.mark.slow
def test_if_a_device_leaves_the_clusters_are_those_of_one_round_without_it(aggregated, local, rows):
    for site in SITES:
        put_second(aggregated, refined(aggregated, local, rows, site))
    aggregated.remove("south")
    shown = aggregated.wait_for(lambda shown: shown["round"] == 1)
    assert (shown["n_aggregated"], shown["n_second"]) == (2, 0)
    alone = kfed.aggregate([local[site].to_message(site) for site in ("east", "north")], 3)
    assert sorted(shown["cluster_sizes"]) == sorted(alone.cluster_sizes)
    again = refined(aggregated, local, rows, "north")
    assert put_second(aggregated, again).status_code == 409  # a device sends one second message, whatever it is about


def test_what_is_no_second_message_of_this_device_is_refused_and_changes_nothing(aggregated, local, rows):
    message = refined(aggregated, local, rows, "north")
    assert put_second(aggregated, message, secret=None).status_code == 401
    assert put_second(aggregated, message, secret="another-secret-of-someone").status_code == 403
    assert put_second(aggregated, message, site="east").status_code == 422
    assert put_second(aggregated, local["north"].to_message("north")).status_code == 422
    first = local["north"].to_message("north")
    other = second_message(first, np.arange(first.n_local_clusters), "0" * 32)
    assert put_second(aggregated, other).status_code == 409
    large = aggregated.http.put(
        f"{aggregated.path('north')}/second-message", content=bytes(2**25), headers={"Kfed-Device-Secret": SECRET}
    )
    assert large.status_code == 413
    assert aggregated.show()["n_second"] == 0


@pytest.mark.slow
def test_one_round_is_the_default_and_private_federations_have_no_other(caller, local, rows):
    caller.create_aggregated([own.to_message(site) for site, own in local.items()], n_clusters=3)
    assert put_second(caller, refined(caller, local, rows, "north")).status_code == 409
    terms = {"name": "private", "n_features": 2, "rounds": 2, "max_epsilon": 1.0}
    assert caller.http.post("/v1/federations", json=terms, headers=caller.admin).status_code == 422


@pytest.mark.slow
def test_sites_that_join_send_a_second_message_while_they_wait(run_server, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_sites(".", MEANS / 8, ["row", "x", "y"], 1.0)
    Path("admin.token").write_text(ADMIN)
    url = str(run_server("kfed.db").base_url)
    run("federation", "create", "sites", "--columns", "x,y", "-k", 4, "--quorum", 4, "--rounds", 2, "--url", url)
    own = ["--federation", "sites", "--token-file", "sites.token", "-k", "3", "--id-column", "row"]
    waiting = [
        subprocess.Popen([KFED, "join", url, *own, "--data", f"{site}.csv", "-o", f"{site}-labels.csv"])
        for site in TABLES
    ]
    assert [process.wait(90) for process in waiting] == [0] * 4
    assert "refined by second messages" in run("federation", "show", "sites", "--url", url)
    again = ["join", url, *own, "--data", "north.csv", "-o", "again.csv"]
    assert "4 clusters (rule: paper, refined by second messages)" in run(*again)  # and nothing is sent twice
    assert Path("again.csv").read_text() == Path("north-labels.csv").read_text()


def test_a_site_that_did_not_wait_is_told_how_its_second_message_is_sent_later(run_server, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_sites(".", MEANS / 8, ["row", "x", "y"], 1.0)
    Path("admin.token").write_text(ADMIN)
    caller = Caller(run_server("kfed.db"))
    url = str(caller.http.base_url)
    run("federation", "create", "sites", "--columns", "x,y", "-k", 3, "--quorum", 2, "--rounds", 2, "--url", url)
    own = ["join", url, "--federation", "sites", "--token-file", "sites.token", "-k", "3", "--id-column", "row"]
    told = "this site has not sent: when there are clusters, run `kfed join` again with -o FILE, and without --no-wait"
    for site in ("north", "south"):
        code, out, err = said(*own, "--data", f"{site}.csv", "--no-wait")
        assert (code, told in err, "kfed label" in out) == (0, True, False)
    caller.wait_for(lambda shown: shown["state"] == "aggregated", "sites")
    code, _, err = said("label", "north.local", "--clusters", "north.ticket", "-o", "early.csv")
    assert (code, told in err) == (0, True)
    assert caller.show("sites")["n_second"] == 0
    for site in ("north", "south"):
        code, _, err = said(*own, "--data", f"{site}.csv", "-o", f"{site}.labels.csv", "--timeout", 0)
        assert (code, told in err) == (0, False)
        if site == "north":
            for late in (["--no-wait"], ["-o", "east.labels.csv"]):
                code, _, err = said(*own, "--data", "east.csv", *late)
                assert (code, "second message" in err) == (0, False), "clusters are not made of what comes late"
            assert not Path("east.second").exists()
            code, _, err = said("label", "north.local", "--clusters", "north.ticket", "-o", "sent.csv")
            assert (code, told in err) == (0, False), "it has sent its second message, and waits for that of another"
    assert "refined by second messages" in run("federation", "show", "sites", "--url", url)
    assert told not in said("label", "south.local", "--clusters", "south.ticket", "-o", "late.csv")[2]
