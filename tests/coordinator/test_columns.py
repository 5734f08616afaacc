"""Columns are never mixed: the first message with feature names fixes those of its federation."""

import numpy as np
import pytest
from coordinators import Caller, arrival_of, message

import kfed
from kfed.coordinator.core import Clusters
from kfed.coordinator.federation import Federation
from kfed.coordinator.security import hashed
from kfed.coordinator.store import SavedClustering, Store
from kfed.wire import FeatureSchema

AGE_FIRST, SYSTOLIC_FIRST = ("age", "systolic"), ("systolic", "age")


def named(device_id, names, groups=(0, 1), seed=0):
    plain = message(device_id, groups, seed)
    return kfed.DeviceMessage(device_id, plain.centers, plain.counts, feature_names=names)


def assert_names_differ(answer, status=422):
    assert answer.status_code == status
    assert "feature 0 is 'age'" in answer.json()["detail"]
    assert "'systolic' for 'b'" in answer.json()["detail"]


def test_the_first_named_message_fixes_the_columns_of_a_federation(store_caller, run_app, store_address):
    caller = store_caller
    caller.create()
    assert caller.put(message("plain")).status_code == 201
    assert caller.show()["feature_names"] is None
    assert caller.put(named("a", AGE_FIRST)).status_code == 201
    assert caller.show()["feature_names"] == list(AGE_FIRST)
    assert_names_differ(caller.put(named("b", SYSTOLIC_FIRST)))
    caller.http = run_app(store_address)
    assert_names_differ(caller.put(named("b", SYSTOLIC_FIRST)))
    assert caller.put(named("b", AGE_FIRST)).status_code == 201
    assert caller.put(message("plain too")).status_code == 201
    assert caller.http.post("/v1/federations/clinics/close", headers=caller.admin).json()["feature_names"]
    assert caller.show()["n_devices"] == 4


def test_a_replacement_cannot_bring_other_columns(caller):
    caller.create()
    caller.put(named("a", AGE_FIRST))
    caller.put(message("b"))
    assert_names_differ(caller.put(named("b", SYSTOLIC_FIRST), replace=True))


def test_a_refused_message_fixes_nothing(caller):
    caller.create()
    caller.put(message("a"))
    assert caller.put(named("a", SYSTOLIC_FIRST)).status_code == 409
    assert caller.put(named("b", AGE_FIRST)).status_code == 201
    assert caller.show()["feature_names"] == list(AGE_FIRST)


@pytest.fixture
def stored(store_address):
    """A store with a federation that does not know the names of its features."""
    store = Store(store_address)
    terms = {"id": 0, "name": "clinics", "schema": FeatureSchema(2), "n_clusters": 2, "rule": "paper"}
    federation = store.add_federation(Federation(**terms, join_token_hash=hashed("x"), created_at=1.0))
    yield store, federation
    store.close()


def test_of_two_first_messages_in_one_commit_one_fixes_the_columns(stored):
    store, federation = stored
    sent = [named("a", AGE_FIRST), named("b", SYSTOLIC_FIRST), named("c", AGE_FIRST), message("d")]
    receipts = store.change_devices([arrival_of(one, federation, feature_names=one.feature_names) for one in sent])
    assert [receipt.admission.is_kept for receipt in receipts] == [True, False, True, True]
    assert store.read_back().federations[0].schema.names == AGE_FIRST


def test_columns_that_an_older_version_mixed_are_not_aggregated(stored, run_app, store_address):
    """Older versions did not look at names, so their messages arrive here without."""
    store, federation = stored
    store.change_devices([arrival_of(one, federation) for one in (named("a", AGE_FIRST), named("b", SYSTOLIC_FIRST))])
    store.close()
    caller = Caller(run_app(store_address))
    assert_names_differ(caller.aggregate(), 409)
    assert caller.show()["state"] == "gathering"
    assert caller.http.delete(caller.path("b"), headers=caller.admin).status_code == 200
    assert caller.aggregate().json()["n_aggregated"] == 1


def test_clusters_of_mixed_columns_are_not_made_anew(stored, run_app, store_address):
    store, federation = stored
    sent = [named("a", AGE_FIRST), named("b", SYSTOLIC_FIRST), message("c")]
    store.change_devices([arrival_of(one, federation) for one in sent])
    result = kfed.aggregate([message(one) for one in "abc"], 2)
    clusters = Clusters.of(result, np.zeros((3, 16), np.uint8), np.array([1, 2, 3]), None, version=1, made_at=1.0)
    store.save_clustering(SavedClustering(federation.id, 1, clusters.to_bytes()), store.epoch)
    store.close()
    caller = Caller(run_app(store_address))
    assert caller.http.delete(caller.path("c"), headers=caller.admin).json()["state"] == "gathering"
    assert "feature 0 is 'age'" in caller.show()["remark"]
