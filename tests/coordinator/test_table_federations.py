"""Federations of tables: columns by name and in any unit, and a scale that follows from what devices sent."""

import numpy as np
import pytest
from coordinators import message

import kfed
from kfed.coordinator.core import Proofs
from kfed.coordinator.core.arrivals import arrival_of
from kfed.coordinator.federation import Federation
from kfed.coordinator.security import hashed
from kfed.coordinator.store import Departure, Store
from kfed.device import cluster_columns
from kfed.wire import Column, FeatureSchema

MEANS = np.array([[40.0, 0.010], [60.0, 0.010], [40.0, 0.050], [60.0, 0.050]])
COLUMNS = [Column("age"), Column("dose"), Column("ward", "category", ("A", "B"))]


def table(device_id, groups=(0, 1), seed=0, columns=(0, 1, 2), ward="B"):
    """The message of a device with rows of some of four groups, and its columns in some order."""
    rng = np.random.default_rng([seed, *map(ord, device_id)])
    own = np.repeat(groups, 30)
    numbers = MEANS[own] + rng.normal(size=(len(own), 2)) * [1.0, 0.002]
    numbers[rng.random(numbers.shape) < 0.1] = np.nan
    wards = np.eye(2)[own % 2]
    parts = [numbers[:, :1], numbers[:, 1:], wards]
    chosen = [Column("ward", "category", ("A", ward)) if c == 2 else COLUMNS[c] for c in columns]
    schema = FeatureSchema.of_columns(chosen)
    rows = np.concatenate([parts[c] for c in columns], axis=1)
    return cluster_columns(rows, schema, len(groups), random_state=0, min_cluster_size=5).to_message(device_id)


SENT = [table("a"), table("b", (1, 2), columns=(2, 0, 1)), table("c", (2, 3)), table("d", (3, 0), ward="C")]


def create(caller, **terms):
    names = ["dose", "ward", "age"]
    caller.create(n_features=3, feature_names=names, by_column=True, n_clusters=4, **terms)


def test_tables_are_aggregated_as_in_one_process(caller):
    create(caller, quorum=3)
    for one in SENT[:3]:
        assert caller.put(one).status_code == 201
    caller.wait_until("aggregated")
    expected = kfed.aggregate(SENT[:3], 4)
    for one in SENT:
        if one.device_id == "d":
            assert caller.put(one).status_code == 201  # comes late, with a level that nobody else has
        found, own = caller.identity(one.device_id), expected.answer(one)
        np.testing.assert_allclose(
            np.array(found["cluster_centers"])[found["cluster_ids"]], own.cluster_centers[own.cluster_ids]
        )
        assert found["feature_names"] == list(expected.schema.names)


def test_a_federation_of_tables_outlives_a_restart_and_a_device_that_leaves(store_address, run_app):
    from coordinators import Caller

    caller = Caller(run_app(store_address))
    create(caller, quorum=4)
    for one in SENT:
        assert caller.put(one).status_code == 201
    caller.wait_until("aggregated")
    joins, before = caller.join, caller.identity("a")
    again = Caller(run_app(store_address))
    again.join = joins
    assert again.identity("a") == before
    assert again.remove("d").status_code == 200
    expected = kfed.aggregate(SENT[:3], 4)
    found, own = again.identity("a"), expected.identity("a")
    np.testing.assert_allclose(
        np.array(found["cluster_centers"])[found["cluster_ids"]], own.cluster_centers[own.cluster_ids]
    )


def test_plain_numbers_and_other_columns_are_turned_away(caller):
    create(caller)
    plain = kfed.DeviceMessage("e", [[1.0, 2.0, 3.0]], [9], feature_names=["dose", "ward", "age"])
    assert "leave out --as-is" in caller.put(plain).json()["detail"]
    fewer = table("e", columns=(0, 1))
    assert "'ward' of federation clinics is missing at 'e'" in caller.put(fewer).json()["detail"]


def test_tables_are_turned_away_where_numbers_are_taken_as_they_are(caller):
    caller.create()
    answer = caller.put(table("a"))
    assert answer.status_code == 422
    assert "add --as-is" in answer.json()["detail"]
    assert caller.put(message("b")).status_code == 201


def test_the_first_table_names_the_columns(caller):
    caller.create(n_features=3, by_column=True, n_clusters=4)
    assert caller.put(SENT[0]).status_code == 201
    assert caller.show()["feature_names"] == ["age", "dose", "ward"]
    assert caller.put(SENT[1]).status_code == 201
    assert caller.put(table("e", columns=(0, 1))).status_code == 422


