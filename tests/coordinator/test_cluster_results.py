"""What people ask of a federation's clusters: how many, what they are, their names, and files; by page or command."""

import csv
import io
import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from coordinators import ADMIN, MEANS, Caller, message, messages

import kfed
from consoles import run
from kfed.insight import cluster_report, to_html

REFUSED = (401, 403, 429)


@pytest.fixture
def aggregated(caller):
    caller.create_aggregated(messages(8), feature_names=["age", "height"])
    return caller


def test_the_aggregation_to_download_is_what_devices_were_answered_from(aggregated):
    result = kfed.Aggregation.from_bytes(aggregated.get("download/aggregation").content)
    assert result.cluster_sizes.tolist() == aggregated.show()["cluster_sizes"]
    assert result.schema.names == ("age", "height")
    for sent in messages(8):
        told = aggregated.identity(sent.device_id)
        assert result.identity(sent.device_id).cluster_ids.tolist() == told["cluster_ids"]
        assert result.messages.message(sent.device_id).centers.tolist() == sent.centers.tolist()
    np.testing.assert_allclose(result.cluster_centers, told["cluster_centers"])


def test_report_and_centers_are_those_of_the_command_line(aggregated):
    result = kfed.Aggregation.from_bytes(aggregated.get("download/aggregation").content)
    page = aggregated.get("download/report")
    assert page.content == to_html(cluster_report(result, "The clusters of clinics", {}))
    assert page.headers["content-security-policy"].startswith("default-src 'none'")
    assert "attachment" in page.headers["content-disposition"]
    rows = list(csv.DictReader(io.StringIO(aggregated.get("download/centers").text)))
    assert {row["column"] for row in rows} == {"age", "height"}
    told = aggregated.get("result").json()
    assert told["cluster_sizes"] == aggregated.show()["cluster_sizes"]
    assert "rows of 8 devices are in 4 clusters" in told["sections"][0]["blocks"][0]["text"]


def test_what_to_look_at_has_a_code_in_the_result_as_in_the_state(caller):
    caller.create_aggregated([*messages(6), message("liar", (0,), means=MEANS + 900)], min_devices=2)
    told = caller.get("result").json()["notices"]
    assert "other scale" in [notice["code"] for notice in told]
    assert told == caller.show()["notices"]


@pytest.mark.slow
def test_clusters_keep_their_names_while_they_keep_their_numbers(run_app, tmp_path):
    store = str(tmp_path / "kfed.db")
    caller = Caller(run_app(store))
    caller.create_aggregated(messages(8))
    named = {"names": {"0": "young", "2": "old"}}
    path = "/v1/federations/clinics/cluster-names"
    assert caller.http.put(path, json=named, headers=caller.admin).status_code == 200
    caller.remove("device-0000")
    caller.http = run_app(store)
    assert caller.get("picture").json()["names"] == ["young", "", "old", ""]
    assert caller.get("result").json()["names"] == {"0": "young", "2": "old"}
    assert b"young" in caller.get("download/report").content
    caller.http.put(path, json={"names": {"0": ""}}, headers=caller.admin)
    assert caller.get("result").json()["names"] == {"2": "old"}
    for wrong in ({"4": "none"}, {"0": "a\nb"}, {"0": "x" * 61}, {"-1": "x"}):
        assert caller.http.put(path, json={"names": wrong}, headers=caller.admin).status_code == 422
    refused = caller.http.put(path, json={"names": {"4": "none"}}, headers=caller.admin)
    assert "there is no cluster 4; the last one is 3" in refused.text


def test_of_two_that_give_the_same_name_at_once_one_is_refused_and_a_cluster_that_has_gone_keeps_none(caller):
    caller.create_aggregated(messages(8))
    path = "/v1/federations/clinics/cluster-names"

    def give(names):
        return caller.http.put(path, json={"names": names}, headers=caller.admin).status_code

    with ThreadPoolExecutor(8) as people:
        told = list(people.map(give, [{str(cluster % 4): "Young"} for cluster in range(8)]))
    assert sorted(set(told)) == [200, 422]
    names = caller.get("result").json()["names"]
    assert list(names.values()) == ["Young"]
    assert give({"0": "", "1": "", "2": "", "3": "old"}) == 200
    assert caller.aggregate(n_clusters=2).status_code == 200
    assert give({"0": "Old"}) == 200


@pytest.mark.slow
def test_numbers_are_compared_once_everybody_is_there_or_the_administrator_asks(caller):
    caller.create(quorum=12)
    sent = messages(12)
    for one in sent[:6]:
        caller.put(one)
    assert caller.get("comparison").status_code == 409
    asked = caller.http.post("/v1/federations/clinics/comparison", json={"first": 2, "last": 6}, headers=caller.admin)
    assert asked.json()["n_clusters"] == [2, 3, 4, 5, 6]
    for one in sent[6:]:
        caller.put(one)
    found = caller.get("comparison").json()
    assert found["n_clusters"] == [2, 3, 4, 5, 6]
    assert found["recommended"] == 4
    assert found["recommended"] == kfed.compare_k(sent, range(2, 7)).recommended
    assert len(found["stability"]) == len(found["weakest"]) == 5


