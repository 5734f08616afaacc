"""Federations with a schema that their sites agreed on: the coordinator holds it, and every message uses it."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from coordinators import ADMIN, Caller

import kfed
from consoles import invoked, run
from kfed.coordinator.federation import Federation
from kfed.device import cluster_columns
from kfed.site import write_schema
from kfed.wire import Column, FeatureSchema

MEANS = np.array([[40.0, 0.010], [60.0, 0.010], [40.0, 0.050], [60.0, 0.050]])
SITES = {"north": (0, 1), "south": (1, 2), "east": (2, 3)}
COLUMNS = (
    Column("age", shift=50.0, scale=10.0, unit="years"),
    Column("dose", shift=0.03, scale=0.02),
    Column("ward", "category", ("A", "B"), shift=0.5, scale=1.0),
)
AGREED = FeatureSchema.of_columns(COLUMNS, "agreed")
BY_MESSAGE = FeatureSchema.of_columns([replace(column, shift=None, scale=None) for column in COLUMNS])


def cells(site):
    """The rows of a site: numbers, and wards as letters."""
    rng = np.random.default_rng(list(site.encode()))
    own = np.repeat(SITES[site], 40)
    return MEANS[own] + rng.normal(size=(len(own), 2)) * [1.0, 0.002], np.array(["A", "B"])[own % 2]


def sent(site, schema=AGREED):
    """The message of a site by a schema that has the columns above in some order."""
    numbers, wards = cells(site)
    parts = {"age": numbers[:, :1], "dose": numbers[:, 1:]}
    for column in schema.columns:
        parts[column.name] = parts.get(column.name, (wards[:, None] == np.array(column.levels)) * 1.0)
    rows = np.concatenate([parts[column.name] for column in schema.columns], axis=1)
    return cluster_columns(rows, schema, 2, random_state=0, min_cluster_size=5).to_message(site)


def create(caller, schema=AGREED, **terms):
    return caller.create(n_features=None, agreed_schema=schema.facts(), **terms)["federation"]


@pytest.mark.parametrize("schema", [AGREED, BY_MESSAGE], ids=["agreed", "by message"])
def test_messages_by_the_schema_are_aggregated_as_in_one_process_also_after_a_restart(store_address, run_app, schema):
    caller = Caller(run_app(store_address))
    made = create(caller, schema, quorum=3)
    assert FeatureSchema.restored(made["agreed_schema"]) == schema
    assert (made["n_features"], made["feature_names"]) == (3, ["age", "dose", "ward"])
    assert made["by_column"] == (schema is BY_MESSAGE)
    assert caller.put(sent("north", schema)).status_code == 201
    caller.http = run_app(store_address)
    assert caller.show()["agreed_schema"] == made["agreed_schema"]
    for site in ("south", "east"):
        assert caller.put(sent(site, schema)).status_code == 201
    caller.wait_until("aggregated")
    expected = kfed.aggregate([sent(site, schema) for site in SITES], 4).identity("south")
    found = caller.identity("south")
    centers = np.array(found["cluster_centers"])[found["cluster_ids"]]
    np.testing.assert_allclose(centers, expected.cluster_centers[expected.cluster_ids])
    assert caller.http.get("/v1/federations/clinics/picture", headers=caller.admin).json()["n_shown"] == 3


def other(name, **changes):
    return FeatureSchema.of_columns(
        [replace(column, **changes) if column.name == name else column for column in COLUMNS], "agreed"
    )


@pytest.mark.parametrize(
    ("schema", "said"),
    [
        (other("dose", scale=0.05), "column 'dose' must have the same scale"),
        (other("ward", levels=("A", "B", "C")), "'ward' has other levels"),
        (other("age", unit=None), "'age' has another unit"),
        (FeatureSchema.of_columns(COLUMNS[:2], "agreed"), "'ward' of federation clinics is missing at 'north'"),
        (FeatureSchema.of_columns(COLUMNS[::-1], "agreed"), "in another order"),
        (BY_MESSAGE, "all devices must use one scale"),
    ],
)
def test_a_message_by_another_schema_is_refused_and_hears_what_differs(caller, schema, said):
    create(caller)
    refused = caller.put(sent("north", schema))
    assert refused.status_code == 422
    assert said in refused.json()["detail"]


def test_plain_numbers_are_refused_where_there_is_a_schema(caller):
    create(caller)
    plain = kfed.DeviceMessage("north", [[1.0, 2.0, 3.0, 4.0]], [9], feature_names=AGREED.names)
    assert "pass the schema, without as_is and scale" in caller.put(plain).json()["detail"]


def test_a_device_may_ask_for_the_schema(caller):
    create(caller)
    terms = caller.http.get(f"{caller.path('new')}/terms", headers=caller.join["clinics"]).json()
    assert FeatureSchema.restored(terms["agreed_schema"]) == AGREED


@pytest.mark.parametrize(
    ("terms", "said"),
    [
        ({}, "either n_features or an agreed_schema"),
        ({"n_features": 3, "agreed_schema": AGREED.facts()}, "either n_features or an agreed_schema"),
        ({"feature_names": ["age"], "agreed_schema": AGREED.facts()}, "leave out feature_names"),
        ({"agreed_schema": {"columns": [{"name": "x"}], "scaling": "agreed"}}, "must have a shift and a scale"),
        ({"agreed_schema": {"columns": [{"name": "x", "kind": "category"}]}}, "1 to 100,000 features"),
        ({"agreed_schema": {"columns": []}}, "columns"),
        ({"agreed_schema": BY_MESSAGE.facts(), "max_epsilon": 1}, "need a schema with a shift and scale"),
    ],
)
def test_terms_that_contradict_each_other_are_refused(caller, terms, said):
    refused = caller.http.post("/v1/federations", json={"name": "odd", **terms}, headers=caller.admin)
    assert refused.status_code == 422
    assert said in refused.text


def test_a_message_by_a_schema_with_long_units_is_not_too_large():
    schema = FeatureSchema.of_columns([Column(f"{number}", unit=chr(228) * 200) for number in range(300)])
    rows = np.random.default_rng(0).normal(size=(100, 300))
    made = cluster_columns(rows, schema, 1, random_state=0, min_cluster_size=5).to_message("a")
    federation = Federation(1, "clinics", schema, None, "default", b"", 0.0, by_column=True, max_centers=1)
    assert len(made.to_bytes()) <= federation.max_bytes


# The command line -----------------------------------------------------------------------------------------------------


@pytest.fixture
def url(run_server, tmp_path, monkeypatch):
    """Where a coordinator is; the tables of three sites and their schema are in the folder."""
    monkeypatch.chdir(tmp_path)
    Path("admin.token").write_text(ADMIN)
    Path("schema.json").write_text(json.dumps(AGREED.facts()))
    for site in SITES:
        numbers, wards = cells(site)
        lines = [f"{i},{w},{d},{a}" for i, ((a, d), w) in enumerate(zip(numbers, wards, strict=True))]
        Path(f"{site}.csv").write_text("\n".join(["row,ward,dose,age", *lines]) + "\n")
    return str(run_server("kfed.db").base_url)


def create_by_schema(url, *more):
    return json.loads(run("federation", "create", "clinics", "--schema", "schema.json", *more, "--url", url, "--json"))


def join(url, site, *more, code=0):
    own = ["--federation", "clinics", "--token-file", "clinics.token", "--data", f"{site}.csv"]
    return run("join", url, *own, *more, code=code)


def test_sites_fetch_the_schema_and_get_the_labels_of_those_who_hand_it_around(url):
    create_by_schema(url, "-k", 4, "--quorum", 3)
    shown = json.loads(run("federation", "show", "clinics", "--url", url, "--json"))
    assert FeatureSchema.restored(shown["agreed_schema"]) == AGREED
    assert "by a schema, on an agreed scale" in run("federation", "show", "clinics", "--url", url)
    for site in ("north", "south"):
        join(url, site, "-k", 2, "--no-wait")
    join(url, "east", "-k", 2, "-o", "joined.csv")
    for site in SITES:
        run("device", f"{site}.csv", "-k", 2, "--schema", "schema.json", "--force")
    run("aggregate", *(f"{site}.kfed" for site in SITES), "-k", 4)
    run("label", "east.local", "--clusters", "clusters.kfed", "-o", "by-files.csv", "--force")

    def groups(path):
        labels = [line.rpartition(",")[2] for line in Path(path).read_text().splitlines()[1:]]
        return [labels.index(label) for label in labels]

    assert groups("joined.csv") == groups("by-files.csv")


def test_what_contradicts_the_schema_is_refused_in_one_sentence_and_what_repeats_it_is_not(url):
    create_by_schema(url)
    Path("other.json").write_text(json.dumps(other("dose", scale=0.05).facts()))
    Path("scale.json").write_text(json.dumps({"age": {"shift": 50, "scale": 10}}))
    for option, *value in (
        ("--schema", "other.json"),
        ("--scale", "scale.json"),
        ("--columns", "age,dose"),
        ("--as-is",),
        ("--kinds", "age=category"),
        ("--missing", "drop"),
    ):
        refused = " ".join(join(url, "north", option, *value, "--no-wait", code=1).split())
        assert f"fixes columns, kinds, scale and missing cells; leave out {option}" in refused
    assert not Path("north.ticket").exists()
    join(url, "north", "--schema", "schema.json", "--columns", "ward,age,dose", "--no-wait")


def test_private_messages_are_on_the_scale_of_the_schema_that_was_fetched(url):
    create_by_schema(url, "--max-epsilon", 5)
    for promise in ([], ["--epsilon", 6]):
        refused = " ".join(join(url, "south", "-k", 2, *promise, "--no-wait", code=1).split())
        assert "takes differentially private messages alone; add --epsilon 5, or less" in refused
    assert not Path("south.ticket").exists()
    said = json.loads(join(url, "north", "-k", 2, "--epsilon", 5, "--no-wait", "--json"))
    assert "scale from rows" in [notice["code"] for notice in said["warnings"]], "the site cannot know where it is from"
    join(url, "north", "-k", 2, "--epsilon", 5, "--no-wait")  # the same release again, and no second one
    shown = json.loads(run("federation", "show", "clinics", "--url", url, "--json"))
    assert shown["n_devices"] == 1


def test_a_schema_that_was_computed_from_rows_is_said_to_be_no_part_of_a_promise(url):
    command = ["federation", "create", "--schema", "schema.json", "--url", url, "--max-epsilon", 5]
    assert "computed from rows" not in invoked(*command, "one").stderr
    write_schema("schema.json", AGREED, from_rows=True, overwrite=True)
    assert "its scale was computed from rows, without noise" in invoked(*command, "two").stderr
    assert "computed from rows" not in invoked(*command[:-2], "three").stderr


def test_columns_need_names(url):
    for columns in ("", "age,,dose"):
        error = run("federation", "create", "empty", "--columns", columns, "--url", url, code=1)
        assert "must have a name" in error


@pytest.mark.slow
def test_a_second_round_is_by_the_schema_too(url, few_compared):
    create_by_schema(url, "--rounds", 2)
    for site in SITES:
        join(url, site, "--no-wait")
    run("federation", "aggregate", "clinics", "--url", url)
    join(url, "east", "-o", "labels.csv", "--timeout", 1)
    shown = json.loads(run("federation", "show", "clinics", "--url", url, "--json"))
    assert (shown["state"], shown["n_second"]) == ("aggregated", 1)