@pytest.mark.parametrize("is_aggregated", [False, True])
def test_the_picture_of_tables_is_on_the_common_scale(caller, is_aggregated):
    create(caller, quorum=3 if is_aggregated else None)
    for one in SENT[:3]:
        caller.put(one)
    if is_aggregated:
        caller.wait_until("aggregated")
    drawn = caller.http.get("/v1/federations/clinics/picture").json()
    assert len(drawn["centers"]) == 6
    assert max(abs(center["x"]) for center in drawn["centers"]) < 10  # and not years, or days since 1970


def test_a_device_may_ask_what_its_message_must_hold(caller):
    create(caller)
    path = f"{caller.path('new')}/terms"
    terms = caller.http.get(path, headers=caller.join["clinics"]).json()
    assert terms.pop("min_devices_shown") == 1
    assert terms.pop("rounds") == 1
    assert terms.pop("closed") is False
    assert terms.pop("agreed_schema") is None
    assert terms == {"by_column": True, "n_features": 3, "feature_names": ["dose", "ward", "age"], "max_epsilon": None}
    assert caller.http.get(path).status_code == 401


SMOKER = {"flag": Column("smoker", "flag"), "category": Column("smoker", "category", ("former", "no"))}
SMOKER["empty"] = Column("smoker", "empty")


def smokers(device_id, kind="flag", seed=0):
    """The message of a device whose column of smokers is of this kind."""
    rng = np.random.default_rng([seed, *map(ord, device_id)])
    no_or_yes = np.eye(2)[rng.permutation(40) % 2]
    rows = np.hstack([rng.normal(size=(40, 1)), no_or_yes[:, : len(SMOKER[kind].features)]])
    schema = FeatureSchema.of_columns([Column("age"), SMOKER[kind]])
    return cluster_columns(rows, schema, 2, random_state=0, min_cluster_size=5).to_message(device_id)


def create_of_smokers(caller, **terms):
    caller.create(n_features=2, feature_names=["age", "smoker"], by_column=True, n_clusters=2, **terms)


def assert_kinds_differ(answer):
    said = answer.json()["detail"]
    assert answer.status_code == 422
    assert "column 'smoker' must have the same kind" in said
    assert "'flag' at federation clinics and 'category' at 'stray'" in said  # and names no other device


@pytest.mark.parametrize("quorum", [3, None])
def test_a_column_of_another_kind_is_refused_before_it_is_stored(caller, quorum):
    create_of_smokers(caller, quorum=quorum)
    for name in "abc":
        assert caller.put(smokers(name)).status_code == 201
    if quorum:
        caller.wait_until("aggregated")
    assert_kinds_differ(caller.put(smokers("stray", "category")))
    assert caller.show()["n_devices"] == 3
    assert caller.put(smokers("stray")).status_code == 201
    assert_kinds_differ(caller.put(smokers("stray", "category"), replace=True))
    assert caller.aggregate().json()["n_aggregated"] == 4


def test_another_kind_may_come_once_all_others_have_left(caller):
    create_of_smokers(caller)
    caller.put(smokers("a"))
    assert caller.put(smokers("a", "category"), replace=True).status_code == 200
    caller.remove("a")
    assert caller.put(smokers("stray", "category")).status_code == 201


def test_of_two_first_tables_in_one_commit_one_decides_the_kinds(store_address):
    store = Store(store_address)
    schema, rest = FeatureSchema(2, ["age", "smoker"]), {"n_clusters": 2, "rule": "paper", "by_column": True}
    terms = Federation(0, "clinics", schema, join_token_hash=hashed("x"), created_at=1.0, **rest)
    federation = store.add_federation(terms)

    def arrival(*about):
        return arrival_of(federation, smokers(*about), Proofs(), 1.0)

    first = [
        arrival("a"),
        arrival("b", "category"),
        arrival("c"),
        Departure(federation.id, "a"),
        arrival("d", "category"),
    ]
    done = store.change_devices(first)
    assert [getattr(one, "reason", "")[:15] for one in done] == ["", "column 'smoker'", "", "", "column 'smoker'"]
    done = store.change_devices([Departure(federation.id, "c"), arrival("d", "category"), arrival("e")])
    assert [one.sequence > 0 for one in done] == [True, True, False]
    store.close()


def test_a_refused_aggregation_names_the_device_that_differs_and_how_to_remove_it(caller):
    create_of_smokers(caller)
    for name, kind in {"a": "empty", "b": "flag", "c": "category", "d": "flag"}.items():
        assert caller.put(smokers(name, kind)).status_code == 201  # the first column says nothing of its kind
    refused = caller.aggregate()
    assert refused.status_code == 409
    assert "'flag' at the others and 'category' at 'c'" in refused.json()["detail"]
    assert "kfed federation remove clinics DEVICE" in caller.show()["remark"]