def test_what_cannot_be_compared_or_shown_yet_is_said(caller):
    caller.create(quorum=9)
    caller.put(message("alone"))
    for what in ("result", "download/aggregation", "download/report"):
        answer = caller.get(what)
        assert answer.status_code == 409
        assert "no clusters yet" in answer.json()["detail"]
    asked = caller.http.post("/v1/federations/clinics/comparison", headers=caller.admin)
    assert "at least three centers" in asked.json()["detail"]
    assert caller.get("download/everything").status_code == 422


@pytest.mark.slow
def test_only_the_administrator_gets_results_and_changes_names(run_app, tmp_path):
    caller = Caller(run_app(str(tmp_path / "kfed.db"), open_to_loopback=False))
    caller.create_aggregated(messages(6))
    watching = caller.http.post("/v1/views", headers={"Authorization": f"Bearer {caller.invite()}"}).json()["token"]
    device = {"Kfed-Device-Secret": "a-device-secret-for-tests"}
    for headers in ({}, caller.join["clinics"], {"Authorization": f"Bearer {watching}"}, device):
        for what in ("result", "download/aggregation", "download/report", "download/centers"):
            assert caller.get(what, headers=headers).status_code in REFUSED
        for method, what in (("PUT", "cluster-names"), ("POST", "comparison"), ("POST", "refine")):
            path = f"/v1/federations/clinics/{what}"
            assert caller.http.request(method, path, json={"names": {}}, headers=headers).status_code in REFUSED
        assert caller.http.get("/v1/admin", headers=headers).status_code in REFUSED
    assert caller.get("comparison", headers={"Authorization": f"Bearer {watching}"}).status_code == 200
    assert caller.get("comparison", headers=caller.join["clinics"]).status_code in REFUSED
    assert caller.http.get("/v1/admin", headers=caller.admin).json() == {"admin": True}


def test_a_large_body_without_the_right_token_is_refused_before_it_is_read(caller):
    caller.create()
    for method, what in (("PUT", "cluster-names"), ("POST", "comparison")):
        path = f"/v1/federations/clinics/{what}"
        declared = {"Content-Length": "9000000"}
        assert caller.http.request(method, path, headers=declared).status_code == 401
        assert caller.http.request(method, path, headers={**caller.admin, **declared}).status_code == 413


@pytest.mark.slow
def test_everything_that_the_page_can_do_the_command_line_can(run_server, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("admin.token").write_text(ADMIN)
    caller = Caller(run_server("kfed.db"))
    url = ("--url", caller.http.base_url)
    caller.create_aggregated(messages(8))
    compared = run("federation", "compare", "clinics", "-k", "2-6", *url)
    assert "4 clusters" in compared
    for one in messages(8):
        one.save(f"{one.device_id}.kfed")
    by_files = run("aggregate", *sorted(map(str, Path().glob("*.kfed"))), "-k", "2-6")
    table = [line for line in by_files.splitlines() if "│" in line or "┃" in line]
    assert "C-H" in table[0]
    assert len(table) == 6
    assert set(table) <= set(compared.splitlines())
    for taken in (("0=young", "1=Young"), ("0=cluster 1",)):
        assert "a name of its own" in run("federation", "rename", "clinics", *taken, *url, code=1)
    assert "young" in run("federation", "rename", "clinics", "0=young", "1 = old", *url)
    assert "a name of its own" in run("federation", "rename", "clinics", "2=young", *url, code=1)
    run("federation", "rename", "clinics", "0=old", "1=young", *url)
    run("federation", "rename", "clinics", "0=young", "1=old", "2=  ", *url)
    lines = run("federation", "show", "clinics", *url).splitlines()
    named = [line.replace("│", " ").split()[:2] for line in lines if "young" in line or "old" in line]
    assert named == [["0", "young"], ["1", "old"]]
    files = ("--report", "report.html", "--aggregation", "clusters.kfed", "--centers", "centers.csv")
    run("federation", "download", "clinics", *files, *url)
    assert "young" in Path("report.html").read_text()
    assert "old" in Path("centers.csv").read_text()
    assert "4 clusters" in run("inspect", "clusters.kfed")
    assert "exists" in run("federation", "download", "clinics", *files, *url, code=1)
    assert "say what to download" in run("federation", "download", "clinics", *url, code=1)
    assert "must look like 0=young" in run("federation", "rename", "clinics", "young", *url, code=1)
    run("federation", "invite", "clinics", "new site", "--token-file", "t", "--link-file", "link", *url)
    token = Path("t").read_text().strip()
    link = f"{caller.http.base_url}/join#federation=clinics&device=new%20site&token={token}"
    assert Path("link").read_text().strip() == link
    removed = json.loads(run("federation", "remove", "clinics", "device-0003", "--yes", "--json", *url))
    assert removed["device_id"] == "device-0003"
    assert caller.show()["n_devices"] == 7
    assert "one message from each device" in run("federation", "refine", "clinics", *url, code=1)


@pytest.mark.slow
def test_more_than_enough_clusters_are_told_too(caller):
    means = np.random.default_rng(0).normal(scale=100, size=(12, 2))
    caller.create_aggregated(messages(30, means=means), n_clusters=12)
    assert len(caller.get("picture").json()["names"]) == 12
    assert caller.get("result").json()["n_clusters"] == 12
